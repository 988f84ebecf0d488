"""Starts and resumes studies."""

from __future__ import annotations

from dataclasses import replace
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

    `seeds` replaces the study's own; `overrides` are added to every point. `executor` runs the
    simulated points, by default in one thread for each core. It changes no result. Raises what
    `RunDirectory.create`, the executor's `check`, `simulated_runs.execute` and
    `measured_runs.begin` raise.
    """
    configuration = configuration_file.resolve(study, perpacket.__version__, seeds, overrides)
    return _begin(study, path, configuration, executor, on_progress)


def check(
    study: Study, path: Path, seeds: tuple[int, ...], overrides: tuple[tuple[str, str], ...]
) -> None:
    """Raise the errors of `run` about its arguments, before anything is set up or written."""
    configuration_file.resolve(study, perpacket.__version__, seeds, overrides)
    check_vacant(path)


def rerun(
    study: Study,
    directory: RunDirectory,
    path: Path,
    *,
    executor: Executor | None = None,
    on_progress: ProgressFunction | None = None,
) -> RunDirectory:
    """Repeat the runs of `directory` with this version, into the new directory `path`.

    Points, overrides and seeds are those of `directory`, even if the study has changed since then.
    Arguments and errors are those of `run`.
    """
    configuration = replace(directory.configuration, perpacket=perpacket.__version__)
    return _begin(study, path, configuration, executor, on_progress)


def _begin(
    study: Study,
    path: Path,
    configuration: RunConfiguration,
    executor: Executor | None,
    on_progress: ProgressFunction | None,
) -> RunDirectory:
    executor = _checked_executor(study, executor)
    # Before anything is written, find the points that cannot run.
    for point in configuration.points:
        study.runner_of(point).prepare(point, configuration.seeds[0], timeline=False)
    if study.measured_runner is not None:
        return measured_runs.begin(study, path, configuration, executor, on_progress)
    facts = environment.describe() | {"executor": executor.describe()}
    directory = RunDirectory.create(path, configuration, facts)
    _simulate(study, directory, executor, on_progress)
    return directory


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
