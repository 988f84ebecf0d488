"""Runs a study that measures: one run at a time, in random order within blocks.

Two measured runs at the same time would disturb each other, so no executor runs them. A block has
every point once, with one seed. The seed shuffles the block, so that drift during a study (the
machine's temperature, other tenants) affects all points alike, and points are compared within a
block. The order depends only on the seed, so a resumed study continues in the same order.

A failed run is recorded and the study continues, because one dead server must not end the other
runs. Several failures in a row end the study, because then the other runs would probably fail too.
"""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perpacket.errors import (
    ConfigurationError,
    Interrupted,
    MachineLacks,
    PerpacketError,
    RunFailed,
)
from perpacket_lab.run import environment, simulated_runs
from perpacket_lab.run.configuration_file import RunConfiguration
from perpacket_lab.run.directory import Failure, RunDirectory
from perpacket_lab.run.jobs import POLL_S, Executor
from perpacket_lab.run.progress import Batch, Progress, ProgressFunction, interrupted
from perpacket_lab.run.ticking import ticking
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import (
    MeasuredRunner,
    Run,
    RunOutcome,
    SecondStage,
    SetupDescription,
)
from perpacket_lab.study.study import Order, Study

MOST_FAILURES_IN_A_ROW = 5
"""After this many failed runs in a row, the study ends: the others would fail too."""

TESTBED = "testbed"
"""The key of `environment.json` with the runner's setup."""


def begin(
    study: Study,
    path: Path,
    configuration: RunConfiguration,
    executor: Executor,
    on_progress: ProgressFunction | None = None,
) -> RunDirectory:
    """Run every point of `configuration` that can run here into the new directory `path`.

    `executor` runs the simulated points before the measured ones, because simulations would disturb
    a measurement. Raises `MachineLacks` when no point can run here, and what `execute` and
    `simulated_runs.execute` raise.
    """
    runner = study.measured_runner
    assert runner is not None
    measured = tuple(point for point in configuration.points if point.name not in study.simulated)
    with _set_up(runner, measured, is_required=not study.simulated) as setup:
        possible = tuple(
            point for point in configuration.points if point.name not in setup.left_out
        )
        if not possible:
            raise MachineLacks(f"no point of this study can run here: {_reasons(setup)[0]}")
        facts = described(setup)
        if study.simulated:
            facts |= {"executor": executor.describe()}
        directory = RunDirectory.create(path, replace(configuration, points=possible), facts)
        _simulate(study, directory, executor, on_progress)
        execute(directory, runner, on_progress, study.simulated, setup.second_stage)
    return directory


def resume(
    study: Study,
    directory: RunDirectory,
    executor: Executor,
    on_progress: ProgressFunction | None = None,
) -> int:
    """Run the missing observations of `directory`; returns the number of new ones.

    Raises `ConfigurationError` when the testbed has changed since the first runs: one table must
    not mix two testbeds. Also raises what `execute` and `simulated_runs.execute` raise.
    """
    runner = study.measured_runner
    assert runner is not None
    count = _simulate(study, directory, executor, on_progress)
    if not remaining(directory, study.simulated):
        return count
    with runner.set_up(measured_points(directory, study.simulated)) as setup:
        began = directory.environment().get(TESTBED)
        before = began if isinstance(began, Mapping) else {}
        for name, now in setup.identity.items():
            if name in before and before[name] != now:
                raise ConfigurationError(
                    f"{directory.path} was begun with {name} {before[name]}, now it is {now}",
                    parameter=name,
                    value=str(now),
                    hint="resume it on that testbed, or run the study again",
                )
        if setup.left_out:
            raise MachineLacks(
                f"{directory.path} has points that could run where it was begun, but cannot run "
                f"here: {_reasons(setup)[0]}"
            )
        count += execute(directory, runner, on_progress, study.simulated, setup.second_stage)
    return count


def _simulate(
    study: Study,
    directory: RunDirectory,
    executor: Executor,
    on_progress: ProgressFunction | None,
) -> int:
    if not study.simulated:
        return 0
    return simulated_runs.execute(directory, study.runner, executor, on_progress, study.simulated)


@contextmanager
def _set_up(
    runner: MeasuredRunner, points: tuple[Point, ...], *, is_required: bool
) -> Iterator[SetupDescription]:
    """Set up the runner's machines.

    If the machines lack something, raise `MachineLacks` if `is_required`, else leave out all
    points.
    """
    with ExitStack() as stack:
        setup = SetupDescription({})
        try:
            if points:
                setup = stack.enter_context(runner.set_up(points))
        except MachineLacks as error:
            if is_required:
                raise
            setup = SetupDescription({}, left_out={point.name: str(error) for point in points})
        yield setup


def described(setup: SetupDescription) -> dict[str, object]:
    """`environment.json` of a measured run: the machine, the versions and the setup."""
    facts = environment.describe()
    facts[TESTBED] = {**setup.identity, **setup.facts, "left_out": _reasons(setup)}
    return facts


def _reasons(setup: SetupDescription) -> list[str]:
    """The reasons why points are left out, each once with its points."""
    about: dict[str, list[str]] = {}
    for name, reason in setup.left_out.items():
        about.setdefault(reason, []).append(name)
    return [f"{', '.join(names)}: {reason}" for reason, names in about.items()]


def order(points: Sequence[Point], seed: int, kind: Order = "random") -> list[Point]:
    """The points of one block in the order in which they run."""
    shuffled = list(points)
    if kind != "as-written":
        random.Random(seed).shuffle(shuffled)
    if kind == "grouped":
        groups = list(dict.fromkeys(point.configuration for point in shuffled))
        shuffled.sort(key=lambda point: groups.index(point.configuration))
    return shuffled


def measured_points(directory: RunDirectory, simulated: Collection[str] = ()) -> tuple[Point, ...]:
    """The points of a run that are not `simulated`."""
    return tuple(point for point in directory.configuration.points if point.name not in simulated)


def remaining(directory: RunDirectory, simulated: Collection[str] = ()) -> list[tuple[Point, int]]:
    """The measured runs that are due now, block after block, each in its own order."""
    missing = {(point.name, seed) for point, seed in directory.missing()}
    points = measured_points(directory, simulated)
    kind = directory.configuration.order
    return [
        (point, seed)
        for seed in directory.configuration.seeds
        for point in order(points, seed, kind)
        if (point.name, seed) in missing
    ]


def execute(
    directory: RunDirectory,
    runner: MeasuredRunner,
    on_progress: ProgressFunction | None = None,
    simulated: Collection[str] = (),
    second_stage: SecondStage | None = None,
) -> int:
    """Run the missing points that are not `simulated`, on machines that are set up.

    The points of `second_stage` run last. Returns the number of new observations. A failed run is
    recorded and not repeated; it is no error here. Raises `RunFailed` when too many fail in a row,
    `ConfigurationError` when a point cannot run with its parameters, `CorruptObservation` for a
    damaged observation, and `Interrupted`, with the command that resumes, after Ctrl-C.
    """
    finished = 0
    tried: set[tuple[str, int]] = set()
    failed_in_a_row: list[Failure] = []
    names = [point.name for point in measured_points(directory, simulated)]
    with directory.locked():
        # With a stopping rule, the results of these runs may make others due.
        while due := [
            run for run in remaining(directory, simulated) if (run[0].name, run[1]) not in tried
        ]:
            due = _of_one_stage(directory, due, second_stage)
            tried |= {(point.name, seed) for point, seed in due}
            finished += _run_all(
                directory, runner, due, on_progress, directory.planned(names), failed_in_a_row
            )
    return finished


def _of_one_stage(
    directory: RunDirectory, due: list[tuple[Point, int]], second: SecondStage | None
) -> list[tuple[Point, int]]:
    """The due runs of the first stage; if there are none, begin the second and return its runs."""
    if second is None:
        return due
    if first := [run for run in due if run[0].name not in second.points]:
        return first
    second.begin(directory.rows())
    return due


def _run_all(
    directory: RunDirectory,
    runner: MeasuredRunner,
    due: Sequence[tuple[Point, int]],
    on_progress: ProgressFunction | None,
    total: int,
    failed_in_a_row: list[Failure],
) -> int:
    """Run the runs in `due` one after another; returns the number of new observations.

    `failed_in_a_row` continues from batch to batch.
    """
    runs = [
        _Planned(point, seed, runner.prepare(point, seed, timeline=False)) for point, seed in due
    ]
    batch = _MeasuredBatch(directory, total, runs, failed_in_a_row)
    try:
        with _ticking(on_progress, batch.progress):
            for planned in runs:
                batch.observe(planned)
    except KeyboardInterrupt:
        raise interrupted(directory) from None
    return batch.finished


@contextmanager
def _ticking(
    on_progress: ProgressFunction | None, progress: Callable[[], Progress]
) -> Iterator[None]:
    """Report progress from a second thread.

    The runs stay in the main thread, because a child process may be killed when the thread that
    started it ends.
    """
    if on_progress is None:
        yield
        return
    try:
        with ticking(POLL_S, lambda: on_progress(progress())):
            yield
    finally:
        on_progress(progress())


@dataclass(frozen=True, slots=True)
class _Planned:
    point: Point
    seed: int
    run: Run

    @property
    def expected_ms(self) -> int:
        """The expected duration of the run."""
        return self.run.progress()[1]


def _outcome(run: Run) -> RunOutcome:
    """The outcome of a run. A fault of perpacket fails only that run; stderr has its traceback."""
    try:
        return run.run()
    except PerpacketError:
        raise
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        raise RunFailed(f"{type(error).__name__}: {error}: this is a fault of perpacket") from error


class _MeasuredBatch(Batch):
    def __init__(
        self,
        directory: RunDirectory,
        total: int,
        runs: Sequence[_Planned],
        failed_in_a_row: list[Failure],
    ) -> None:
        super().__init__(directory, total, len(runs))
        self._planned_ms = sum(planned.expected_ms for planned in runs) or 1
        self._done_ms = 0
        self._failed_in_a_row = failed_in_a_row
        self._current: _Planned | None = None

    def observe(self, planned: _Planned) -> None:
        """Run one point once, and record the observation or the failure."""
        self._current = planned
        try:
            self.record(planned.point, planned.seed, _outcome(planned.run))
            self._failed_in_a_row.clear()
        except (ConfigurationError, Interrupted):
            raise
        except PerpacketError as error:
            self._fail(planned, error)
        finally:
            self._current = None
            self._done_ms += planned.expected_ms

    def _fail(self, planned: _Planned, error: PerpacketError) -> None:
        failure = Failure(planned.point.name, planned.seed, str(error))
        self.directory.record_failure(failure)
        self._failed_in_a_row.append(failure)
        if len(self._failed_in_a_row) == MOST_FAILURES_IN_A_ROW:
            raise RunFailed(
                f"{MOST_FAILURES_IN_A_ROW} runs in a row failed, the last one at point "
                f"{failure.point}, block {failure.seed}: {error}",
                hint=f"correct that, then run `perpacket study resume {self.directory.path}`",
            ) from error

    def progress(self) -> Progress:
        """The progress now."""
        current = self._current
        within_ms = min(current.run.progress()) if current is not None else 0
        return self.state(int(current is not None), (self._done_ms + within_ms) / self._planned_ms)
