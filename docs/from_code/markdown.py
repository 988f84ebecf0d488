"""Markdown: tables, code and code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def cell(text: str) -> str:
    """Return a text as a cell of a table: one line, with bars escaped."""
    return re.sub(r"\s+", " ", text).strip().replace("|", r"\|")


def code(text: str) -> str:
    """Return a text as code; an empty text stays empty."""
    return f"`{text}`" if text else ""


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, with an empty line after it."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines) + "\n"


def fenced(language: str, text: str) -> str:
    """Return a code block, with an empty line after it."""
    return f"```{language}\n{text.rstrip()}\n```\n\n"
