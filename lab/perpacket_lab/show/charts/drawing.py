"""A chart as SVG: inline in a page, which defines the colours, or in a separate file."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any, Final

from perpacket_lab.show.charts import palette

if TYPE_CHECKING:
    from perpacket_lab.show.charts.chart_style import Chart

# The newest grammar that vl-convert-python 1.9 renders; Altair 6 writes it.
VEGA_LITE_VERSION: Final = "6.4"

PNG_SCALE: Final = 2.0

ROOM_FOR_FONTS: Final = 1.17
"""A page is laid out for texts this much wider than the renderer's font draws them. DejaVu Sans,
which is the only font without serifs on many Linux machines, is 17 % wider than Arial."""

_FONT_SIZE: Final = re.compile(r'font-size="([0-9.]+)px"')

# A second legend beside the first does not fit in a narrow chart. Only Vega has this option.
LEGENDS_BELOW_EACH_OTHER: Final = {"top": {"direction": "vertical", "anchor": "start", "margin": 4}}

# Attributes that Vega adds for interactive use; a still picture does not need them.
_INTERACTIVE: Final = re.compile(
    r' (?:class|role|aria-[a-z]+|pointer-events|font-family|stroke-miterlimit)="[^"]*"'
    r'| (?:opacity="1"|font-weight="normal")'
)
_EMPTY_ELEMENTS: Final = re.compile(
    r'<path[^>]*(?:display="none"|d="M0,0h0v0h0Z")[^>]*/>|<g></g>|<g transform="[^"]*"></g>'
    r'|<text[^>]* opacity="0"[^>]*>[^<]*</text>'  # a label that would be over another
)


def svg(chart: Chart, *, identifier: str, title: str, description: str) -> str:
    """The chart as inline SVG, `role="img"`, scaling with its container.

    `title` and `description` (for readers who do not see the chart) are plain text. `identifier`
    must be unique in the page and valid in an `id` attribute.
    """
    opening, body = _with_room(chart).split(">", 1)
    view_box = re.search(r'viewBox="([^"]*)"', opening)
    if view_box is None:
        raise ValueError(f"chart {identifier}: the renderer returned an SVG without a viewBox")
    body = _EMPTY_ELEMENTS.sub("", _EMPTY_ELEMENTS.sub("", _INTERACTIVE.sub("", body)))
    body = re.sub(r'(id="|url\(#)(?=clip|gradient)', rf"\g<1>{identifier}-", body)
    width = view_box[1].split()[2]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view_box[1]}" width="{width}" '
        f'role="img" aria-labelledby="{identifier}-title {identifier}-description">'
        f'<title id="{identifier}-title">{escape(title)}</title>'
        f'<desc id="{identifier}-description">{escape(description)}</desc>'
        f"{palette.with_variables(body)}"
    )


def standalone(chart: Chart, *, title: str, description: str, dark: bool = False) -> str:
    """The chart as a complete SVG file, with a background, a visible title and named fonts.

    The renderer measures text with the first font of each list. The others are for machines
    without that font.
    """
    from perpacket_lab.show.charts import chart_style

    titled = chart.properties(title=chart_style.wrapped(title, chart_style.WIDE * 2 // 3))
    drawn = _rendered(titled, palette.PAPER.light)
    opening, body = drawn.split(">", 1)
    labels = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    whole = f"{opening}>{labels}{body}"
    return palette.with_dark_tones(whole) if dark else whole


def png(svg_file: str) -> bytes:
    """An SVG file as PNG, with `PNG_SCALE` pixels per CSS pixel and the renderer's fonts."""
    import vl_convert

    pixels: bytes = vl_convert.svg_to_png(svg_file, scale=PNG_SCALE)
    return pixels


def _with_room(chart: Chart) -> str:
    """The renderer's SVG without a background, with room for wider fonts around every text."""
    larger = _with_font_sizes(chart.to_dict(), ROOM_FOR_FONTS)
    drawn = _render(larger, "transparent")
    return _FONT_SIZE.sub(
        lambda match: f'font-size="{float(match[1]) / ROOM_FOR_FONTS:.4g}px"', drawn
    )


def _with_font_sizes(value: Any, factor: float) -> Any:
    """The specification with every size of a font multiplied."""
    if isinstance(value, list):
        return [_with_font_sizes(item, factor) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item * factor if key.lower().endswith("fontsize") else _with_font_sizes(item, factor)
        for key, item in value.items()
    }


def _rendered(chart: Chart, background: str) -> str:
    """The renderer's SVG."""
    return _render(chart.to_dict(), background)


def _render(specification: dict[str, Any], background: str) -> str:
    """The SVG of a specification. The renderer contains Vega and the fonts and uses no network."""
    import vl_convert

    specification["config"]["background"] = background
    specification["config"]["legend"]["layout"] = LEGENDS_BELOW_EACH_OTHER
    drawn: str = vl_convert.vegalite_to_svg(
        specification, vl_version=VEGA_LITE_VERSION, allowed_base_urls=[]
    )
    return drawn
