"""Two methods compared on one number: measurement, simulation or model of the same scenario.

A comparison judges neither method. It reports their difference with an interval, and the assumption
that most likely causes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from perpacket.analysis.claim import Claim, Relation, Verdict, judge
from perpacket.analysis.statistics import DEFAULT_CONFIDENCE, Interval, difference, mean
from perpacket_lab.analysis.wording import plural

WIDEST_POINTS = 20.0
"""An interval of a difference of percentages wider than this shows no agreement."""

AGREEING = frozenset({Verdict.SAME, Verdict.NOT_DISTINGUISHABLE})
"""The verdicts with which two methods agree."""


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
class Methods:
    """Two methods in one scenario."""

    question: str
    """The key by which figures select the comparison, such as `share`."""
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
        """`second` minus `first`, in percentage points.

        A model and the runs from which it is computed are paired by seed. Otherwise the two methods
        have two independent samples.
        """
        first, second = self.first.values, self.second.values
        if not first or not second:
            return None
        if self.first.runs != self.second.runs:
            return difference(list(first.values()), list(second.values()), self.first.confidence)
        seeds = sorted(first.keys() & second.keys())
        if not seeds:
            return None
        return mean([second[seed] - first[seed] for seed in seeds], self.first.confidence)


MethodComparison = Claim[Methods]
"""The difference of two methods in percentage points. `subject` is the scenario, `quantity` the
number in words, and `remark` the likely cause if the methods differ."""


def compare(title: str, scenario: str, methods: Methods) -> MethodComparison:
    """Two methods in one scenario."""
    difference = methods.difference
    verdict = judge(difference, Relation.DIFFERENCE, widest=WIDEST_POINTS)
    remark = methods.likely_cause if verdict.is_shown else ""
    reference = methods.first.interval
    return Claim(
        scenario,
        title,
        "points",
        difference,
        reference,
        Relation.DIFFERENCE,
        verdict,
        remark,
        methods,
    )


def with_confidence(row: MethodComparison, confidence: float) -> MethodComparison:
    """The same comparison with intervals of another confidence."""
    first, second = (
        replace(value, confidence=confidence) for value in (row.detail.first, row.detail.second)
    )
    return compare(row.quantity, row.subject, replace(row.detail, first=first, second=second))


def headline(rows: Sequence[MethodComparison]) -> str:
    """One sentence on how many pairs of methods agree."""
    agree = sum(row.verdict in AGREEING for row in rows)
    differ = sum(row.verdict.is_shown for row in rows)
    rest = len(rows) - agree - differ
    text = f"Of {plural(len(rows), 'pair')} of methods, {agree} agree and {differ} differ"
    return f"{text}; {rest} are undecided." if rest else f"{text}."
