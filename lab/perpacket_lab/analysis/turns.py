"""Quantities of an emulated study that depend on the length of the processors' turns.

Such a quantity is a property of the emulator (docs/emulation-method.md). A quantity depends on the
length if its intervals at two lengths do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from perpacket.analysis.statistics import Interval
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.study.point import Point
from perpacket_lab.study.study import Study

PARAMETER = "emulator.turn_instructions"
CHANGE = " increase"


def turn_limits(study: Study, estimates: Estimates) -> Iterator[str]:
    """A remark on the quantities that depend on the turns, or that none does.

    The quantities are those of the study's summary and of its published values. A run without
    intervals at two lengths or more has no remark.
    """
    by_reason: dict[str, dict[str, str]] = {}
    compared = 0
    for points in groups(study.points):
        for name in names_of(study):
            means = {
                turn: interval
                for turn, point in points.items()
                if (interval := estimates.mean(point.name, name)) is not None
                and interval.is_bounded
            }
            if len(means) > 1:
                compared += 1
                if pair := farthest(means):
                    # A number that does not depend on the second level is the same at all sizes.
                    text = change(means, *pair)
                    by_reason.setdefault(name, {}).setdefault(text, points[pair[0]].name)
    if by_reason:
        texts = [
            f"{name} ({', '.join(f'{text} at {point}' for text, point in changes.items())})"
            for name, changes in by_reason.items()
        ]
        yield (
            "these quantities depend on the length of the turns beyond their intervals, so there "
            f"they are properties of the emulator: {'; '.join(texts)}"
        )
    elif compared:
        yield "no quantity depends on the length of the turns beyond its interval"


def groups(points: tuple[Point, ...]) -> list[dict[int, Point]]:
    """The points that differ only in the length of the turns, by this length in instructions."""
    by_factors: dict[tuple[tuple[str, str], ...], dict[int, Point]] = {}
    for point in points:
        parameters = dict(point.overrides)
        if turn := parameters.pop(PARAMETER, ""):
            by_factors.setdefault(tuple(sorted(parameters.items())), {})[int(turn)] = point
    return [dict(sorted(own.items())) for own in by_factors.values() if len(own) > 1]


def names_of(study: Study) -> list[str]:
    """The quantities to compare. A published change counts as its quantity."""
    published = (row.quantity.removesuffix(CHANGE) for row in study.published)
    return list(dict.fromkeys((*study.summary, *published)))


def farthest(means: Mapping[int, Interval]) -> tuple[int, int] | None:
    """The two lengths with the largest difference of those whose intervals do not overlap."""
    apart = [pair for pair in combinations(means, 2) if not means[pair[0]].overlaps(means[pair[1]])]
    return max(
        apart, key=lambda pair: abs(means[pair[1]].value - means[pair[0]].value), default=None
    )


def change(means: Mapping[int, Interval], short: int, long: int) -> str:
    """The two values, as `1.2 with turns of 5,000 instructions and 1.4 with 80,000`."""
    return (
        f"{means[short].value:.4g} with turns of {short:,} instructions and "
        f"{means[long].value:.4g} with {long:,}"
    )
