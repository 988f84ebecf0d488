"""The knee of a curve of throughput: where it has 95 % of its maximum.

The curve has the points that differ from a published row's point only in the factor. In each block,
the knee is the first level with 95 % of the highest throughput, interpolated linearly from the
level before. If only the last level has it, throughput may still rise. If this is so for the means
of all blocks, there is no knee; if it is so for a block alone, the last level counts as its knee.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final

from perpacket.analysis.statistics import Interval, mean
from perpacket_lab.analysis.doubts import doubt_warnings
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.published_comparison import Comparison, compare
from perpacket_lab.study.published import Published
from perpacket_lab.study.quantities import QUANTITIES
from perpacket_lab.study.study import Study

PREFIX: Final = "knee."
"""The prefix of a knee's name: `knee.FACTOR`, along that factor."""

SHARE: Final = 0.95
"""The share of the highest throughput at the knee."""


def compare_knee(study: Study, row: Published, estimates: Estimates) -> Comparison:
    """A published knee beside that of the run, in the unit of the factor."""
    factor = row.quantity.removeprefix(PREFIX)
    own = study.point(row.point)
    points = {
        float(level): point.name
        for point in study.points
        if {**point.factors, factor: 0} == {**own.factors, factor: 0}
        and isinstance(level := point.factors[factor], int | float)
    }
    curve = {
        level: estimates.values(name, "requests_per_s")
        for level, name in points.items()
        if estimates.runs(name)
    }
    levels = sorted(curve)
    blocks = sorted(set.intersection(*(set(runs) for runs in curve.values()))) if curve else []
    interval: Interval | None = None
    averages = [fmean(curve[level][block] for block in blocks) for level in levels if blocks]
    if knee(levels, averages) is not None:
        places = [knee(levels, [curve[level][block] for level in levels]) for block in blocks]
        known = [levels[-1] if place is None else place for place in places]
        interval = mean(known, estimates.confidence).within(levels[0], levels[-1])
    warnings = tuple(doubt_warnings(estimates.rows.get(row.point, {})))
    title = QUANTITIES[row.quantity].title
    return compare(row, own.configuration, interval, warnings, title)


def knee(levels: Sequence[float], throughput: Sequence[float]) -> float | None:
    """The level at which throughput first has 95 % of its highest value.

    `levels` rise. None if only the last level has it, or without two levels.
    """
    if len(throughput) < 2:
        return None
    wanted = SHARE * max(throughput)
    if throughput[0] >= wanted:
        return levels[0]
    steps = list(pairwise(zip(levels, throughput, strict=True)))
    for (low, before), (high, after) in steps[:-1]:
        if after >= wanted:
            return low + (high - low) * (wanted - before) / (after - before)
    return None
