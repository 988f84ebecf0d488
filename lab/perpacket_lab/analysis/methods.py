"""Two methods compared on one number: measurement, simulation or model of the same scenario.

A comparison judges neither method. It reports their difference with an interval, and the assumption
that most likely causes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from perpacket.analysis.statistics import (
    DEFAULT_CONFIDENCE,
    Interval,
    decimals_for,
    difference,
    format_number,
    mean,
)
from perpacket_lab.analysis.wording import plural

WIDEST_POINTS = 20.0
"""An interval of a difference of percentages wider than this shows no agreement."""

ROUNDING_POINTS = 1e-6
"""Differences below this come from floating-point rounding alone."""


class Agreement(StrEnum):
    """The verdict on the difference of two methods."""

    AGREE = "agree"
    """The interval of the difference contains zero."""
    DIFFER = "differ"
    """The interval of the difference excludes zero."""
    TOO_WIDE = "interval too wide"
    """The interval of the difference contains zero and is wider than `WIDEST_POINTS`."""
    ONE_RUN = "one run: no interval"
    LEFT_OUT = "left out"
    """One of the two methods has no value."""


@dataclass(frozen=True, slots=True)
class MethodValue:
    """The value of one method in a scenario.

    `values` are in per cent, by seed. `runs` is the kind of the runs with these values. A model's
    values are computed from measured or simulated runs, and are paired with them by seed.
    """

    method: str
    """The name of the method, such as `measured` or `LAWS`."""
    runs: str
    values: Mapping[int, float] = field(default_factory=dict)
    confidence: float = DEFAULT_CONFIDENCE

    @property
    def interval(self) -> Interval | None:
        """The mean over the runs; None if there are none."""
        if not self.values:
            return None
        return mean([self.values[seed] for seed in sorted(self.values)], self.confidence)


@dataclass(frozen=True, slots=True)
class MethodComparison:
    """Two methods in one scenario.

    A model and the runs from which it is computed are paired by seed. Otherwise the two methods
    have two independent samples.
    """

    question: str
    """The key by which figures select the comparison, such as `share`."""
    title: str
    """The number in words."""
    scenario: str
    level: float
    """The scenario's value on its axis."""
    first: MethodValue
    second: MethodValue
    likely_cause: str = ""
    """The assumption that most likely causes a difference."""
    warnings: tuple[str, ...] = ()
    """Doubts about the runs."""

    @property
    def difference(self) -> Interval | None:
        """`second` minus `first`, in percentage points."""
        first, second = self.first.values, self.second.values
        if not first or not second:
            return None
        if self.first.runs != self.second.runs:
            return difference(list(first.values()), list(second.values()), self.first.confidence)
        seeds = sorted(first.keys() & second.keys())
        if not seeds:
            return None
        return mean([second[seed] - first[seed] for seed in seeds], self.first.confidence)

    @property
    def verdict(self) -> Agreement:
        """The verdict on the difference."""
        found = self.difference
        if found is None:
            return Agreement.LEFT_OUT
        if not found.is_bounded:
            return Agreement.ONE_RUN
        if not found.contains(0.0) and abs(found.value) > ROUNDING_POINTS:
            return Agreement.DIFFER
        return Agreement.TOO_WIDE if found.high - found.low > WIDEST_POINTS else Agreement.AGREE

    @property
    def assumption(self) -> str:
        """The likely cause where the methods differ; else empty."""
        return self.likely_cause if self.verdict is Agreement.DIFFER else ""

    @property
    def verdict_text(self) -> str:
        """`agree`, or `differ by -3.2 points`."""
        if self.verdict is not Agreement.DIFFER or self.difference is None:
            return str(self.verdict)
        size = abs(self.difference.value)
        sign = "+" if self.difference.value > 0 else "-"
        return f"{self.verdict} by {sign}{format_number(size, decimals_for(size))} points"


def headline(rows: Sequence[MethodComparison]) -> str:
    """One sentence on how many pairs of methods agree."""
    count = Counter(row.verdict for row in rows)
    agree, differ = count[Agreement.AGREE], count[Agreement.DIFFER]
    rest = len(rows) - agree - differ
    text = f"Of {plural(len(rows), 'pair')} of methods, {agree} agree and {differ} differ"
    return f"{text}; {rest} are undecided." if rest else f"{text}."
