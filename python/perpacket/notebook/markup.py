"""A table as HTML that needs no style sheet: notebooks have their own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpacket.report.tables import Table

NUMBER = ' style="text-align: right"'
MOST_ROWS = 40
"""What is read in a notebook; `to_polars()` has all of them."""


def of_table(content: Table) -> str:
    """A table of the report, its first rows where it is long."""
    rows = [
        [f"{cell.text} {cell.remark}".strip() for cell in row] for row in content.rows[:MOST_ROWS]
    ]
    rest = len(content.rows) - len(rows)
    caption = f"{content.caption}; {rest} rows more" if rest else content.caption
    return table(caption, content.columns, rows, content.numeric)


def table(
    caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]
) -> str:
    """A table of texts, all of them escaped; columns of numbers are set to the right."""
    looks = [NUMBER if right else "" for right in numeric]
    top = "".join(
        f'<th scope="col"{look}>{escape(text)}</th>'
        for text, look in zip(headings, looks, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{look}>{escape(text)}</td>" for text, look in zip(row, looks, strict=True))
        + "</tr>"
        for row in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def paragraph(text: str) -> str:
    """A paragraph of text."""
    return f"<p>{escape(text)}</p>"
