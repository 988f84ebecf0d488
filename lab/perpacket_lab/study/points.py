"""The points of a study's file: a name, factors and parameters for each combination of levels.

A factor is a parameter of the runs, unless the scenario inserts it as `{factor}`. Then the scenario
computes parameters from its level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from perpacket.analysis import two_level as factorial
from perpacket.errors import ConfigurationError
from perpacket_lab.study.designs import Combination, combinations
from perpacket_lab.study.file import (
    Condition,
    Experiment,
    Part,
    Scalar,
    StudyFile,
    as_levels,
    text_of,
)
from perpacket_lab.study.point import Level, Point

LONGEST_NAME = 120
"""The longest name of a point. It is part of file names, which may have 255 bytes."""

LATENCY, NETWORK = "network.latency_ms", "network.kind"

CONFIGURATION = "configuration"
"""The entry of a scenario with the point's configuration: the simulated machine and workload. For a
measured point the default is its load."""

RESERVED = ("point", "seed", "packets")
"""Columns of a table of runs. No factor may have one of these as its short name."""

WORD = re.compile(r"\{(\w+)\}")


def points_of(file: StudyFile) -> tuple[tuple[Point, ...], factorial.Design | None]:
    """The points of all experiments without duplicates, and their two-level design if there is one.

    Raises `ConfigurationError` naming what a point lacks, and what `combinations` raises.
    """
    factors = [name for each in file.experiments for name in each.factors]
    labels = labels_of(list(dict.fromkeys(factors)))
    by_name: dict[str, Point] = {}
    design = None
    for experiment in file.experiments:
        points, design = _points(file, experiment, labels)
        for point in points:
            if by_name.setdefault(point.name, point) != point:
                raise ConfigurationError(f"two experiments define point {point.name}")
    if design is not None:
        design = factorial.renamed(design, labels)
    return tuple(by_name.values()), design if len(file.experiments) == 1 else None


def kind_of(file: StudyFile, experiment: Experiment) -> Part:
    """Whether an experiment's points are measured, simulated or emulated."""
    return experiment.kind or file.kind


def points_of_kind(file: StudyFile, kind: Part) -> frozenset[str]:
    """The names of the points that a measured study simulates or emulates."""
    if file.kind == "simulated":
        return frozenset()
    parts = [each for each in file.experiments if kind_of(file, each) == kind]
    only = file.model_copy(update={"experiment": parts})
    return frozenset(point.name for point in points_of(only)[0]) if parts else frozenset()


def labels_of(parameters: Sequence[str]) -> dict[str, str]:
    """A short name for each factor: the last word of its parameter, if no other factor has it."""
    last = [parameter.rpartition(".")[2] for parameter in parameters]
    return {
        parameter: (
            word if last.count(word) == 1 and word not in RESERVED else parameter.replace(".", "_")
        )
        for parameter, word in zip(parameters, last, strict=True)
    }


def _points(
    file: StudyFile, experiment: Experiment, labels: Mapping[str, str]
) -> tuple[list[Point], factorial.Design | None]:
    """The points of one experiment; its cases vary slowest."""
    levels = {name: as_levels(each) for name, each in experiment.factors.items()}
    varied, design = combinations(experiment.design, levels, experiment.generators)
    words = _words(file, experiment)
    chosen = [
        (combination, _levels(file, experiment, case, combination, labels))
        for case in experiment.cases or [{}]
        for combination in varied
    ]
    runnable = [
        (combination, all_levels)
        for combination, all_levels in chosen
        if not any(_matches(condition, all_levels) for condition in file.without)
    ]
    names = [_name(experiment, combination, levels, labels) for combination, levels in runnable]
    if len(set(names)) != len(names) or max(map(len, names), default=0) > LONGEST_NAME:
        names = [f"point-{number:04d}" for number in range(1, len(names) + 1)]
    points = []
    for name, (combination, all_levels) in zip(names, runnable, strict=True):
        parameters = _parameters(file, experiment, all_levels)
        parameters |= {
            parameter: text_of(level)
            for parameter, level in combination.items()
            if labels[parameter] not in words
        }
        points.append(_point(file, experiment, name, all_levels, parameters))
    return points, design


def _levels(
    file: StudyFile,
    experiment: Experiment,
    case: Mapping[str, Scalar],
    combination: Combination,
    labels: Mapping[str, str],
) -> dict[str, Scalar]:
    """The level of every factor of a point, as in the file."""
    named = {labels[name]: level for name, level in combination.items()}
    levels: dict[str, Scalar] = {**file.levels, **experiment.levels, **case, **named}
    for rule in file.when:
        if _matches(rule.condition, levels):
            levels |= rule.levels
    return levels


def _words(file: StudyFile, experiment: Experiment) -> set[str]:
    """The factors that the scenario inserts."""
    tables = (file.scenario, experiment.scenario, *(rule.scenario for rule in file.when))
    texts = [value for table in tables for value in table.values() if isinstance(value, str)]
    return {word for text in texts for word in WORD.findall(text)}


def _matches(condition: Condition, levels: Mapping[str, Scalar]) -> bool:
    return all(
        levels.get(name) in wanted if isinstance(wanted, list) else levels.get(name) == wanted
        for name, wanted in condition.items()
    )


def inserted(text: str, words: Mapping[str, object]) -> str:
    """The text with each `{word}` in `words` replaced."""
    return WORD.sub(lambda match: str(words.get(match[1], match[0])), text)


def _parameters(
    file: StudyFile, experiment: Experiment, levels: Mapping[str, Scalar]
) -> dict[str, str]:
    """The scenario of a point, from the file, the experiment and the rules."""
    scenario = {**file.scenario, **experiment.scenario}
    for rule in file.when:
        if _matches(rule.condition, levels):
            scenario |= rule.scenario
    words = {name: text_of(level) for name, level in levels.items()}
    return {
        name: inserted(value, words) if isinstance(value, str) else text_of(value)
        for name, value in scenario.items()
    }


def _name(
    experiment: Experiment,
    combination: Combination,
    levels: Mapping[str, Scalar],
    labels: Mapping[str, str],
) -> str:
    """The name in the file, or a name from the levels that vary."""
    if experiment.point:
        return inserted(experiment.point, levels)
    return point_name({labels[name]: level for name, level in combination.items()})


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
    file: StudyFile,
    experiment: Experiment,
    name: str,
    levels: Mapping[str, Scalar],
    parameters: dict[str, str],
) -> Point:
    configuration = parameters.pop(CONFIGURATION, "")
    kind = kind_of(file, experiment)
    if kind != "simulated":
        is_web = kind == "measured" and file.runner == "web"
        if is_web and NETWORK not in parameters and _has_latency(file):
            # All points use the delayed path, so that they differ only in latency.
            parameters[NETWORK] = "delayed"
        configuration = configuration or parameters.get("load.kind", "")
    elif not configuration:
        raise ConfigurationError(
            "scenario.configuration: a simulated study requires this key",
            parameter="scenario.configuration",
            hint='as configuration = "W-1024-P-N-FCFS-400", or "bulk"',
        )
    against = inserted(experiment.against, levels)
    return Point(
        name=name,
        configuration=configuration,
        factors=dict(_labelled(file, levels)),
        overrides=tuple(parameters.items()),
        against=against if against and against != name else None,
        timeline=name in file.timeline,
    )


def _labelled(file: StudyFile, levels: Mapping[str, Scalar]) -> Iterator[tuple[str, Level]]:
    for name, level in levels.items():
        label = file.labels.get(name, {}).get(str(level), level)
        yield name, text_of(label) if isinstance(label, bool) else label


def _has_latency(file: StudyFile) -> bool:
    """Whether any point has latency added."""
    levels = file.factors.get(LATENCY, [file.scenario.get(LATENCY, 0)])
    return any(text_of(level) not in ("0", "0.0") for level in levels)
