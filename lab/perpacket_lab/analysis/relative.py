"""The ratio of a quantity at each level of an axis to its value at one level, paired by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perpacket.analysis.statistics import Interval
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.published_comparison import Comparison
from perpacket_lab.study.figure import Figure
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import QUANTITIES, quantity


@dataclass(frozen=True, slots=True)
class RelativeStep:
    """The ratio of a quantity at one level to the start, and the published change."""

    point: Point
    ratio: Interval
    published: Comparison | None


@dataclass(frozen=True, slots=True)
class RelativeLine:
    """A quantity along an axis."""

    name: str
    title: str
    unit: str
    start: Point
    """The level with which the others are compared."""
    first: Interval
    """The quantity at the start."""
    steps: tuple[RelativeStep, ...]
    """All levels in order; the ratio at the start is 1."""


def names_of(figure: Figure) -> list[str]:
    """The named quantities of a figure."""
    return [name for name in figure.y.split(",") if name in QUANTITIES]


def lines(
    figure: Figure,
    points: Sequence[Point],
    estimates: Estimates,
    comparisons: Sequence[Comparison],
) -> list[RelativeLine]:
    """The figure's quantities that have two levels or more.

    The start is the level from which the document states changes, else the first level.
    """
    lines = []
    start = published_start(figure, points, comparisons)
    for name in names_of(figure):
        shown = sorted(
            (
                point
                for point in points
                if isinstance(point.factors.get(figure.x), int | float)
                and estimates.values(point.name, name)
            ),
            key=lambda point: float(point.factors[figure.x]),
        )
        if len(shown) < 2:
            continue
        first = next((point for point in shown if point.name == start), shown[0])
        steps = [
            RelativeStep(point, ratio, published_change(comparisons, name, point.name, first.name))
            for point in shown
            if (ratio := estimates.ratio(point.name, first.name, name)) is not None
        ]
        base, entry = estimates.mean(first.name, name), quantity(name)
        if len(steps) > 1 and base is not None:
            lines.append(RelativeLine(name, entry.title, entry.unit, first, base, tuple(steps)))
    return lines


def published_start(
    figure: Figure, points: Sequence[Point], comparisons: Sequence[Comparison]
) -> str:
    """The point from which the document states changes along the figure; empty for none."""
    names = {point.name for point in points}
    changes = {f"{name} increase" for name in figure.y.split(",")}
    for row in comparisons:
        stated = row.reference
        if stated.quantity in changes and {stated.point, stated.against} <= names:
            return stated.against or ""
    return ""


def published_change(
    comparisons: Sequence[Comparison], name: str, point: str, first: str
) -> Comparison | None:
    """The published change of a quantity from the first level to a point."""
    for row in comparisons:
        stated = row.reference
        if (stated.quantity, stated.point, stated.against) == (f"{name} increase", point, first):
            return row
    return None
