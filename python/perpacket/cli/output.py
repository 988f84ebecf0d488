"""Data on standard output: tables for people, JSON for programs."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from perpacket.cli import pipes

if TYPE_CHECKING:
    from rich.table import Table

    from perpacket.show.text_table import TextTable

PIPE_WIDTH = 200
"""The width of a table in a pipe or a file, in columns."""


def write_json(content: object) -> None:
    """Write a JSON document; raises `ValueError` on a number that JSON does not have."""
    write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def finite(value: float) -> float | None:
    """A number for JSON: None if it is not finite."""
    return value if math.isfinite(value) else None


def write_text(text: str) -> None:
    """Write data unchanged."""
    pipes.write(sys.stdout, text)


def write_line(text: str) -> None:
    """Write a line of data."""
    write_text(f"{text}\n")


def write_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Sequence[str] = (),
) -> None:
    """Write a table with a title; `right` has the headings of right-aligned columns."""
    from rich.console import Console
    from rich.text import Text

    heading_line = Text(title, style="bold")  # rich wraps a table's own title
    table = rich_table(headings, rows, right)
    if sys.stdout.isatty():
        Console().print(heading_line, table, sep="\n")
        return
    console = Console(width=PIPE_WIDTH, file=io.StringIO())
    with console.capture() as capture:
        console.print(heading_line, table, sep="\n")
    write_text("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def rich_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()
) -> Table:
    """A table without a title."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for heading in headings:
        is_number = heading in right
        table.add_column(Text(heading), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def write_text_table(table: TextTable) -> None:
    """Write a table of an analysis, or only its title if it has no rows."""
    if table.rows:
        write_table(table.title, table.headings, table.rows, table.right)
    else:
        write_line(table.title)


def plain_text(value: object) -> str:
    """A value in the form that options accept: no separators, `true` and `false` in lower case."""
    return value if isinstance(value, str) else json.dumps(value)
