"""The published figures of a study beside a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perpacket.analysis.statistics import Interval, mean, unranked
from perpacket_lab.analysis import knees, region_order, variation
from perpacket_lab.analysis.doubts import (
    balance_warnings,
    chains,
    doubt_warnings,
    replication_warnings,
)
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.published_comparison import Comparison, compare
from perpacket_lab.study.point import first_names
from perpacket_lab.study.published import Published
from perpacket_lab.study.quantities import QUANTITIES, Quantity
from perpacket_lab.study.study import Study


def compare_all(study: Study, estimates: Estimates) -> list[Comparison]:
    """Every published row of the study beside the run, in the document's order.

    A row concerns one point, the order of the regions at a point, a curve, or the whole design.
    """
    comparisons = []
    for published in study.published:
        row = extreme(study, published, estimates)
        if row.quantity in region_order.ORDERS:
            comparisons.append(region_order.compare_order(study, row, estimates))
        elif row.quantity.startswith(variation.PREFIX):
            comparisons.append(variation.compare_share(study, row, estimates))
        elif row.quantity.startswith(knees.PREFIX):
            comparisons.append(knees.compare_knee(study, row, estimates))
        else:
            comparisons.append(compare_figure(study, row, estimates))
    return comparisons


def extreme(study: Study, row: Published, estimates: Estimates) -> Published:
    """The row about the point of `among` with the highest mean; the lowest below zero.

    A change of each point is from its own baseline in the study.
    """
    if len(row.among) < 2:
        return row
    own = [
        replace(row, point=point.name, against=row.against and point.against)
        for point in study.points
        if point.name in row.among
    ]
    means = {
        candidate: interval.value
        for candidate in own
        if (
            interval := estimate(
                estimates, QUANTITIES[row.quantity], candidate.point, candidate.against
            )[0]
        )
    }
    sign = 1 if (row.value or 0) >= 0 else -1
    return max(means, key=lambda candidate: sign * means[candidate]) if means else row


def compare_figure(study: Study, published: Published, estimates: Estimates) -> Comparison:
    """One published figure beside the observations of its point."""
    own = estimates.rows.get(published.point, {})
    quantity = QUANTITIES[published.quantity]
    interval, values = estimate(estimates, quantity, published.point, published.against)
    warnings = [
        *replication_warnings(values, published.unit),
        *balance_warnings(own),
        *doubt_warnings(own),
    ]
    configuration = study.point(published.point).configuration
    return compare(published, configuration, interval, tuple(warnings), quantity.title)


def estimate(
    estimates: Estimates, quantity: Quantity, point: str, against: str | None = None
) -> tuple[Interval | None, list[float]]:
    """A quantity at a point, or its change against another, and its value in each run.

    A change uses the seeds that both points have. The interval is None if no run has the
    quantity.
    """
    own = estimates.values(point, quantity)
    if quantity.of_ratio is None:
        return estimates.mean(point, quantity), list(own.values())
    base = estimates.values(against, quantity) if against else {}
    ratios = [own[seed] / base[seed] for seed in own if base.get(seed)]
    ratio = estimates.ratio(point, against, quantity) if against else None
    if ratio is None and 0.0 in ratios:  # it has no logarithm
        ratio = mean(ratios, estimates.confidence)
    if ratio is None:
        return None, []
    return ratio.map(quantity.of_ratio), [quantity.of_ratio(each) for each in ratios]


def rankings(study: Study, estimates: Estimates) -> list[str]:
    """Sentences on points whose intervals of a ranked quantity overlap, so their order is open.

    A ranking has one baseline and the points that are compared with it.
    """
    baselines = dict.fromkeys(point.against or point.name for point in study.points)
    return [
        f"{QUANTITIES[name].title.lower()}: neighbours are not distinguishable: "
        f"{first_names(group)}"
        for name in study.ranked
        for baseline in baselines
        for group in chains(unranked(bounded(study, estimates, name, baseline)))
    ]


def bounded(study: Study, estimates: Estimates, name: str, baseline: str) -> dict[str, Interval]:
    """The means of a quantity that have an interval, at the points of one baseline."""
    return {
        point.name: interval
        for point in study.points
        if baseline == (point.against or point.name)
        and (interval := estimates.mean(point.name, name)) is not None
        and interval.is_bounded
    }


def warnings_of(comparisons: Sequence[Comparison]) -> list[tuple[str, str]]:
    """Each comparison's warnings with its point."""
    return [(row.reference.point, text) for row in comparisons for text in row.warnings]
