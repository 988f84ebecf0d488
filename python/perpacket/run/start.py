"""Starts and resumes studies: simulated runs in parallel, measured ones one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import perpacket
from perpacket.errors import ConfigurationError
from perpacket.run import configuration_file, environment, measured_runs, mixed_runs
from perpacket.run.configuration_file import RunConfiguration
from perpacket.run.directory import RunDirectory, check_vacant
from perpacket.run.jobs import Executor
from perpacket.run.simulated_runs import ProgressFunction, execute
from perpacket.run.threads import ThreadExecutor
from perpacket.study.study import Study


def run(
    study: Study,
    path: Path,
    *,
    seeds: tuple[int, ...] = (),
    overrides: tuple[tuple[str, str], ...] = (),
    workers: int | None = None,
    executor: Executor | None = None,
    on_progress: ProgressFunction | None = None,
) -> RunDirectory:
    """Run every point of `study` with every seed into the new directory `path`.

    `seeds` replaces the study's own; `overrides` are added to every point. `executor` runs the
    simulated points; by default `workers` threads do, one a core. Neither changes a result or
    affects measured points. Raises what `RunDirectory.create`, `execute`, the executor's `check`
    and `measured_runs.begin` raise.
    """
    configuration = configuration_file.resolve(study, perpacket.__version__, seeds, overrides)
    return _begin(study, path, configuration, executor, workers, on_progress)


def check(
    study: Study, path: Path, seeds: tuple[int, ...], overrides: tuple[tuple[str, str], ...]
) -> None:
    """Raise what `run` would raise about its arguments, before anything is set up or written."""
    configuration_file.resolve(study, perpacket.__version__, seeds, overrides)
    check_vacant(path)


def rerun(
    study: Study,
    directory: RunDirectory,
    path: Path,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    on_progress: ProgressFunction | None = None,
) -> RunDirectory:
    """Run what `directory` ran again, with this version and into the new directory `path`.

    Points, overrides and seeds are those of `directory`, even if the study has changed since.
    Arguments and errors as `run`.
    """
    configuration = replace(directory.configuration, perpacket=perpacket.__version__)
    return _begin(study, path, configuration, executor, workers, on_progress)


def _begin(
    study: Study,
    path: Path,
    configuration: RunConfiguration,
    executor: Executor | None,
    workers: int | None,
    on_progress: ProgressFunction | None,
) -> RunDirectory:
    if study.measured_runner is not None and not study.simulated:
        refuse_executor(study, executor)
        return measured_runs.begin(study.measured_runner, path, configuration, on_progress)
    # Find the points that cannot run before anything is written.
    where = executor or ThreadExecutor(workers)
    where.check()
    if study.measured_runner is not None:
        return mixed_runs.begin(
            study, study.measured_runner, path, configuration, where, on_progress
        )
    for point in configuration.points:
        study.runner.prepare(point, configuration.seeds[0], timeline=False)
    facts = environment.describe() | {"executor": where.describe()}
    directory = RunDirectory.create(path, configuration, facts)
    _until_enough(
        directory,
        lambda: execute(directory, study.runner, on_progress=on_progress, executor=where),
    )
    return directory


def resume(
    study: Study,
    directory: RunDirectory,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    on_progress: ProgressFunction | None = None,
) -> int:
    """Run what `directory` is missing; returns how many observations that were.

    Raises `ConfigurationError` when another version of perpacket began the run, because one table
    must not mix two simulators, and what `run` raises.
    """
    began = directory.configuration.perpacket
    if began != perpacket.__version__:
        raise ConfigurationError(
            f"{directory.path} was begun by perpacket {began}, this is {perpacket.__version__}",
            parameter="perpacket",
            value=began,
            hint=f"install perpacket {began} again, or run the study anew",
        )
    if study.measured_runner is not None and not study.simulated:
        refuse_executor(study, executor)
        return measured_runs.resume(directory, study.measured_runner, on_progress)
    where = executor or ThreadExecutor(workers)
    where.check()
    if study.measured_runner is not None:
        return mixed_runs.resume(study, study.measured_runner, directory, where, on_progress)
    return _until_enough(
        directory,
        lambda: execute(directory, study.runner, on_progress=on_progress, executor=where),
    )


def _until_enough(directory: RunDirectory, execute_due: Callable[[], int]) -> int:
    """Run what is due until nothing is; without a stopping rule everything is due at once."""
    count = execute_due()
    if directory.configuration.stopping is not None:
        while ran := execute_due():
            count += ran
    return count


def refuse_executor(study: Study, executor: Executor | None) -> None:
    """Raise `ConfigurationError` when an executor is given for runs that measure a machine."""
    if executor is not None:
        raise ConfigurationError(
            f"study {study.name} is measured: its runs go one at a time on its own hosts, never "
            "through an executor or a cluster",
            parameter="--cluster",
            hint="leave out --cluster, --executor and --workers: --testbed chooses where it runs",
        )
