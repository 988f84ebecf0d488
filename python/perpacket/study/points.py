"""The points of a user's study: names, factors and parameters of each combination of levels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from perpacket.errors import ConfigurationError
from perpacket.measure.web.plan import Plan, read_plan
from perpacket.study.designs import Combination
from perpacket.study.file import CONFIGURATION, StudyFile, text_of
from perpacket.study.study import Level, Point

LONGEST_NAME = 120
"""Names of points are parts of file names, which may have 255 bytes."""

LATENCY, NETWORK = "network.latency_ms", "network.kind"


TAKEN = ("point", "seed", "packets")
"""Columns of a table of runs that a factor's short name would hide."""


def labels_of(parameters: Sequence[str]) -> dict[str, str]:
    """A short name for each factor: the last word of its parameter where that is enough."""
    last = [parameter.rpartition(".")[2] for parameter in parameters]
    return {
        parameter: (
            word if last.count(word) == 1 and word not in TAKEN else parameter.replace(".", "_")
        )
        for parameter, word in zip(parameters, last, strict=True)
    }


def points_of(file: StudyFile, combinations: Sequence[Combination]) -> tuple[Point, ...]:
    """A point for each combination of the parameters' levels.

    Raises `ConfigurationError` naming a parameter that there is not.
    """
    labels = labels_of(list(file.factors))
    texts = [
        {labels[name]: level for name, level in combination.items()} for combination in combinations
    ]
    names = [point_name(factors) for factors in texts]
    if len(set(names)) != len(names) or max(map(len, names)) > LONGEST_NAME:
        names = [f"point-{number:04d}" for number in range(1, len(names) + 1)]
    found = []
    for name, factors, combination in zip(names, texts, combinations, strict=True):
        parameters = {key: text_of(value) for key, value in file.scenario.items()}
        parameters |= {key: text_of(level) for key, level in combination.items()}
        found.append(_point(file, name, factors, parameters))
    return tuple(found)


def point_name(factors: Mapping[str, Level]) -> str:
    """`connections=64+latency_ms=5`; `all` without factors."""
    if not factors:
        return "all"
    parts = (
        f"{label}={re.sub(r'[^A-Za-z0-9._-]+', '-', str(level)).strip('-') or 'none'}"
        for label, level in factors.items()
    )
    return "+".join(parts)


def _point(
    file: StudyFile, name: str, factors: Mapping[str, Level], parameters: dict[str, str]
) -> Point:
    """One point; a measured one's configuration is its load, a simulated one's the machine."""
    if file.kind == "measured":
        if NETWORK not in parameters and _has_latency(file):
            # All points through what adds latency, or the one without would differ in more.
            parameters[NETWORK] = "delayed"
        configuration = parameters.get("load.kind", "")
        _check_names(parameters)
    else:
        configuration = parameters.pop(CONFIGURATION, "")
        if not configuration:
            raise ConfigurationError(
                "scenario.configuration: it must be given for a simulated study",
                parameter="scenario.configuration",
                hint='as configuration = "W-1024-P-N-FCFS-400", or "bulk"',
            )
    point = Point(name, configuration, factors, tuple(parameters.items()))
    if file.kind == "measured":
        read_plan(point)
    return point


def _has_latency(file: StudyFile) -> bool:
    """Whether any point has latency added."""
    levels = file.factors.get(LATENCY, [file.scenario.get(LATENCY, 0)])
    return any(text_of(level) not in ("0", "0.0") for level in levels)


def _check_names(parameters: Mapping[str, str]) -> None:
    """Raise `ConfigurationError` on a parameter that a measured run does not have."""
    known = [str(field.alias) for field in Plan.model_fields.values()]
    for name in parameters:
        if name not in known:
            raise ConfigurationError(
                f"{name}: a measured run has no such parameter",
                parameter=name,
                value=parameters[name],
                hint=f"there are {', '.join(known)}",
            )
