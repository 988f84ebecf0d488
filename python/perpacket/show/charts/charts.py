"""Charts of published values beside simulated ones, by configuration and along a curve.

A chart function takes a table, documents the columns it reads, ignores the rest and returns an
Altair chart. `width` is the whole chart's width in CSS pixels, labels included.
"""

from __future__ import annotations

from typing import Any, Final

import altair as alt
import polars as pl

from perpacket.show.charts import chart_style, palette
from perpacket.show.charts.chart_style import WIDE
from perpacket.show.terms import SIMULATED, Voice

CALIBRATED: Final = "paper, used to calibrate"

# Beyond this ratio of largest to smallest x, equal steps hide the small end.
LOGARITHMIC_FROM_RATIO: Final = 50.0

# Beyond this ratio of largest to smallest y, lines lie on each other at their low end.
LOGARITHMIC_Y_FROM_RATIO: Final = 100.0


def paper_beside(
    frame: pl.DataFrame, *, x_title: str, width: int = WIDE, voice: Voice = SIMULATED
) -> alt.LayerChart:
    """Published values beside the runs' own, a row per configuration in the table's order.

    Columns: `configuration` (text; repeated where several values were published), `simulated`,
    `low`, `high` (the mean and the ends of its interval; ends are null after a single run),
    `published_low`, `published_high` (equal where one value was published; null where none was),
    `calibrated` (true where the published value was used to calibrate). All numbers share the
    unit that `x_title` names.
    """
    numbers = ("simulated", "low", "high", "published_low", "published_high")
    wide = frame.with_columns(pl.col(*numbers).cast(pl.Float64)).with_columns(
        published=(pl.col("published_low") + pl.col("published_high")) / 2,
        source=_source(voice),
    )
    runs = wide.drop_nulls("simulated").unique("configuration", maintain_order=True)
    papers = wide.drop_nulls("published")
    rows = wide["configuration"].unique(maintain_order=True).to_list()
    y = alt.Y("configuration:N", sort=rows, title=None, axis=chart_style.row_axis(width))
    scale = alt.Scale(zero=False, nice=False, domain=_padded_extent(wide, numbers))
    ticks = alt.Axis(tickCount=8 if width >= WIDE else 4, labelOverlap="greedy")
    title = chart_style.wrapped(x_title, width - chart_style.names_px(rows))
    x = alt.X("simulated:Q", title=title, scale=scale, axis=ticks)
    gaps = alt.Chart(papers.drop_nulls("simulated")).mark_rule(
        color=palette.SILVER.light, strokeWidth=1.5
    ).encode(x=x, x2="published:Q", y=y)  # fmt: skip
    intervals = alt.Chart(runs.drop_nulls(["low", "high"])).mark_rule(
        color=palette.BLUE.light, strokeWidth=5, opacity=0.45
    ).encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y)  # fmt: skip
    ranges = alt.Chart(papers.filter(pl.col("published_low") < pl.col("published_high"))).mark_rule(
        color=palette.VERMILLION.light, strokeWidth=2
    ).encode(x=alt.X("published_low:Q", scale=scale), x2="published_high:Q", y=y)  # fmt: skip
    points = _source_points(runs, papers, scale, y, width, voice)
    layers = [gaps, intervals, ranges, *points]
    if scale["domain"][0] < 0 < scale["domain"][1]:
        layers.insert(0, _zero_rule(scale))
    return chart_style.fitted(
        chart_style.layered(*layers), width, height=max(2, len(rows)) * chart_style.ROW_PX
    )


def _source_points(
    runs: pl.DataFrame, papers: pl.DataFrame, scale: alt.Scale, y: alt.Y, width: int, voice: Voice
) -> list[alt.Chart]:
    """Circles for the runs' values and, on top and smaller, the marks of published ones.

    Both layers carry one legend, which lists only what the chart holds.
    """
    looks = {
        voice.mark: ("circle", palette.BLUE.light, palette.BLUE.light),
        voice.held_out: ("diamond", palette.VERMILLION.light, palette.VERMILLION.light),
        CALIBRATED: ("square", palette.PAPER.light, palette.VERMILLION.light),
    }
    simulated = runs.select("configuration", pl.col("simulated").alias("value"),
                            pl.lit(voice.mark).alias("source"))  # fmt: skip
    published = papers.select("configuration", pl.col("published").alias("value"), "source")
    present = {*simulated["source"].to_list(), *published["source"].to_list()}
    sources = [source for source in looks if source in present]
    legend = chart_style.legend(width, columns=3 if width >= WIDE else 1)
    channels: dict[str, Any] = {}
    for channel, index in ((alt.Shape, 0), (alt.Fill, 1), (alt.Stroke, 2)):
        values = alt.Scale(domain=sources, range=[looks[source][index] for source in sources])
        channels[channel.__name__.lower()] = channel(
            "source:N", scale=values, title=None, legend=legend
        )
    x = alt.X("value:Q", scale=scale)
    return [
        alt.Chart(marks)
        .mark_point(size=size, opacity=1, strokeWidth=stroke_width)
        .encode(x=x, y=y, **channels)
        for marks, size, stroke_width in ((simulated, 110, 1.0), (published, 60, 1.75))
        if marks.height
    ]


def _source(voice: Voice) -> pl.Expr:
    """The legend of a published value's mark."""
    return pl.when("calibrated").then(pl.lit(CALIBRATED)).otherwise(pl.lit(voice.held_out))


def curve(
    frame: pl.DataFrame,
    *,
    x_title: str,
    y_title: str,
    width: int = WIDE,
    voice: Voice = SIMULATED,
) -> alt.LayerChart:
    """One line per series with its interval as a band, and published points where there are any.

    Columns: `x` (number), `y`, `low`, `high` (the mean and its interval, whose ends may be null),
    `series` (text); and, both or none, `published` (null where nothing was published) and
    `calibrated` (true where that value was used to calibrate). x is logarithmic when it is
    positive and spans a ratio of 50, y when it is positive and spans one of 100.
    """
    frame, y_scale = _y_scale(frame)
    series = frame["series"].unique(maintain_order=True).to_list()
    tones = [tone.light for tone in chart_style.cycled(palette.SERIES_TONES, len(series))]
    color_scale = alt.Scale(domain=series, range=tones)
    dash_scale = alt.Scale(domain=series, range=chart_style.cycled(chart_style.DASHES, len(series)))
    legend = (
        chart_style.line_legend(width, chart_style.legend_columns(width, series))
        if len(series) > 1
        else None
    )
    color = alt.Color("series:N", sort=series, title=None, legend=legend, scale=color_scale)
    dash = alt.StrokeDash("series:N", sort=series, title=None, legend=legend, scale=dash_scale)
    base = alt.Chart(frame.drop_nulls("y")).encode(x=_numeric_x(frame["x"], x_title))
    y: dict[str, Any] = {"scale": y_scale, "axis": alt.Axis(tickCount=6)}
    band = base.mark_area(opacity=0.18).encode(
        y=alt.Y("low:Q", title=y_title, **y), y2="high:Q", color=color
    )
    line = base.mark_line(strokeWidth=2).encode(y=alt.Y("y:Q", **y), color=color, strokeDash=dash)
    dots = base.mark_circle(size=26, opacity=1).encode(y=alt.Y("y:Q", **y), color=color)
    layers: list[alt.Chart] = [band, line, dots]
    if "published" in frame.columns and frame["published"].null_count() < frame.height:
        layers.extend(_published_points(base, color_scale, width, voice))
    return chart_style.fitted(chart_style.layered(*layers), width, height=320)


def _published_points(
    base: alt.Chart, color_scale: alt.Scale, width: int, voice: Voice
) -> list[alt.Chart]:
    """Outlined marks with a dot of the series' colour: squares where it was used to calibrate."""
    frame = base.data.drop_nulls("published").with_columns(source=_source(voice))
    sources = (voice.held_out, CALIBRATED)
    present = [name for name in sources if name in set(frame["source"].to_list())]
    shapes = {voice.held_out: "diamond", CALIBRATED: "square"}
    legend = chart_style.legend(width, columns=2 if width >= WIDE else 1)
    looks = (
        (alt.Shape, [shapes[name] for name in present]),
        (alt.Fill, [palette.PAPER.light] * len(present)),
        (alt.Stroke, [palette.INK.light] * len(present)),
    )
    channels: dict[str, Any] = {
        channel.__name__.lower(): channel(
            "source:N", title=None, legend=legend, scale=alt.Scale(domain=present, range=values)
        )
        for channel, values in looks
    }
    placed = alt.Chart(frame).encode(x=base.encoding.x, y="published:Q")
    outlines = placed.mark_point(size=90, strokeWidth=1.5, opacity=1).encode(**channels)
    color = alt.Color("series:N", legend=None, scale=color_scale)
    return [outlines, placed.mark_circle(size=22, opacity=1).encode(color=color)]


def _numeric_x(values: pl.Series, title: str) -> alt.X:
    """An x axis with a tick at each level, logarithmic where the levels span a wide ratio."""
    levels = sorted({float(value) for value in values.to_list()})
    logarithmic = levels[0] > 0 and levels[-1] / levels[0] >= LOGARITHMIC_FROM_RATIO
    scale = alt.Scale(zero=False, nice=False, padding=12)
    if logarithmic:
        scale = alt.Scale(type="log", base=2, nice=False, padding=12)
    axis = alt.Axis(values=levels, format="~r", labelOverlap="greedy", labelSeparation=6)
    return alt.X("x:Q", title=title, scale=scale, axis=axis)


def _y_scale(frame: pl.DataFrame) -> tuple[pl.DataFrame, alt.Scale]:
    """The scale of a curve's values, and the rows with bands that it can show: none at zero."""
    columns = [name for name in ("y", "published") if name in frame.columns]
    values = [value for name in columns for value in frame[name].drop_nulls().to_list()]
    least, most = min(values, default=0.0), max(values, default=0.0)
    if least <= 0 or most / least < LOGARITHMIC_Y_FROM_RATIO:
        return frame, alt.Scale(zero=True, nice=True)
    cut = frame.with_columns(pl.col("low", "high").clip(least / 2))
    return cut, alt.Scale(type="log", nice=False)


def _padded_extent(frame: pl.DataFrame, columns: tuple[str, ...]) -> list[float]:
    """From the least to the greatest number of the columns and 3 % beyond at either side."""
    found = frame.select(pl.col(*columns)).unpivot()["value"].drop_nulls().to_list()
    least, greatest = (min(found), max(found)) if found else (0.0, 1.0)
    margin = 0.03 * (greatest - least) or 0.05 * abs(greatest) or 1.0
    return [least - margin, greatest + margin]


def _zero_rule(scale: alt.Scale) -> alt.Chart:
    """An upright line at zero, where gains turn into losses."""
    zero = alt.Chart(pl.DataFrame({"zero": [0.0]}))
    rule = zero.mark_rule(color=palette.MUTED.light, strokeWidth=1.25)
    placed: alt.Chart = rule.encode(x=alt.X("zero:Q", scale=scale))
    return placed
