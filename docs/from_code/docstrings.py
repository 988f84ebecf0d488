"""Docstrings for Sphinx: they are written as Markdown, and autodoc reads reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

CODE = re.compile(r"(`+[^`]*`+)")
INDENT = "    "
ITEM = re.compile(r"\s*(-|\d+\.) ")


def translated(lines: Sequence[str]) -> list[str]:
    """The lines of a docstring: its tables, lists, code and special characters."""
    return list(with_blocks(with_lists_apart(with_tables(plain(lines)))))


def plain(lines: Sequence[str]) -> Iterator[str]:
    """Characters that mean something in reStructuredText alone, made to mean nothing."""
    # A word of code may go over the end of a line: code is found in the whole text.
    parts = CODE.split("\n".join(lines))
    for at in range(0, len(parts), 2):
        text = re.sub(r"(\w)_(?!\w)", r"\1\\_", parts[at])
        parts[at] = rf"\ {text}" if at and re.match(r"\w", text) else text
    yield from "".join(parts).splitlines()


def with_tables(lines: Iterator[str]) -> Iterator[str]:
    """Tables between bars as tables of lists; a row may go over several lines.

    An empty line ends a table.
    """
    rows: list[str] = []
    for line in [*lines, ""]:
        text = line.strip()
        if text.startswith("|"):
            rows.append(text)
        elif rows and text:
            rows[-1] += f" {text}"
        else:
            yield from table_of_lists(rows)
            rows = []
            yield line


def table_of_lists(rows: Sequence[str]) -> Iterator[str]:
    """The rows of a table, the first of them its headings; nothing for none."""
    cells = [[part.strip() for part in row.strip("|").split("|")] for row in rows]
    cells = [row for row in cells if set("".join(row)) - set("-: ")]  # not the line of dashes
    if len(cells) < 2:
        yield from (f"    {row}" for row in rows)
        return
    yield from ("", ".. list-table::", "   :header-rows: 1", "")
    for row in cells:
        whole = (row + [""] * len(cells[0]))[: len(cells[0])]
        yield from (f"   {'  -' if at else '* -'} {part}" for at, part in enumerate(whole))
    yield ""


def with_lists_apart(lines: Iterator[str]) -> Iterator[str]:
    """An empty line before a list that begins right after a paragraph."""
    before = ""
    for line in lines:
        if ITEM.match(line) and before.strip() and before[:1].strip() and not ITEM.match(before):
            yield ""
        yield line
        before = line


def with_blocks(lines: Iterator[str]) -> Iterator[str]:
    """Indented blocks as they stand, where Markdown has them: after a line of plain text."""
    before = ""
    for line in lines:
        starts = line.startswith(INDENT) and not before.startswith((" ", "..")) and before
        if starts and not ITEM.match(before):
            yield from ("::", "")
        yield line.replace("\\_", "_").replace("\\ ", "") if line.startswith(INDENT) else line
        before = line if line.strip() else before


def module(root: Path, name: str) -> str:
    """A heading and what a module says of itself and its parts."""
    return f"### {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n```\n"
