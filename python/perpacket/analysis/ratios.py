"""A ratio of two costs with its verdict, and the rules of `--fail-if` about ratios."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perpacket.analysis.claim import Claim, Pair
from perpacket.analysis.statistics import Interval, decimals_for, format_number
from perpacket.errors import ConfigurationError

MOST_DECIMALS = 5
"""The most decimals of a ratio that is printed."""


def ratio_text(ratio: Claim[Pair]) -> str:
    """`0.865 [0.836, 0.894]`, to three digits, or as many as a narrow interval needs."""
    if ratio.value is None:
        return "-"
    ends = ratio.value.value, ratio.value.low, ratio.value.high
    least = decimals_of_width(ratio.value)
    value, low, high = (format_number(end, max(least, decimals_for(end, digits=3))) for end in ends)
    if not ratio.value.is_bounded:
        return f"{value} ({'one run' if ratio.value.n == 1 else 'no interval'})"
    return f"{value} [{low}, {high}]"


def decimals_of_width(interval: Interval) -> int:
    """The decimals at which the ends of an interval of a ratio differ, at most `MOST_DECIMALS`.

    For an interval without a width, those at which its value differs from 1.
    """
    width = interval.high - interval.low or abs(interval.value - 1)
    if not interval.is_bounded or not 0 < width < math.inf:
        return 0
    return min(MOST_DECIMALS, max(0, math.ceil(-math.log10(width))))


def ratio_fields(ratio: Claim[Pair]) -> dict[str, object]:
    """The fields of a ratio for JSON."""
    return {
        "point": ratio.subject,
        "quantity": ratio.quantity,
        "first": ratio.detail.first,
        "second": ratio.detail.second,
        "ratio": None if ratio.value is None else ratio.value.as_dict(),
        "paired": ratio.detail.paired,
        "verdict": str(ratio.verdict),
    }


OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}

RULE = re.compile(r"\s*(?P<name>\S+?)\s*(?P<sign><=|>=|<|>)\s*(?P<limit>[0-9.]+)\s*")


@dataclass(frozen=True, slots=True)
class RatioRule:
    """A rule about ratios, as `requests_per_s < 0.97`. A ratio that matches it fails."""

    quantity: str
    sign: str
    limit: float

    def __str__(self) -> str:
        """The text from which the rule was read."""
        return f"{self.quantity} {self.sign} {self.limit:g}"

    def is_broken_by(self, ratio: Claim[Pair]) -> bool:
        """Whether the value of a ratio matches the rule, perhaps by chance."""
        if ratio.quantity != self.quantity or ratio.value is None:
            return False
        return OPERATORS[self.sign](ratio.value.value, self.limit)

    def is_certain(self, ratio: Claim[Pair]) -> bool:
        """Whether the whole interval matches the rule, or the value if there is one run.

        The comparison fails only in this case. Otherwise chance can explain the ratio.
        """
        interval = ratio.value
        if interval is None or not self.is_broken_by(ratio):
            return False
        ends = (interval.low, interval.high) if interval.is_bounded else (interval.value,)
        return all(OPERATORS[self.sign](end, self.limit) for end in ends)


@dataclass(frozen=True, slots=True)
class RuleResult:
    """A rule applied to two runs."""

    rule: RatioRule
    broken: tuple[Claim[Pair], ...]
    """The ratios whose value matches the rule."""
    certain: tuple[Claim[Pair], ...]
    """The ratios whose whole interval matches the rule."""
    unjudged: tuple[str, ...]
    """The points without a ratio."""
    has_ratio: bool

    @property
    def failures(self) -> list[str]:
        """The reasons why the rule fails; empty if it passes.

        A point without a ratio is a reason too: its second run failed or has the value zero.
        """
        failures = [
            f"{self.rule}: at {ratio.subject} it is {ratio_text(ratio)}" for ratio in self.certain
        ]
        if self.unjudged:
            failures.append(f"{self.rule}: there is no ratio at {', '.join(self.unjudged)}")
        elif not self.has_ratio:
            failures.append(f"{self.rule}: no point has a ratio")
        return failures

    @property
    def notes(self) -> list[str]:
        """The ratios that match the rule, perhaps by chance."""
        return [
            f"{self.rule}: at {ratio.subject} it is {ratio_text(ratio)}: not distinguishable from "
            f"{self.rule.limit:g}"
            for ratio in self.broken
            if ratio not in self.certain
        ]


def read_rule(text: str, example: str = "total > 1.05") -> RatioRule:
    """The rule in a text; raises `ConfigurationError` with an example."""
    match = RULE.fullmatch(text)
    try:
        limit = float(match["limit"]) if match else math.nan
    except ValueError:
        limit = math.nan
    if match is None or math.isnan(limit):
        raise ConfigurationError(
            f"--fail-if {text!r}: expected QUANTITY, one of < <= > >=, and the ratio",
            parameter="--fail-if",
            value=text,
            hint=f'write it as --fail-if "{example}"',
        )
    return RatioRule(match["name"], match["sign"], limit)
