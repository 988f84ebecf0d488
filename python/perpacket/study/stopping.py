"""When a point has enough runs, as a study asks for it."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_CONFIDENCE = 0.95
"""Confidence of every interval that asks for no other."""

LEAST_RUNS = 3
"""Two runs give an interval, but one that is narrow by chance far too often."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """Repeat until the mean of `quantity`, a number of the result, is known to within a share.

    `within` is half the interval's width over the mean. `least` runs come before the first check.
    """

    quantity: str
    within: float
    least: int
    confidence: float = DEFAULT_CONFIDENCE
