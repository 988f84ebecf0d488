"""A ratio of two costs with its verdict, and the rules of `--fail-if` about ratios."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from perpacket.analysis.statistics import Interval, decimals_for, format_number
from perpacket.errors import ConfigurationError


class Change(StrEnum):
    """The verdict on a ratio."""

    HIGHER = "higher"
    LOWER = "lower"
    NONE = "not distinguishable"
    SAME = "the same"
    UNKNOWN = "no interval"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One quantity at one point: the second run's value divided by the first run's."""

    point: str
    quantity: str
    first: float
    second: float
    """The means of the first and of the second run."""
    interval: Interval | None
    """The interval of the ratio; None if a value is zero or below."""
    paired: bool

    @property
    def change(self) -> Change:
        """The verdict: higher or lower only if the interval excludes 1."""
        if self.interval is None:
            return Change.SAME if self.first == self.second else Change.UNKNOWN
        if not self.interval.is_bounded:
            return Change.UNKNOWN
        if self.interval.low == self.interval.high == 1.0:
            return Change.SAME
        if self.interval.contains(1.0):
            return Change.NONE
        return Change.HIGHER if self.interval.value > 1 else Change.LOWER

    @property
    def text(self) -> str:
        """`0.865 [0.836, 0.894]`, to three digits."""
        if self.interval is None:
            return "-"
        ends = self.interval.value, self.interval.low, self.interval.high
        if not self.interval.is_bounded:
            return f"{_digits(ends[0])} ({'one run' if self.interval.n == 1 else 'no interval'})"
        value, low, high = map(_digits, ends)
        return f"{value} [{low}, {high}]"

    def as_dict(self) -> dict[str, object]:
        """The fields for JSON."""
        return {
            "point": self.point,
            "quantity": self.quantity,
            "first": self.first,
            "second": self.second,
            "ratio": None if self.interval is None else self.interval.as_dict(),
            "paired": self.paired,
            "verdict": str(self.change),
        }


def _digits(number: float) -> str:
    return format_number(number, decimals_for(number, digits=3))


OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}

RULE = re.compile(r"\s*(?P<name>\S+?)\s*(?P<sign><=|>=|<|>)\s*(?P<limit>[0-9.]+)\s*")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about ratios, as `requests_per_s < 0.97`. A ratio that matches it fails."""

    quantity: str
    sign: str
    limit: float

    def __str__(self) -> str:
        """The text from which the rule was read."""
        return f"{self.quantity} {self.sign} {self.limit:g}"

    def is_broken_by(self, ratio: Ratio) -> bool:
        """Whether the value of a ratio matches the rule, perhaps by chance."""
        if ratio.quantity != self.quantity or ratio.interval is None:
            return False
        return OPERATORS[self.sign](ratio.interval.value, self.limit)

    def is_certain(self, ratio: Ratio) -> bool:
        """Whether the whole interval matches the rule, or the value if there is one run.

        The comparison fails only in this case. Otherwise chance can explain the ratio.
        """
        interval = ratio.interval
        if interval is None or not self.is_broken_by(ratio):
            return False
        ends = (interval.low, interval.high) if interval.is_bounded else (interval.value,)
        return all(OPERATORS[self.sign](end, self.limit) for end in ends)


@dataclass(frozen=True, slots=True)
class RuleResult:
    """A rule applied to two runs."""

    rule: Rule
    broken: tuple[Ratio, ...]
    """The ratios whose value matches the rule."""
    certain: tuple[Ratio, ...]
    """The ratios whose whole interval matches the rule."""
    unjudged: tuple[str, ...]
    """The points without a ratio."""
    has_ratio: bool

    @property
    def failures(self) -> list[str]:
        """The reasons why the rule fails; empty if it passes.

        A point without a ratio is a reason too: its second run failed or has the value zero.
        """
        found = [f"{self.rule}: at {ratio.point} it is {ratio.text}" for ratio in self.certain]
        if self.unjudged:
            found.append(f"{self.rule}: there is no ratio at {', '.join(self.unjudged)}")
        elif not self.has_ratio:
            found.append(f"{self.rule}: no point has a ratio")
        return found

    @property
    def notes(self) -> list[str]:
        """The ratios that match the rule, perhaps by chance."""
        return [
            f"{self.rule}: at {ratio.point} it is {ratio.text}: not distinguishable from "
            f"{self.rule.limit:g}"
            for ratio in self.broken
            if ratio not in self.certain
        ]


def read_rule(text: str) -> Rule:
    """The rule in a text; raises `ConfigurationError` with an example."""
    found = RULE.fullmatch(text)
    try:
        limit = float(found["limit"]) if found else math.nan
    except ValueError:
        limit = math.nan
    if found is None or math.isnan(limit):
        raise ConfigurationError(
            f"--fail-if {text!r}: expected QUANTITY, one of < <= > >=, and the ratio",
            parameter="--fail-if",
            value=text,
            hint='write it as --fail-if "requests_per_s < 0.97"',
        )
    return Rule(found["name"], found["sign"], limit)
