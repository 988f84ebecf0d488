"""Competitors compared level by level, and the levels between which the leader changes.

At each level, competitors are compared in pairs, block by block. A leads B if A is better and the
interval of their differences excludes zero. The leaders of a level are the competitors that no
other competitor leads.

A crossing lies between two levels. At the first level, A is a leader and leads B. At the second
level, B is a leader and leads A. The winner changes if no competitor is a leader at both levels.
Otherwise a third competitor may lead at both.

The position of a crossing is interpolated for each block, linearly in logarithms of level and
value. It is reported only if every block has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from perpacket.analysis.claim import Relation, Verdict, judge
from perpacket.analysis.statistics import DEFAULT_CONFIDENCE, Interval, mean
from perpacket.errors import ConfigurationError
from perpacket_lab.analysis.doubts import doubts_of
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.study.contest import Contest
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import QUANTITIES

Values = Mapping[str, Mapping[int, float]]
"""Values of a quantity by point and block."""


@dataclass(frozen=True, slots=True)
class ContestLevel:
    """The leader at one level."""

    level: float
    leader: str
    value: Interval
    not_distinguishable: tuple[str, ...]
    """The competitors that the leader does not lead, the nearest first."""
    doubts: tuple[str, ...] = ()
    """Doubts about the runs of the leader and of these competitors."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """One leader overtakes another between two levels."""

    before: str
    after: str
    low: float
    high: float
    position: Interval | None
    """The position between the two levels; None unless every block has one."""
    may_stay: tuple[str, ...] = ()
    """The competitors that may lead at both levels; empty if the winner changes."""


@dataclass(frozen=True, slots=True)
class ContestResult:
    """The levels and crossings of a contest."""

    contest: Contest
    quantity_title: str
    unit: str
    levels: tuple[ContestLevel, ...]
    crossings: tuple[Crossing, ...]
    confidence: float = DEFAULT_CONFIDENCE


def results_of(
    contests: Sequence[Contest], points: Sequence[Point], estimates: Estimates
) -> list[ContestResult]:
    """The contests that have two levels or more in the run."""
    doubts = {name: doubts_of(own) for name, own in estimates.rows.items()}
    results = []
    for contest in contests:
        quantity = QUANTITIES[contest.quantity]
        values = {name: estimates.values(name, quantity) for name in estimates.rows}
        result = compare(
            contest,
            points,
            values,
            title=quantity.title,
            unit=quantity.unit,
            doubts=doubts,
            confidence=estimates.confidence,
        )
        if len(result.levels) > 1:
            results.append(result)
    return results


def compare(
    contest: Contest,
    points: Sequence[Point],
    values: Values,
    *,
    title: str = "",
    unit: str = "",
    doubts: Mapping[str, Sequence[str]] | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> ContestResult:
    """The leader at each level and the crossings between them; `doubts` are by point.

    Raises `ConfigurationError` when two points have the same competitor and level.
    """
    table: dict[float, dict[str, Point]] = {}
    for point in points:
        level = point.factors.get(contest.along)
        selected = all(point.factors.get(name) == fixed for name, fixed in contest.where.items())
        if selected and isinstance(level, int | float) and values.get(point.name):
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
    levels = [_Level(contest, level, table[level], values, confidence) for level in sorted(table)]
    results = tuple(level.result(doubts or {}) for level in levels)
    crossings = tuple(_crossings(levels))
    return ContestResult(contest, title, unit, results, crossings, confidence)


class _Level:
    """The values of all competitors at one level."""

    def __init__(
        self,
        contest: Contest,
        level: float,
        points: Mapping[str, Point],
        values: Values,
        confidence: float,
    ) -> None:
        self.level, self.points, self.confidence = level, points, confidence
        self.values = {name: values[point.name] for name, point in points.items()}
        self.means = {
            name: mean(list(own.values()), confidence) for name, own in self.values.items()
        }
        self._sign = -1 if contest.lower_wins else 1

    def leads(self, rival: str, other: str) -> bool:
        """Whether a competitor leads another."""
        own, others = self.values.get(rival, {}), self.values.get(other, {})
        blocks = sorted(own.keys() & others.keys())
        if len(blocks) < 2:
            return False
        ahead = [self._sign * (own[block] - others[block]) for block in blocks]
        return judge(mean(ahead, self.confidence), Relation.DIFFERENCE) is Verdict.HIGHER

    @property
    def leaders(self) -> set[str]:
        """The competitors that no other leads."""
        return {
            name for name in self.means if not any(self.leads(other, name) for other in self.means)
        }

    def result(self, doubts: Mapping[str, Sequence[str]]) -> ContestLevel:
        ranked = sorted(self.means, key=lambda name: -self._sign * self.means[name].value)
        leader = ranked[0]
        near = tuple(name for name in ranked[1:] if not self.leads(leader, name))
        texts = [
            text for name in (leader, *near) for text in doubts.get(self.points[name].name, ())
        ]
        value = self.means[leader].within(0.0, math.inf)
        return ContestLevel(self.level, leader, value, near, tuple(dict.fromkeys(texts)))


def _crossings(levels: Sequence[_Level]) -> list[Crossing]:
    """Every crossing of leaders, in the order of levels."""
    crossings = []
    names = sorted({name for level in levels for name in level.means})
    for pair in combinations(names, 2):
        decided = [
            (index, first, second)
            for index, level in enumerate(levels)
            for first, second in (pair, pair[::-1])
            if level.leads(first, second)
        ]
        for (low, before, _), (high, after, _) in pairwise(decided):
            is_winner = before in levels[low].leaders and after in levels[high].leaders
            if before != after and is_winner:
                crossings.append(_crossing(levels[low : high + 1], before, after))
    return sorted(crossings, key=lambda level: (level.low, level.high, level.before, level.after))


def _crossing(levels: Sequence[_Level], before: str, after: str) -> Crossing:
    low, high = levels[0].level, levels[-1].level
    blocks = set.intersection(
        *(
            set(level.values[name])
            for level in levels
            for name in (before, after)
            if name in level.values
        )
    )
    positions = [_position(levels, before, after, block) for block in sorted(blocks)]
    known = [position for position in positions if position is not None]
    position = None
    if len(known) == len(positions) > 1:
        position = mean(list(map(math.log, known)), levels[0].confidence).map(math.exp)
        ends = [min(max(end, low), high) for end in (position.low, position.high)]
        position = replace(position, low=ends[0], high=ends[1])
    may_stay = tuple(sorted(levels[0].leaders & levels[-1].leaders))
    return Crossing(before, after, low, high, position, may_stay)


def _position(levels: Sequence[_Level], before: str, after: str, block: int) -> float | None:
    """The level at which the lines of one block cross.

    None if they do not cross, or where a value is not positive.
    """
    ratios = []
    for level in levels:
        if before not in level.values or after not in level.values:
            continue
        first, second = level.values[before][block], level.values[after][block]
        if level.level <= 0 or first <= 0 or second <= 0:
            return None
        ratios.append((math.log(level.level), math.log(first / second)))
    start = ratios[0][1]
    for (left, own), (right, other) in pairwise(ratios):
        if (own > 0) == (start > 0) and (other > 0) != (start > 0):
            return math.exp(left + (right - left) * own / (own - other))
    return None
