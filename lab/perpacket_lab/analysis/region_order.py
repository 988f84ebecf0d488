"""The order of a run's regions beside the published order.

Kendall's tau compares two orders by their pairs. It is 1 if every pair of regions has the same
order in both, and -1 if every pair is reversed (Kendall, A New Measure of Rank Correlation,
Biometrika 30, 1938). Ties count for neither order (tau-b).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from perpacket.analysis.statistics import mean
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.published_comparison import Comparison, compare
from perpacket_lab.study.published import Published
from perpacket_lab.study.quantities import QUANTITIES, SEVEN, Row
from perpacket_lab.study.study import Study

ORDERS = {"region_order": "busy_share", "instruction_order": "instructions"}
"""The quantities of the published rows that this module compares, each with the quantity of a
region that has the order. The point of such a row also has the published values of all regions."""

WIDEST_TAU = 0.75
"""Tau is between -1 and 1. An interval wider than this agrees with almost any order."""


def regions_of(order: str) -> dict[str, str]:
    """The region of each quantity that has the order."""
    return {f"{ORDERS[order]}.{region}": region for region in SEVEN}


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


def published_values(published: Sequence[Published], order: Published) -> dict[str, float]:
    """The published values of the regions at the point of an order."""
    regions = regions_of(order.quantity)
    return {
        regions[row.quantity]: row.value
        for row in published
        if row.point == order.point and row.quantity in regions and row.value is not None
    }


def compare_order(study: Study, row: Published, estimates: Estimates) -> Comparison:
    """The published order of the regions at one point beside that of the run."""
    shares = published_values(study.published, row)
    rows = estimates.rows.get(row.point, {}).values()
    own = [values_of(shares, row.quantity) for shares in rows]
    complete = [shares for shares in own if len(shares) == len(SEVEN)]
    taus = [
        order
        for own in complete
        if (order := tau([shares[r] for r in SEVEN], [own[r] for r in SEVEN])) is not None
    ]
    count = len(complete)
    means = (
        {r: math.fsum(shares[r] for shares in complete) / count for r in SEVEN} if complete else {}
    )
    published = replace(
        row,
        statement=f"order of the regions: {ordered(shares)}",
        widest=WIDEST_TAU,
        note=f"1 is the same order, 0 no relation, -1 the reverse; published: {ordered(shares)}; "
        f"here: {ordered(means) or 'nothing'}",
    )
    interval = mean(taus, estimates.confidence).within(-1.0, 1.0) if taus else None
    title = QUANTITIES[row.quantity].title
    return compare(published, study.point(row.point).configuration, interval, title=title)


def values_of(row: Row, order: str) -> dict[str, float]:
    """The values of the regions in one run, by which an order ranks them."""
    values = {region: QUANTITIES[name].value(row) for name, region in regions_of(order).items()}
    return {region: value for region, value in values.items() if value is not None}


def ordered(values: Mapping[str, float]) -> str:
    """The regions from the most to the least expensive, as `TCP, Driver, User`."""
    return ", ".join(sorted(values, key=lambda region: -values[region]))
