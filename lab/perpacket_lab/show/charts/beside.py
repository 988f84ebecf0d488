"""The chart of published values beside those of a run, a row for each point or quantity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import altair as alt
import polars as pl

from perpacket.analysis.claim import Verdict
from perpacket_lab.analysis import relative
from perpacket_lab.analysis.findings import PUBLISHED_GAINS, figure_points
from perpacket_lab.analysis.terms import SIMULATED, Terms
from perpacket_lab.analysis.wording import plural, sentence_case, with_unit
from perpacket_lab.show.charts import chart_style, palette
from perpacket_lab.show.charts.chart_style import WIDE, Plot, Select
from perpacket_lab.study.quantities import QUANTITIES

if TYPE_CHECKING:
    from perpacket.analysis.statistics import Interval
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.published_comparison import Comparison
    from perpacket_lab.study.figure import Figure

CALIBRATED: Final = "paper, used to calibrate"

SCHEMA: Final = {
    "configuration": pl.String,
    "simulated": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "published_low": pl.Float64,
    "published_high": pl.Float64,
    "calibrated": pl.Boolean,
}


def points_beside(figure: Figure, analysis: Analysis) -> Plot | None:
    """The comparisons of one quantity, a row per point. A loss is a negative gain."""
    selected = {point.name: point for point in figure_points(analysis.study, figure)}
    signs = {figure.y: 1}
    if figure.y in PUBLISHED_GAINS:
        signs = {name: PUBLISHED_GAINS[figure.y] * sign for name, sign in PUBLISHED_GAINS.items()}
    rows = [
        row
        for row in analysis.comparisons
        if row.reference.quantity in signs
        and row.value is not None
        and row.reference.point in selected
        and row.reference.against in (None, selected[row.reference.point].against)
    ]
    records = [
        record_of(row.reference.point, row.value, row, signs[row.reference.quantity])
        for row in rows
        if row.value is not None
    ]
    if not records:
        return None
    own = next((row for row in rows if row.reference.quantity == figure.y), rows[0])
    unit = with_unit("", own.reference.unit).strip()
    title = own.quantity or figure.title
    x_title = figure.x_title or (f"{title} ({unit})" if unit else title)
    agreeing = sum(row.verdict is Verdict.AGREES for row in rows)
    description = (
        f"{plural(len(records), 'published value')} beside the {analysis.terms.noun}: "
        f"{agreeing} agree, {len(records) - agreeing} do not."
    )
    return plot_of(records, x_title, description, analysis.terms)


def quantities_beside(figure: Figure, analysis: Analysis) -> Plot | None:
    """Quantities of one point, each with its published value or bounds."""
    records = []
    for point in figure_points(analysis.study, figure):
        for name in relative.names_of(figure):
            own = analysis.estimates.mean(point.name, name)
            if own is not None:
                stated = (
                    row
                    for row in analysis.comparisons
                    if (row.reference.quantity, row.reference.point) == (name, point.name)
                )
                records.append(record_of(QUANTITIES[name].title, own, next(stated, None)))
    if not records:
        return None
    stated_count = sum(record["published_low"] is not None for record in records)
    description = (
        f"{plural(stated_count, 'published value')} beside the {analysis.terms.noun} "
        f"of {plural(len(records), 'quantity', 'quantities')}."
    )
    return plot_of(records, figure.x_title, sentence_case(description), analysis.terms)


def comparisons_beside(figure: Figure, analysis: Analysis) -> Plot | None:
    """Comparisons of some quantities, each with its published value or bounds."""
    names = figure.y.split(",")
    records = [
        record_of(row.quantity, row.value, row)
        for row in analysis.comparisons
        if row.reference.quantity in names and row.value is not None
    ]
    if not records:
        return None
    description = f"{plural(len(records), 'published value')} beside the {analysis.terms.noun}."
    return plot_of(records, figure.x_title, description, analysis.terms)


def record_of(
    name: str, simulated: Interval, row: Comparison | None, sign: int = 1
) -> dict[str, object]:
    """A row of `paper_beside`; without a comparison it has no published value."""
    simulated = simulated.map(lambda value: sign * value)
    published = row.reference if row is not None else None
    bounds = (
        [published.value, published.minimum, published.maximum] if published is not None else []
    )
    stated = [sign * float(bound) for bound in bounds if bound is not None]
    return {
        "configuration": name,
        "simulated": simulated.value,
        **simulated.bounds(),
        "published_low": min(stated, default=None),
        "published_high": max(stated, default=None),
        "calibrated": published.calibration if published is not None else None,
    }


def plot_of(records: list[dict[str, object]], x_title: str, description: str, terms: Terms) -> Plot:
    """The chart of these rows at any width."""
    frame = pl.DataFrame(records, schema=SCHEMA)
    return Plot(
        lambda width: paper_beside(frame, x_title=x_title, width=width, terms=terms), description
    )


def paper_beside(
    frame: pl.DataFrame, *, x_title: str, width: int = WIDE, terms: Terms = SIMULATED
) -> alt.LayerChart:
    """Published values beside those of the runs, a row per configuration in the table's order.

    Columns: `configuration` (text; repeated where several values were published), `simulated`,
    `low`, `high` (the mean and the ends of its interval; ends are null after a single run),
    `published_low`, `published_high` (equal where one value was published; null if none was),
    `calibrated` (true where the published value was used to calibrate). All numbers share the
    unit that `x_title` names.
    """
    numbers = ("simulated", "low", "high", "published_low", "published_high")
    wide = frame.with_columns(pl.col(*numbers).cast(pl.Float64)).with_columns(
        published=(pl.col("published_low") + pl.col("published_high")) / 2,
        source=source_of(terms),
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
    points = _source_points(runs, papers, scale, y, width, terms)
    layers = [gaps, intervals, ranges, *points]
    if scale["domain"][0] < 0 < scale["domain"][1]:
        layers.insert(0, _zero_rule(scale))
    return chart_style.fitted(
        chart_style.layered(*layers), width, height=max(2, len(rows)) * chart_style.ROW_PX
    )


def _source_points(
    runs: pl.DataFrame, papers: pl.DataFrame, scale: alt.Scale, y: alt.Y, width: int, terms: Terms
) -> list[alt.Chart]:
    """Circles for values of the run; above them, smaller marks for published values.

    Both layers share one legend, which lists only the marks of the chart.
    """
    styles = {
        terms.own_legend: ("circle", palette.BLUE.light, palette.BLUE.light),
        terms.published_legend: ("diamond", palette.VERMILLION.light, palette.VERMILLION.light),
        CALIBRATED: ("square", palette.PAPER.light, palette.VERMILLION.light),
    }
    simulated = runs.select("configuration", pl.col("simulated").alias("value"),
                            pl.lit(terms.own_legend).alias("source"))  # fmt: skip
    published = papers.select("configuration", pl.col("published").alias("value"), "source")
    present = {*simulated["source"].to_list(), *published["source"].to_list()}
    # The legend begins right of the names.
    room = width - min(chart_style.names_px(runs["configuration"].to_list()), width // 2)
    shown = {
        chart_style.legend_name(source, room): style
        for source, style in styles.items()
        if source in present
    }
    in_lines = pl.col("source").map_elements(
        lambda source: chart_style.legend_name(source, room), return_dtype=pl.String
    )
    legend = chart_style.legend(width, columns=3 if width >= WIDE else 1)
    channels = chart_style.mark_channels("source", shown, legend)
    x = alt.X("value:Q", scale=scale)
    return [
        alt.Chart(marks.with_columns(in_lines))
        .mark_point(size=size, opacity=1, strokeWidth=stroke_width)
        .encode(x=x, y=y, **channels)
        for marks, size, stroke_width in ((simulated, 110, 1.0), (published, 60, 1.75))
        if marks.height
    ]


def source_of(terms: Terms) -> pl.Expr:
    """The legend of a published value's mark."""
    return pl.when("calibrated").then(pl.lit(CALIBRATED)).otherwise(pl.lit(terms.published_legend))


def _padded_extent(frame: pl.DataFrame, columns: tuple[str, ...]) -> list[float]:
    """The least and the greatest number of the columns, with a margin of 3 % on both sides."""
    values = frame.select(pl.col(*columns)).unpivot()["value"].drop_nulls().to_list()
    least, greatest = (min(values), max(values)) if values else (0.0, 1.0)
    margin = 0.03 * (greatest - least) or 0.05 * abs(greatest) or 1.0
    return [least - margin, greatest + margin]


def _zero_rule(scale: alt.Scale) -> alt.Chart:
    """An upright line at zero, where gains turn into losses."""
    zero = alt.Chart(pl.DataFrame({"zero": [0.0]}))
    rule = zero.mark_rule(color=palette.MUTED.light, strokeWidth=1.25)
    placed: alt.Chart = rule.encode(x=alt.X("zero:Q", scale=scale))
    return placed


KINDS: Final[Mapping[str, Select]] = {
    "paper-beside": points_beside,
    "quantities-beside": quantities_beside,
    "comparisons-beside": comparisons_beside,
}
"""The kinds of figures that this module draws."""
