"""A comparison of two profiles as text, as JSON and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perpacket.analysis.profile_comparison import CONFIDENCE, MEASURES, TOTAL
from perpacket.analysis.wording import number_text
from perpacket.show.text_table import TextTable
from perpacket.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from perpacket.analysis.profile_comparison import ProfileComparison
    from perpacket.analysis.run_comparison import Ratio
    from perpacket.show.charts.chart_style import Chart

SCHEMA = 1

SMALLEST_SHARE = 0.005
"""Rows below this share of both totals are only in the JSON document."""

WIDEST = 100
"""An interval is printed only if its upper end is less than this many times its lower end."""

ROW_PX = 34
LEGIBLE_SHARE = 0.06
"""A rectangle of at least this share of the width shows its name."""


def tables(found: ProfileComparison) -> Iterator[TextTable]:
    """The traffic first, then the costs."""
    pairing = "paired windows" if found.paired else "windows"
    counts = f"{found.windows[0]} and {found.windows[1]} {pairing}"
    percent = f"{100 * CONFIDENCE:g} % interval"
    headings = ("", "A", "B", "B/A", "verdict")
    yield TextTable(
        f"traffic of A and B, {counts} [{percent}]", headings, _rows(found.traffic), headings[1:4]
    )
    least = [SMALLEST_SHARE * value for value in (found.total.first, found.total.second)]
    shown = [
        one
        for one in (found.total, *found.layers, *found.kinds)
        if one.first >= least[0] or one.second >= least[1]
    ]
    unit = f"{MEASURES[found.measure]} a {found.unit}"
    yield TextTable(
        f"cost in {unit}; intervals of layers and kinds are corrected for their number",
        headings,
        _rows(shown),
        headings[1:4],
    )


def _rows(ratios: Sequence[Ratio]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            one.quantity,
            number_text(one.first),
            number_text(one.second),
            ratio_text(one),
            str(one.change),
        )
        for one in ratios
    )


def ratio_text(ratio: Ratio) -> str:
    """`1.05 [1.02, 1.08]`; only the value if there is no interval or it is too wide."""
    if ratio.interval is not None and ratio.interval.high < WIDEST * ratio.interval.low:
        return ratio.text
    return f"{ratio.second / ratio.first:.3g}" if ratio.first else "-"


def headline(found: ProfileComparison) -> str:
    """A sentence on the change of the cost, and on the layer that changed most."""
    unit = f"{MEASURES[found.measure]} a {found.unit}"
    total, most = found.total, found.changed_most
    costs = f"{number_text(total.first)} to {number_text(total.second)} {unit}"
    text = f"{total.change}: the cost is {ratio_text(total)} times as large, {costs}"
    if most is None:
        return f"{text}; no layer changed for certain"
    by = most.second - most.first
    return (
        f"{text}; {most.quantity} changed most, by {'+' if by > 0 else ''}{number_text(by)} {unit}"
    )


def document(found: ProfileComparison) -> dict[str, object]:
    """The comparison as JSON."""
    return {
        "schema": SCHEMA,
        "windows": list(found.windows),
        "measure": found.measure,
        "unit": str(found.unit),
        "paired": found.paired,
        "traffic": {one.quantity: _fields(one) for one in found.traffic},
        TOTAL: _fields(found.total),
        "layers": {one.quantity: _fields(one) for one in found.layers},
        "kinds": {one.quantity: _fields(one) for one in found.kinds},
        "rules": {str(one.rule): str(one.decision) for one in found.judged},
        "notes": list(found.notes),
    }


def _fields(ratio: Ratio) -> dict[str, object]:
    every = ratio.as_dict()
    return {key: every[key] for key in ("first", "second", "ratio", "verdict")}


def write_flame_graph(found: ProfileComparison, path: Path) -> None:
    """Write `flame_graph` to a file; raises `OSError`."""
    write_whole(path, flame_graph(found))


def flame_graph(found: ProfileComparison) -> str:
    """An SVG file: B's cost by layer and by kind of work, coloured by the difference to A.

    A rectangle's width is B's cost. Its colour is vermillion if B is dearer and blue if B is
    cheaper, and strongest at the largest difference.
    """
    from perpacket.show.charts import drawing

    unit = f"{MEASURES[found.measure]} a {found.unit}"
    return drawing.standalone(
        _chart(found, unit),
        title=f"Cost of B in {unit}, coloured by its difference to A",
        description=headline(found),
    )


def _chart(found: ProfileComparison, unit: str) -> Chart:
    import altair as alt
    import polars as pl

    from perpacket.show.charts import chart_style, palette

    cells = _rectangles(found)
    widest = max((abs(float(str(one["difference"]))) for one in cells), default=0.0) or 1.0
    position = alt.X("begin:Q", title=unit, scale=alt.Scale(nice=False))
    base = alt.Chart(pl.DataFrame(cells)).encode(
        y=alt.Y("row:N", title=None, sort=["kinds", "layers", TOTAL])
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
    chart = chart_style.layered(areas, names)
    return chart_style.styled(chart_style.fitted(chart, chart_style.WIDE, 3 * ROW_PX))


def _rectangles(found: ProfileComparison) -> list[dict[str, object]]:
    """Rectangles from left to right: the total, its layers, and their kinds of work."""
    whole = found.total.second or 1.0

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
            "is_wide": second / whole >= LEGIBLE_SHARE,
        }

    rows = [rectangle(TOTAL, TOTAL, 0.0, found.total.first, found.total.second)]
    begin = 0.0
    for layer in found.layers:
        rows.append(rectangle("layers", layer.quantity, begin, layer.first, layer.second))
        inner = begin
        for (name, kind), (first, second) in found.cells.items():
            if name == layer.quantity:
                rows.append(rectangle("kinds", kind, inner, first, second))
                inner += second
        begin += layer.second
    return rows
