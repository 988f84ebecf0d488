"""Data on standard output: tables for people, JSON for programs."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterable, Sequence

from perpacket.cli import pipes

PIPE_WIDTH = 200
"""Columns of a table that goes into a pipe or a file, where nothing tells the width."""


def write_json(content: object) -> None:
    """One JSON document; raises `ValueError` on a number that JSON does not have."""
    write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def finite(value: float) -> float | None:
    """A number for JSON, which has no infinite ones: None, null there, in their place."""
    return value if math.isfinite(value) else None


def write_text(text: str) -> None:
    """Data as it is."""
    pipes.write(sys.stdout, text)


def write_line(text: str) -> None:
    """A line of data beside a table."""
    write_text(f"{text}\n")


def write_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Sequence[str] = (),
) -> None:
    """A table with a title; `right` names the headings of columns with numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    heading_line = Text(title, style="bold")  # not the table's title: that wraps at its width
    table = Table(box=SIMPLE_HEAD)
    for heading in headings:
        is_number = heading in right
        table.add_column(Text(heading), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    if sys.stdout.isatty():
        Console().print(heading_line, table, sep="\n")
        return
    console = Console(width=PIPE_WIDTH, file=io.StringIO())
    with console.capture() as capture:
        console.print(heading_line, table, sep="\n")
    write_text("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def number_text(value: object) -> str:
    """A value for a table: numbers with five significant digits, nothing where it has none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value == 0 or not math.isfinite(value):
            return f"{value:g}"
        decimals = max(0, 4 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{min(decimals, 8)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)


def plain_text(value: object) -> str:
    """A value as an option takes it: no separators, `true` and `false` in small letters."""
    return value if isinstance(value, str) else json.dumps(value)
