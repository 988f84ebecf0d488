"""Two runs of the same points beside each other: what changed from the one to the other.

A quantity at a point is told as the ratio of the second run to the first. Where both have a seed
(or block), its two values are a pair, and the interval is that of the pairs' ratios: what a seed
does to both cancels out. Without common seeds the two means of logarithms are compared as those of
two samples, with Welch's degrees of freedom (Welch, Biometrika 34, 1947).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from perpacket.analysis.published_rows import Rows, rows_of
from perpacket.analysis.statistics import (
    DEFAULT_CONFIDENCE,
    Interval,
    StatisticsError,
    decimals_for,
    format_number,
    paired_ratio,
    unpaired_ratio,
)
from perpacket.errors import ConfigurationError, CorruptObservation
from perpacket.run.directory import RunDirectory
from perpacket.study.quantities import QUANTITIES, Row
from perpacket.study.result_keys import columns, quantity

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
"""What is compared where nothing is named and the studies name nothing: of these, what there is."""


class Change(StrEnum):
    """What a ratio says."""

    HIGHER = "higher"
    LOWER = "lower"
    NONE = "no difference can be claimed"
    SAME = "the same"
    UNKNOWN = "cannot be told"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One quantity at one point: the second run over the first."""

    point: str
    quantity: str
    first: float
    second: float
    """Means over the runs that are compared."""
    interval: Interval | None
    """Of the ratio; None where a run came to zero or below, of which there is no ratio."""
    paired: bool

    @property
    def change(self) -> Change:
        """The verdict: a change is claimed only where the interval leaves out 1."""
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
        """`0.865 [0.836, 0.894]`, to three digits however wide the interval is."""
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
    """A ratio that must not be: `requests_per_s < 0.97`."""

    quantity: str
    sign: str
    limit: float

    def __str__(self) -> str:
        """As it was written."""
        return f"{self.quantity} {self.sign} {self.limit:g}"

    def is_broken_by(self, ratio: Ratio) -> bool:
        """Whether a ratio's value is as it must not be."""
        if ratio.quantity != self.quantity or ratio.interval is None:
            return False
        return OPERATORS[self.sign](ratio.interval.value, self.limit)

    def unjudged(self, compared: Compared) -> str:
        """Why it is not known how it stands, as `cannot be judged at POINT`; else nothing.

        A second run that came to zero, or failed, has no ratio to be asked of, and is no success.
        """
        if points := compared.unjudged.get(self.quantity):
            return f"it cannot be judged at {', '.join(points)}"
        asked = [ratio for ratio in compared.ratios if ratio.quantity == self.quantity]
        return "" if asked else "it cannot be judged, no point has a ratio"

    def is_certain(self, ratio: Ratio) -> bool:
        """Whether the whole interval is as it must not be."""
        interval = ratio.interval
        if interval is None or not interval.is_bounded:
            return False
        return all(OPERATORS[self.sign](end, self.limit) for end in (interval.low, interval.high))


def read_rule(text: str) -> Rule:
    """The rule in words; raises `ConfigurationError` saying how one is written."""
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
class Compared:
    """All ratios of two runs, and what could not be compared."""

    ratios: tuple[Ratio, ...]
    remarks: tuple[str, ...]
    unjudged: Mapping[str, tuple[str, ...]]
    """Of each named quantity the points of the first run that have no ratio of it."""


def compare(
    first: RunDirectory,
    second: RunDirectory,
    names: Sequence[str] = (),
    confidence: float = DEFAULT_CONFIDENCE,
    wished: Sequence[str] = (),
) -> Compared:
    """Every named quantity at every point that both have.

    After those in `names` come those in `wished` that the runs have; where that is none at all, the
    usual ones. Raises `ConfigurationError` when a quantity of `names` is in neither, or the runs
    share no point.
    """
    rows = rows_of(first), rows_of(second)
    common = [
        point.name
        for point in first.configuration.points
        if point.name in rows[0] and point.name in rows[1]
    ]
    if not common:
        raise ConfigurationError(
            f"{first.path} and {second.path} have no observation of the same point",
            parameter="directory",
            value=str(second.path),
            hint="compare two runs of one study: `perpacket study rerun` makes the second",
        )
    known = known_names([row for side in rows for own in side.values() for row in own.values()])
    for name in names:
        if name not in known:
            raise ConfigurationError(
                f"no quantity {name!r} in these runs",
                parameter="quantity",
                value=name,
                hint=f"there are {', '.join(known)}",
            )
    had = [[name for name in group if name in known] for group in (wished, USUAL)]
    chosen = list(dict.fromkeys([*names, *had[0]])) or had[1]
    ratios = [
        found
        for name in chosen
        for point in common
        if (found := ratio_at(point, name, rows, confidence)) is not None
    ]
    remarks = _remarks(first, second, rows, common, ratios, confidence)
    unjudged = {name: _unjudged(name, first, rows) for name in names}
    return Compared(tuple(ratios), tuple(remarks), unjudged)


def known_names(rows: Sequence[Row]) -> list[str]:
    """What can be compared: numbers of the results, and quantities that any of them gives."""
    computed = [
        name
        for name, each in QUANTITIES.items()
        if not each.paired and any(_value(name, row) is not None for row in rows)
    ]
    return list(dict.fromkeys(columns(rows) + computed))


def _value(name: str, row: Row) -> float | None:
    """A quantity of a row, None where the row lacks what it is computed from."""
    try:
        return quantity(name).value(row)
    except CorruptObservation:
        return None


def ratio_at(point: str, name: str, rows: tuple[Rows, Rows], confidence: float) -> Ratio | None:
    """The ratio of one quantity at one point; None where either run has none of it."""
    sides = [
        {
            seed: found
            for seed, row in side[point].items()
            if (found := _value(name, row)) is not None
        }
        for side in rows
    ]
    seeds = sorted(sides[0].keys() & sides[1].keys())
    chosen = [[side[seed] for seed in seeds or sorted(side)] for side in sides]
    if not all(chosen):
        return None
    means = [math.fsum(values) / len(values) for values in chosen]
    try:
        ratio = paired_ratio if seeds else unpaired_ratio
        interval = ratio(chosen[1], chosen[0], confidence)
    except StatisticsError:
        interval = None
    return Ratio(point, name, means[0], means[1], interval, bool(seeds))


def _unjudged(name: str, first: RunDirectory, rows: tuple[Rows, Rows]) -> tuple[str, ...]:
    """The points of the first run at which there is no ratio of a quantity that there should be.

    What neither run has at a point that both ran is no quantity of that point.
    """
    found = []
    for point in first.configuration.points:
        both = all(point.name in side for side in rows)
        if both and not any(
            _value(name, row) is not None for side in rows for row in side[point.name].values()
        ):
            continue
        ratio = ratio_at(point.name, name, rows, DEFAULT_CONFIDENCE) if both else None
        if ratio is None or ratio.interval is None:
            found.append(point.name)
    return tuple(found)


def _remarks(
    first: RunDirectory,
    second: RunDirectory,
    rows: tuple[Rows, Rows],
    common: list[str],
    ratios: list[Ratio],
    confidence: float,
) -> list[str]:
    """What was not compared, and how many differences chance alone would show."""
    found = []
    for directory, own in zip((first, second), rows, strict=True):
        apart = [point for point in own if point not in common]
        if apart:
            found.append(f"only in {directory.path}: {', '.join(apart)}")
    versions = [each.configuration.perpacket for each in (first, second)]
    if versions[0] != versions[1]:
        found.append(f"begun by perpacket {versions[0]} and by {versions[1]}")
    if any(not ratio.paired for ratio in ratios):
        found.append("no common seeds at some points: those are compared as two samples")
    bounded = [
        ratio for ratio in ratios if ratio.interval is not None and ratio.interval.is_bounded
    ]
    by_chance = (1 - confidence) * len(bounded)
    if by_chance >= 1:
        found.append(
            f"of {len(bounded)} comparisons at {100 * confidence:g} %, about {by_chance:.0f} would "
            "show a difference by chance alone"
        )
    return found
