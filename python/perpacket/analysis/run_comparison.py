"""Two runs of the same points compared: the ratio of each quantity at each point.

The two values of a seed (or block) that both runs have are a pair. The interval is that of the
ratios of pairs, so the effect of the seed cancels out. Without common seeds the runs are two
samples, and the means of their logarithms are compared with Welch's degrees of freedom (Welch,
Biometrika 34, 1947). Blocks of a measured run follow each other in time, so the interval uses the
number of independent blocks.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from perpacket.analysis.estimates import value_or_none
from perpacket.analysis.statistics import (
    Interval,
    StatisticsError,
    decimals_for,
    format_number,
    paired_ratio,
    unpaired_ratio,
)
from perpacket.errors import ConfigurationError
from perpacket.run.directory import RunDirectory
from perpacket.study.quantities import QUANTITIES, Row, Rows, columns, quantity
from perpacket.study.stopping import DEFAULT_CONFIDENCE

USUAL = (
    "requests_per_s",
    "goodput_mbps",
    "packets_per_s",
    "ns.Stack",
    "cycles.Stack",
    "latency_us.response.p99",
    "response_ms.p99",
    "server_idle",
    "host_idle",
)
"""The quantities that are compared by default, if the runs have them."""


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


@dataclass(frozen=True, slots=True)
class RunComparison:
    """All ratios of two runs, the rules applied to them, and remarks."""

    first: str
    second: str
    """The directories of the runs."""
    ratios: tuple[Ratio, ...]
    remarks: tuple[str, ...]
    rules: tuple[RuleResult, ...] = ()
    confidence: float = DEFAULT_CONFIDENCE


@dataclass(frozen=True, slots=True)
class Sides:
    """The observations of two runs and how their intervals are computed."""

    rows: tuple[Rows, Rows]
    confidence: float
    in_time_order: bool

    def ratio(self, point: str, name: str) -> Ratio | None:
        """The ratio of one quantity at one point; None if either run lacks the quantity."""
        value = quantity(name).value
        first, second = (
            {
                seed: found
                for seed, row in side.get(point, {}).items()
                if (found := value_or_none(value, row)) is not None
            }
            for side in self.rows
        )
        seeds = sorted(first.keys() & second.keys())
        chosen = [[side[seed] for seed in seeds or sorted(side)] for side in (first, second)]
        if not all(chosen):
            return None
        means = [math.fsum(values) / len(values) for values in chosen]
        ratio = paired_ratio if seeds else unpaired_ratio
        try:
            interval = ratio(
                chosen[1], chosen[0], self.confidence, in_time_order=self.in_time_order
            )
        except StatisticsError:
            interval = None
        return Ratio(point, name, means[0], means[1], interval, bool(seeds))

    def has(self, point: str, name: str) -> bool:
        """Whether any run of a point has a quantity, on either side."""
        value = quantity(name).value
        own = (row for side in self.rows for row in side[point].values())
        return any(value_or_none(value, row) is not None for row in own)


def compare(
    first: RunDirectory,
    second: RunDirectory,
    names: Sequence[str] = (),
    *,
    summary: Sequence[str] = (),
    rules: Sequence[Rule] = (),
    in_time_order: bool = False,
) -> RunComparison:
    """Compare quantities at every point that both runs have.

    The quantities are `names` and those of `rules`. `names` defaults to the study's `summary`, and
    without a summary to `USUAL`. `in_time_order` is for measured runs. Raises `ConfigurationError`
    when neither run has one of `names`, or when the runs have no point in common.
    """
    sides = Sides((first.rows(), second.rows()), first.configuration.confidence, in_time_order)
    common = [
        point.name
        for point in first.configuration.points
        if all(point.name in side for side in sides.rows)
    ]
    if not common:
        raise ConfigurationError(
            f"{first.path} and {second.path} have no observation of the same point",
            parameter="directory",
            value=str(second.path),
            hint="compare two runs of one study: `perpacket study rerun` makes the second",
        )
    requested = [*(rule.quantity for rule in rules), *names]
    chosen = chosen_names(sides.rows, requested, () if names else summary)
    ratios = [found for name in chosen for point in common if (found := sides.ratio(point, name))]
    points = [point.name for point in first.configuration.points]
    return RunComparison(
        str(first.path),
        str(second.path),
        tuple(ratios),
        tuple(_remarks(first, second, sides, common, ratios)),
        tuple(_applied(rule, ratios, points, sides) for rule in rules),
        sides.confidence,
    )


def chosen_names(
    sides: tuple[Rows, Rows], requested: Sequence[str], summary: Sequence[str]
) -> list[str]:
    """The quantities to compare; raises `ConfigurationError` on one that neither run has."""
    known = known_names([row for side in sides for own in side.values() for row in own.values()])
    for name in requested:
        if name not in known:
            raise ConfigurationError(
                f"no quantity {name!r} in these runs",
                parameter="quantity",
                value=name,
                hint=f"there are {', '.join(known)}",
            )
    summarized, usual = ([name for name in group if name in known] for group in (summary, USUAL))
    return list(dict.fromkeys([*requested, *summarized])) or usual


def _applied(
    rule: Rule, ratios: Sequence[Ratio], points: Sequence[str], sides: Sides
) -> RuleResult:
    """A rule applied to the ratios of its quantity."""
    own = [ratio for ratio in ratios if ratio.quantity == rule.quantity]
    broken = tuple(ratio for ratio in own if rule.is_broken_by(ratio))
    unjudged = tuple(point for point in points if _is_unjudged(point, rule.quantity, sides))
    certain = tuple(ratio for ratio in broken if rule.is_certain(ratio))
    return RuleResult(rule, broken, certain, unjudged, bool(own))


def _is_unjudged(point: str, name: str, sides: Sides) -> bool:
    """Whether a point of the first run lacks a ratio that it should have.

    If both runs have the point and neither has the quantity there, it needs no ratio.
    """
    both = all(point in side for side in sides.rows)
    if both and not sides.has(point, name):
        return False
    ratio = sides.ratio(point, name) if both else None
    return ratio is None or ratio.interval is None


def known_names(rows: Sequence[Row]) -> list[str]:
    """The names of the results' numbers, and of the quantities that any result has."""
    computed = [
        name
        for name, each in QUANTITIES.items()
        if not each.paired and any(value_or_none(each.value, row) is not None for row in rows)
    ]
    return list(dict.fromkeys(columns(rows) + computed))


def _remarks(
    first: RunDirectory,
    second: RunDirectory,
    sides: Sides,
    common: list[str],
    ratios: list[Ratio],
) -> list[str]:
    """The points that were not compared, and the expected number of differences by chance."""
    found = []
    for directory, own in zip((first, second), sides.rows, strict=True):
        unmatched = [point for point in own if point not in common]
        if unmatched:
            found.append(f"only in {directory.path}: {', '.join(unmatched)}")
    versions = [each.configuration.perpacket for each in (first, second)]
    if versions[0] != versions[1]:
        found.append(f"begun by perpacket {versions[0]} and by {versions[1]}")
    if any(not ratio.paired for ratio in ratios):
        found.append("no common seeds at some points: those are compared as two samples")
    bounded = [
        ratio for ratio in ratios if ratio.interval is not None and ratio.interval.is_bounded
    ]
    by_chance = (1 - sides.confidence) * len(bounded)
    if by_chance >= 1:
        found.append(
            f"of {len(bounded)} comparisons at {100 * sides.confidence:g} %, expect about "
            f"{by_chance:.0f} to differ by chance"
        )
    return found
