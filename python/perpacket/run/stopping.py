"""When a point has been run often enough: its interval is narrow, or the most runs are reached.

The rule is asked of the runs in the order of their seeds, of the first `least` at the earliest: a
point stops at the first number of runs whose interval is narrow enough. So it depends on the
results alone, and a study that was killed and resumed stops where an uninterrupted one does.

Stopping at the first narrow interval favours intervals that are narrow by chance: they hold the
true value a little more seldom than they say (Law and Kelton, *Simulation Modeling and Analysis*,
section 9.4.1). The more runs come before the first look, the less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perpacket.analysis.statistics import DEFAULT_CONFIDENCE, mean

LEAST_RUNS = 3
"""Two runs give an interval, but one that is narrow by chance far too often."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """Repeat until the mean of `quantity`, a number of the result, is known to within a share.

    `within` is half the interval's width over the mean; `least` runs are made before it is asked.
    """

    quantity: str
    within: float
    least: int
    confidence: float = DEFAULT_CONFIDENCE

    def is_narrow(self, values: Sequence[float | None]) -> bool:
        """Whether these runs are enough; a run without the number is never."""
        numbers = [value for value in values if value is not None]
        if len(numbers) < len(values) or len(numbers) < max(2, self.least):
            return False
        interval = mean(numbers, self.confidence)
        return (interval.high - interval.low) / 2 <= self.within * abs(interval.value)

    def runs_enough(self, values: Sequence[float | None]) -> int | None:
        """The smallest number of first runs that are enough, None where all are not."""
        enough = (
            count for count in range(self.least, len(values) + 1) if self.is_narrow(values[:count])
        )
        return next(enough, None)
