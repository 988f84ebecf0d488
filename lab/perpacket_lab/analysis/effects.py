"""The summary of a run: quantities by point, effects of factors, and remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from perpacket.analysis.factorial import allocate
from perpacket.analysis.statistics import Interval
from perpacket.analysis.two_level import Design
from perpacket_lab.study.designs import MOST_CONFOUNDED, effect_text
from perpacket_lab.study.point import first_names


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One quantity at one point: the mean over its runs, and warnings about them."""

    point: str
    quantity: str
    unit: str
    interval: Interval | None
    """The interval of the mean; None if no run has the quantity."""
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The fields for JSON."""
        interval = None if self.interval is None else self.interval.as_dict()
        return asdict(self) | {"interval": interval, "warnings": list(self.warnings)}


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One effect of a two-level design."""

    effect: str
    interval: Interval
    """Half the change from the lower to the upper level, in the quantity's unit."""
    share: float | None
    """The share of the variation that the effect explains, 0 to 1; None for the mean."""
    confounded: tuple[str, ...] = ()
    """The effects confounded with this one. The interval is that of the sum of all."""

    @property
    def confounded_text(self) -> str:
        """The simplest of the confounded effects, and the number of the others."""
        return first_names(self.confounded, MOST_CONFOUNDED)

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.interval.is_bounded and not self.interval.contains(0.0)


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of all factors on one quantity."""

    quantity: str
    unit: str
    rows: tuple[EffectRow, ...]
    error_share: float
    """The share that no effect explains, 0 to 1: the spread of replications."""
    replications: int

    def as_dict(self) -> dict[str, object]:
        """The fields for JSON."""
        rows = [
            {
                "effect": row.effect,
                "interval": row.interval.as_dict(),
                "share": row.share,
                "confounded": list(row.confounded),
            }
            for row in self.rows
        ]
        return {
            "quantity": self.quantity,
            "unit": self.unit,
            "effects": rows,
            "error_share": self.error_share,
            "replications": self.replications,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run."""

    rows: tuple[SummaryRow, ...]
    effects: tuple[Effects, ...] = ()
    remarks: tuple[str, ...] = ()
    """Doubts about the rows, in sentences without a full stop."""
    confidence: float = 0.95


def effects_of(
    design: Design,
    quantity: str,
    unit: str,
    responses: Sequence[Sequence[float]],
    confidence: float,
) -> Effects:
    """The effects of a design on a quantity: the mean, then the effects by their share.

    `responses` has a row for each run of the design. Raises what `factorial.allocate` raises.
    """
    found = allocate(design, responses, confidence)
    groups = {group[0]: group[1:] for group in design.confounded()}
    rows = [
        EffectRow(
            effect_text(effect),
            interval,
            found.shares.get(effect),
            tuple(effect_text(other) for other in groups[effect]),
        )
        for effect, interval in found.effects.items()
    ]
    rows.sort(key=lambda row: -2.0 if row.share is None else -row.share)
    return Effects(quantity, unit, tuple(rows), found.error_share, len(responses[0]))


def paired_values(
    values: Mapping[str, Mapping[int, float]], points: Sequence[str]
) -> list[list[float]]:
    """For each point, its values with the seeds that all points have, in the order of seeds."""
    seeds = set.intersection(*(set(values.get(point, {})) for point in points))
    return [[values[point][seed] for seed in sorted(seeds)] for point in points]
