"""Runs a measured study: one run at a time, in random order within blocks, until all are there.

Two measured runs at once would measure each other, so an executor never gets them. A block is every
point once, with one seed. The seed shuffles the block, so that drift during a study (the machine's
temperature, a neighbour) affects every point alike, and points are compared within a block. The
order depends on the seed alone: a resumed study continues in the same order.

A run that fails is recorded and the study continues: one dead server must not end the other runs.
Several failures in a row end it, because then all runs have the same problem.
"""

from __future__ import annotations

import random
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perpacket.errors import (
    ConfigurationError,
    Interrupted,
    MachineLacks,
    PerpacketError,
    RunFailed,
)
from perpacket.run import environment
from perpacket.run.configuration_file import RunConfiguration
from perpacket.run.directory import Failure, RunDirectory
from perpacket.run.simulated_runs import POLL_S, Progress, ProgressFunction, interrupted
from perpacket.run.ticking import ticking
from perpacket.study.point import Point
from perpacket.study.runner import MeasuredRunner, Outcome, Run, SetupDescription

MOST_FAILURES_IN_A_ROW = 5
"""After this many failed runs in a row, the study ends: the others would fail too."""

TESTBED = "testbed"
"""The key of `environment.json` with what the runner set up."""


def begin(
    runner: MeasuredRunner,
    path: Path,
    configuration: RunConfiguration,
    on_progress: ProgressFunction | None = None,
) -> RunDirectory:
    """Run every point of `configuration` that can run here into the new directory `path`.

    Raises `ConfigurationError` when a point cannot run with its parameters, `MachineLacks` when no
    point can run here, and what `execute` raises.
    """
    for point in configuration.points:
        runner.prepare(point, configuration.seeds[0], timeline=False)
    with runner.set_up(configuration.points) as setup:
        possible = tuple(
            point for point in configuration.points if point.name not in setup.left_out
        )
        if not possible:
            raise MachineLacks(f"nothing of this study can run here: {_reasons(setup)[0]}")
        directory = RunDirectory.create(
            path, replace(configuration, points=possible), described(setup)
        )
        execute(directory, runner, on_progress)
    return directory


def resume(
    directory: RunDirectory,
    runner: MeasuredRunner,
    on_progress: ProgressFunction | None = None,
    only: Collection[str] | None = None,
) -> int:
    """Run what `directory` is missing; returns the number of new observations.

    `only` names the measured points; by default all are. Raises `ConfigurationError` when this is
    another testbed than the study's, because one table must not mix two, and what `execute` raises.
    """
    if not remaining(directory, only):
        return 0
    with runner.set_up(measured_points(directory, only)) as setup:
        began = directory.environment().get(TESTBED)
        before = began if isinstance(began, Mapping) else {}
        for name, now in setup.identity.items():
            if name in before and before[name] != now:
                raise ConfigurationError(
                    f"{directory.path} was begun with {name} {before[name]}, here it is {now}",
                    parameter=name,
                    value=str(now),
                    hint="resume it where it was begun, or run the study anew",
                )
        if setup.left_out:
            raise MachineLacks(
                f"{directory.path} was begun where more could be run: {_reasons(setup)[0]}"
            )
        return execute(directory, runner, on_progress, only)


def described(setup: SetupDescription) -> dict[str, object]:
    """`environment.json` of a measured run: the machine, the versions and the setup."""
    facts = environment.describe()
    facts[TESTBED] = {**setup.identity, **setup.facts, "left_out": _reasons(setup)}
    return facts


def _reasons(setup: SetupDescription) -> list[str]:
    """Why points are left out, each reason once with its points."""
    about: dict[str, list[str]] = {}
    for name, reason in setup.left_out.items():
        about.setdefault(reason, []).append(name)
    return [f"{', '.join(names)}: {reason}" for reason, names in about.items()]


def order(points: Sequence[Point], seed: int) -> list[Point]:
    """The points of one block in the order in which they run."""
    shuffled = list(points)
    random.Random(seed).shuffle(shuffled)
    return shuffled


def measured_points(
    directory: RunDirectory, only: Collection[str] | None = None
) -> tuple[Point, ...]:
    """The points of a run that are measured: all, or `only` those of these names."""
    points = directory.configuration.points
    return points if only is None else tuple(point for point in points if point.name in only)


def remaining(
    directory: RunDirectory, only: Collection[str] | None = None
) -> list[tuple[Point, int]]:
    """What is due now, block after block, each in its own order."""
    missing = {(point.name, seed) for point, seed in directory.missing()}
    points = measured_points(directory, only)
    is_random = directory.configuration.order == "random"
    return [
        (point, seed)
        for seed in directory.configuration.seeds
        for point in (order(points, seed) if is_random else points)
        if (point.name, seed) in missing
    ]


def execute(
    directory: RunDirectory,
    runner: MeasuredRunner,
    on_progress: ProgressFunction | None = None,
    only: Collection[str] | None = None,
) -> int:
    """Run what is missing on machines that are set up; returns the number of new observations.

    `only` names the measured points; by default all are. A failed run is recorded and is no error
    here; it is not repeated. Raises `RunFailed` when too many fail in a row, `ConfigurationError`
    when a point cannot run with its parameters, `CorruptObservation` for a damaged observation, and
    `Interrupted`, with the command that resumes, after Ctrl-C.
    """
    finished = 0
    tried: set[tuple[str, int]] = set()
    failed_in_a_row: list[Failure] = []
    with directory.locked():
        # With a stopping rule, the results of these runs may make others due.
        while due := [
            run for run in remaining(directory, only) if (run[0].name, run[1]) not in tried
        ]:
            tried |= {(point.name, seed) for point, seed in due}
            finished += _run_all(
                directory, runner, due, on_progress, directory.planned(only), failed_in_a_row
            )
    return finished


def _run_all(
    directory: RunDirectory,
    runner: MeasuredRunner,
    due: Sequence[tuple[Point, int]],
    on_progress: ProgressFunction | None,
    total: int,
    failed_in_a_row: list[Failure],
) -> int:
    """Run these one after another; returns the number of new observations.

    `failed_in_a_row` continues from batch to batch.
    """
    runs = [
        _Planned(point, seed, runner.prepare(point, seed, timeline=False)) for point, seed in due
    ]
    batch = _Batch(directory, runs, total - len(runs), total, failed_in_a_row)
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

    The runs stay in the main thread: a child may be set to die with the thread that started it.
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
        """How long the run will take."""
        return self.run.progress()[1]


def _outcome(run: Run) -> Outcome:
    """The outcome of a run; a fault of ours fails that run alone, with its traceback on stderr."""
    try:
        return run.run()
    except PerpacketError:
        raise
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        raise RunFailed(f"{type(error).__name__}: {error}: this is a fault of perpacket") from error


class _Batch:
    """The progress of one start or resumption of the study."""

    def __init__(
        self,
        directory: RunDirectory,
        runs: Sequence[_Planned],
        before: int,
        total: int,
        failed_in_a_row: list[Failure],
    ) -> None:
        self.directory, self.before, self.total = directory, before, total
        self.finished = 0
        self._began_s = time.monotonic()
        self._planned_ms = sum(planned.expected_ms for planned in runs) or 1
        self._done_ms = 0
        self._failed_in_a_row = failed_in_a_row
        self._current: _Planned | None = None
        self._latest: tuple[Point, int, Outcome] | None = None

    @property
    def kept(self) -> int:
        """Observations on disk, with those of earlier batches."""
        return self.before + self.finished

    def observe(self, planned: _Planned) -> None:
        """Run one point once, and record the observation or the failure."""
        self._current = planned
        try:
            outcome = _outcome(planned.run)
            self.directory.record(planned.point, planned.seed, outcome)
            self.finished += 1
            self._latest = (planned.point, planned.seed, outcome)
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
        """The state now."""
        current = self._current
        within_ms = min(current.run.progress()) if current is not None else 0
        return Progress(
            finished=self.kept,
            total=self.total,
            running=int(current is not None),
            share=min(1.0, (self._done_ms + within_ms) / self._planned_ms),
            elapsed_s=time.monotonic() - self._began_s,
            latest=self._latest,
        )
