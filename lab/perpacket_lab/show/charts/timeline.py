"""The chart of a NIC's state over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import altair as alt
import polars as pl

from perpacket_lab.analysis.findings import figure_points
from perpacket_lab.analysis.wording import number
from perpacket_lab.show.charts import chart_style, palette
from perpacket_lab.show.charts.chart_style import Plot, Select

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.study.figure import Figure


class Trace(NamedTuple):
    """The name in words, the unit and the colour of a column of a timeline."""

    name: str
    unit: str
    tone: palette.Tone


TRACES: Final = {
    "connections_on_nic": Trace("connections on the NIC", "connections", palette.BLUE),
    "soft_limit": Trace("soft limit", "connections", palette.VERMILLION),
    "queue_packets": Trace("receive queue", "queued packets", palette.GREEN),
}
COLUMNS: Final = tuple(TRACES)

AXIS_PX: Final = 74
"""The y axis with its labels and title; all panels share it, so that their times line up."""
PANEL_PX: Final = 150


def state_over_time(figure: Figure, analysis: Analysis) -> Plot | None:
    """The first recorded timeline among the figure's points."""
    selected = {point.name for point in figure_points(analysis.study, figure)}
    pair = next((pair for pair in analysis.timelines if pair[0] in selected), None)
    if pair is None:
        return None
    frame = analysis.timelines[pair]
    columns = [name for name in figure.y.split(",") if name in frame.columns]
    peaks = [
        f"{trace_of(name).name} up to {number(peak)}"
        for name in columns
        if isinstance(peak := frame[name].max(), int | float)
    ]
    if not peaks:
        return None
    return Plot(
        lambda width: timeline(frame, columns=columns, width=width),
        f"{pair[0]}, seed {pair[1]}: {', '.join(peaks)}.",
    )


def timeline(
    frame: pl.DataFrame, *, columns: Sequence[str] = COLUMNS, width: int = chart_style.WIDE
) -> alt.VConcatChart:
    """The NIC's state over time, a panel per unit, one above the other.

    Columns: `time_s` and those named in `columns`; values may be null (no soft limit without load
    control). Long runs are reduced to one value per pixel: the line is the mean, and the band
    goes from the lowest to the highest value, so that every peak is visible.
    """
    inner_width = width - AXIS_PX
    rows = _thinned(frame, columns, inner_width)
    present = [column for column in columns if column in set(rows["quantity"].to_list())]
    units = list(dict.fromkeys(trace_of(column).unit for column in present))
    panels = []
    for unit in units:
        shown = [column for column in present if trace_of(column).unit == unit]
        panels.append(_panel(rows, shown, unit, inner_width, last=unit == units[-1]))
    stacked: alt.VConcatChart = alt.vconcat(*panels, spacing=12).resolve_scale(
        color="independent", strokeDash="independent"
    )
    return chart_style.styled(stacked)


def _panel(
    rows: pl.DataFrame, columns: list[str], unit: str, width: int, *, last: bool
) -> alt.LayerChart:
    """A line and a band for each column; only the last panel has a title of its time axis."""
    names = [trace_of(column).name for column in columns]
    frame = rows.filter(pl.col("quantity").is_in(columns)).with_columns(
        pl.col("quantity").replace_strict(columns, names)
    )
    tones = alt.Scale(domain=names, range=[trace_of(column).tone.light for column in columns])
    dashes = alt.Scale(domain=names, range=chart_style.cycled(chart_style.DASHES, len(names)))
    legend = chart_style.line_legend(width, columns=2)
    color = alt.Color("quantity:N", title=None, scale=tones, legend=legend)
    dash = alt.StrokeDash("quantity:N", title=None, scale=dashes, legend=legend)
    time = alt.X(
        "time_s:Q",
        title="simulated time (s)" if last else None,
        scale=alt.Scale(zero=False, nice=False),
        axis=alt.Axis(labels=last, tickCount=6 if width > chart_style.NARROW else 4),
    )
    axis = alt.Axis(minExtent=AXIS_PX - 24, maxExtent=AXIS_PX - 24, tickCount=4, format=",~r")
    scale = alt.Scale(zero=True, nice=True)
    base = alt.Chart(frame).encode(x=time)
    band = base.mark_area(opacity=0.25).encode(
        y=alt.Y("low:Q", title=unit, axis=axis, scale=scale), y2="high:Q", color=color
    )
    line = base.mark_line(strokeWidth=1.5).encode(y="mean:Q", color=color, strokeDash=dash)
    return chart_style.layered(band, line).properties(width=width, height=PANEL_PX)


def _thinned(frame: pl.DataFrame, columns: Sequence[str], pixels: int) -> pl.DataFrame:
    """Rows `time_s`, `quantity`, `mean`, `low`, `high`, at most `pixels` of them per quantity."""
    per_pixel = max(1, -(-frame.height // pixels))
    present = [column for column in columns if column in frame.columns]
    return (
        frame.with_columns(pl.col(*present).cast(pl.Float64))
        .with_row_index("row")
        .unpivot(present, index=["row", "time_s"], variable_name="quantity")
        .drop_nulls("value")
        .group_by(pl.col("row") // per_pixel, "quantity", maintain_order=True)
        .agg(
            pl.col("time_s").first(),
            pl.col("value").mean().alias("mean"),
            pl.col("value").min().alias("low"),
            pl.col("value").max().alias("high"),
        )
        .drop("row")
    )


def trace_of(column: str) -> Trace:
    """The trace of a column. An unknown column has a unit of its own, and so its own panel."""
    name = column.replace("_", " ")
    return TRACES.get(column, Trace(name, name, palette.PURPLE))


KINDS: Final[Mapping[str, Select]] = {"timeline": state_over_time}
"""The kinds of figures that this module draws."""
