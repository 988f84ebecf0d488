"""The order of a measured profile's regions beside the published order.

Kendall's tau compares two orders by their pairs. It is 1 if every pair of regions has the same
order in both, and -1 if every pair is reversed (Kendall, A New Measure of Rank Correlation,
Biometrika 30, 1938). Ties count for neither order (tau-b).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from perpacket.analysis.estimates import Estimates
from perpacket.analysis.published import Comparison, judge
from perpacket.analysis.statistics import mean
from perpacket.study.published import Published
from perpacket.study.quantities import QUANTITIES, SEVEN, Row
from perpacket.study.study import Study

QUANTITY = "region_order"
"""The quantity of the published rows that this module compares. The point of such a row also has
the published shares of all seven regions."""

TITLE = "Order of the seven regions (Kendall's tau)"
WIDEST_TAU = 0.75
"""Tau is between -1 and 1. An interval wider than this agrees with almost any order."""

SHARES = {f"busy_share.{region}": region for region in SEVEN}


def tau(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Kendall's tau-b of two lists of equal length; None if all values of a list are equal."""
    score, first_untied, second_untied = 0, 0, 0
    for a, b in combinations(range(len(first)), 2):
        sign = _sign(first[a] - first[b])
        other = _sign(second[a] - second[b])
        score += sign * other
        first_untied += abs(sign)
        second_untied += abs(other)
    if not first_untied or not second_untied:
        return None
    return score / math.sqrt(first_untied * second_untied)


def _sign(difference: float) -> int:
    return (difference > 0) - (difference < 0)


def published_shares(published: Sequence[Published], point: str) -> dict[str, float]:
    """The published shares of the regions at a point."""
    return {
        SHARES[row.quantity]: row.value
        for row in published
        if row.point == point and row.quantity in SHARES and row.value is not None
    }


def compare_order(study: Study, row: Published, estimates: Estimates) -> Comparison:
    """The published order of the regions at one point beside the measured one."""
    shares = published_shares(study.published, row.point)
    own = [measured_shares(one) for one in estimates.rows.get(row.point, {}).values()]
    complete = [one for one in own if len(one) == len(SEVEN)]
    taus = [
        found
        for one in complete
        if (found := tau([shares[r] for r in SEVEN], [one[r] for r in SEVEN])) is not None
    ]
    count = len(complete)
    means = {r: math.fsum(one[r] for one in complete) / count for r in SEVEN} if complete else {}
    published = replace(
        row,
        statement=f"order of the regions: {ordered(shares)}",
        widest=WIDEST_TAU,
        note=f"1 is the same order, 0 no relation, -1 the reverse; published: {ordered(shares)}; "
        f"measured: {ordered(means) or 'nothing'}",
    )
    interval = mean(taus, estimates.confidence).within(-1.0, 1.0) if taus else None
    return judge(published, study.point(row.point).configuration, interval, title=TITLE)


def measured_shares(row: Row) -> dict[str, float]:
    """The shares of the regions in one run."""
    found = {region: QUANTITIES[name].value(row) for name, region in SHARES.items()}
    return {region: value for region, value in found.items() if value is not None}


def ordered(shares: Mapping[str, float]) -> str:
    """The regions from the most to the least expensive, as `TCP, Driver, User`."""
    return ", ".join(sorted(shares, key=lambda region: -shares[region]))
