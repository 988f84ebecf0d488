"""Competitors compared level by level, and where the winner changes.

A lead is claimed only where the intervals of two means do not overlap: else the two are not told
apart. The front of a level holds whoever nobody is clearly ahead of. A crossing stands between two
levels when one competitor of the front of the first is clearly ahead of another there, and that one
is in the front of the second and clearly ahead of the first there. The winner has changed when
nobody is in the front of both: a third may have been ahead all along. Where exactly is estimated
block by block, on straight lines between levels in logarithms, because levels are spread by ratios;
it is told only when every block has the crossing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise

from perpacket.analysis.statistics import Interval, mean
from perpacket.errors import ConfigurationError
from perpacket.study.study import Level, Point

Values = Mapping[str, Mapping[int, float]]
"""Values of a quantity by point and block."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What is compared: a quantity of competitors (levels of one factor) along another factor."""

    title: str
    competitor: str
    along: str
    quantity: str
    """Name of a quantity of the study."""
    where: Mapping[str, Level] = field(default_factory=dict)
    """Levels of other factors that the points compared have."""
    lower_wins: bool = False
    along_title: str = ""
    """The axis in words, with its unit; the factor's name where empty."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Who is ahead at one level."""

    level: float
    leader: str
    value: Interval
    not_told_apart: tuple[str, ...]
    """Others that the leader is not clearly ahead of, the nearest first."""
    doubts: tuple[str, ...] = ()
    """What casts doubt on the runs of the leader and of those."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """One competitor of the front overtakes another between two levels."""

    before: str
    after: str
    low: float
    high: float
    position: Interval | None
    """Where, within the two levels; None where not every block has it."""
    may_stay: tuple[str, ...] = ()
    """Who may be ahead at both levels; where there is nobody, the winner changes."""


@dataclass(frozen=True, slots=True)
class Contested:
    """What a contest gave."""

    contest: Contest
    quantity_title: str
    unit: str
    standings: tuple[Standing, ...]
    crossings: tuple[Crossing, ...]


def contested(
    contest: Contest,
    points: Sequence[Point],
    values: Values,
    *,
    title: str = "",
    unit: str = "",
    doubts: Mapping[str, Sequence[str]] | None = None,
) -> Contested:
    """The standings at each level and the crossings between them; `doubts` are by point.

    Raises `ConfigurationError` when two points are one competitor at one level.
    """
    table: dict[float, dict[str, Point]] = {}
    for point in points:
        level = point.factors.get(contest.along)
        kept = all(point.factors.get(name) == held for name, held in contest.where.items())
        if kept and isinstance(level, int | float) and values.get(point.name):
            cell = table.setdefault(float(level), {})
            name = str(point.factors[contest.competitor])
            if name in cell:
                raise ConfigurationError(
                    f"contest {contest.title!r}: {cell[name].name} and {point.name} are both "
                    f"{name} at {contest.along} = {level:g}",
                    parameter="where",
                    hint="name the levels of the other factors in its `where`",
                )
            cell[name] = point
    rounds = [_Round(contest, level, table[level], values) for level in sorted(table)]
    standings = tuple(one.standing(doubts or {}) for one in rounds)
    return Contested(contest, title, unit, standings, tuple(_crossings(rounds)))


class _Round:
    """One level of a contest."""

    def __init__(
        self, contest: Contest, level: float, points: Mapping[str, Point], values: Values
    ) -> None:
        self.level, self.points = level, points
        self.values = {name: values[point.name] for name, point in points.items()}
        self.means = {name: mean(list(own.values())) for name, own in self.values.items()}
        self._sign = -1 if contest.lower_wins else 1

    def is_ahead(self, one: str, other: str) -> bool:
        """Whether a competitor is clearly ahead of another."""
        first, second = self.means.get(one), self.means.get(other)
        if first is None or second is None or not (first.is_bounded and second.is_bounded):
            return False
        ahead = self._sign * (first.value - second.value) > 0
        return ahead and not first.overlaps(second)

    @property
    def front(self) -> set[str]:
        """Whoever nobody is clearly ahead of."""
        return {
            name
            for name in self.means
            if not any(self.is_ahead(other, name) for other in self.means)
        }

    def standing(self, doubts: Mapping[str, Sequence[str]]) -> Standing:
        ranked = sorted(self.means, key=lambda name: -self._sign * self.means[name].value)
        leader = ranked[0]
        near = tuple(name for name in ranked[1:] if not self.is_ahead(leader, name))
        told = [text for name in (leader, *near) for text in doubts.get(self.points[name].name, ())]
        return Standing(self.level, leader, self.means[leader], near, tuple(dict.fromkeys(told)))


def _crossings(rounds: Sequence[_Round]) -> list[Crossing]:
    """Every crossing at the front, in the order of levels."""
    found = []
    names = sorted({name for one in rounds for name in one.means})
    for pair in combinations(names, 2):
        decided = [
            (index, first, second)
            for index, one in enumerate(rounds)
            for first, second in (pair, pair[::-1])
            if one.is_ahead(first, second)
        ]
        for (low, before, _), (high, after, _) in pairwise(decided):
            is_winner = before in rounds[low].front and after in rounds[high].front
            if before != after and is_winner:
                found.append(_crossing(rounds[low : high + 1], before, after))
    return sorted(found, key=lambda one: (one.low, one.high, one.before, one.after))


def _crossing(rounds: Sequence[_Round], before: str, after: str) -> Crossing:
    low, high = rounds[0].level, rounds[-1].level
    blocks = set.intersection(
        *(set(one.values[name]) for one in rounds for name in (before, after) if name in one.values)
    )
    places = [_place(rounds, before, after, block) for block in sorted(blocks)]
    known = [place for place in places if place is not None]
    position = None
    if len(known) == len(places) > 1:
        position = mean([math.log(place) for place in known]).map(math.exp)
        ends = [min(max(end, low), high) for end in (position.low, position.high)]
        position = replace(position, low=ends[0], high=ends[1])
    may_stay = tuple(sorted(rounds[0].front & rounds[-1].front))
    return Crossing(before, after, low, high, position, may_stay)


def _place(rounds: Sequence[_Round], before: str, after: str, block: int) -> float | None:
    """Where one block's lines cross; None where they do not, or logarithms cannot tell."""
    ratios = []
    for one in rounds:
        if before not in one.values or after not in one.values:
            continue
        first, second = one.values[before][block], one.values[after][block]
        if one.level <= 0 or first <= 0 or second <= 0:
            return None
        ratios.append((math.log(one.level), math.log(first / second)))
    start = ratios[0][1]
    for (left, own), (right, other) in pairwise(ratios):
        if (own > 0) == (start > 0) and (other > 0) != (start > 0):
            return math.exp(left + (right - left) * own / (own - other))
    return None
