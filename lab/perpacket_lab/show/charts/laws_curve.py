"""The upper bound of the gain by offload, with a run's points on the model's curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import altair as alt
import polars as pl

from perpacket_lab.analysis.findings import figure_points
from perpacket_lab.analysis.offload import MOST_SHARE, gain_percent
from perpacket_lab.analysis.terms import MEASURED, Terms
from perpacket_lab.analysis.wording import points_in_words, sentence_case
from perpacket_lab.models import laws
from perpacket_lab.show.charts import chart_style, palette
from perpacket_lab.show.charts.chart_style import Plot, Select

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.study.figure import Figure

SCHEMA: Final = {
    "name": pl.String,
    "share": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}
"""Columns of the chart's table: shares of the busy processor, as fractions."""

OFFLOADED: Final = {"all of it offloaded (p = 1)": 1.0, "half of it offloaded (p = 0.5)": 0.5}
"""The lines, by the part of the communication work that moves to the NIC."""

PUBLISHED: Final = "published, 2004"
"""The workloads of *Communication Breakdown*, table 5."""

LEAST_TOP_PERCENT: Final = 100.0
"""The least upper end of the gain axis, so that small gains look small."""
MOST_SHAPES: Final = 6
"""If there are more points, all have one shape and one entry of the legend."""
SHAPES: Final = ("circle", "square", "triangle-up", "cross", "triangle-down", "triangle-right")
STEPS: Final = 200
HEIGHT_PX: Final = 320


def points_on_curve(figure: Figure, analysis: Analysis) -> Plot | None:
    """Each point at the network's share of its busy processor, on the model's curve."""
    words = points_in_words(analysis.study.points)
    records = [
        {
            "name": words[point.name] or point.name,
            "share": share.value,
            **share.bounds(),
        }
        for point in figure_points(analysis.study, figure)
        if (share := analysis.network_shares.get(point.name)) is not None
    ]
    if not records:
        return None
    frame = pl.DataFrame(records, schema=SCHEMA)
    ends = [
        f"{name}: with a share of {100 * share:.0f} %, the gain is at most "
        f"{gain_percent(share):.0f} %"
        for name, share, _, _ in (frame.row(0), frame.row(-1))
    ]
    return Plot(
        lambda width: laws_curve(frame, width=width, terms=analysis.terms),
        f"{sentence_case('; '.join(dict.fromkeys(ends)))}.",
    )


def laws_curve(
    frame: pl.DataFrame, *, width: int = chart_style.WIDE, terms: Terms = MEASURED
) -> alt.LayerChart:
    """The gain by the network's share of the busy processor, with a mark for each point.

    Columns: `name` (the point in words), `share`, `low`, `high` (a fraction and the ends of its
    interval; ends are null after a single run). `perpacket_lab.models.laws` states the assumptions.
    """
    points = _placed(frame, terms).with_columns(
        pl.col("name").map_elements(
            lambda name: chart_style.legend_name(name, width), return_dtype=pl.String
        )
    )
    top = max(LEAST_TOP_PERCENT, 1.25 * max(points["gain"].to_list(), default=0.0))
    x = alt.X(
        "share:Q",
        title="network's share of the busy processor (%)",
        scale=alt.Scale(domain=[0, 100], nice=False),
        axis=alt.Axis(tickCount=10 if width >= chart_style.WIDE else 5),
    )
    y = alt.Y(
        "gain:Q",
        title="gain in throughput, at most (%)",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    ranges = points.drop_nulls(["low", "high"])
    layers = [
        _curves(top, width).encode(x=x, y=y),
        alt.Chart(ranges)
        .mark_rule(color=palette.VERMILLION.light, strokeWidth=4, opacity=0.35)
        .encode(x=alt.X("low:Q"), x2="high:Q", y=y),
        _marks(points, width).encode(x=x, y=y),
    ]
    return chart_style.fitted(chart_style.layered(*layers), width, HEIGHT_PX)


def _curves(top: float, width: int) -> alt.Chart:
    """The model's lines, up to the chart's top."""
    rows = [
        {"share": 100 * share, "gain": gain, "offloaded": name}
        for name, part in OFFLOADED.items()
        for share in (step * MOST_SHARE / STEPS for step in range(STEPS + 1))
        if (gain := gain_percent(share, part)) <= top
    ]
    names = list(OFFLOADED)
    tones = alt.Scale(domain=names, range=[palette.BLUE.light, palette.SKY.light])
    dashes = alt.Scale(domain=names, range=chart_style.cycled(chart_style.DASHES, len(names)))
    legend = chart_style.line_legend(width, columns=2 if width >= chart_style.WIDE else 1)
    drawn: alt.Chart = (
        alt.Chart(pl.DataFrame(rows))
        .mark_line(strokeWidth=2)
        .encode(
            color=alt.Color("offloaded:N", title=None, scale=tones, legend=legend),
            strokeDash=alt.StrokeDash("offloaded:N", title=None, scale=dashes, legend=legend),
        )
    )
    return drawn


def _placed(frame: pl.DataFrame, terms: Terms) -> pl.DataFrame:
    """The published points, then the run's points, in per cent, with their gains."""
    own = frame.select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    if own.height > MOST_SHAPES:
        own = own.with_columns(name=pl.lit(terms.adjective))
    stated = [
        {"name": PUBLISHED, "share": percent / 100, "low": None, "high": None}
        for _, percent, _, _ in laws.PUBLISHED
    ]
    rows = pl.concat([pl.DataFrame(stated, schema=SCHEMA), own])
    gain = pl.col("share").map_elements(gain_percent, return_dtype=pl.Float64)
    return rows.with_columns(gain=gain).with_columns(pl.col("share", "low", "high") * 100)


def _marks(points: pl.DataFrame, width: int) -> alt.Chart:
    """The published workloads as open diamonds, and each point of this run with its own shape."""
    names = points["name"].unique(maintain_order=True).to_list()
    own = [name for name in names if name != PUBLISHED]
    styles = {PUBLISHED: ("diamond", palette.PAPER.light, palette.MUTED.light)} | {
        name: (shape, palette.VERMILLION.light, palette.INK.light)
        for name, shape in zip(own, chart_style.cycled(SHAPES, len(own)), strict=True)
    }
    columns = min(chart_style.legend_columns(width, names), len(names))
    channels = chart_style.mark_channels("name", styles, chart_style.legend(width, columns))
    marked: alt.Chart = (
        alt.Chart(points).mark_point(size=90, opacity=1, strokeWidth=1.25).encode(**channels)
    )
    return marked


KINDS: Final[Mapping[str, Select]] = {"laws": points_on_curve}
"""The kinds of figures that this module draws."""
