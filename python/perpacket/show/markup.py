"""A table as HTML without a style sheet, because notebooks have their own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpacket.show.table import Cell, Table

LEFT, RIGHT = (
    f' style="text-align: {side}; white-space: nowrap; vertical-align: top"'
    for side in ("left", "right")
)
MOST_ROWS = 20
"""Rows that a notebook shows. `to_polars()` has all rows."""


def table(content: Table) -> str:
    """The first rows of a table, all escaped; numeric columns are right-aligned."""
    styles = [RIGHT if right else LEFT for right in content.numeric]
    rest = len(content.rows) - MOST_ROWS
    caption = f"{content.caption}; {rest} rows more" if rest > 0 else content.caption
    top = "".join(
        f'<th scope="col"{style}>{escape(text)}</th>'
        for text, style in zip(content.columns, styles, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{style}>{_cell(cell)}</td>" for cell, style in zip(row, styles, strict=True))
        + "</tr>"
        for row in content.rows[:MOST_ROWS]
    )
    return (
        '<div style="overflow-x: auto"><table>'
        f'<caption style="text-align: left">{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    """A text with its bounds and its remark below, in a smaller font."""
    below = " ".join(filter(None, (cell.bounds, cell.remark)))
    return escape(cell.text) + (f"<br><small>{escape(below)}</small>" if below else "")


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
