"""The effects of a two-level design on a response, and the variation that each explains.

Source: Jain, *The Art of Computer Systems Performance Analysis*, 1991, chapters 17 to 19.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpacket.analysis.claim import Relation, judge
from perpacket.analysis.statistics import (
    DEFAULT_CONFIDENCE,
    Interval,
    StatisticsError,
    check_confidence,
    check_values,
    t_quantile,
)
from perpacket.analysis.two_level import Design, Effect


@dataclass(frozen=True, slots=True)
class Allocation:
    """The effects of a design, and the share of the variation that each explains.

    Shares are fractions of the total sum of squares; with `error_share` they sum to 1. An effect of
    a fractional design includes the effects that are confounded with it.
    """

    effects: Mapping[Effect, Interval]
    """Half the change from the lower to the upper level, in the responses' unit."""
    shares: Mapping[Effect, float]
    error_share: float
    """The share that no effect explains: the spread of replications."""

    def significant(self, effect: Effect) -> bool:
        """Whether an effect's interval excludes zero."""
        return judge(self.effects[effect], Relation.DIFFERENCE).is_shown


def allocate(
    design: Design,
    responses: Sequence[Sequence[float]],
    confidence: float = DEFAULT_CONFIDENCE,
) -> Allocation:
    """Effects with intervals, and the allocation of variation.

    `responses` has a row for each run of the design. With one replication of each run there is no
    error term, and bounds are infinite. Raises `StatisticsError` when rows are missing, have
    different lengths or have a value that is not finite.
    """
    check_confidence(confidence)
    if len(responses) != len(design.runs):
        raise StatisticsError(f"{len(responses)} rows of responses for {len(design.runs)} runs")
    replications = len(responses[0])
    if any(len(row) != replications for row in responses):
        raise StatisticsError("the runs have different numbers of replications")
    for row in responses:
        check_values(row)
    means = [math.fsum(row) / replications for row in responses]
    errors = math.fsum(
        (value - centre) ** 2 for row, centre in zip(responses, means, strict=True) for value in row
    )
    values = {
        effect: math.fsum(map(math.prod, zip(design.column(effect), means, strict=True)))
        / len(means)
        for effect in (group[0] for group in design.confounded())
    }
    half = _half_width(errors, len(means), replications, confidence)
    n = len(means) * replications
    squares = {effect: n * value**2 for effect, value in values.items() if effect}
    total = math.fsum(squares.values()) + errors
    return Allocation(
        effects={
            effect: Interval(value, value - half, value + half, n, confidence)
            for effect, value in values.items()
        },
        shares={effect: square / total if total else 0.0 for effect, square in squares.items()},
        error_share=errors / total if total else 0.0,
    )


def _half_width(errors: float, runs: int, replications: int, confidence: float) -> float:
    """Half the interval of an effect: t x s_e / sqrt(runs x replications)."""
    degrees = runs * (replications - 1)
    if degrees == 0:
        return math.inf
    deviation = math.sqrt(errors / degrees)
    return t_quantile(confidence, degrees) * deviation / math.sqrt(runs * replications)
