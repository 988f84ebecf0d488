"""A study as data: its points, the runs of each, its figures and its comparisons.

A study names the runner of its points and, if it compares methods, the function that does so.
`perpacket_lab.run` and `perpacket.analysis` call them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from perpacket.analysis.statistics import DEFAULT_CONFIDENCE
from perpacket.errors import StudyError
from perpacket_lab.study.contest import Contest
from perpacket_lab.study.designs import TwoLevelDesign
from perpacket_lab.study.figure import Figure
from perpacket_lab.study.point import Point, check_points
from perpacket_lab.study.published import DocumentPlace, Published
from perpacket_lab.study.runner_interfaces import (
    MEASURED_RUNNERS,
    Divided,
    MeasuredRunner,
    NamedRunner,
    Runner,
)
from perpacket_lab.study.stopping import Stopping

if TYPE_CHECKING:
    from perpacket_lab.study.quantities import Quantity

Order = Literal["random", "grouped", "as-written"]
"""The order of a block's points: shuffled by the block's seed; shuffled with points of one
configuration together, so that they are near in time; or as in the file."""


@dataclass(frozen=True, slots=True)
class Study:
    """A question, the points that answer it, and the values with which they are compared."""

    name: str
    title: str
    question: str
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    """The seeds of the default replications; in a measured study, each is the seed of a block."""
    runner: Runner
    """Runs the simulated points."""
    figures: tuple[Figure, ...] = ()
    published: tuple[Published, ...] = ()
    """The rows of the document that a run is compared with."""
    places: tuple[DocumentPlace, ...] = ()
    """The tables and figures of the document, in its order, if its file names them."""
    contests: tuple[Contest, ...] = ()

    summary: tuple[str, ...] = ()
    """The quantities that summarize a run at each point, the most important first."""
    design: TwoLevelDesign | None = None
    """The two-level design of the points, from which effects are computed."""
    methods: str = ""
    """The function that compares measurement, simulation and models, as `package.module:function`.

    It accepts the points and the rows of a run and returns the comparisons.
    """
    ranked: tuple[str, ...] = ()
    """Quantities by which points are ranked; overlapping intervals have no order."""
    source: str = ""
    """The citation of the document behind `published`."""
    limits: tuple[str, ...] = ()
    """Sentences on questions that this study cannot answer."""
    command: str = ""
    """The command that runs the study again."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The options of that command, by the parameter that they set."""
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    """The quantities, besides columns, that the study's figures may draw."""
    measured_runner: MeasuredRunner | None = None
    """Runs the points that are not simulated; None in a study that only simulates."""
    simulated: frozenset[str] = frozenset()
    """The points that `runner` simulates in a study that also measures."""
    remarks: tuple[str, ...] = ()
    """Remarks on the design, without a full stop, printed before the study runs."""
    confidence: float = DEFAULT_CONFIDENCE
    order: Order = "random"
    stopping: Stopping | None = None
    """The rule for the number of runs; None to run all seeds."""
    definition: str = ""
    """The resolved file of the study, as a run directory stores it."""
    is_built_in: bool = False
    """Whether the study comes with perpacket. Overrides may then replace its defaults."""

    def __post_init__(self) -> None:
        """Raise `StudyError` on points that contradict each other."""
        check_points(self.name, self.points)

    @property
    def is_measured(self) -> bool:
        """Whether some of the study's runs are measured."""
        return self.measured_runner is not None

    @property
    def is_emulated(self) -> bool:
        """Whether the study's runs are emulated instead of measured."""
        runner = self.measured_runner
        return isinstance(runner, NamedRunner) and runner.name == MEASURED_RUNNERS["emulated"]

    @property
    def is_simulated(self) -> bool:
        """Whether some of the study's runs are simulated."""
        return self.measured_runner is None or bool(self.simulated)

    def runner_of(self, point: Point) -> Runner:
        """The runner of a point."""
        return self.measurer_of(point) or self.runner

    def measurer_of(self, point: Point) -> MeasuredRunner | None:
        """The runner of a point that is not simulated."""
        if point.name in self.simulated:
            return None
        runner = self.measured_runner
        return runner.of(point) if isinstance(runner, Divided) else runner

    def accepts(self, point: Point, parameter: str) -> bool:
        """Whether a parameter for the whole study applies to a point.

        In a study with points of several kinds, a measured or emulated point accepts the parameters
        of its runner. A simulated point accepts every parameter that is not one of these runners'.
        """
        everywhere = self.measured_runner
        if everywhere is None or not (self.simulated or isinstance(everywhere, Divided)):
            return True
        own = self.measurer_of(point)
        if own is None:
            return parameter not in everywhere.parameters
        return parameter in own.parameters

    def limited_to(self, points: tuple[Point, ...]) -> Study:
        """The study of only these points, with the figures and published rows that concern them."""
        names = {point.name for point in points}
        published = tuple(
            replace(row, point=own[0], among=own if row.among else ())
            for row in self.published
            if (own := tuple(name for name in (row.among or (row.point,)) if name in names))
            and (row.against is None or row.against in names)
        )
        figures = tuple(figure for figure in self.figures if figure.has_enough(points))
        return replace(self, points=points, published=published, figures=figures)

    def point(self, name: str) -> Point:
        """The point of that name; raises `StudyError` when there is none."""
        for point in self.points:
            if point.name == name:
                return point
        raise StudyError(f"study {self.name} has no point {name!r}")
