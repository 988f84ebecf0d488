"""A claim: a number of a run beside a reference, with the verdict on both.

Published rows, contests, methods, effects, changes and comparisons of runs and of profiles produce
claims. Only `judge` decides whether an interval shows a difference, so one ratio has one verdict
in all of them. The module needs only the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from perpacket.analysis.statistics import ROUNDING, Interval

NOT_DISTINGUISHABLE = "not distinguishable"


class Relation(StrEnum):
    """The relation of a claim's value to its reference."""

    RATIO = "ratio"
    """The value is divided by the reference: 1 is no difference."""
    DIFFERENCE = "difference"
    """The reference is subtracted: 0 is no difference."""
    ITSELF = "itself"
    """The value stands alone, or beside a published one in the same unit."""

    @property
    def neutral(self) -> float:
        """The value that means no difference."""
        return 1.0 if self is Relation.RATIO else 0.0

    def distance(self, number: float) -> float:
        """The distance of a number from no difference: a logarithm for ratios."""
        if self is not Relation.RATIO:
            return number
        return math.log(number) if number > 0 else -math.inf


class Verdict(StrEnum):
    """Whether an interval shows a difference, and its direction."""

    HIGHER = "higher"
    LOWER = "lower"
    SAME = "the same"
    """The values are equal in every run."""
    NOT_DISTINGUISHABLE = NOT_DISTINGUISHABLE
    TOO_WIDE = "interval too wide"
    """The interval contains no difference, and is too wide to show that there is none."""
    NO_INTERVAL = "no interval"
    NO_VALUE = "no value"
    AGREES = "agrees"
    """The interval contains the published value with its rounding, or lies within its bounds."""
    DIFFERS = "differs"
    """The published value lies outside the interval."""
    OUTSIDE = "outside"
    """The interval lies outside published bounds."""
    SAME_DIRECTION = "same direction"
    """A change has the published direction, and is weaker or stronger."""
    OPPOSITE = "opposite direction"
    """A change has the opposite of the published direction."""
    NOT_JUDGED = "not judged"
    """A value of another machine, beside that of the run; only the order of values is compared."""

    @property
    def is_shown(self) -> bool:
        """Whether a difference is shown."""
        return self in (Verdict.HIGHER, Verdict.LOWER)


def judge(
    value: Interval | None, relation: Relation, *, floor: float = 0.0, widest: float = math.inf
) -> Verdict:
    """The verdict on a ratio or a difference.

    `floor` is the distance up to which a difference is not claimed: a logarithm for ratios, else in
    the value's unit. `widest` is the width, in the same scale, up to which an interval around no
    difference shows that there is none.
    """
    if value is None:
        return Verdict.NO_VALUE
    if not value.is_bounded:
        return Verdict.NO_INTERVAL
    low, middle, high = map(relation.distance, (value.low, value.value, value.high))
    if max(abs(low), abs(high)) <= ROUNDING:
        return Verdict.SAME
    if low <= 0 <= high or abs(middle) <= floor:
        return Verdict.TOO_WIDE if high - low > widest else Verdict.NOT_DISTINGUISHABLE
    return Verdict.HIGHER if middle > 0 else Verdict.LOWER


MET = frozenset({Verdict.AGREES, Verdict.SAME_DIRECTION})
"""Verdicts of agreement with a published value."""

MISSED = frozenset({Verdict.DIFFERS, Verdict.OUTSIDE, Verdict.OPPOSITE})
"""Verdicts of disagreement with a published value."""

Detail = TypeVar("Detail")


@dataclass(frozen=True, slots=True)
class Claim(Generic[Detail]):
    """A number of a run beside a reference."""

    subject: str
    """What has the number: a point, a layer, an effect or a scenario."""
    quantity: str
    unit: str
    value: Interval | None
    """In `unit`; for a ratio, the value divided by the reference."""
    reference: object
    """The interval or the published row beside the value; None without one."""
    relation: Relation
    verdict: Verdict
    remark: str
    """The reason of a difference, or doubts."""
    detail: Detail
    """The numbers that only this kind of claim has."""

    @property
    def interval(self) -> Interval:
        """The value of a claim that has one; raises `ValueError` without it."""
        if self.value is None:
            raise ValueError(f"{self.subject}: no value of {self.quantity}")
        return self.value


@dataclass(frozen=True, slots=True)
class Pair:
    """The two means of a ratio B/A."""

    first: float
    second: float
    paired: bool
    """Whether the ratio is that of pairs of runs or windows."""


def ratio_claim(subject: str, quantity: str, interval: Interval | None, pair: Pair) -> Claim[Pair]:
    """The ratio of two sides; the interval is None if a value is zero or below."""
    verdict = judge(interval, Relation.RATIO)
    if interval is None:
        verdict = Verdict.SAME if pair.first == pair.second else Verdict.NO_INTERVAL
    return Claim(subject, quantity, "", interval, None, Relation.RATIO, verdict, "", pair)


def shown(claims: Sequence[Claim[Detail]]) -> list[Claim[Detail]]:
    """The claims whose difference is shown."""
    return [claim for claim in claims if claim.verdict.is_shown]
