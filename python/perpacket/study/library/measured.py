"""What the measured studies share: how they are made, and what none of them can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources.abc import Traversable

from perpacket.analysis import published_rows
from perpacket.analysis.contest_results import contests_of
from perpacket.analysis.methods import WIDEST_POINTS
from perpacket.analysis.published import Published
from perpacket.errors import ConfigurationError
from perpacket.measure.web import plan
from perpacket.measure.web.rig import MeasuredRig
from perpacket.study import published_file as published
from perpacket.study.contest import Contest
from perpacket.study.quantities import QUANTITIES
from perpacket.study.study import CompareFunction, Figure, Point, Rig, Study

OPTIONS = plan.OPTIONS
"""Parameters of a run that have an option of their own."""

LIMITS = (
    "The published machine was about twenty years older and ran another system: only shares, "
    "changes and orders are compared, never times.",
    "Per segment means each TCP segment sent or received, as the server's stack counts them: what "
    "was a packet on the wire of the published machines, which had no segmentation offload. Frames "
    "at the interfaces may carry many; `segments_per_packet` tells how many did.",
    "A change is judged by its direction; whether it is weaker or stronger compares the values "
    "alone.",
    "Published changes are of cycles, measured ones of processor time: a clock rate that changes "
    "with load moves the one and not the other.",
)


def decidable(rows: tuple[Published, ...]) -> tuple[Published, ...]:
    """The published shares, with how narrow an interval must be to agree with one."""
    return tuple(
        replace(row, widest=WIDEST_POINTS) if row.unit == "%" and row.judged == "value" else row
        for row in rows
    )


def checked_only(
    study: str, only: tuple[str, ...], experiments: tuple[str, ...]
) -> tuple[str, ...]:
    """The experiments to run: all unless some are named.

    Raises `ConfigurationError` naming one that the study does not have.
    """
    for name in only:
        if name not in experiments:
            raise ConfigurationError(
                f"--only {name}: study {study} has no such experiment",
                parameter="--only",
                value=name,
                allowed=f"give some of {','.join(experiments)}",
            )
    return only or experiments


PointsFunction = Callable[[bool, tuple[str, ...]], tuple[Point, ...]]
"""The points of some experiments, with published levels or with cut ones."""


@dataclass(frozen=True, slots=True)
class MeasuredStudy:
    """What makes a measured study of a document, whatever the levels that are asked for."""

    name: str
    title: str
    question: str
    experiments: tuple[str, ...]
    points: PointsFunction
    figures: Callable[[], tuple[Figure, ...]]
    published: Traversable
    """The document's figures: see `perpacket.study.published_file`."""
    limits: tuple[str, ...]
    """What this study cannot tell, beside what no study of its kind can."""
    seeds: tuple[int, ...] = (1, 2, 3)
    compare: CompareFunction = published_rows.compare
    contests: tuple[Contest, ...] = ()
    """Where competitors are compared: who is ahead, and where that changes."""
    rig: Callable[[], Rig] = MeasuredRig
    """What holds its machines."""
    shared_limits: tuple[str, ...] = LIMITS
    """What no study of its kind can tell."""
    options: Mapping[str, str] = field(default_factory=lambda: OPTIONS)
    """Parameters of its runs that have an option of their own."""

    def study(self, full: bool, only: tuple[str, ...]) -> Study:
        """The study with cut or published levels, of all experiments or `only` some of them.

        Raises `ConfigurationError` naming an experiment that it does not have.
        """
        everything = {
            each.name: each
            for scope in (True, False)
            for each in self.points(scope, self.experiments)
        }
        source, rows = published.read(self.published, tuple(everything.values()))
        chosen = self.points(full, checked_only(self.name, only, self.experiments))
        rig = self.rig()
        whole = Study(
            name=self.name,
            title=self.title,
            question=self.question,
            points=chosen,
            seeds=self.seeds,
            runner=rig,
            rig=rig,
            figures=self.figures(),
            published=decidable(rows),
            compare=self.compare,
            contest=contests_of(self.contests) if self.contests else None,
            source=source,
            limits=(*self.shared_limits, *self.limits),
            command=f"perpacket study run {self.name}",
            options=self.options,
            quantities=QUANTITIES,
        )
        return whole.limited_to(chosen)
