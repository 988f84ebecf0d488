"""The chart of the cost of a packet by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import altair as alt
import polars as pl

from perpacket_lab.analysis.findings import figure_points
from perpacket_lab.analysis.wording import number, plural, sentence_case
from perpacket_lab.show.charts import chart_style, palette
from perpacket_lab.show.charts.chart_style import Plot, Select, level_of, titles_of
from perpacket_lab.study.quantities import EVENTS, REGIONS, SEVEN

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.study.figure import Figure
    from perpacket_lab.study.published import Published

HEIGHT_PX: Final = 320
SUM_SIZE_PX: Final = 11
HEADROOM: Final = 1.07
SMALL_PART: Final = 0.02
"""Parts under this share at every point are drawn together."""
LONGEST_UPRIGHT_NAME: Final = 8
"""The longest name below upright bars, in characters; longer names would overlap."""
WHOLE_SUM_PX: Final = 42
SHORT_SUM_PX: Final = 26
"""The width of a sum above a bar."""


PAPER: Final = "paper"
"""The word after a level at the bar of its published values."""


def layers_of(figure: Figure, analysis: Analysis) -> Plot | None:
    """The mean of an event in each layer, a bar per point, and a bar of its published values."""
    return _stack_of(figure, analysis, "layers", 0.0)


def parts_of(figure: Figure, analysis: Analysis) -> Plot | None:
    """The mean share of each part of an application, a bar per point; small parts together."""
    return _stack_of(figure, analysis, "parts", SMALL_PART)


def _stack_of(figure: Figure, analysis: Analysis, group: str, least: float) -> Plot | None:
    estimates = analysis.estimates
    costs: list[tuple[object, str, float]] = []
    published = 0
    for point in figure_points(analysis.study, figure):
        level = level_of(point, figure.x)
        own = [
            (level, layer, cost.value)
            for layer in estimates.layers(figure.y, group)
            if (cost := estimates.layer_sum(point.name, [layer], figure.y, group)) is not None
            and cost.value > 0
        ]
        if level is None or not own:
            continue
        paper = published_layers(analysis.study.published, point.name, figure.y)
        costs += own
        costs += [(f"{level}, {PAPER}", layer, value) for layer, value in paper.items()]
        published += bool(paper)
    if not costs:
        return None
    large = {layer for _, layer, value in costs if value >= least}
    records = [
        {"x": level, "layer": layer if layer in large else "small parts", "value": value}
        for level, layer, value in costs
    ]
    frame = pl.DataFrame(records, infer_schema_length=None)
    frame = frame.group_by("x", "layer", maintain_order=True).agg(pl.col("value").sum())
    runs = frame.filter(~pl.col("x").cast(pl.String).str.ends_with(f", {PAPER}"))
    sums = runs.group_by("x", maintain_order=True).agg(pl.col("value").sum())
    ends = [f"{number(total)} at {level}" for level, total in (sums.row(0), sums.row(-1))]
    x_title, y_title = titles_of(figure)
    stated = f" {plural(published, 'bar')} of published values." if published else ""
    return Plot(
        lambda width: stacked_layers(frame, x_title=x_title, y_title=y_title, width=width),
        f"{sentence_case(y_title)}: {' and '.join(ends)}.{stated}",
    )


def published_layers(published: Sequence[Published], point: str, event: str) -> dict[str, float]:
    """The published value of each region at a point, by its main layer.

    Empty unless a document has a value for all seven regions: a part of a stack has no height.
    """
    (name,) = [key for key, (column, *_) in EVENTS.items() if column == event] or [""]
    stated = {
        row.quantity: row.value for row in published if row.point == point and row.against is None
    }
    values = {
        (layers[-1] if region == "Other" else layers[0]): stated.get(f"{name}.{region}")
        for region, layers in REGIONS.items()
        if region in SEVEN
    }
    known = {layer: value for layer, value in values.items() if value is not None}
    return known if len(known) == len(SEVEN) else {}


def stacked_layers(
    frame: pl.DataFrame, *, x_title: str, y_title: str, width: int = chart_style.WIDE
) -> alt.LayerChart:
    """Events per packet by layer, a bar per level of a factor, with the sum at the bar's end.

    Columns: `x` (the level; a number or text, drawn in the table's order), `layer` (a layer of
    the design's vocabulary), `value` (events per packet in the unit of `y_title`; not all zero).
    Layers are stacked from the user's code to the driver. Bars with long names are horizontal.
    """
    levels = [level_text(value) for value in frame["x"].unique(maintain_order=True).to_list()]
    rows = frame.filter(pl.col("value") > 0).with_columns(
        pl.col("x").map_elements(level_text, return_dtype=pl.String)
    )
    if max(len(level) for level in levels) > LONGEST_UPRIGHT_NAME:
        return _horizontal(rows, levels, y_title, width)
    return _upright(rows, levels, x_title, y_title, width)


def _upright(
    rows: pl.DataFrame, levels: list[str], x_title: str, y_title: str, width: int
) -> alt.LayerChart:
    """Upright bars, for levels with short names."""
    names = alt.Axis(
        labelAngle=0,
        labelOverlap="greedy",
        labelSeparation=2,
        labelFontSize=chart_style.FONT_SIZE_PX - (width < chart_style.WIDE),
    )
    x = alt.X("x:N", sort=levels, title=chart_style.wrapped(x_title, width - 60), axis=names)
    sums = _sums(rows)
    # Sums are above the bars: leave room above the highest.
    room = HEADROOM * max(sums["value"].to_list())
    scale = alt.Scale(domain=[0, room], nice=False)
    y = alt.Y(
        "value:Q",
        title=chart_style.wrapped(y_title, HEIGHT_PX),
        stack="zero",
        scale=scale,
        axis=alt.Axis(tickCount=6),
    )
    bars = _bars(rows, "bottom to top", width).encode(x=x, y=y)
    bar_px = (width - 60) / len(levels)
    if bar_px < SHORT_SUM_PX:
        return chart_style.fitted(chart_style.layered(bars), width, HEIGHT_PX)
    form = _form(sums) if bar_px >= WHOLE_SUM_PX else ".2s"
    labels = (
        alt.Chart(sums)
        .mark_text(dy=-7, color=palette.INK.light, fontSize=SUM_SIZE_PX)
        .encode(x=x, y="value:Q", text=alt.Text("value:Q", format=form))
    )
    return chart_style.fitted(chart_style.layered(bars, labels), width, HEIGHT_PX)


def _horizontal(
    rows: pl.DataFrame, levels: list[str], value_title: str, width: int
) -> alt.LayerChart:
    """Horizontal bars, for levels with long names."""
    sums = _sums(rows)
    # Sums are to the right of the bars: leave room for the longest.
    room = max(sums["value"].to_list()) * (1.08 if width >= chart_style.WIDE else 1.25)
    x = alt.X(
        "value:Q",
        title=chart_style.wrapped(value_title, width - chart_style.names_px(levels)),
        stack="zero",
        axis=alt.Axis(tickCount=6 if width >= chart_style.WIDE else 4),
        scale=alt.Scale(domain=[0, room], nice=False),
    )
    y = alt.Y("x:N", sort=levels, title=None, axis=chart_style.row_axis(width, grid=False))
    bars = _bars(rows, "left to right", width).encode(x=x, y=y)
    labels = (
        alt.Chart(sums)
        .mark_text(dx=5, align="left", color=palette.INK.light, fontSize=SUM_SIZE_PX)
        .encode(x="value:Q", y=y, text=alt.Text("value:Q", format=_form(sums)))
    )
    return chart_style.fitted(
        chart_style.layered(bars, labels), width, len(levels) * chart_style.ROW_PX
    )


def _bars(rows: pl.DataFrame, direction: str, width: int) -> alt.Chart:
    """The stacked bars without their axes; layers outside the vocabulary come last."""
    present = set(rows["layer"].to_list())
    known = [layer for layer in palette.LAYER_TONES if layer in present]
    order = known + sorted(present - set(known))
    others = iter(chart_style.cycled(palette.OTHER_TONES, len(order) - len(known)))
    tones = [(palette.LAYER_TONES.get(layer) or next(others)).light for layer in order]
    stacked = rows.with_columns(_depth(order))
    columns = min(chart_style.legend_columns(width, order), len(order))
    color = alt.Color(
        "layer:N",
        sort=order,
        scale=alt.Scale(domain=order, range=tones),
        title=f"{'layers' if 'user' in known else 'parts'}, {direction}",
        legend=chart_style.legend(width, columns=columns),
    )
    encodings: dict[str, Any] = {"color": color, "order": alt.Order("depth:Q")}
    marked = alt.Chart(stacked).mark_bar(stroke=palette.PAPER.light, strokeWidth=1)
    bars: alt.Chart = marked.encode(**encodings)
    return bars


def _depth(order: Sequence[str]) -> pl.Expr:
    """A layer's position in the stack, from 0 at the bottom."""
    return pl.col("layer").replace_strict(list(order), list(range(len(order)))).alias("depth")


def _sums(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("x", maintain_order=True).agg(pl.col("value").sum())


def _form(sums: pl.DataFrame) -> str:
    """Whole numbers from 100 on, else three digits."""
    return ",.0f" if min(sums["value"].to_list()) >= 100 else ".3~r"


def level_text(value: object) -> str:
    """A factor's level as an axis label: whole numbers without a decimal point."""
    return f"{value:g}" if isinstance(value, float) else str(value)


KINDS: Final[Mapping[str, Select]] = {
    "stacked-layers": layers_of,
    "stacked-parts": parts_of,
}
"""The kinds of figures that this module draws."""
