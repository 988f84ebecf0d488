"""A table as data. The terminal, pages in HTML and Markdown, and notebooks render it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table as RichTable

PIPE_WIDTH = 200
"""The width of a table in a pipe, a file or a text, in columns."""

PLAIN = str.maketrans({"\N{MINUS SIGN}": "-", "\N{NO-BREAK SPACE}": " "})
"""Characters of pages that a terminal prints as in a program's input."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its text, the number it sorts by, and its class in the style sheet."""

    text: str
    bounds: str = ""
    """The bounds of an interval; a page prints them below the text."""
    remark: str = ""
    """A remark that only pages print, below the text."""
    sort: float | None = None
    css: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table. The first column has the row headings; numeric columns are right-aligned."""

    caption: str
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[Cell, ...], ...]
    identifier: str = ""
    """The `id` of the table in a page."""

    @classmethod
    def of_texts(
        cls,
        caption: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        right: Sequence[str] = (),
    ) -> Table:
        """A table of texts; `right` has the headings of the numeric columns."""
        return cls(
            caption,
            tuple(columns),
            tuple(name in right for name in columns),
            tuple(tuple(map(Cell, row)) for row in rows),
        )

    @property
    def right(self) -> list[str]:
        """The headings of the numeric columns."""
        return [name for name, is_right in zip(self.columns, self.numeric, strict=True) if is_right]

    def texts(self) -> list[list[str]]:
        """The cells as texts without remarks: `1,200 [1,100, 1,300]`."""
        return [
            [" ".join(filter(None, (cell.text, cell.bounds))).translate(PLAIN) for cell in row]
            for row in self.rows
        ]

    def __str__(self) -> str:
        """The table as text without colours; only its title if it has no rows."""
        from rich.console import Console

        if not self.rows:
            return f"{self.caption}\n"
        console = Console(width=PIPE_WIDTH, file=io.StringIO())
        with console.capture() as capture:
            console.print(self.caption, markup=False, highlight=False)
            console.print(rich_table(self.columns, self.texts(), self.right))
        return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def rich_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()
) -> RichTable:
    """A table without a title, for rich."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=SIMPLE_HEAD)
    for heading in headings:
        is_number = heading in right
        table.add_column(Text(heading), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
