"""What a study is: points to run, how often, what is drawn and what it is compared with.

A study is data and one runner. The executor, the run directory and the report know nothing of
simulators and testbeds: a test hands them a runner that invents its numbers. A simulated study has
a `Runner`, whose runs may go in parallel; a measured one has a `Rig`, which holds machines, so that
its runs go one after another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from perpacket.analysis.statistics import DEFAULT_CONFIDENCE

if TYPE_CHECKING:
    from perpacket.analysis.contests import ContestResult
    from perpacket.analysis.effects import Summary
    from perpacket.analysis.methods import MethodComparison
    from perpacket.analysis.published import Comparison, Published
    from perpacket.run.directory import RunDirectory
    from perpacket.run.stopping import Stopping

Level = str | int | float
"""A value of a factor. All levels of one factor have one type, so that it is one column."""

FigureKind = Literal[
    "paper-beside",
    "stacked-layers",
    "curve",
    "timeline",
    "relative",
    "quantities-beside",
    "ways",
    "laws",
    "comparisons-beside",
    "heat-map",
    "effects",
]

Order = Literal["random", "as-written"]
"""How the points of a block follow each other: shuffled by the block's seed, or as they stand."""

POINT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]*")
"""Names of points are parts of file names."""


class StudyError(ValueError):
    """A study contradicts itself."""


@dataclass(frozen=True, slots=True)
class Point:
    """One configuration of a study with the levels of its factors.

    `name` is unique in the study. `overrides` are (parameter, value) pairs on top of the
    configuration. `against` names the point its gains are paired with, seed by seed.
    """

    name: str
    configuration: str
    factors: Mapping[str, Level] = field(default_factory=dict)
    overrides: tuple[tuple[str, str], ...] = ()
    against: str | None = None
    timeline: bool = False
    """Whether to keep the state over time of the first seed, in `raw/`."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the report, as data.

    | kind | x | y | series |
    |---|---|---|---|
    | `paper-beside` | ignored: one mark a configuration | quantity of the comparisons, as
      `request_rate` | |
    | `stacked-layers` | factor | event of the layers, as `cycles_per_packet` | |
    | `curve` | factor (numeric) | columns of the observations, comma-separated, one line each |
      factor, one line a level |
    | `timeline` | `time_s` | columns of the timeline, comma-separated | |
    | `relative` | factor (numeric) | quantities, comma-separated, one line each: each value over
      that at the first level, paired by seed | |
    | `quantities-beside` | ignored: one mark a quantity | quantities of one point's comparisons,
      comma-separated | |
    | `ways` | factor (numeric) | question of the contrasts, one line each way | |
    | `laws` | ignored: one mark a point | `share`, the layers' shares of the busy processor | |
    | `comparisons-beside` | ignored: one mark a comparison | quantities of the comparisons,
      comma-separated; those that belong to the whole study, not to a run, are drawn so | |
    | `heat-map` | factor (numeric) | column of the observations, told by colour | factor
      (numeric): the rows |
    | `effects` | ignored: one bar an effect | quantity that the effects of a two-level design are
      on | |

    `where` keeps the observations whose factor (or `configuration`, or `point`) has that level.
    `title` is what the figure shows; `caption` what to look at.
    """

    kind: FigureKind
    title: str
    x: str
    y: str
    series: str | None = None
    where: Mapping[str, Level] = field(default_factory=dict)
    x_title: str = ""
    y_title: str = ""
    """Axis titles with units; empty where the column's name says it."""
    caption: str = ""

    def keeps(self, point: Point) -> bool:
        """Whether the figure is about a point."""
        held = {"point": point.name, "configuration": point.configuration, **point.factors}
        return all(held.get(key) == level for key, level in self.where.items())

    def has_enough(self, points: tuple[Point, ...]) -> bool:
        """Whether these points are enough to draw it: along an axis it takes two levels."""
        kept = [point for point in points if self.keeps(point)]
        if self.kind in ("curve", "relative", "stacked-layers", "ways"):
            return len({point.factors.get(self.x) for point in kept}) > 1
        return bool(kept)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run gave.

    `result` depends on the point and the seed alone, `timing` also on the machine (wall-clock
    seconds and rates): they are kept apart so that results can be compared byte by byte.
    `timeline` maps a column to one value an instant, with `time_s` among them. `raw` holds what the
    programs of a measured run said, whole, by a name for its file.
    """

    result: Mapping[str, object]
    timing: Mapping[str, object] = field(default_factory=dict)
    timeline: Mapping[str, list[object]] | None = None
    raw: Mapping[str, object] = field(default_factory=dict)


class Run(Protocol):
    """One run that was prepared and not yet begun. It is used once."""

    def run(self) -> Outcome:
        """Run to the end; raises `perpacket.errors.Interrupted` after `cancel`."""
        ...

    def progress(self) -> tuple[int, int]:
        """Packets (or milliseconds) done and in all; called from another thread."""
        ...

    def cancel(self) -> None:
        """Make `run` stop soon; called from another thread."""
        ...


class Runner(Protocol):
    """Prepares runs: the simulator, or a stand-in."""

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A run of that point; raises `ConfigurationError` when the point cannot be run."""
        ...


@dataclass(frozen=True, slots=True)
class Holding:
    """What a rig holds: facts for `environment.json`, and what it cannot run.

    `identity` is what a resumed run must find again: two testbeds must not share one table.
    `facts` says more of the same. `left_out` maps the name of a point to why it cannot run.
    """

    identity: Mapping[str, object]
    facts: Mapping[str, object] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


class Rig(Runner, Protocol):
    """A runner on machines that it sets up, holds while a study runs, and takes down again."""

    def held(self, points: tuple[Point, ...]) -> AbstractContextManager[Holding]:
        """Hold what it takes to run `points`; `prepare`d runs are run within.

        Raises `MachineLacks` when there is nothing that any of them could run on.
        """
        ...


class Measure(Protocol):
    """A number of one observation that a study gives a name, so that its report can draw it."""

    @property
    def title(self) -> str:
        """What it is, in words."""
        ...

    @property
    def unit(self) -> str:
        """Its unit; empty for a count or a ratio."""
        ...

    @property
    def value(self) -> Callable[[Mapping[str, object]], float | None]:
        """Gives it for an observation's row, None where it has no meaning."""
        ...


CompareFunction = Callable[["Study", "RunDirectory"], "list[Comparison]"]
ContestFunction = Callable[["Study", "RunDirectory"], "list[ContestResult]"]
TellFunction = Callable[["Study", "RunDirectory"], "Summary"]
ContrastFunction = Callable[["RunDirectory"], "list[MethodComparison]"]


@dataclass(frozen=True, slots=True)
class Study:
    """A question, the points that answer it and what they are compared with.

    `seeds` are the default replications. `compare` computes the rows published / simulated from a
    run; without one there are none. `ranked` names the quantities whose order is read as a result:
    where intervals overlap, no order is claimed. `command` starts the study again, and `options`
    names the option of that command that sets a parameter. `quantities` are what its figures may
    name beside columns. `rig` is the runner of a measured study. `contest` finds out who is ahead
    where competitors are compared. `tell` brings the observations of a study without published
    figures together.
    """

    name: str
    title: str
    question: str
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    runner: Runner
    figures: tuple[Figure, ...] = ()
    published: tuple[Published, ...] = ()
    compare: CompareFunction | None = None
    ranked: tuple[str, ...] = ()
    source: str = ""
    """The document it is compared with, as a citation."""
    limits: tuple[str, ...] = ()
    """What this study cannot tell, in sentences."""
    command: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    quantities: Mapping[str, Measure] = field(default_factory=dict)
    rig: Rig | None = None
    contest: ContestFunction | None = None
    tell: TellFunction | None = None
    told: tuple[str, ...] = ()
    """The quantities that it is told in, the first one above all."""
    remarks: tuple[str, ...] = ()
    """What must be known of its design before it runs, in sentences without their full stop."""
    confidence: float = DEFAULT_CONFIDENCE
    order: Order = "random"
    stopping: Stopping | None = None
    """When a point has been run often enough before all seeds are used up."""
    definition: str = ""
    """The text of the file that defines it; empty for a study that comes with perpacket."""
    simulated: frozenset[str] = frozenset()
    """The points that `runner` simulates where `rig` measures the others: a study of two parts."""
    contrast: ContrastFunction | None = None
    """Puts what was measured, simulated and modelled side by side, where a study does all that."""
    takes: Callable[[Point, str], bool] = lambda point, parameter: True
    """Whether a parameter given for the whole study is one of a point's: parts differ in them."""

    def __post_init__(self) -> None:
        """Refuse points that contradict each other."""
        check_points(self.name, self.points)

    @property
    def is_measured(self) -> bool:
        """Whether some of its runs need machines to themselves."""
        return self.rig is not None

    @property
    def is_simulated(self) -> bool:
        """Whether some of its runs are simulations, which an executor may have anywhere."""
        return self.rig is None or bool(self.simulated)

    def runner_of(self, point: Point) -> Runner:
        """Who runs a point."""
        return self.runner if self.rig is None or point.name in self.simulated else self.rig

    def limited_to(self, points: tuple[Point, ...]) -> Study:
        """The same study of these points, with the figures that are about them."""
        names = {point.name for point in points}
        held = tuple(
            row
            for row in self.published
            if row.point in names and (row.against is None or row.against in names)
        )
        drawn = tuple(figure for figure in self.figures if figure.has_enough(points))
        return replace(self, points=points, published=held, figures=drawn)

    def point(self, name: str) -> Point:
        """The point of that name; raises `StudyError` when there is none."""
        for point in self.points:
            if point.name == name:
                return point
        raise StudyError(f"study {self.name} has no point {name!r}")

    def comparisons(self, run_directory: RunDirectory) -> list[Comparison]:
        """The rows published / simulated of a run, in the order of the document."""
        return [] if self.compare is None else self.compare(self, run_directory)

    def contests(self, run_directory: RunDirectory) -> list[ContestResult]:
        """Who is ahead at each level of a run, and where the winner changes."""
        return [] if self.contest is None else self.contest(self, run_directory)

    def results(self, run_directory: RunDirectory) -> Summary | None:
        """The quantities of a run brought together, where the study does that itself."""
        return None if self.tell is None else self.tell(self, run_directory)

    def contrasts(self, run_directory: RunDirectory) -> list[MethodComparison]:
        """Two ways to each number side by side, question by question."""
        return [] if self.contrast is None else self.contrast(run_directory)


def check_points(study: str, points: tuple[Point, ...]) -> None:
    """Raise `StudyError` unless names are unique and usable and every `against` exists."""
    names = [point.name for point in points]
    if not points:
        raise StudyError(f"study {study} has no points: expected at least one")
    for point in points:
        if not POINT_NAME.fullmatch(point.name):
            raise StudyError(
                f"study {study}, point {point.name!r}: expected letters, digits and . _ = + -"
            )
        if names.count(point.name) > 1:
            raise StudyError(f"study {study} has two points {point.name!r}: names must differ")
        if point.against is not None and point.against not in names:
            raise StudyError(
                f"study {study}, point {point.name}: its baseline {point.against!r} is not a point"
            )
        if set(point.factors) != set(points[0].factors):
            raise StudyError(
                f"study {study}, point {point.name}: its factors differ from the first point's"
            )
