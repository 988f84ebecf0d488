"""Two ways to one number: what a measurement, a simulation and a model say of the same scenario.

Nothing here is true or false of a way by itself: a contrast says how far two of them are apart,
with an interval, and names the assumption that most likely keeps them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from perpacket.analysis.statistics import Interval, decimals_for, difference, format_number, mean

WIDEST_POINTS = 20.0
"""Two percentages known to be equal within no less than this width agree in nothing."""


ROUNDING_POINTS = 1e-6
"""Differences below this come from floating-point rounding alone."""


class Agreement(StrEnum):
    """What the difference of two ways says."""

    AGREE = "agree"
    """Its interval holds none at all."""
    DIFFER = "differ"
    """It holds a difference only."""
    TOO_WIDE = "interval too wide to tell"
    """It holds none, and nearly every other one."""
    ONE_RUN = "one run: no interval"
    LEFT_OUT = "left out"
    """One of the two ways has nothing to say."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one way says of a scenario.

    `values` are in per cent, by seed. `runs` is the kind of runs they come from: a model is fed by
    measured or simulated ones, and pairs with them seed by seed.
    """

    way: str
    """In words, as `measured` or `LAWS`."""
    runs: str
    values: Mapping[int, float] = field(default_factory=dict)

    @property
    def interval(self) -> Interval | None:
        """The mean over the runs; None where there were none."""
        return mean([self.values[seed] for seed in sorted(self.values)]) if self.values else None


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two ways side by side; differences are `second` minus `first`, in percentage points."""

    question: str
    """What figures are picked by, as `share`."""
    title: str
    """What the number is, in words."""
    scenario: str
    level: float
    """The scenario's place on its axis."""
    first: Estimate
    second: Estimate
    difference: Interval | None
    verdict: Agreement
    assumption: str = ""
    """What most likely keeps the two apart; empty where nothing does."""
    warnings: tuple[str, ...] = ()
    """What casts doubt on the runs behind it."""

    @property
    def verdict_text(self) -> str:
        """`agree`, or `differ by -3.2 points`."""
        if self.verdict is not Agreement.DIFFER or self.difference is None:
            return str(self.verdict)
        size = abs(self.difference.value)
        sign = "+" if self.difference.value > 0 else "-"
        return f"{self.verdict} by {sign}{format_number(size, decimals_for(size))} points"


def contrasted(
    question: str,
    title: str,
    scenario: str,
    level: float,
    first: Estimate,
    second: Estimate,
    assumption: str,
    warnings: tuple[str, ...] = (),
) -> Contrast:
    """Two ways side by side; `assumption` is kept where they differ.

    A model is compared with its own runs seed by seed; ways with runs of their own as two samples.
    """
    apart = _difference(first, second)
    verdict = _verdict(apart)
    named = assumption if verdict is Agreement.DIFFER else ""
    return Contrast(
        question, title, scenario, level, first, second, apart, verdict, named, warnings
    )


def _difference(first: Estimate, second: Estimate) -> Interval | None:
    if not first.values or not second.values:
        return None
    if first.runs != second.runs:
        return difference(list(first.values.values()), list(second.values.values()))
    seeds = sorted(first.values.keys() & second.values.keys())
    return mean([second.values[seed] - first.values[seed] for seed in seeds]) if seeds else None


def _verdict(apart: Interval | None) -> Agreement:
    if apart is None:
        return Agreement.LEFT_OUT
    if not apart.is_bounded:
        return Agreement.ONE_RUN
    if not apart.contains(0.0) and abs(apart.value) > ROUNDING_POINTS:
        return Agreement.DIFFER
    return Agreement.TOO_WIDE if apart.high - apart.low > WIDEST_POINTS else Agreement.AGREE
