"""Begins a study and continues one: simulated runs in parallel, measured ones one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import perpacket
from perpacket.errors import ConfigurationError
from perpacket.experiment import configuration_file, driver, environment
from perpacket.experiment.configuration_file import RunConfiguration
from perpacket.experiment.executor import ProgressFunction, checked_workers, execute
from perpacket.experiment.run_directory import RunDirectory
from perpacket.experiment.study import Study


def run(
    study: Study,
    path: Path,
    *,
    seeds: tuple[int, ...] = (),
    overrides: tuple[tuple[str, str], ...] = (),
    workers: int | None = None,
    on_progress: ProgressFunction | None = None,
) -> RunDirectory:
    """Run every point of `study` with every seed into the new directory `path`.

    `seeds` replaces the study's own; `overrides` go on top of every point; `workers` is one a core
    unless given, changes no result, and is nothing to a measured study. Raises what
    `RunDirectory.create` and `execute`, or `driver.begin`, raise.
    """
    configuration = configuration_file.resolve(study, perpacket.__version__, seeds, overrides)
    return _begin(study, path, configuration, workers, on_progress)


def rerun(
    study: Study,
    directory: RunDirectory,
    path: Path,
    *,
    workers: int | None = None,
    on_progress: ProgressFunction | None = None,
) -> RunDirectory:
    """Run what `directory` ran again, with this version and into the new directory `path`.

    Every point with its overrides and every seed are those of `directory`, whatever the study's
    file or its built-in points say now. Arguments and errors as `run`.
    """
    configuration = replace(directory.configuration, perpacket=perpacket.__version__)
    return _begin(study, path, configuration, workers, on_progress)


def _begin(
    study: Study,
    path: Path,
    configuration: RunConfiguration,
    workers: int | None,
    on_progress: ProgressFunction | None,
) -> RunDirectory:
    if study.rig is not None:
        return driver.begin(study.rig, path, configuration, on_progress)
    # Whatever cannot be run is found here, before anything is written.
    workers = checked_workers(workers)
    for point in configuration.points:
        study.runner.prepare(point, configuration.seeds[0], timeline=False)
    directory = RunDirectory.create(path, configuration, environment.describe())
    _until_enough(directory, lambda: execute(directory, study.runner, workers, on_progress))
    return directory


def resume(
    study: Study,
    directory: RunDirectory,
    *,
    workers: int | None = None,
    on_progress: ProgressFunction | None = None,
) -> int:
    """Run what `directory` is missing; returns how many observations that were.

    Raises `ConfigurationError` when another version of perpacket began the run, because one table
    must not mix two simulators, and what `execute`, or `driver.resume`, raises.
    """
    began = directory.configuration.perpacket
    if began != perpacket.__version__:
        raise ConfigurationError(
            f"{directory.path} was begun by perpacket {began}, this is {perpacket.__version__}",
            parameter="perpacket",
            value=began,
            hint=f"install perpacket {began} again, or run the study anew",
        )
    if study.rig is not None:
        return driver.resume(directory, study.rig, on_progress)
    return _until_enough(directory, lambda: execute(directory, study.runner, workers, on_progress))


def _until_enough(directory: RunDirectory, execute_due: Callable[[], int]) -> int:
    """Run what is due until nothing is; without a rule for stopping everything is due at once."""
    count = execute_due()
    if directory.configuration.stopping is not None:
        while ran := execute_due():
            count += ran
    return count
