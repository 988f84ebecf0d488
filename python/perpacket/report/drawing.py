"""From a chart to an SVG that stands inside a page: named, described, and coloured by the page."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final

from perpacket.report import palette

if TYPE_CHECKING:
    from perpacket.report.look import Chart

# The newest grammar that vl-convert-python 1.9 renders; Altair 6 writes it.
VEGA_LITE_VERSION: Final = "6.4"

# Side by side, a second legend runs off a narrow chart. Vega has the option, Altair does not.
LEGENDS_BELOW_EACH_OTHER: Final = {"top": {"direction": "vertical", "anchor": "start", "margin": 4}}

# What Vega adds for its own interactive use: it says nothing to a reader of a still picture.
_NOISE: Final = re.compile(
    r' (?:class|role|aria-[a-z]+|pointer-events|font-family|stroke-miterlimit)="[^"]*"'
    r'| (?:opacity="1"|font-weight="normal")'
)
_EMPTY: Final = re.compile(
    r'<path[^>]*(?:display="none"|d="M0,0h0v0h0Z")[^>]*/>|<g></g>|<g transform="[^"]*"></g>'
)


def svg(chart: Chart, *, identifier: str, title: str, description: str) -> str:
    """The chart as inline SVG, `role="img"`, scaling with its container.

    `title` names it and `description` tells its content to those who do not see it; both are
    plain text. `identifier` must be unique in the page and fit for an `id` attribute. Nothing is
    fetched: the renderer carries its own copy of Vega.
    """
    import vl_convert

    specification = chart.to_dict()
    specification["config"]["legend"]["layout"] = LEGENDS_BELOW_EACH_OTHER
    drawn: str = vl_convert.vegalite_to_svg(
        specification, vl_version=VEGA_LITE_VERSION, allowed_base_urls=[]
    )
    opening, body = drawn.split(">", 1)
    view_box = re.search(r'viewBox="([^"]*)"', opening)
    if view_box is None:
        raise ValueError(f"chart {identifier}: the renderer returned an SVG without a viewBox")
    body = _EMPTY.sub("", _EMPTY.sub("", _NOISE.sub("", body)))
    body = re.sub(r'(id="|url\(#)(?=clip|gradient)', rf"\g<1>{identifier}-", body)
    width = view_box[1].split()[2]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view_box[1]}" width="{width}" '
        f'role="img" aria-labelledby="{identifier}-title {identifier}-description">'
        f'<title id="{identifier}-title">{escape(title)}</title>'
        f'<desc id="{identifier}-description">{escape(description)}</desc>'
        f"{palette.with_variables(body)}"
    )
