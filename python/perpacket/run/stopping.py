"""Decides when a point has enough runs: its interval is narrow, or the most runs are reached.

The rule looks at runs in the order of their seeds, at the first `least` of them at the earliest. A
point stops at the first number of runs whose interval is narrow enough. So it depends on results
alone: a study that was killed and resumed stops where an uninterrupted one does.

Stopping at the first narrow interval favours intervals that are narrow by chance: they contain the
true value a little less often than they claim (Law and Kelton, *Simulation Modeling and Analysis*,
section 9.4.1). The effect shrinks as more runs come before the first check.
"""

from __future__ import annotations

from collections.abc import Sequence

from perpacket.analysis.statistics import mean
from perpacket.study.stopping import Stopping


def is_narrow(rule: Stopping, values: Sequence[float | None]) -> bool:
    """Whether these runs are enough; never when a run lacks the number."""
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values) or len(numbers) < max(2, rule.least):
        return False
    interval = mean(numbers, rule.confidence)
    return (interval.high - interval.low) / 2 <= rule.within * abs(interval.value)


def runs_enough(rule: Stopping, values: Sequence[float | None]) -> int | None:
    """The smallest number of first runs that are enough; None if all together are not."""
    counts = range(rule.least, len(values) + 1)
    return next((count for count in counts if is_narrow(rule, values[:count])), None)
