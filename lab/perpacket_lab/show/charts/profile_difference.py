"""The cost of a profile by layer and kind, coloured by its difference to another profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from perpacket.analysis.profile_comparison import MEASURES, TOTAL
from perpacket.show.comparison_tables import headline
from perpacket.whole_file import write_whole
from perpacket_lab.show.charts import chart_style, drawing, palette

if TYPE_CHECKING:
    from pathlib import Path

    from perpacket.analysis.profile_comparison import ProfileComparison
    from perpacket_lab.show.charts.chart_style import Chart

ROW_PX = 34
LETTER_PX = 7
"""A rectangle with this width for each letter of its name shows it."""

LAYER_ROW = "layers"
KIND_ROW = "kinds"
FUNCTION_ROW = "functions that changed"
ROWS = (FUNCTION_ROW, KIND_ROW, LAYER_ROW, TOTAL)

LEAST_SHARE = 0.0005
"""A function with a smaller share of the cost is not drawn."""

Functions = Mapping[str, Sequence[tuple[str, float, float]]]
"""The functions of each layer that changed, with their costs in A and in B."""


def write_flame_graph(
    compared: ProfileComparison, path: Path, functions: Functions | None = None
) -> None:
    """Write `flame_graph` to a file; raises `OSError`."""
    write_whole(path, flame_graph(compared, functions))


def flame_graph(compared: ProfileComparison, functions: Functions | None = None) -> str:
    """An SVG file: B's cost by layer, kind of work and function, coloured by the difference to A.

    A rectangle's width is B's cost. Its colour is vermillion if B is dearer and blue if B is
    cheaper, and strongest at the largest difference.
    """
    unit = f"{MEASURES[compared.measure]} a {compared.unit}"
    return drawing.standalone(
        chart(compared, functions=functions),
        title=f"Cost of B in {unit}, coloured by its difference to A",
        description=headline(compared),
    )


def chart(
    compared: ProfileComparison,
    width: int = chart_style.WIDE,
    functions: Functions | None = None,
) -> Chart:
    """The cost by part, coloured by the difference; `width` is in CSS pixels.

    The functions are those of `functions`, if there are any.
    """
    unit = f"{MEASURES[compared.measure]} a {compared.unit}"
    cells = _rectangles(compared, functions or {}, width)
    rows = [name for name in ROWS if functions or name != FUNCTION_ROW]
    widest = max((abs(float(str(cell["difference"]))) for cell in cells), default=0.0) or 1.0
    position = alt.X("begin:Q", title=unit, scale=alt.Scale(nice=False))
    base = alt.Chart(pl.DataFrame(cells)).encode(
        y=alt.Y("row:N", title=None, sort=rows), description=alt.Description("text:N")
    )
    areas = base.mark_rect(stroke=palette.PAPER.light, strokeWidth=1).encode(
        x=position,
        x2="end:Q",
        color=alt.Color(
            "difference:Q",
            title=f"B minus A, {unit}",
            scale=alt.Scale(
                domain=[-widest, 0, widest],
                range=[palette.BLUE.light, palette.FAINT.light, palette.VERMILLION.light],
                interpolate="rgb",
            ),
        ),
    )
    names = (
        base.transform_filter("datum.is_wide")
        .mark_text(color=palette.INK.light)
        .encode(x=alt.X("middle:Q"), text="name:N")
    )
    drawn = chart_style.layered(areas, names)
    return chart_style.styled(chart_style.fitted(drawn, width, len(rows) * ROW_PX))


def _rectangles(
    compared: ProfileComparison, functions: Functions, width: int
) -> list[dict[str, object]]:
    """Rectangles from left to right: the total, its layers, their kinds of work and functions."""
    whole = compared.total.detail.second or 1.0

    def rectangle(
        row: str, name: str, begin: float, first: float, second: float
    ) -> dict[str, object]:
        return {
            "row": row,
            "name": name,
            "begin": begin,
            "end": begin + second,
            "middle": begin + second / 2,
            "difference": second - first,
            "text": f"{name}: {second:,.1f}, {second - first:+,.1f}",
            "is_wide": second / whole * width >= LETTER_PX * len(name),
        }

    rows = [rectangle(TOTAL, TOTAL, 0.0, compared.total.detail.first, compared.total.detail.second)]
    begin = 0.0
    for layer in compared.layers:
        pair = layer.detail
        rows.append(rectangle(LAYER_ROW, layer.quantity, begin, pair.first, pair.second))
        inner = begin
        for (name, kind), (first, second) in compared.cells.items():
            if name == layer.quantity:
                rows.append(rectangle(KIND_ROW, kind, inner, first, second))
                inner += second
        inner = begin
        for function, first, second in functions.get(layer.quantity, ()):
            if max(first, second) >= LEAST_SHARE * whole:
                rows.append(rectangle(FUNCTION_ROW, function, inner, first, second))
                inner += second
        begin += layer.detail.second
    return rows
