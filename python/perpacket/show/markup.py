"""A table as HTML without a style sheet, because notebooks have their own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

LEFT, RIGHT = (
    f' style="text-align: {side}; white-space: nowrap; vertical-align: top"'
    for side in ("left", "right")
)


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
