"""Changes tried one by one under several loads: the effect of each on the cost of a unit of work.

A row compares a point with the point in its `against`, paired by block. The intervals of a set of
rows are corrected for the number of rows (Bonferroni), so that they have the run's confidence
together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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

CHEAPER: Final = "cheaper"
DEARER: Final = "dearer"
NOT_DISTINGUISHABLE: Final = "not distinguishable"


@dataclass(frozen=True, slots=True)
class Change:
    """A point with changes, compared with the same point without them."""

    point: Point
    name: str
    """The point's level along the figure."""
    load: str
    """The level of the figure's series; empty without one."""
    is_chosen: bool
    """Whether the results of other points selected the changes of this point."""
    applied: tuple[str, ...]
    """The changes of the catalogue in the runs of this point."""
    unit: str
    """The unit of work: a request or a KiB."""
    before: Interval
    changed: Interval
    """Processor time (us) of a unit of work."""
    ratio: Interval
    """Processor time with the change divided by the time without it, paired by block."""
    packet_ratio: Interval | None
    """The same ratio for the processor time of a packet."""
    layers: tuple[tuple[str, Interval], ...]
    """Layers whose time per unit is shown to differ, with the difference (us), largest first."""

    @property
    def where(self) -> str:
        """The load. If `load` is empty and the changes were chosen, it is the row's name."""
        return self.load or (self.name if self.is_chosen else "")

    @property
    def verdict(self) -> str:
        """Whether the change is shown to make a unit of work cheaper or dearer."""
        if is_cheaper(self.ratio):
            return CHEAPER
        if self.ratio.is_bounded and self.ratio.low > 1:
            return DEARER
        return NOT_DISTINGUISHABLE


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


def is_cheaper(ratio: Interval) -> bool:
    """Whether a ratio of costs shows that the change saves processor time."""
    return ratio.is_bounded and ratio.high < 1


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
        yield Change(
            point=point,
            name=str(point.factors.get(figure.x, point.name)),
            load=str(point.factors.get(figure.series or "", "")),
            is_chosen=dict(point.overrides).get(PARAMETER) == BEST,
            applied=tuple(filter(None, str(row.get("changes") or "").split("+"))),
            unit=str(row.get("cost.unit", "unit")),
            before=before,
            changed=changed,
            ratio=ratio,
            packet_ratio=together.ratio(point.name, against, PACKET_COST),
            layers=tuple(_layers(point.name, against, estimates)),
        )


def _layers(point: str, against: str, estimates: Estimates) -> list[tuple[str, Interval]]:
    """The layers whose cost is shown to differ; the intervals are corrected for their number."""
    layers = estimates.layers(LAYER_COST)
    confidence = corrected(estimates.confidence, len(layers))
    found = []
    for layer in layers:
        own, base = (
            estimates.values(name, f"layers.{layer}.{LAYER_COST}") for name in (point, against)
        )
        pairs = [own[seed] - base[seed] for seed in sorted(own.keys() & base.keys())]
        if len(pairs) > 1:
            shift = mean(pairs, confidence)
            if not shift.contains(0.0):
                found.append((layer, shift))
    return sorted(found, key=lambda one: -abs(one[1].value))
