"""A study's own quantities over the rows of a run: at each point, and over a first point.

A change along an axis is paired: each block's value over the same block's first one, so that what
a block does to all of its runs cancels out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpacket.analysis.statistics import Interval, StatisticsError, mean, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from perpacket.analysis.published import Comparison
    from perpacket.study.study import Figure, Point, Study

Values = dict[str, dict[int, float]]
"""Values of a quantity by point and seed."""


@dataclass(frozen=True, slots=True)
class Step:
    """A quantity at one level over that at the first, and what the document says of it."""

    point: Point
    ratio: Interval
    published: Comparison | None


@dataclass(frozen=True, slots=True)
class Line:
    """A quantity along an axis."""

    name: str
    title: str
    unit: str
    start: Point
    """The level that the others are compared with."""
    first: Interval
    """The quantity itself at that level."""
    steps: tuple[Step, ...]
    """All levels in order; the ratio at the start is 1."""


def values_of(study: Study, observations: pl.DataFrame, name: str) -> Values:
    """A quantity in every run; runs in which it has no meaning are left out."""
    quantity = study.quantities[name]
    found: Values = {}
    for row in observations.iter_rows(named=True):
        value = quantity.value(row)
        if value is not None:
            found.setdefault(row["point"], {})[row["seed"]] = value
    return found


def at_point(study: Study, observations: pl.DataFrame, name: str, point: str) -> Interval | None:
    """The mean of a quantity at one point; None where no run has it."""
    values = values_of(study, observations, name).get(point)
    return mean(list(values.values())) if values else None


def names_of(study: Study, figure: Figure) -> list[str]:
    """The quantities that a figure names and the study has."""
    return [name for name in figure.y.split(",") if name in study.quantities]


def lines(
    study: Study,
    figure: Figure,
    points: Sequence[Point],
    observations: pl.DataFrame,
    comparisons: Sequence[Comparison],
) -> list[Line]:
    """The figure's quantities over one level, those alone that have two levels.

    That is the level from which the document states changes, else the first.
    """
    found = []
    start = published_start(figure, points, comparisons)
    for name in names_of(study, figure):
        values = values_of(study, observations, name)
        numbered = [p for p in points if isinstance(p.factors.get(figure.x), int | float)]
        held = sorted(
            (point for point in numbered if values.get(point.name)),
            key=lambda point: float(point.factors[figure.x]),
        )
        if len(held) < 2:
            continue
        first = start if any(point.name == start for point in held) else held[0].name
        steps = [
            Step(point, ratio, published_change(comparisons, name, point.name, first))
            for point in held
            if (ratio := over(values[point.name], values[first])) is not None
        ]
        quantity = study.quantities[name]
        if len(steps) > 1:
            base = mean(list(values[first].values()))
            begin = next(point for point in held if point.name == first)
            found.append(Line(name, quantity.title, quantity.unit, begin, base, tuple(steps)))
    return found


def published_start(
    figure: Figure, points: Sequence[Point], comparisons: Sequence[Comparison]
) -> str:
    """The point from which the document states changes along the figure; empty for none."""
    names = {point.name for point in points}
    changes = {f"{name} increase" for name in figure.y.split(",")}
    for row in comparisons:
        stated = row.published
        if stated.quantity in changes and {stated.point, stated.against} <= names:
            return stated.against or ""
    return ""


def over(own: dict[int, float], base: dict[int, float]) -> Interval | None:
    """The ratio of two points over the blocks that both have; None where there is none."""
    seeds = sorted(own.keys() & base.keys())
    try:
        return paired_ratio([own[seed] for seed in seeds], [base[seed] for seed in seeds])
    except StatisticsError:
        return None


def published_change(
    comparisons: Sequence[Comparison], name: str, point: str, first: str
) -> Comparison | None:
    """What the document says of a quantity's change from the first level to a point."""
    for row in comparisons:
        stated = row.published
        if (stated.quantity, stated.point, stated.against) == (f"{name} increase", point, first):
            return row
    return None
