"""Starts and resumes studies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import perpacket
from perpacket.errors import ConfigurationError
from perpacket_lab.run import configuration_file, environment, measured_runs, simulated_runs
from perpacket_lab.run.configuration_file import RunConfiguration
from perpacket_lab.run.directory import RunDirectory, check_vacant
from perpacket_lab.run.jobs import Executor
from perpacket_lab.run.progress import ProgressFunction
from perpacket_lab.run.threads import ThreadExecutor
from perpacket_lab.study.study import Study


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A study with checked arguments, which runs into a new directory."""

    study: Study
    path: Path
    configuration: RunConfiguration
    executor: Executor
    measured: int
    """The number of points that are measured or emulated."""
    block_ms: int
    """The expected time of these points, once each."""

    def run(self, on_progress: ProgressFunction | None = None) -> RunDirectory:
        """Run every point with every seed.

        Raises what `RunDirectory.create`, `simulated_runs.execute` and `measured_runs.begin` raise.
        """
        study, path, executor = self.study, self.path, self.executor
        if study.measured_runner is not None:
            return measured_runs.begin(study, path, self.configuration, executor, on_progress)
        facts = environment.describe() | {"executor": executor.describe()}
        directory = RunDirectory.create(path, self.configuration, facts)
        _simulate(study, directory, executor, on_progress)
        return directory


def plan(
    study: Study,
    path: Path,
    *,
    seeds: tuple[int, ...] = (),
    overrides: tuple[tuple[str, str], ...] = (),
    executor: Executor | None = None,
    again: RunConfiguration | None = None,
) -> PlannedRun:
    """Check a study's arguments before anything is set up or written into the new directory `path`.

    `seeds` replaces the study's own; `overrides` are added to every point. Instead, `again` is the
    configuration of a run to repeat with this version: its points, overrides and seeds, even if the
    study has changed since then. `executor` runs the simulated points, by default in one thread for
    each core. It changes no result. Raises what `configuration_file.resolve` and the executor's
    `check` raise, and `ConfigurationError` when a point cannot run or `path` is not vacant.
    """
    if again is None:
        configuration = configuration_file.resolve(study, perpacket.__version__, seeds, overrides)
    else:
        configuration = replace(again, perpacket=perpacket.__version__)
    check_vacant(path)
    executor = _checked_executor(study, executor)
    measured = block_ms = 0
    for point in configuration.points:
        run = study.runner_of(point).prepare(point, configuration.seeds[0], timeline=False)
        if study.measurer_of(point) is not None:
            measured += 1
            block_ms += run.progress()[1]
    return PlannedRun(study, path, configuration, executor, measured, block_ms)


def run(
    study: Study,
    path: Path,
    *,
    seeds: tuple[int, ...] = (),
    overrides: tuple[tuple[str, str], ...] = (),
    executor: Executor | None = None,
    on_progress: ProgressFunction | None = None,
) -> RunDirectory:
    """Run every point of `study` with every seed into the new directory `path`.

    Raises what `plan` and `PlannedRun.run` raise.
    """
    planned = plan(study, path, seeds=seeds, overrides=overrides, executor=executor)
    return planned.run(on_progress)


def resume(
    study: Study,
    directory: RunDirectory,
    *,
    executor: Executor | None = None,
    on_progress: ProgressFunction | None = None,
) -> int:
    """Run the missing observations of `directory`; returns the number of new ones.

    Raises `ConfigurationError` when another version of perpacket began the run: one table must not
    mix two simulators. Also raises what `run` raises.
    """
    began = directory.configuration.perpacket
    if began != perpacket.__version__:
        raise ConfigurationError(
            f"{directory.path} was begun by perpacket {began}, this is {perpacket.__version__}",
            parameter="perpacket",
            value=began,
            hint=f"install perpacket {began} again, or run the study again",
        )
    executor = _checked_executor(study, executor)
    if study.measured_runner is not None:
        return measured_runs.resume(study, directory, executor, on_progress)
    return _simulate(study, directory, executor, on_progress)


def _simulate(
    study: Study,
    directory: RunDirectory,
    executor: Executor,
    on_progress: ProgressFunction | None,
) -> int:
    """Run due simulations until none is left; returns the number of new observations."""
    count = 0
    while ran := simulated_runs.execute(directory, study.runner, executor, on_progress):
        count += ran
        if directory.configuration.stopping is None:
            break
    return count


def _checked_executor(study: Study, executor: Executor | None) -> Executor:
    """The executor of the simulated points, threads by default.

    Raises what the executor's `check` raises, and `ConfigurationError` when an executor is given
    for a study that only measures.
    """
    if executor is not None and not study.is_simulated:
        raise ConfigurationError(
            f"study {study.name} is measured: it runs one point at a time on its own hosts, "
            "without an executor or a cluster",
            parameter="--cluster",
            hint="leave out --cluster, --executor and --workers: --testbed selects the hosts",
        )
    executor = executor or ThreadExecutor()
    executor.check()
    return executor
