"""Runs a study that simulates some points and measures others, in one run directory.

Simulations run first: at the same time as a measurement they would disturb it. If nothing can be
measured here, the simulated points still run, and the directory records what was left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from perpacket.errors import MachineLacks
from perpacket.run import measured_runs
from perpacket.run.configuration_file import RunConfiguration
from perpacket.run.directory import RunDirectory
from perpacket.run.jobs import Executor
from perpacket.run.simulated_runs import ProgressFunction, execute
from perpacket.study.point import Point
from perpacket.study.runner import MeasuredRunner, SetupDescription
from perpacket.study.study import Study


def begin(
    study: Study,
    runner: MeasuredRunner,
    path: Path,
    configuration: RunConfiguration,
    executor: Executor,
    on_progress: ProgressFunction | None = None,
) -> RunDirectory:
    """Run every point that can run here into the new directory `path`.

    Raises `ConfigurationError` when a point cannot run with its parameters, and what `execute` and
    `measured_runs.execute` raise.
    """
    for point in configuration.points:
        study.runner_of(point).prepare(point, configuration.seeds[0], timeline=False)
    measured = tuple(point for point in configuration.points if point.name not in study.simulated)
    with _set_up(runner, measured) as setup:
        possible = tuple(
            point for point in configuration.points if point.name not in setup.left_out
        )
        facts = measured_runs.described(setup) | {"executor": executor.describe()}
        directory = RunDirectory.create(path, replace(configuration, points=possible), facts)
        execute(directory, study.runner, None, on_progress, executor=executor, only=study.simulated)
        names = {point.name for point in possible} - study.simulated
        if names:
            measured_runs.execute(directory, runner, on_progress, names)
    return directory


def resume(
    study: Study,
    runner: MeasuredRunner,
    directory: RunDirectory,
    executor: Executor,
    on_progress: ProgressFunction | None = None,
) -> int:
    """Run what is missing; returns the number of new observations. Raises as `begin` does."""
    simulated = study.simulated
    count = execute(directory, study.runner, None, on_progress, executor=executor, only=simulated)
    measured = {point.name for point in directory.configuration.points} - simulated
    return count + measured_runs.resume(directory, runner, on_progress, measured)


@contextmanager
def _set_up(runner: MeasuredRunner, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
    """Set up the runner's machines; if there are none, all points are left out."""
    with ExitStack() as stack:
        setup = SetupDescription({})
        if points:
            try:
                setup = stack.enter_context(runner.set_up(points))
            except MachineLacks as error:
                setup = SetupDescription({}, left_out={point.name: str(error) for point in points})
        yield setup
