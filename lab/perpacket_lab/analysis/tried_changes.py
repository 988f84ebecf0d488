"""Changes tried one by one under several loads: the effect of each on the cost of a unit of work.

A row compares a point with the point in its `against`, paired by block. The intervals of a set of
rows are corrected for the number of rows (Bonferroni), so that they have the run's confidence
together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perpacket.analysis.claim import Claim, Relation, judge
from perpacket.analysis.statistics import Interval, mean
from perpacket_lab.analysis.estimates import Estimates

if TYPE_CHECKING:
    from perpacket_lab.study.figure import Figure
    from perpacket_lab.study.point import Point
    from perpacket_lab.study.study import Study

KIND: Final = "changes"
"""The kind of the figures that show changes."""

PARAMETER: Final = "trial.changes"
BEST: Final = "best"
"""The parameter with a point's changes, and its value if the study chooses the best ones."""

PACKET_COST: Final = "cost.cpu_ns_per_packet"
LAYER_COST: Final = "cpu_us_per_unit"
"""The cost of a packet, and of a unit of work in a layer."""


@dataclass(frozen=True, slots=True)
class TriedChange:
    """A change that was tried, besides the ratio of its claim."""

    point: Point
    load: str
    """The level of the figure's series; empty without one."""
    where: str
    """The load. If `load` is empty and the changes were chosen, it is the claim's subject."""
    is_chosen: bool
    """Whether the results of other points selected the changes of this point."""
    applied: tuple[str, ...]
    """The changes of the catalogue in the runs of this point."""
    before: Interval
    changed: Interval
    """Processor time (us) of a unit of work."""
    packet_ratio: Interval | None
    """The ratio of the processor time of a packet."""
    layers: tuple[tuple[str, Interval], ...]
    """Layers whose time per unit is shown to differ, with the difference (us), largest first."""


Change = Claim[TriedChange]
"""The processor time of a unit of work with a change, divided by the time without it.

`subject` is the point's level along the figure, `unit` the unit of work: a request or a KiB. The
ratio is paired by block.
"""


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """The rows of one figure."""

    figure: Figure
    rows: tuple[Change, ...]


def change_sets(study: Study, estimates: Estimates) -> tuple[ChangeSet, ...]:
    """The changes in each figure of the kind `changes`."""
    return tuple(
        ChangeSet(figure, tuple(_rows(study, figure, estimates)))
        for figure in study.figures
        if figure.kind == KIND
    )


def corrected(confidence: float, count: int) -> float:
    """The confidence of each of `count` intervals that together have `confidence`."""
    return 1 - (1 - confidence) / max(1, count)


def _rows(study: Study, figure: Figure, estimates: Estimates) -> Iterable[Change]:
    points = [
        point for point in study.points if point.against is not None and figure.selects(point)
    ]
    together = Estimates(estimates.rows, corrected(estimates.confidence, len(points)))
    for point in points:
        against = str(point.against)
        ratio = together.ratio(point.name, against, figure.y)
        before, changed = estimates.mean(against, figure.y), estimates.mean(point.name, figure.y)
        if ratio is None or before is None or changed is None:
            continue
        row = next(iter(estimates.rows[point.name].values()))
        name = str(point.factors.get(figure.x, point.name))
        load = str(point.factors.get(figure.series or "", ""))
        is_chosen = dict(point.overrides).get(PARAMETER) == BEST
        yield Claim(
            subject=name,
            quantity=figure.y,
            unit=str(row.get("cost.unit", "unit")),
            value=ratio,
            reference=before,
            relation=Relation.RATIO,
            verdict=judge(ratio, Relation.RATIO),
            remark="",
            detail=TriedChange(
                point=point,
                load=load,
                where=load or (name if is_chosen else ""),
                is_chosen=is_chosen,
                applied=tuple(filter(None, str(row.get("changes") or "").split("+"))),
                before=before,
                changed=changed,
                packet_ratio=together.ratio(point.name, against, PACKET_COST),
                layers=tuple(_layers(point.name, against, estimates)),
            ),
        )


def _layers(point: str, against: str, estimates: Estimates) -> list[tuple[str, Interval]]:
    """The layers whose cost is shown to differ; the intervals are corrected for their number."""
    layers = estimates.layers(LAYER_COST)
    confidence = corrected(estimates.confidence, len(layers))
    shifts = []
    for layer in layers:
        own, base = (
            estimates.values(name, f"layers.{layer}.{LAYER_COST}") for name in (point, against)
        )
        pairs = [own[seed] - base[seed] for seed in sorted(own.keys() & base.keys())]
        if len(pairs) > 1:
            shift = mean(pairs, confidence)
            if judge(shift, Relation.DIFFERENCE).is_shown:
                shifts.append((layer, shift))
    return sorted(shifts, key=lambda claim: -abs(claim[1].value))
