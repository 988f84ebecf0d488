"""Docstrings for Sphinx: from Markdown to the reStructuredText that autodoc reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

CODE = re.compile(r"(`+[^`]*`+)")
INDENT = "    "
ITEM = re.compile(r"\s*(-|\d+\.) ")


def translate(lines: Sequence[str]) -> list[str]:
    """Translate the tables, lists, code blocks and special characters of a docstring."""
    return list(with_code_blocks(with_separated_lists(with_tables(escaped(lines)))))


def escaped(lines: Sequence[str]) -> Iterator[str]:
    """Escape characters that have a meaning in reStructuredText but not in Markdown."""
    # Code may continue on the next line, so search the whole text for it.
    parts = CODE.split("\n".join(lines))
    for at in range(0, len(parts), 2):
        text = re.sub(r"(\w)_(?!\w)", r"\1\\_", parts[at])
        parts[at] = rf"\ {text}" if at and re.match(r"\w", text) else text
    yield from "".join(parts).splitlines()


def with_tables(lines: Iterator[str]) -> Iterator[str]:
    """Translate tables to list tables. A row may have several lines; an empty line ends a table."""
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
    """Return the rows of a table as a list table; the first row has the headings."""
    cells = [[part.strip() for part in row.strip("|").split("|")] for row in rows]
    cells = [row for row in cells if set("".join(row)) - set("-: ")]  # without the line of dashes
    if len(cells) < 2:
        yield from (f"    {row}" for row in rows)
        return
    yield from ("", ".. list-table::", "   :header-rows: 1", "")
    for row in cells:
        whole = (row + [""] * len(cells[0]))[: len(cells[0])]
        yield from (f"   {'  -' if at else '* -'} {part}" for at, part in enumerate(whole))
    yield ""


def with_separated_lists(lines: Iterator[str]) -> Iterator[str]:
    """Insert an empty line between a paragraph and a list."""
    before = ""
    for line in lines:
        if ITEM.match(line) and before.strip() and before[:1].strip() and not ITEM.match(before):
            yield ""
        yield line
        before = line


def with_code_blocks(lines: Iterator[str]) -> Iterator[str]:
    """Mark indented blocks after a paragraph as code."""
    before = ""
    for line in lines:
        starts = line.startswith(INDENT) and not before.startswith((" ", "..")) and before
        if starts and not ITEM.match(before):
            yield from ("::", "")
        yield line.replace("\\_", "_").replace("\\ ", "") if line.startswith(INDENT) else line
        before = line if line.strip() else before


def module(root: Path, name: str) -> str:
    """Return a heading and the directive that documents a module."""
    return f"### {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n```\n"
