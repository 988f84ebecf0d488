"""From a study's list of figures to drawings: picks each chart's rows and says what they show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from perpacket.analysis import means, relative
from perpacket.analysis.findings import PUBLISHED_GAINS, points_of
from perpacket.analysis.offload import gain_percent, network_shares
from perpacket.analysis.published import Verdict
from perpacket.show import method_comparisons as contrasts
from perpacket.show.charts import chart_style, charts, drawing, effects, heat_map
from perpacket.show.charts.chart_style import Chart
from perpacket.show.charts.laws import SCHEMA as LAWS_SCHEMA
from perpacket.show.charts.laws import laws_curve
from perpacket.show.charts.stacks import stacked_layers
from perpacket.show.charts.timeline import timeline, trace_of
from perpacket.show.terms import Voice, voice_of
from perpacket.show.wording import (
    column_in_words,
    factor_in_words,
    in_words,
    number,
    plural,
    points_in_words,
    sentence_case,
    statistic_in_words,
    with_unit,
)

if TYPE_CHECKING:
    from perpacket.analysis.methods import Contrast
    from perpacket.analysis.published import Comparison
    from perpacket.analysis.statistics import Interval
    from perpacket.run.directory import RunDirectory
    from perpacket.show.tables import Table
    from perpacket.study.study import Figure, FigureKind, Level, Point, Study

BESIDE_SCHEMA: Final = {
    "configuration": pl.String,
    "simulated": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "published_low": pl.Float64,
    "published_high": pl.Float64,
    "calibrated": pl.Boolean,
}
WIDEST_BAND: Final = 3.0
"""Bands are drawn up to so many times the largest value."""

CURVE_SCHEMA: Final = {
    "x": pl.Float64,
    "y": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "series": pl.String,
    "published": pl.Float64,
    "calibrated": pl.Boolean,
}


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure of the page: both widths as SVG, or why there is nothing to draw."""

    identifier: str
    title: str
    caption: str
    description: str
    """What the chart shows, in a sentence; also the text for those who do not see it."""
    wide: str = ""
    narrow: str = ""
    table: Table | None = None
    """The same numbers for those who cannot tell the chart's colours."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """A chart that waits for its width, and what it shows."""

    draw: Callable[[int], Chart]
    description: str
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """All that figures are drawn from."""

    study: Study
    run_directory: RunDirectory
    observations: pl.DataFrame
    comparisons: Sequence[Comparison]
    contrasts: Sequence[Contrast] = ()

    @property
    def voice(self) -> Voice:
        """The words for its runs."""
        return voice_of(self.study)


def material_of(study: Study, run_directory: RunDirectory) -> Material:
    """All that a run's figures are drawn from; raises `CorruptObservation` on damaged files."""
    return Material(
        study,
        run_directory,
        run_directory.observations(),
        study.comparisons(run_directory),
        study.contrasts(run_directory),
    )


def draw(material: Material, prefix: str = "") -> list[Drawing]:
    """Every figure of the study, in its order; `prefix` begins their identifiers."""
    return [
        _drawing(f"{prefix}figure-{number}", figure, material)
        for number, figure in enumerate(material.study.figures, 1)
    ]


def sketch_of(figure: Figure, material: Material) -> Sketch | None:
    """A figure that waits for its width; None where the run has nothing that it shows."""
    return SKETCHES[figure.kind](figure, material)


def _drawing(identifier: str, figure: Figure, material: Material) -> Drawing:
    sketch = sketch_of(figure, material)
    if sketch is None:
        reason = "Nothing to draw: this run has no observation that the figure shows."
        return Drawing(identifier, figure.title, figure.caption, reason)
    wide, narrow = (
        drawing.svg(
            sketch.draw(width),
            identifier=f"{identifier}-{name}",
            title=figure.title,
            description=sketch.description,
        )
        for name, width in (("wide", chart_style.WIDE), ("narrow", chart_style.NARROW))
    )
    table = sketch.table and replace(sketch.table, identifier=f"{identifier}-table")
    return Drawing(
        identifier, figure.title, figure.caption, sketch.description, wide, narrow, table
    )


def _paper_beside(figure: Figure, material: Material) -> Sketch | None:
    """The comparisons of one quantity, a row per point; losses count as negative gains."""
    kept = {point.name: point for point in points_of(material.study, figure)}
    signs = {figure.y: 1}
    if figure.y in PUBLISHED_GAINS:
        signs = {name: PUBLISHED_GAINS[figure.y] * sign for name, sign in PUBLISHED_GAINS.items()}
    rows = [
        row
        for row in material.comparisons
        if row.published.quantity in signs
        and row.simulated is not None
        and row.published.point in kept
        and row.published.against in (None, kept[row.published.point].against)
    ]
    records = [
        _beside(row.published.point, row.simulated, row, signs[row.published.quantity])
        for row in rows
        if row.simulated is not None
    ]
    if not records:
        return None
    own = next((row for row in rows if row.published.quantity == figure.y), rows[0])
    unit = with_unit("", own.published.unit).strip()
    title = own.title or figure.title
    x_title = figure.x_title or (f"{title} ({unit})" if unit else title)
    agreeing = sum(row.verdict is Verdict.AGREES for row in rows)
    description = (
        f"{plural(len(records), 'published value')} beside the {material.voice.noun}: "
        f"{agreeing} agree, {len(records) - agreeing} do not."
    )
    return _rows_sketch(records, x_title, description, material.voice)


def _beside(
    name: str, simulated: Interval, row: Comparison | None, sign: int = 1
) -> dict[str, object]:
    """A row of `charts.paper_beside`; without a comparison only the simulated part is filled."""
    simulated = simulated.map(lambda value: sign * value)
    published = row.published if row is not None else None
    bounds = (
        [published.value, published.minimum, published.maximum] if published is not None else []
    )
    given = [sign * float(bound) for bound in bounds if bound is not None]
    return {
        "configuration": name,
        "simulated": simulated.value,
        "low": simulated.low if simulated.is_bounded else None,
        "high": simulated.high if simulated.is_bounded else None,
        "published_low": min(given, default=None),
        "published_high": max(given, default=None),
        "calibrated": published.calibration if published is not None else None,
    }


def _rows_sketch(
    records: list[dict[str, object]], x_title: str, description: str, voice: Voice
) -> Sketch:
    frame = pl.DataFrame(records, schema=BESIDE_SCHEMA)
    return Sketch(
        lambda width: charts.paper_beside(frame, x_title=x_title, width=width, voice=voice),
        description,
    )


def _stacked_layers(figure: Figure, material: Material) -> Sketch | None:
    """The mean of an event in each layer, a bar per point."""
    columns = means.layer_columns(material.observations, figure.y)
    columns.pop("idle", None)
    by_layer = {
        layer: means.per_point(material.observations, column) for layer, column in columns.items()
    }
    records = [
        {"x": level, "layer": layer, "value": interval_of[point.name].value}
        for point in points_of(material.study, figure)
        if (level := _level(point, figure.x)) is not None
        for layer, interval_of in by_layer.items()
        if point.name in interval_of and interval_of[point.name].value > 0
    ]
    if not records:
        return None
    frame = pl.DataFrame(records, infer_schema_length=None)
    sums = frame.group_by("x", maintain_order=True).agg(pl.col("value").sum())
    ends = [f"{number(total)} at {level}" for level, total in (sums.row(0), sums.row(-1))]
    x_title, y_title = _titles(figure)
    description = f"{sentence_case(y_title)}: {' and '.join(ends)}."
    return Sketch(
        lambda width: stacked_layers(frame, x_title=x_title, y_title=y_title, width=width),
        description,
    )


def _curve(figure: Figure, material: Material) -> Sketch | None:
    """A column's mean and interval per point; levels in words stand below each other instead."""
    if "," in figure.y:
        return _several_curves(figure, material)
    interval_of = means.per_point(material.observations, figure.y)
    published = means.published_in(material.comparisons, interval_of)
    points = [
        point
        for point in points_of(material.study, figure)
        if point.name in interval_of and _level(point, figure.x) is not None
    ]
    if not points:
        return None
    if any(isinstance(_level(point, figure.x), str) for point in points):
        records = [
            _beside(_row_name(point, figure), interval_of[point.name], published.get(point.name))
            for point in points
        ]
        best = max(points, key=lambda point: interval_of[point.name].value)
        description = f"Highest: {_row_name(best, figure)} with {interval_of[best.name]}."
        return _rows_sketch(records, _titles(figure)[1], description, material.voice)
    records = [
        _line_row(point, figure, interval_of[point.name], published.get(point.name))
        for point in points
    ]
    frame, remark = _cut(pl.DataFrame(records, schema=CURVE_SCHEMA).sort("x", maintain_order=True))
    return _curve_sketch(frame, figure, material.voice, _courses(frame) + remark)


def _several_curves(figure: Figure, material: Material) -> Sketch | None:
    """Several columns over the same levels, a line each."""
    records = [
        _line_row(point, figure, interval_of[point.name], None)
        | {"series": _column_series(column, point, figure)}
        for column in figure.y.split(",")
        for interval_of in (means.per_point(material.observations, column),)
        for point in points_of(material.study, figure)
        if point.name in interval_of and isinstance(_level(point, figure.x), int | float)
    ]
    if not records:
        return None
    frame, remark = _cut(pl.DataFrame(records, schema=CURVE_SCHEMA).sort("x", maintain_order=True))
    return _curve_sketch(frame, figure, material.voice, _courses(frame) + remark)


def _column_series(column: str, point: Point, figure: Figure) -> str:
    """A line's name where there are several columns: the column, then the level of the series."""
    return ", ".join(filter(None, (statistic_in_words(column), _series(point, figure))))


def _curve_sketch(frame: pl.DataFrame, figure: Figure, voice: Voice, description: str) -> Sketch:
    x_title, y_title = _titles(figure)
    return Sketch(
        lambda width: charts.curve(
            frame, x_title=x_title, y_title=y_title, width=width, voice=voice
        ),
        description,
    )


def _row_name(point: Point, figure: Figure) -> str:
    """The level, and that of the series where there is one."""
    names = [str(_level(point, figure.x))]
    return ", ".join(names + ([_series(point, figure)] if figure.series else []))


def _series(point: Point, figure: Figure) -> str:
    """A line's name: its factor and level."""
    if figure.series is None:
        return ""
    return factor_in_words(figure.series, _level(point, figure.series))


def _line_row(
    point: Point, figure: Figure, simulated: Interval, row: Comparison | None
) -> dict[str, object]:
    """A row of `charts.curve`."""
    beside = _beside("", simulated, row)
    return {
        "x": float(point.factors[figure.x]),
        "y": simulated.value,
        "low": beside["low"],
        "high": beside["high"],
        "series": _series(point, figure),
        "published": row.published.value if row is not None else None,
        "calibrated": beside["calibrated"],
    }


def _courses(frame: pl.DataFrame) -> str:
    """Where each line begins and ends."""
    courses = []
    for (name,), line in frame.group_by("series", maintain_order=True):
        first, last = line.row(0, named=True), line.row(-1, named=True)
        course = f"{number(first['y'])} at {number(first['x'])}"
        if line.height > 1:
            course += f", {number(last['y'])} at {number(last['x'])}"
        courses.append(f"{name}: {course}" if name else course.capitalize())
    return sentence_case("; ".join(courses)) + "."


def _cut(frame: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The rows of `charts.curve` with bands no wider than can be drawn, and a remark if one was.

    Few or noisy runs have intervals that are many times their values: drawn whole, they would
    press every line flat.
    """
    sizes = [abs(value) for name in ("y", "published") for value in frame[name].drop_nulls()]
    most = WIDEST_BAND * max(sizes, default=0.0)
    least = 0.0 if min(frame["y"], default=0.0) >= 0 else -most
    cut = frame.with_columns(pl.col("low", "high").clip(least, most))
    if cut.equals(frame):
        return frame, ""
    return cut, " Bands are cut where they are wider than the chart; the tables have them whole."


def _relative(figure: Figure, material: Material) -> Sketch | None:
    """Quantities along an axis over their first level, with the published changes as marks."""
    points = points_of(material.study, figure)
    found = relative.lines(
        material.study, figure, points, material.observations, material.comparisons
    )
    records = [
        {
            "x": float(step.point.factors[figure.x]),
            "y": step.ratio.value,
            "low": step.ratio.low if step.ratio.is_bounded else None,
            "high": step.ratio.high if step.ratio.is_bounded else None,
            "series": line.title,
            "published": _published_ratio(step.published),
            "calibrated": False,
        }
        for line in found
        for step in line.steps
    ]
    if not records:
        return None
    frame, remark = _cut(pl.DataFrame(records, schema=CURVE_SCHEMA))
    ends = [f"{line.title}: {number(line.steps[-1].ratio.value)} times" for line in found]
    description = f"At the last level, of the first: {'; '.join(ends)}.{remark}"
    return _curve_sketch(frame, figure, material.voice, description)


def _published_ratio(row: Comparison | None) -> float | None:
    """A published change in per cent as a ratio; None where none or no number was published."""
    if row is None or row.published.value is None:
        return None
    return 1 + row.published.value / 100


def _quantities_beside(figure: Figure, material: Material) -> Sketch | None:
    """Quantities of one point, each with its published value or bounds."""
    records = []
    for point in points_of(material.study, figure):
        for name in relative.names_of(material.study, figure):
            own = relative.at_point(material.study, material.observations, name, point.name)
            if own is not None:
                title = material.study.quantities[name].title
                stated = (
                    row
                    for row in material.comparisons
                    if (row.published.quantity, row.published.point) == (name, point.name)
                )
                records.append(_beside(title, own, next(stated, None)))
    if not records:
        return None
    stated_count = sum(record["published_low"] is not None for record in records)
    description = (
        f"{plural(stated_count, 'published value')} beside the {material.voice.noun} "
        f"of {plural(len(records), 'quantity', 'quantities')}."
    )
    return _rows_sketch(records, figure.x_title, sentence_case(description), material.voice)


def _laws(figure: Figure, material: Material) -> Sketch | None:
    """Each point at the network's share of its busy processor, on the model's curve."""
    share_of = network_shares(material.observations, figure.y)
    words = points_in_words(material.study.points)
    records = [
        {
            "name": words[point.name] or point.name,
            "share": share.value,
            "low": max(0.0, share.low) if share.is_bounded else None,
            "high": min(1.0, share.high) if share.is_bounded else None,
        }
        for point in points_of(material.study, figure)
        if (share := share_of.get(point.name)) is not None
    ]
    if not records:
        return None
    frame = pl.DataFrame(records, schema=LAWS_SCHEMA)
    ends = [
        f"{name}: a share of {100 * share:.0f} % could gain {gain_percent(share):.0f} % at most"
        for name, share, _, _ in (frame.row(0), frame.row(-1))
    ]
    return Sketch(
        lambda width: laws_curve(frame, width=width, voice=material.voice),
        f"{sentence_case('; '.join(dict.fromkeys(ends)))}.",
    )


def _comparisons_beside(figure: Figure, material: Material) -> Sketch | None:
    """Comparisons of the study's own making, each with its published value or bounds."""
    names = figure.y.split(",")
    records = [
        _beside(row.title, row.simulated, row)
        for row in material.comparisons
        if row.published.quantity in names and row.simulated is not None
    ]
    if not records:
        return None
    description = f"{plural(len(records), 'published value')} beside the {material.voice.noun}."
    return _rows_sketch(records, figure.x_title, description, material.voice)


def _heat_map(figure: Figure, material: Material) -> Sketch | None:
    """A column's mean over two factors, in the order of their levels."""
    interval_of = means.per_point(material.observations, figure.y)
    held: dict[tuple[float, float], Interval] = {}
    for point in points_of(material.study, figure):
        levels = (_level(point, figure.series or ""), _level(point, figure.x))
        down, across = (one if isinstance(one, int | float) else None for one in levels)
        if point.name in interval_of and down is not None and across is not None:
            held[down, across] = interval_of[point.name]
    if not held:
        return None
    name = figure.series or ""
    downs = sorted({down for down, _ in held})
    acrosses = sorted({across for _, across in held})
    row_of = {down: heat_map.level_text(name, down) for down in downs}
    column_of = {across: heat_map.level_text(figure.x, across) for across in acrosses}
    frame = pl.DataFrame(
        [
            {"x": column_of[across], "row": row_of[down], "value": float(held[down, across].value)}
            for down in downs
            for across in acrosses
            if (down, across) in held
        ]
    )
    best = max(held, key=lambda place: held[place].value)
    worst = min(held, key=lambda place: held[place].value)
    x_title, value_title = _titles(figure)
    # The levels have their unit with them.
    row_title = in_words(name.removesuffix("_bytes"))
    ends = [
        f"{word} {number(held[place].value)} at {row_of[place[0]]} and {column_of[place[1]]}"
        for word, place in (("highest", best), ("lowest", worst))
    ]
    table = heat_map.cell_table(
        "",
        f"{figure.title}: {value_title}",
        f"{row_title}, by {x_title}",
        list(column_of.values()),
        {
            row_of[down]: {column_of[a]: held[down, a] for a in acrosses if (down, a) in held}
            for down in downs
        },
    )
    return Sketch(
        lambda width: heat_map.heat_map(
            frame, x_title=x_title, row_title=row_title, value_title=value_title, width=width
        ),
        f"{value_title}, {' and '.join(ends)}.",
        table,
    )


def _timeline(figure: Figure, material: Material) -> Sketch | None:
    """The first kept timeline among the figure's points."""
    kept = {point.name for point in points_of(material.study, figure)}
    held = [pair for pair in material.run_directory.timelines() if pair[0] in kept]
    if not held:
        return None
    point, seed = held[0]
    frame = material.run_directory.timeline(point, seed)
    columns = [name for name in figure.y.split(",") if name in frame.columns]
    peaks = [
        f"{trace_of(name).name} up to {number(peak)}"
        for name in columns
        if isinstance(peak := frame[name].max(), int | float)
    ]
    if not peaks:
        return None
    return Sketch(
        lambda width: timeline(frame, columns=columns, width=width),
        f"{point}, seed {seed}: {', '.join(peaks)}.",
    )


def _level(point: Point, name: str) -> Level | None:
    """A point's level of a factor; its name and configuration count where no factor is so named."""
    held = {"configuration": point.configuration, "point": point.name, **point.factors}
    return held.get(name)


def _titles(figure: Figure) -> tuple[str, str]:
    """The titles of both axes, in words."""
    return (
        figure.x_title or column_in_words(figure.x),
        figure.y_title or column_in_words(figure.y),
    )


def _ways(figure: Figure, material: Material) -> Sketch | None:
    """What each way says of a question, a line a way."""
    records = contrasts.lines(material.contrasts, figure.y)
    if not records:
        return None
    frame = pl.DataFrame(records, schema=CURVE_SCHEMA).sort("x", maintain_order=True)
    frame, remark = _cut(frame)
    x_title, y_title = _titles(figure)
    return Sketch(
        lambda width: charts.curve(frame, x_title=x_title, y_title=y_title, width=width),
        _courses(frame) + remark,
    )


def _effects(figure: Figure, material: Material) -> Sketch | None:
    """What each factor of a two-level design does to a quantity, with its interval."""
    results = material.study.results(material.run_directory)
    found = [one for one in (results.effects if results else ()) if one.quantity == figure.y]
    rows = effects.told(found[0]) if found else []
    if not rows:
        return None
    unit = f" ({found[0].unit})" if found[0].unit else ""
    x_title = f"effect on {figure.y}{unit}"
    return Sketch(
        lambda width: effects.effect_bars(effects.rows_of(rows), x_title=x_title, width=width),
        effects.described(rows),
    )


SKETCHES: Final[Mapping[FigureKind, Callable[[Figure, Material], Sketch | None]]] = {
    "paper-beside": _paper_beside,
    "stacked-layers": _stacked_layers,
    "curve": _curve,
    "timeline": _timeline,
    "relative": _relative,
    "quantities-beside": _quantities_beside,
    "ways": _ways,
    "laws": _laws,
    "comparisons-beside": _comparisons_beside,
    "heat-map": _heat_map,
    "effects": _effects,
}
