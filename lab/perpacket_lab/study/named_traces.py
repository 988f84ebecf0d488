"""Logs as levels of a study's factor `trace`: `--trace NAME=FILE`, once for each log.

The points of each log replace the points that replay a synthesized trace. Figures and entries of
lists about the synthesized trace are repeated for each log.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from perpacket.errors import ConfigurationError
from perpacket_lab.study.figures import figures_of
from perpacket_lab.study.file import TRACE, Experiment, FigureTable, Rule, StudyFile
from perpacket_lab.study.published_file import PlaceRow

FACTOR = "trace"
"""The name of the factor. Experiments without a trace do not set its level."""

SYNTHESIZED = "synthesized"
"""The label of the factor's level without a log."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Allowed names of logs. A point's name begins with its log's name, and is part of file names."""

HINT = "as --trace world-cup=wc.log --trace nasa=nasa.log"


def parse(texts: Sequence[str]) -> dict[str, str]:
    """The files of the logs by name; raises `ConfigurationError` for a text without a name."""
    paths: dict[str, str] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not path or not NAME.fullmatch(name) or name in paths:
            problem = "two logs have this name" if name in paths else "expected NAME=FILE"
            raise ConfigurationError(f"--trace {text}: {problem}", "--trace", text, hint=HINT)
        paths[name] = path
    return paths


def with_traces(file: StudyFile, traces: Mapping[str, str]) -> StudyFile:
    """The study with a log for each name; raises `ConfigurationError` if it replays no trace."""
    if not any(FACTOR in each.levels for each in file.experiment):
        raise ConfigurationError(
            f"study {file.name} accepts no --trace NAME=FILE: `--trace FILE` replaces its trace, "
            "if any",
            parameter="--trace",
            value=", ".join(traces),
        )
    rules = [
        Rule.model_validate({"if": {FACTOR: name}, "scenario": {TRACE: path}})
        for name, path in traces.items()
    ]
    changed = file.model_copy(
        update={
            "experiment": [_experiment(each, traces) for each in file.experiment],
            "when": [*file.when, *rules],
            "figure": [figure for each in file.figure for figure in _figures(each, traces)],
            "lists": {
                name: [table for entry in entries for table in _entries(entry, traces)]
                for name, entries in file.lists.items()
            },
        }
    )
    titles = {figure.title for figure in figures_of(changed)}
    places = [_place(each, titles, traces) for each in file.place]
    return changed.model_copy(update={"place": places})


def _place(place: PlaceRow, titles: Collection[str], traces: Mapping[str, str]) -> PlaceRow:
    """The place; a chart that is now one chart for each log is replaced by those charts."""
    charts = [
        title
        for chart in place.charts
        for title in ([chart] if chart in titles else [f"{chart}, {name}" for name in traces])
    ]
    return place.model_copy(update={"charts": charts})


def _experiment(experiment: Experiment, traces: Mapping[str, str]) -> Experiment:
    if FACTOR not in experiment.levels:
        return experiment
    cases = [{**case, FACTOR: name} for name in traces for case in experiment.cases or [{}]]
    return experiment.model_copy(update={"cases": cases})


def _figures(figure: FigureTable, traces: Mapping[str, str]) -> list[FigureTable]:
    if isinstance(figure.where, str) or figure.where.get(FACTOR) != SYNTHESIZED:
        return [figure]
    return [
        figure.model_copy(
            update={"where": figure.where | {FACTOR: name}, "title": f"{figure.title}, {name}"}
        )
        for name in traces
    ]


def _entries(entry: dict[str, Any], traces: Mapping[str, str]) -> list[dict[str, Any]]:
    where = entry.get("where")
    changes: list[dict[str, Any]]
    if entry.get(FACTOR) == SYNTHESIZED:
        changes = [{FACTOR: name} for name in traces]
    elif isinstance(where, dict) and where.get(FACTOR) == SYNTHESIZED:
        changes = [{"where": where | {FACTOR: name}} for name in traces]
    else:
        return [entry]
    return [
        entry | change | {"about": f"{entry['about']}, {name}"}
        for name, change in zip(traces, changes, strict=True)
    ]
