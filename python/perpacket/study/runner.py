"""The interfaces of the runners of a study. `run` and `measure` implement them.

Tests use runners that invent their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from perpacket.study.point import Point
from perpacket.study.quantities import Rows


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one run.

    `result` depends only on the point and the seed. `timing` also depends on the machine
    (wall-clock seconds and rates); it is separate so that results can be compared byte by byte.
    `timeline` maps a column to its values over time, with `time_s` among the columns. `raw` has the
    complete reports of the programs of a measured run, by the name of their file.
    """

    result: Mapping[str, object]
    timing: Mapping[str, object] = field(default_factory=dict)
    timeline: Mapping[str, list[object]] | None = None
    raw: Mapping[str, object] = field(default_factory=dict)


class Run(Protocol):
    """One prepared run. It runs once."""

    def run(self) -> Outcome:
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
    """The points that run after all others, because they depend on the others' results."""

    points: frozenset[str]
    begin: Callable[[Rows], None]
    """Called with all observations before the first of their runs."""


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
        """The parameters that its points may have."""
        ...

    def set_up(self, points: tuple[Point, ...]) -> AbstractContextManager[SetupDescription]:
        """Set up the machines for `points`; prepared runs run inside the context.

        Raises `MachineLacks` when no point can run on them.
        """
        ...


class NamedRunner:
    """The runner at `package.module:Class`, imported when it is first used.

    So reading a study imports neither the simulator nor the measurement. It can be pickled: the
    other process imports the runner.
    """

    def __init__(self, name: str) -> None:
        """Name the runner; `name` is resolved on first use."""
        self.name = name
        self._runner: MeasuredRunner | None = None

    def __reduce__(self) -> tuple[type[NamedRunner], tuple[str]]:
        """Pickle the name alone."""
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
        """The parameters that its points may have."""
        return self._resolved.parameters

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A run of that point; raises `ConfigurationError` when the point cannot be run."""
        return self._resolved.prepare(point, seed, timeline)

    def set_up(self, points: tuple[Point, ...]) -> AbstractContextManager[SetupDescription]:
        """Set up the machines, as a `MeasuredRunner` does."""
        return self._resolved.set_up(points)


SIMULATION = "perpacket.run.simulation_runner:SimulationRunner"

MEASURED_RUNNERS = {
    "web": "perpacket.measure.web.runner:WebRunner",
    "media": "perpacket.measure.media.runner:MediaRunner",
    "router": "perpacket.measure.router.runner:RouterRunner",
    "bench": "perpacket.measure.bench.runner:BenchRunner",
    "emulated": "perpacket.emulate.runner:EmulatedRunner",
    "what-if": "perpacket.advise.what_if:WhatIfRunner",
}
"""The runners of measured studies, by the value of `runner` in the file."""
