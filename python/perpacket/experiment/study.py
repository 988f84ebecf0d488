"""What a study is: points to run, how often, what is drawn and what it is compared with.

A study is data and one runner. The executor, the run directory and the report know nothing of
simulators: a test hands them a runner that invents its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from perpacket.experiment.comparison import Comparison, Published
    from perpacket.experiment.run_directory import RunDirectory

Level = str | int | float
"""A value of a factor. All levels of one factor have one type, so that it is one column."""

FigureKind = Literal["paper-beside", "stacked-layers", "curve", "timeline"]

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
    | `curve` | factor (numeric) | column of the observations | factor, one line a level |
    | `timeline` | `time_s` | columns of the timeline, comma-separated | |

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run gave.

    `result` depends on the point and the seed alone, `timing` also on the machine (wall-clock
    seconds and rates): they are kept apart so that results can be compared byte by byte.
    `timeline` maps a column to one value an instant, with `time_s` among them.
    """

    result: Mapping[str, object]
    timing: Mapping[str, object] = field(default_factory=dict)
    timeline: Mapping[str, list[object]] | None = None


class Run(Protocol):
    """One run that was prepared and not yet begun. It is used once."""

    def run(self) -> Outcome:
        """Run to the end; raises `perpacket.errors.Interrupted` after `cancel`."""
        ...

    def progress(self) -> tuple[int, int]:
        """Packets done and packets in all; called from another thread."""
        ...

    def cancel(self) -> None:
        """Make `run` stop soon; called from another thread."""
        ...


class Runner(Protocol):
    """Prepares runs: the simulator, or a stand-in."""

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A run of that point; raises `ConfigurationError` when the point cannot be run."""
        ...


CompareFunction = Callable[["Study", "RunDirectory"], "list[Comparison]"]


@dataclass(frozen=True, slots=True)
class Study:
    """A question, the points that answer it and what they are compared with.

    `seeds` are the default replications. `compare` computes the rows published / simulated from a
    run; without one there are none. `ranked` names the quantities whose order is read as a result:
    where intervals overlap, no order is claimed. `command` starts the study again.
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

    def __post_init__(self) -> None:
        """Refuse points that contradict each other."""
        check_points(self.name, self.points)

    def point(self, name: str) -> Point:
        """The point of that name; raises `StudyError` when there is none."""
        for point in self.points:
            if point.name == name:
                return point
        raise StudyError(f"study {self.name} has no point {name!r}")

    def comparisons(self, run_directory: RunDirectory) -> list[Comparison]:
        """The rows published / simulated of a run, in the order of the document."""
        return [] if self.compare is None else self.compare(self, run_directory)


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
