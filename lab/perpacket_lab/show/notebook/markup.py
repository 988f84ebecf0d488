"""A table as HTML without a style sheet, because notebooks have their own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpacket_lab.show.tables import Table

LEFT, RIGHT = (
    f' style="text-align: {side}; white-space: nowrap; vertical-align: top"'
    for side in ("left", "right")
)
MOST_ROWS = 20
"""Rows that a notebook shows. `to_polars()` has all rows."""


def report_table(content: Table) -> str:
    """The first rows of a table of the report."""
    rows = [
        [f"{cell.text}\n{cell.remark}".strip() for cell in row] for row in content.rows[:MOST_ROWS]
    ]
    rest = len(content.rows) - len(rows)
    caption = f"{content.caption}; {rest} rows more" if rest else content.caption
    return table(caption, content.columns, rows, content.numeric)


def table(
    caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]
) -> str:
    """A table of texts, all escaped; numeric columns are right-aligned.

    The second line of a text is a remark in a smaller font.
    """
    styles = [RIGHT if right else LEFT for right in numeric]
    top = "".join(
        f'<th scope="col"{style}>{escape(text)}</th>'
        for text, style in zip(headings, styles, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{style}>{_cell(text)}</td>" for text, style in zip(row, styles, strict=True))
        + "</tr>"
        for row in rows
    )
    return (
        '<div style="overflow-x: auto"><table>'
        f'<caption style="text-align: left">{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(text: str) -> str:
    value, newline, remark = text.partition("\n")
    return escape(value) + (f"<br><small>{escape(remark)}</small>" if newline else "")


def heading(text: str) -> str:
    """The heading of a result."""
    return f"<h3>{escape(text)}</h3>"


def bullet_list(texts: Sequence[str]) -> str:
    """A list; empty without texts."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def paragraph(text: str) -> str:
    """A paragraph of text."""
    return f"<p>{escape(text)}</p>"
