"""The chart of two runs: a quantity's ratio at each point, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import altair as alt
import polars as pl

from perpacket_lab.show.charts import chart_style, palette

if TYPE_CHECKING:
    from perpacket.analysis.claim import Claim, Pair

SCHEMA: Final = {"name": pl.String, "ratio": pl.Float64, "low": pl.Float64, "high": pl.Float64}
"""Columns of the chart's table; the ends of an interval are null after single runs."""

LEAST_SPAN: Final = 0.02
"""The least length of the axis on both sides of 1, so that small changes look small."""

WIDEST: Final = 2.0
"""Intervals are cut at this factor beyond all values: a wide one would hide the others."""


def ratio_chart(
    claims: Sequence[Claim[Pair]],
    *,
    quantity: str,
    width: int = chart_style.WIDE,
    title: str = "",
) -> alt.LayerChart:
    """The ratios of one quantity that have an interval; there must be at least one."""
    rows = [
        {
            "name": ratio.subject,
            "ratio": ratio.value.value,
            **ratio.value.bounds(),
        }
        for ratio in claims
        if ratio.value is not None and ratio.quantity == quantity
    ]
    title = title or f"{quantity}: second run over the first"
    return ratios(pl.DataFrame(rows, schema=SCHEMA), title=title, width=width)


def ratios(frame: pl.DataFrame, *, title: str, width: int = chart_style.WIDE) -> alt.LayerChart:
    """A row per point in the table's order, and a line at 1; wide intervals are cut at an edge.

    Columns: those of `SCHEMA`; `name` is unique.
    """
    rows = frame["name"].to_list()
    values = frame["ratio"].to_list()
    cut = min(1.0, *values) / WIDEST, max(1.0, *values) * WIDEST
    frame = frame.with_columns(pl.col("low", "high").clip(*cut))
    ends = frame.select("ratio", "low", "high").unpivot()["value"].drop_nulls().to_list()
    least, greatest = min([1 - LEAST_SPAN, *ends]), max([1 + LEAST_SPAN, *ends])
    margin = 0.03 * (greatest - least)
    scale = alt.Scale(domain=[least - margin, greatest + margin], nice=False, zero=False)
    ticks = alt.Axis(tickCount=8 if width >= chart_style.WIDE else 4)
    lines = chart_style.wrapped(title, width - chart_style.names_px(rows))
    x = alt.X("ratio:Q", title=lines, scale=scale, axis=ticks)
    y = alt.Y("name:N", sort=rows, title=None, axis=chart_style.row_axis(width))
    unchanged = alt.Chart(pl.DataFrame({"ratio": [1.0]})).mark_rule(
        color=palette.MUTED.light, strokeWidth=1.25
    ).encode(x=x)  # fmt: skip
    intervals = alt.Chart(frame.drop_nulls(["low", "high"])).mark_rule(
        color=palette.BLUE.light, strokeWidth=5, opacity=0.45
    ).encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y)  # fmt: skip
    marks = alt.Chart(frame).mark_circle(
        color=palette.BLUE.light, size=90, opacity=1
    ).encode(x=x, y=y)  # fmt: skip
    layers = chart_style.layered(unchanged, intervals, marks)
    return chart_style.fitted(layers, width, height=max(2, len(rows)) * chart_style.ROW_PX)
