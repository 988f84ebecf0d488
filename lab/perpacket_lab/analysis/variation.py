"""The share of the variation of a response that each factor of a two-level design explains.

A factor's share is its part of the total sum of squares (Jain, *The Art of Computer Systems
Performance Analysis*, 1991, chapter 18).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from perpacket.analysis.factorial import allocate
from perpacket.analysis.statistics import DEFAULT_CONFIDENCE, Interval, mean
from perpacket.analysis.two_level import Design
from perpacket_lab.analysis.doubts import DOUBTS
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.published_comparison import Comparison, compare
from perpacket_lab.study.designs import TwoLevelDesign
from perpacket_lab.study.published import Published
from perpacket_lab.study.quantities import QUANTITIES, Rows
from perpacket_lab.study.study import Study

PREFIX = "variation."
"""The prefix of a share's name: `variation.PART.RESPONSE`, as `variation.clients.throughput`."""

LEAST_BLOCKS = 3
"""With fewer replications, shares have no interval."""


def compare_share(study: Study, row: Published, estimates: Estimates) -> Comparison:
    """A published share of the variation beside the share in this run."""
    _, part, response = row.quantity.split(".", 2)
    title = f"Variation by {part}: {QUANTITIES[f'stream.{response}'].title.lower()}"
    share = shares(study.design, estimates, response).get(part) if study.design else None
    configuration = study.point(row.point).configuration
    return compare(row, configuration, share, doubts(estimates.rows), title)


def doubts(rows: Rows) -> tuple[str, ...]:
    """The doubts about runs of the design, each once. Every share uses all runs."""
    names = []
    for name, text in DOUBTS.items():
        about = [
            point
            for point, own in rows.items()
            if any(row.get(f"doubts.{name}") is True for row in own.values())
        ]
        if about:
            names.append(f"{text} in {len(about)} of the design's {len(rows)} points")
    return tuple(names)


def shares(design: TwoLevelDesign, estimates: Estimates, response: str) -> dict[str, Interval]:
    """The parts of the variation of a response, in per cent; empty for an incomplete design.

    Blocks that lack a run are left out. There are no shares when a run lacks the response.
    """
    rows = estimates.rows
    blocks = sorted(set.intersection(*(set(rows.get(name, {})) for name in design.points)))
    value = QUANTITIES[f"stream.{response}"].value
    responses = [[value(rows[name][block]) for block in blocks] for name in design.points]
    complete = [[number for number in run if number is not None] for run in responses]
    if not blocks or any(len(run) < len(blocks) for run in complete):
        return {}
    return shares_of_responses(design.design, complete, estimates.confidence)


def shares_of_responses(
    design: Design,
    responses: Sequence[Sequence[float]],
    confidence: float = DEFAULT_CONFIDENCE,
) -> dict[str, Interval]:
    """The share of the variation that each part explains, in per cent.

    `responses` has a row for each run of the design. The intervals are by the jackknife over blocks
    (Efron and Stein, The Jackknife Estimate of Variance, Annals of Statistics 9, 1981), cut to 0
    and 100. With fewer than three blocks there are no intervals: the jackknife leaves one block
    out, and if only one block remains, it has no error term.
    """
    parts = _parts(design, responses)
    blocks = len(responses[0])
    if blocks < LEAST_BLOCKS:
        return {part: Interval(share, -inf, inf, blocks, 0.0) for part, share in parts.items()}
    without = [
        _parts(design, [[*run[:left_out], *run[left_out + 1 :]] for run in responses])
        for left_out in range(blocks)
    ]
    intervals = {}
    for part, share in parts.items():
        pseudo = [blocks * share - (blocks - 1) * other[part] for other in without]
        spread = mean(pseudo, confidence)
        half = (spread.high - spread.low) / 2
        low, high = max(0.0, share - half), min(100.0, share + half)
        intervals[part] = Interval(share, low, high, blocks, spread.confidence)
    return intervals


def _parts(design: Design, responses: Sequence[Sequence[float]]) -> dict[str, float]:
    """The shares of the factors, of all interactions together and of the error, in per cent."""
    allocation = allocate(design, responses)
    shares = {name: allocation.shares[(name,)] for name in design.factors}
    shares["interactions"] = sum(allocation.shares.values()) - sum(shares.values())
    shares["error"] = allocation.error_share
    return {part: 100 * share for part, share in shares.items()}
