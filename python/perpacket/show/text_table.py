"""A table for the terminal, as data: `cli/` prints it, and pages render it as Markdown."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

PIPE_WIDTH = 200
"""The width of a table in a pipe, a file or a text, in columns."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of texts; `right` has the headings of the right-aligned columns."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The table as text without colours; only its title if it has no rows."""
        from rich.console import Console

        if not self.rows:
            return f"{self.title}\n"
        console = Console(width=PIPE_WIDTH, file=io.StringIO())
        with console.capture() as capture:
            console.print(self.title, markup=False, highlight=False)
            console.print(rich_table(self.headings, self.rows, self.right))
        return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def rich_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()
) -> Table:
    """A table without a title, for rich."""
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
