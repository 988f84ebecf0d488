"""The interfaces of the runners of a study. `run/` and `measure/` implement them.

Tests use runners that invent their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from perpacket.errors import MachineLacks
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import Rows


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of one run.

    `result` depends only on the point and the seed. `timing` also depends on the machine
    (wall-clock seconds and rates); it is separate so that results can be compared byte by byte.
    `timeline` maps a column to its values over time, with `time_s` among the columns. `raw` has the
    complete reports of the programs of a measured run; its keys become parts of file names.
    """

    result: Mapping[str, object]
    timing: Mapping[str, object] = field(default_factory=dict)
    timeline: Mapping[str, list[object]] | None = None
    raw: Mapping[str, object] = field(default_factory=dict)


class Run(Protocol):
    """One prepared run, which can be run only once."""

    def run(self) -> RunOutcome:
        """Run to the end; raises `perpacket.errors.Interrupted` after `cancel`."""
        ...

    def progress(self) -> tuple[int, int]:
        """Packets (or milliseconds) done and in total; called from another thread."""
        ...

    def cancel(self) -> None:
        """Make `run` stop soon; called from another thread."""
        ...


class Runner(Protocol):
    """Prepares runs: the simulator, or a substitute in a test."""

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A run of that point; raises `ConfigurationError` when the point cannot be run."""
        ...


@dataclass(frozen=True, slots=True)
class SecondStage:
    """Points that run after all others, because they depend on the results of the others."""

    points: frozenset[str]
    begin: Callable[[Rows], None]
    """A function that receives all observations before the first run of these points."""


@dataclass(frozen=True, slots=True)
class SetupDescription:
    """The setup of a measured runner, for `environment.json`, and the points that cannot run.

    `identity` must not change when a run is resumed, because one table must not mix two testbeds.
    `facts` are further facts. `left_out` maps a point's name to the reason why it cannot run.
    """

    identity: Mapping[str, object]
    facts: Mapping[str, object] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    second_stage: SecondStage | None = None


class MeasuredRunner(Runner, Protocol):
    """A runner on machines that it sets up before the first run and takes down after the last."""

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters that the runner's points may have."""
        ...

    def set_up(self, points: tuple[Point, ...]) -> AbstractContextManager[SetupDescription]:
        """Set up the machines for `points`; prepared runs run inside the context.

        Raises `MachineLacks` when no point can run on them.
        """
        ...


class NamedRunner:
    """The runner at `package.module:Class`, imported at its first use.

    Reading a study then imports neither the simulator nor the measurement. A `NamedRunner` can be
    pickled; the other process imports the runner.
    """

    def __init__(self, name: str) -> None:
        """Store the runner's name, which is resolved at its first use."""
        self.name = name
        self._runner: MeasuredRunner | None = None

    def __reduce__(self) -> tuple[type[NamedRunner], tuple[str]]:
        """Pickle only the name."""
        return NamedRunner, (self.name,)

    @property
    def _resolved(self) -> MeasuredRunner:
        if self._runner is None:
            module, _, name = self.name.partition(":")
            self._runner = getattr(import_module(module), name)()
        assert self._runner is not None
        return self._runner

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters that the runner's points may have."""
        return self._resolved.parameters

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A run of that point; raises `ConfigurationError` when the point cannot be run."""
        return self._resolved.prepare(point, seed, timeline)

    def set_up(self, points: tuple[Point, ...]) -> AbstractContextManager[SetupDescription]:
        """Set up the machines, as a `MeasuredRunner` does."""
        return self._resolved.set_up(points)


class Divided:
    """Two runners as one: the second runs the points in `named`, the first all others."""

    def __init__(
        self, first: MeasuredRunner, second: MeasuredRunner, named: frozenset[str]
    ) -> None:
        """`named` has the names of the points that `second` runs."""
        self._first, self._second, self._named = first, second, named

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters that points of either may have."""
        return self._first.parameters | self._second.parameters

    def of(self, point: Point) -> MeasuredRunner:
        """The runner of that point."""
        return self._second if point.name in self._named else self._first

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A run of that point by its runner."""
        return self.of(point).prepare(point, seed, timeline)

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        """Set up the machines of both runners. If one cannot run, its points are left out.

        Raises `MachineLacks` if no point can run.
        """
        own = tuple(point for point in points if point.name not in self._named)
        others = tuple(point for point in points if point.name in self._named)
        with ExitStack() as stack:
            descriptions = [
                part
                for runner, some in ((self._first, own), (self._second, others))
                if some
                for part in [_set_up_or_left_out(stack, runner, some)]
            ]
            left_out = {name: why for part in descriptions for name, why in part.left_out.items()}
            if points and len(left_out) == len(points):
                raise MachineLacks(next(iter(left_out.values())))
            stages = [part.second_stage for part in descriptions if part.second_stage is not None]
            yield SetupDescription(
                {name: value for part in descriptions for name, value in part.identity.items()},
                _merged(part.facts for part in descriptions),
                left_out,
                stages[0] if stages else None,
            )


def _set_up_or_left_out(
    stack: ExitStack, runner: MeasuredRunner, points: tuple[Point, ...]
) -> SetupDescription:
    """Set up a runner until `stack` closes; if that is impossible, leave out its points."""
    try:
        return stack.enter_context(runner.set_up(points))
    except MachineLacks as error:
        return SetupDescription({}, left_out={point.name: str(error) for point in points})


def _merged(parts: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """The facts of several setups in one table; lists with the same key are joined."""
    merged: dict[str, object] = {}
    for part in parts:
        for name, value in part.items():
            before = merged.get(name)
            both = isinstance(before, list) and isinstance(value, list)
            merged[name] = [*before, *value] if both else value  # type: ignore[misc]
    return merged


SIMULATION = "perpacket_lab.run.simulation_runner:SimulationRunner"

MEASURED_RUNNERS = {
    "web": "perpacket_lab.measure.web.web_runner:WebRunner",
    "media": "perpacket_lab.measure.media.media_runner:MediaRunner",
    "router": "perpacket_lab.measure.router.router_runner:RouterRunner",
    "bench": "perpacket_lab.measure.bench.bench_runner:BenchRunner",
    "emulated": "perpacket_lab.emulate.runner:EmulatedRunner",
    "what-if": "perpacket_lab.what_if:WhatIfRunner",
}
"""The runners of measured studies, by the value of `runner` in the file."""

PREPARED = "perpacket_lab.emulate.runner:PreparedRunner"
"""The runner of emulated points in a study that also measures."""
