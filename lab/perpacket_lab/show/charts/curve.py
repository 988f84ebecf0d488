"""Lines along a factor: a number of the result, a ratio to one level, or two methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import altair as alt
import polars as pl

from perpacket_lab.analysis import relative
from perpacket_lab.analysis.findings import figure_points, published_in
from perpacket_lab.analysis.terms import SIMULATED, Terms
from perpacket_lab.analysis.wording import (
    factor_in_words,
    number,
    sentence_case,
    statistic_in_words,
)
from perpacket_lab.show.charts import beside, chart_style, palette
from perpacket_lab.show.charts.beside import CALIBRATED, source_of
from perpacket_lab.show.charts.chart_style import WIDE, Plot, Select, level_of, titles_of

if TYPE_CHECKING:
    from perpacket.analysis.statistics import Interval
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.published_comparison import Comparison
    from perpacket_lab.study.figure import Figure
    from perpacket_lab.study.point import Point

HEIGHT_PX: Final = 320

LOGARITHMIC_FROM_RATIO: Final = 50.0
"""The x axis is logarithmic if the largest x is at least this multiple of the smallest."""

LOGARITHMIC_Y_FROM_RATIO: Final = 100.0
"""The y axis is logarithmic if the largest y is at least this multiple of the smallest."""

WIDEST_BAND: Final = 3.0
"""Bands are cut at this multiple of the largest value."""

SCHEMA: Final = {
    "x": pl.Float64,
    "y": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "series": pl.String,
    "published": pl.Float64,
    "calibrated": pl.Boolean,
}


def curves(figure: Figure, analysis: Analysis) -> Plot | None:
    """The mean and interval of columns per point: lines, or rows if the levels are texts."""
    values = list(_values(figure, analysis))
    if any(isinstance(level_of(value.point, figure.x), str) for value in values):
        return _rows(figure, values, analysis.terms)
    records = [
        _record(value.point, figure, value.mean, value.published, _line_name(value, figure))
        for value in values
    ]
    return _plot(records, figure, analysis.terms)


@dataclass(frozen=True, slots=True)
class _Value:
    """A column's mean at a point. The published value is compared in figures of one column."""

    column: str
    point: Point
    mean: Interval
    published: Comparison | None


def _values(figure: Figure, analysis: Analysis) -> Iterator[_Value]:
    """The values of the figure's columns at its points."""
    columns = figure.y.split(",")
    for column in columns:
        means = analysis.estimates.column_means(column)
        published = published_in(analysis.comparisons, column) if len(columns) == 1 else {}
        for point in figure_points(analysis.study, figure):
            if point.name in means and level_of(point, figure.x) is not None:
                yield _Value(column, point, means[point.name], published.get(point.name))


def _rows(figure: Figure, values: list[_Value], terms: Terms) -> Plot:
    """A row for each level, and for each column if there are several."""

    def name(value: _Value) -> str:
        level = str(level_of(value.point, figure.x))
        return ", ".join(filter(None, (level, _line_name(value, figure))))

    best = max(values, key=lambda value: value.mean.value)
    records = [beside.record_of(name(value), value.mean, value.published) for value in values]
    description = f"Highest: {name(best)} with {best.mean}."
    return beside.plot_of(records, titles_of(figure)[1], description, terms)


def relative_curves(figure: Figure, analysis: Analysis) -> Plot | None:
    """The ratios of quantities to their values at one level, with published changes as marks."""
    points = figure_points(analysis.study, figure)
    curves = relative.lines(figure, points, analysis.estimates, analysis.comparisons)
    records = [
        {
            **record_at(float(step.point.factors[figure.x]), step.ratio, line.title),
            "published": _published_ratio(step.published),
            "calibrated": False,
        }
        for line in curves
        for step in line.steps
    ]
    ends = [f"{line.title}: {number(line.steps[-1].ratio.value)}" for line in curves]
    description = f"The ratio of the last level to the first: {'; '.join(ends)}."
    return _plot(records, figure, analysis.terms, description)


def method_curves(figure: Figure, analysis: Analysis) -> Plot | None:
    """The values of each method for a question, a line each."""
    records = {
        (value.method, row.detail.level): record_at(row.detail.level, value.interval, value.method)
        for row in analysis.methods
        if row.detail.question == figure.y
        for value in (row.detail.first, row.detail.second)
        if value.interval is not None
    }
    return _plot(list(records.values()), figure, analysis.terms)


def record_at(x: float, interval: Interval, series: str) -> dict[str, object]:
    """A row of `curve` without a published value."""
    return {
        "x": x,
        "y": interval.value,
        **interval.bounds(),
        "series": series,
        "published": None,
        "calibrated": None,
    }


def _record(
    point: Point, figure: Figure, interval: Interval, row: Comparison | None, series: str
) -> dict[str, object]:
    published = row.reference if row is not None else None
    return {
        **record_at(float(point.factors[figure.x]), interval, series),
        "published": published.value if published is not None else None,
        "calibrated": published.calibration if published is not None else None,
    }


def _plot(
    records: list[dict[str, object]], figure: Figure, terms: Terms, description: str = ""
) -> Plot | None:
    """The chart of these rows at any width; None without rows."""
    if not records:
        return None
    frame, remark = _cut(pl.DataFrame(records, schema=SCHEMA).sort("x", maintain_order=True))
    x_title, y_title = titles_of(figure)
    return Plot(
        lambda width: curve(frame, x_title=x_title, y_title=y_title, width=width, terms=terms),
        (description or _ends_of_lines(frame)) + remark,
    )


def _line_name(value: _Value, figure: Figure) -> str:
    """The column if there are several, and the level of the series."""
    column = statistic_in_words(value.column) if "," in figure.y else ""
    return ", ".join(filter(None, (column, _series(value.point, figure))))


def _series(point: Point, figure: Figure) -> str:
    """A line's name: its factor and level."""
    if figure.series is None:
        return ""
    return factor_in_words(figure.series, level_of(point, figure.series))


def _ends_of_lines(frame: pl.DataFrame) -> str:
    """The first and the last value of each line."""
    texts = []
    for (name,), line in frame.group_by("series", maintain_order=True):
        first, last = line.row(0, named=True), line.row(-1, named=True)
        ends = f"{number(first['y'])} at {number(first['x'])}"
        if line.height > 1:
            ends += f", {number(last['y'])} at {number(last['x'])}"
        texts.append(f"{name}: {ends}" if name else ends)
    return sentence_case("; ".join(texts)) + "."


def _cut(frame: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The rows with bands cut to `WIDEST_BAND`, and a remark if one was cut.

    The intervals of few or noisy runs are many times their values. Without the cut, every line
    would look flat.
    """
    sizes = [abs(value) for name in ("y", "published") for value in frame[name].drop_nulls()]
    most = WIDEST_BAND * max(sizes, default=0.0)
    least = 0.0 if min(frame["y"], default=0.0) >= 0 else -most
    cut = frame.with_columns(pl.col("low", "high").clip(least, most))
    if cut.equals(frame):
        return frame, ""
    return cut, " Wide bands are cut; the tables have the whole intervals."


def _published_ratio(row: Comparison | None) -> float | None:
    """A published change in per cent as a ratio; None if no number was published."""
    if row is None or row.reference.value is None:
        return None
    return 1 + row.reference.value / 100


def curve(
    frame: pl.DataFrame,
    *,
    x_title: str,
    y_title: str,
    width: int = WIDE,
    terms: Terms = SIMULATED,
) -> alt.LayerChart:
    """One line per series, with its interval as a band, and the published points.

    Columns: `x` (number), `y`, `low`, `high` (the mean and its interval, whose ends may be null),
    `series` (text). The frame may also have `published` (null if nothing was published) and
    `calibrated` (true where that value was used to calibrate). An axis with positive values is
    logarithmic if they span a ratio of 50 (x) or 100 (y).
    """
    frame, y_scale = _y_scale(frame)
    frame = frame.with_columns(
        pl.col("series").map_elements(
            lambda name: chart_style.legend_name(name, width), return_dtype=pl.String
        )
    )
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
    base = alt.Chart(frame.drop_nulls("y")).encode(
        x=_numeric_x(frame["x"], chart_style.wrapped(x_title, width - 60))
    )
    y: dict[str, Any] = {"scale": y_scale, "axis": alt.Axis(tickCount=6)}
    band = base.mark_area(opacity=0.18).encode(
        y=alt.Y("low:Q", title=chart_style.wrapped(y_title, HEIGHT_PX), **y),
        y2="high:Q",
        color=color,
    )
    line = base.mark_line(strokeWidth=2).encode(y=alt.Y("y:Q", **y), color=color, strokeDash=dash)
    dots = base.mark_circle(size=26, opacity=1).encode(y=alt.Y("y:Q", **y), color=color)
    layers: list[alt.Chart] = [band, line, dots]
    if "published" in frame.columns and frame["published"].null_count() < frame.height:
        layers.extend(_published_points(base, color_scale, width, terms))
    return chart_style.fitted(chart_style.layered(*layers), width, height=HEIGHT_PX)


def _published_points(
    base: alt.Chart, color_scale: alt.Scale, width: int, terms: Terms
) -> list[alt.Chart]:
    """Outlined marks with a dot in the series' colour; squares for values used to calibrate."""
    frame = base.data.drop_nulls("published").with_columns(source=source_of(terms))
    sources = (terms.published_legend, CALIBRATED)
    shapes = {terms.published_legend: "diamond", CALIBRATED: "square"}
    styles = {
        name: (shapes[name], palette.PAPER.light, palette.INK.light)
        for name in sources
        if name in set(frame["source"].to_list())
    }
    legend = chart_style.legend(width, columns=2 if width >= WIDE else 1)
    channels = chart_style.mark_channels("source", styles, legend)
    placed = alt.Chart(frame).encode(x=base.encoding.x, y="published:Q")
    outlines = placed.mark_point(size=90, strokeWidth=1.5, opacity=1).encode(**channels)
    color = alt.Color("series:N", legend=None, scale=color_scale)
    return [outlines, placed.mark_circle(size=22, opacity=1).encode(color=color)]


def _numeric_x(values: pl.Series, title: list[str]) -> alt.X:
    """An x axis with a tick at each level, logarithmic where the levels span a wide ratio."""
    levels = sorted({float(value) for value in values.to_list()})
    logarithmic = levels[0] > 0 and levels[-1] / levels[0] >= LOGARITHMIC_FROM_RATIO
    scale = alt.Scale(zero=False, nice=False, padding=12)
    if logarithmic:
        scale = alt.Scale(type="log", base=2, nice=False, padding=12)
    axis = alt.Axis(values=levels, format="~r", labelOverlap="greedy", labelSeparation=6)
    return alt.X("x:Q", title=title, scale=scale, axis=axis)


def _y_scale(frame: pl.DataFrame) -> tuple[pl.DataFrame, alt.Scale]:
    """The rows and the scale of their values; on a logarithmic scale, bands are cut above zero."""
    columns = [name for name in ("y", "published") if name in frame.columns]
    values = [value for name in columns for value in frame[name].drop_nulls().to_list()]
    least, most = min(values, default=0.0), max(values, default=0.0)
    if least <= 0 or most / least < LOGARITHMIC_Y_FROM_RATIO:
        return frame, alt.Scale(zero=True, nice=True)
    cut = frame.with_columns(pl.col("low", "high").clip(least / 2))
    return cut, alt.Scale(type="log", nice=False)


KINDS: Final[Mapping[str, Select]] = {
    "curve": curves,
    "relative": relative_curves,
    "ways": method_curves,
}
"""The kinds of figures that this module draws."""
