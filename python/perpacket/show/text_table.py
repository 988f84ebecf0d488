"""A table for the terminal, as data: `cli/` prints it, and pages render it as Markdown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of texts; `right` has the headings of the right-aligned columns."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[str, ...] = ()
