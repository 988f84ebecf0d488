"""The rule of a study for the number of runs of a point."""

from __future__ import annotations

from dataclasses import dataclass

from perpacket.analysis.statistics import DEFAULT_CONFIDENCE

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
