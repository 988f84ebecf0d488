"""Two runs of the same points compared: the ratio of each quantity at each point.

The two values of a seed (or block) that both runs have are a pair. The interval is that of the
ratios of pairs, so the effect of the seed cancels out. Without common seeds the runs are two
samples, and the means of their logarithms are compared with Welch's degrees of freedom (Welch,
Biometrika 34, 1947). Blocks of a measured run follow each other in time, so the interval uses the
number of independent blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perpacket.analysis.claim import Claim, Pair, ratio_claim
from perpacket.analysis.ratios import RatioRule, RuleResult
from perpacket.analysis.statistics import (
    DEFAULT_CONFIDENCE,
    StatisticsError,
    paired_ratio,
    unpaired_ratio,
)
from perpacket.errors import ConfigurationError
from perpacket_lab.analysis.estimates import value_or_none
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.study.quantities import QUANTITIES, Row, Rows, columns, quantity

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


@dataclass(frozen=True, slots=True)
class RunComparison:
    """All ratios of two runs, the rules applied to them, and remarks."""

    first: str
    second: str
    """The directories of the runs."""
    ratios: tuple[Claim[Pair], ...]
    remarks: tuple[str, ...]
    rules: tuple[RuleResult, ...] = ()
    confidence: float = DEFAULT_CONFIDENCE


@dataclass(frozen=True, slots=True)
class Sides:
    """The observations of two runs and how their intervals are computed."""

    rows: tuple[Rows, Rows]
    confidence: float
    in_time_order: bool

    def ratio(self, point: str, name: str) -> Claim[Pair] | None:
        """The ratio of one quantity at one point; None if either run lacks the quantity."""
        value = quantity(name).value
        first, second = (
            {
                seed: number
                for seed, row in side.get(point, {}).items()
                if (number := value_or_none(value, row)) is not None
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
        return ratio_claim(point, name, interval, Pair(means[0], means[1], bool(seeds)))

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
    rules: Sequence[RatioRule] = (),
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
    ratios = [ratio for name in chosen for point in common if (ratio := sides.ratio(point, name))]
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
    rule: RatioRule, ratios: Sequence[Claim[Pair]], points: Sequence[str], sides: Sides
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
    return ratio is None or ratio.value is None


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
    ratios: list[Claim[Pair]],
) -> list[str]:
    """The points that were not compared, and the expected number of differences by chance."""
    remarks = []
    for directory, own in zip((first, second), sides.rows, strict=True):
        unmatched = [point for point in own if point not in common]
        if unmatched:
            remarks.append(f"only in {directory.path}: {', '.join(unmatched)}")
    versions = [each.configuration.perpacket for each in (first, second)]
    if versions[0] != versions[1]:
        remarks.append(f"begun by perpacket {versions[0]} and by {versions[1]}")
    if any(not ratio.detail.paired for ratio in ratios):
        remarks.append("no common seeds at some points: those are compared as two samples")
    bounded = [ratio for ratio in ratios if ratio.value is not None and ratio.value.is_bounded]
    by_chance = (1 - sides.confidence) * len(bounded)
    if by_chance >= 1:
        remarks.append(
            f"of {len(bounded)} comparisons at {100 * sides.confidence:g} %, expect about "
            f"{by_chance:.0f} to differ by chance"
        )
    return remarks
