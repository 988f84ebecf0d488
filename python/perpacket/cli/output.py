"""Data on standard output: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence

from perpacket.cli import pipes
from perpacket.show.table import Table, rich_table


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
    write_rows(Table.of_texts(title, headings, rows, right))


def write_rows(table: Table) -> None:
    """Write a table, or only its title if it has no rows."""
    if not (table.rows and sys.stdout.isatty()):
        write_text(str(table))
        return
    from rich.console import Console
    from rich.text import Text

    heading_line = Text(table.caption, style="bold")  # rich wraps a table's own title
    Console().print(heading_line, rich_table(table.columns, table.texts(), table.right), sep="\n")


def plain_text(value: object) -> str:
    """A value in the form that options accept: no separators, `true` and `false` in lower case."""
    return value if isinstance(value, str) else json.dumps(value)
