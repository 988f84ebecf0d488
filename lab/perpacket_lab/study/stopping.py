"""The rule of a study for the number of runs of a point: its interval is narrow.

The rule is applied to the runs in the order of their seeds: to the first `least`, then with each
further run. A point stops at the first number of runs whose interval is narrow enough. This depends
only on results, so a study that was killed and resumed stops after the same runs as an
uninterrupted one.

Such a rule prefers intervals that are narrow by chance: they contain the true value a little less
often than stated (Law and Kelton, *Simulation Modeling and Analysis*, section 9.4.1). The effect is
smaller with more runs before the first check.

Measured runs of a point follow each other in time, so neighbours may be alike. The correlation is
that of the point's own runs: that of all points would depend on how many runs the others have, and
so on interruptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perpacket.analysis.statistics import DEFAULT_CONFIDENCE, mean, neighbour_correlation

LEAST_RUNS = 3
"""The least number of runs before the first check: two runs are too often alike by chance."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """Repeat until the interval of the mean of `quantity`, a number of the result, is narrow.

    `within` is the limit of half the interval's width, as a share of the mean. The first check is
    after `least` runs.
    """

    quantity: str
    within: float
    least: int
    confidence: float = DEFAULT_CONFIDENCE
    in_time_order: bool = False
    """Whether the runs are measured one after another, so that neighbours may be alike."""


def is_narrow(rule: Stopping, values: Sequence[float | None]) -> bool:
    """Whether these runs are enough; they are not if a run has no value."""
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values) or len(numbers) < max(2, rule.least):
        return False
    correlation = neighbour_correlation([numbers]) if rule.in_time_order else 0.0
    interval = mean(numbers, rule.confidence, correlation=correlation)
    return (interval.high - interval.low) / 2 <= rule.within * abs(interval.value)


def runs_enough(rule: Stopping, values: Sequence[float | None]) -> int | None:
    """The number of runs after which the interval is narrow; None if it never is."""
    counts = range(rule.least, len(values) + 1)
    return next((count for count in counts if is_narrow(rule, values[:count])), None)
