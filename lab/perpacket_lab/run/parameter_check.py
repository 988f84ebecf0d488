"""Checks the names and values of the parameters of a user's study before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from perpacket.errors import ConfigurationError
from perpacket_lab.study import library
from perpacket_lab.study.lengths import Length
from perpacket_lab.study.study import Study


def study_of(
    name: str,
    length: Length = "default",
    only: tuple[str, ...] = (),
    traces: Mapping[str, str] | None = None,
) -> Study:
    """The study of that name. Checks the parameters of a study in a user's file.

    Raises what `library.find` and `check` raise.
    """
    study = library.find(name, length, only, traces)
    if library.is_file(name):
        check(study, Path(name))
    return study


def check(study: Study, where: Path) -> None:
    """Raise `ConfigurationError` naming a parameter that the runs do not have or do not accept.

    `where` is the study's file.
    """
    try:
        _check(study)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{where}: {error}", error.parameter, error.value, error.allowed, error.hint
        ) from None


def _check(study: Study) -> None:
    """Prepare a run of each measured point and of one simulated point.

    All simulated points have the same parameters.
    """
    for point in study.points:
        runner = study.measurer_of(point)
        if runner is None:
            continue
        for name, value in point.overrides:
            if name not in runner.parameters:
                raise ConfigurationError(
                    f"{name}: a measured run has no such parameter",
                    parameter=name,
                    value=value,
                    hint=f"there are {', '.join(sorted(runner.parameters))}",
                )
        runner.prepare(point, study.seeds[0], False)
    simulated = [point for point in study.points if study.runner_of(point) is study.runner]
    for point in simulated[:1]:
        study.runner.prepare(point, study.seeds[0], False)
