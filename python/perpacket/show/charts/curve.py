"""Lines along a factor: a number of the result, a quantity over one level, or two methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import altair as alt
import polars as pl

from perpacket.analysis import relative
from perpacket.analysis.findings import figure_points, published_in
from perpacket.analysis.terms import SIMULATED, Terms
from perpacket.analysis.wording import (
    factor_in_words,
    number,
    sentence_case,
    statistic_in_words,
)
from perpacket.show.charts import beside, chart_style, palette
from perpacket.show.charts.beside import CALIBRATED, source_of
from perpacket.show.charts.chart_style import WIDE, Plot, Select, level_of, titles_of

if TYPE_CHECKING:
    from perpacket.analysis.analysis import Analysis
    from perpacket.analysis.published import Comparison
    from perpacket.analysis.statistics import Interval
    from perpacket.study.figure import Figure
    from perpacket.study.point import Point

LOGARITHMIC_FROM_RATIO: Final = 50.0
"""Beyond this ratio of largest to smallest x, equal steps hide the small end."""

LOGARITHMIC_Y_FROM_RATIO: Final = 100.0
"""Beyond this ratio of largest to smallest y, lines overlap at their low end."""

WIDEST_BAND: Final = 3.0
"""Bands are drawn up to this multiple of the largest value."""

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
    """A column's mean and interval per point; levels in words are rows instead of a line."""
    if "," in figure.y:
        return _several_columns(figure, analysis)
    means = analysis.estimates.column_means(figure.y)
    published = published_in(analysis.comparisons, figure.y)
    points = [
        point
        for point in figure_points(analysis.study, figure)
        if point.name in means and level_of(point, figure.x) is not None
    ]
    if not points:
        return None
    if any(isinstance(level_of(point, figure.x), str) for point in points):
        records = [
            beside.record_of(_row_name(point, figure), means[point.name], published.get(point.name))
            for point in points
        ]
        best = max(points, key=lambda point: means[point.name].value)
        description = f"Highest: {_row_name(best, figure)} with {means[best.name]}."
        return beside.plot_of(records, titles_of(figure)[1], description, analysis.terms)
    records = [
        _record(point, figure, means[point.name], published.get(point.name), _series(point, figure))
        for point in points
    ]
    return _plot(records, figure, analysis.terms)


def _several_columns(figure: Figure, analysis: Analysis) -> Plot | None:
    """Several columns over the same levels, a line each."""
    records = [
        _record(point, figure, means[point.name], None, _column_series(column, point, figure))
        for column in figure.y.split(",")
        for means in (analysis.estimates.column_means(column),)
        for point in figure_points(analysis.study, figure)
        if point.name in means and isinstance(level_of(point, figure.x), int | float)
    ]
    return _plot(records, figure, analysis.terms)


def relative_curves(figure: Figure, analysis: Analysis) -> Plot | None:
    """Quantities along an axis over one level, with the published changes as marks."""
    points = figure_points(analysis.study, figure)
    found = relative.lines(figure, points, analysis.estimates, analysis.comparisons)
    records = [
        {
            **record_at(float(step.point.factors[figure.x]), step.ratio, line.title),
            "published": _published_ratio(step.published),
            "calibrated": False,
        }
        for line in found
        for step in line.steps
    ]
    ends = [f"{line.title}: {number(line.steps[-1].ratio.value)} times" for line in found]
    description = f"At the last level, of the first: {'; '.join(ends)}."
    return _plot(records, figure, analysis.terms, description)


def method_curves(figure: Figure, analysis: Analysis) -> Plot | None:
    """The values of each method for a question, a line each."""
    records = {
        (value.method, row.level): record_at(row.level, value.interval, value.method)
        for row in analysis.methods
        if row.question == figure.y
        for value in (row.first, row.second)
        if value.interval is not None
    }
    return _plot(list(records.values()), figure, analysis.terms)


def record_at(x: float, interval: Interval, series: str) -> dict[str, object]:
    """A row of `curve` without a published value."""
    return {
        "x": x,
        "y": interval.value,
        "low": interval.low if interval.is_bounded else None,
        "high": interval.high if interval.is_bounded else None,
        "series": series,
        "published": None,
        "calibrated": None,
    }


def _record(
    point: Point, figure: Figure, interval: Interval, row: Comparison | None, series: str
) -> dict[str, object]:
    published = row.published if row is not None else None
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
        (description or _courses(frame)) + remark,
    )


def _column_series(column: str, point: Point, figure: Figure) -> str:
    """A line's name where there are several columns: the column, then the level of the series."""
    return ", ".join(filter(None, (statistic_in_words(column), _series(point, figure))))


def _row_name(point: Point, figure: Figure) -> str:
    """The level, and that of the series where there is one."""
    names = [str(level_of(point, figure.x))]
    return ", ".join(names + ([_series(point, figure)] if figure.series else []))


def _series(point: Point, figure: Figure) -> str:
    """A line's name: its factor and level."""
    if figure.series is None:
        return ""
    return factor_in_words(figure.series, level_of(point, figure.series))


def _courses(frame: pl.DataFrame) -> str:
    """The first and the last value of each line."""
    courses = []
    for (name,), line in frame.group_by("series", maintain_order=True):
        first, last = line.row(0, named=True), line.row(-1, named=True)
        course = f"{number(first['y'])} at {number(first['x'])}"
        if line.height > 1:
            course += f", {number(last['y'])} at {number(last['x'])}"
        courses.append(f"{name}: {course}" if name else course.capitalize())
    return sentence_case("; ".join(courses)) + "."


def _cut(frame: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The rows with bands of a drawable width, and a remark if one was cut.

    Few or noisy runs have intervals of many times their values, which would flatten every line.
    """
    sizes = [abs(value) for name in ("y", "published") for value in frame[name].drop_nulls()]
    most = WIDEST_BAND * max(sizes, default=0.0)
    least = 0.0 if min(frame["y"], default=0.0) >= 0 else -most
    cut = frame.with_columns(pl.col("low", "high").clip(least, most))
    if cut.equals(frame):
        return frame, ""
    return cut, " Wide bands are cut; the tables have the whole intervals."


def _published_ratio(row: Comparison | None) -> float | None:
    """A published change in per cent as a ratio; None where no number was published."""
    if row is None or row.published.value is None:
        return None
    return 1 + row.published.value / 100


def curve(
    frame: pl.DataFrame,
    *,
    x_title: str,
    y_title: str,
    width: int = WIDE,
    terms: Terms = SIMULATED,
) -> alt.LayerChart:
    """One line per series with its interval as a band, and published points where there are any.

    Columns: `x` (number), `y`, `low`, `high` (the mean and its interval, whose ends may be null),
    `series` (text); and, both or none, `published` (null where nothing was published) and
    `calibrated` (true where that value was used to calibrate). x is logarithmic when it is
    positive and spans a ratio of 50, y when it is positive and spans one of 100.
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
    base = alt.Chart(frame.drop_nulls("y")).encode(x=_numeric_x(frame["x"], x_title))
    y: dict[str, Any] = {"scale": y_scale, "axis": alt.Axis(tickCount=6)}
    band = base.mark_area(opacity=0.18).encode(
        y=alt.Y("low:Q", title=y_title, **y), y2="high:Q", color=color
    )
    line = base.mark_line(strokeWidth=2).encode(y=alt.Y("y:Q", **y), color=color, strokeDash=dash)
    dots = base.mark_circle(size=26, opacity=1).encode(y=alt.Y("y:Q", **y), color=color)
    layers: list[alt.Chart] = [band, line, dots]
    if "published" in frame.columns and frame["published"].null_count() < frame.height:
        layers.extend(_published_points(base, color_scale, width, terms))
    return chart_style.fitted(chart_style.layered(*layers), width, height=320)


def _published_points(
    base: alt.Chart, color_scale: alt.Scale, width: int, terms: Terms
) -> list[alt.Chart]:
    """Outlined marks with a dot of the series' colour: squares where it was used to calibrate."""
    frame = base.data.drop_nulls("published").with_columns(source=source_of(terms))
    sources = (terms.held_out, CALIBRATED)
    present = [name for name in sources if name in set(frame["source"].to_list())]
    shapes = {terms.held_out: "diamond", CALIBRATED: "square"}
    legend = chart_style.legend(width, columns=2 if width >= WIDE else 1)
    styles = (
        (alt.Shape, [shapes[name] for name in present]),
        (alt.Fill, [palette.PAPER.light] * len(present)),
        (alt.Stroke, [palette.INK.light] * len(present)),
    )
    channels: dict[str, Any] = {
        channel.__name__.lower(): channel(
            "source:N", title=None, legend=legend, scale=alt.Scale(domain=present, range=values)
        )
        for channel, values in styles
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


KINDS: Final[Mapping[str, Select]] = {
    "curve": curves,
    "relative": relative_curves,
    "ways": method_curves,
}
"""The kinds of figures that this module draws."""
