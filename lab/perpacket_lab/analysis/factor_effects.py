"""The summary of a run: quantities by point, effects of factors, and remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpacket.analysis.claim import Claim, Relation, judge
from perpacket.analysis.factorial import allocate
from perpacket.analysis.two_level import Design
from perpacket_lab.study.designs import MOST_CONFOUNDED, effect_text
from perpacket_lab.study.point import first_names

SummaryRow = Claim[tuple[str, ...]]
"""The mean of one quantity at one point over its runs; the detail are warnings about them."""


@dataclass(frozen=True, slots=True)
class Explained:
    """The part of an effect in the variation."""

    share: float | None
    """The share of the variation that the effect explains, 0 to 1; None for the mean."""
    confounded: tuple[str, ...] = ()
    """The effects confounded with this one. The interval is that of the sum of all."""

    @property
    def confounded_text(self) -> str:
        """The simplest of the confounded effects, and the number of the others."""
        return first_names(self.confounded, MOST_CONFOUNDED)


EffectRow = Claim[Explained]
"""One effect of a two-level design: half the change from the lower to the upper level."""


@dataclass(frozen=True, slots=True)
class FactorEffects:
    """The effects of all factors on one quantity."""

    quantity: str
    unit: str
    rows: tuple[EffectRow, ...]
    error_share: float
    """The share that no effect explains, 0 to 1: the spread of replications."""
    replications: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run."""

    rows: tuple[SummaryRow, ...]
    effects: tuple[FactorEffects, ...] = ()
    remarks: tuple[str, ...] = ()
    """Doubts about the rows, in sentences without a full stop."""
    confidence: float = 0.95


def effects_of(
    design: Design,
    quantity: str,
    unit: str,
    responses: Sequence[Sequence[float]],
    confidence: float,
) -> FactorEffects:
    """The effects of a design on a quantity: the mean, then the effects by their share.

    `responses` has a row for each run of the design. Raises what `factorial.allocate` raises.
    """
    allocation = allocate(design, responses, confidence)
    groups = {group[0]: group[1:] for group in design.confounded()}
    rows = [
        Claim(
            subject=effect_text(effect),
            quantity=quantity,
            unit=unit,
            value=interval,
            reference=None,
            relation=Relation.DIFFERENCE,
            verdict=judge(interval, Relation.DIFFERENCE),
            remark="",
            detail=Explained(
                allocation.shares.get(effect), tuple(effect_text(other) for other in groups[effect])
            ),
        )
        for effect, interval in allocation.effects.items()
    ]
    rows.sort(key=lambda row: -2.0 if row.detail.share is None else -row.detail.share)
    return FactorEffects(quantity, unit, tuple(rows), allocation.error_share, len(responses[0]))


def paired_values(
    values: Mapping[str, Mapping[int, float]], points: Sequence[str]
) -> list[list[float]]:
    """For each point, its values with the seeds that all points have, in the order of seeds."""
    seeds = set.intersection(*(set(values.get(point, {})) for point in points))
    return [[values[point][seed] for seed in sorted(seeds)] for point in points]
