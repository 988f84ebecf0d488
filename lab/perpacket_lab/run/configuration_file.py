"""`config.toml` of a run directory: the runs of a study, independent of defaults.

schema = 1
study = "osdi06"
perpacket = "0.1.0"
seeds = [1, 2, 3]

[[point]]
name = "W-1024-P-N-FCFS-400"
configuration = "W-1024-P-N-FCFS-400"
against = "W-0-N-N-FCFS-400"
factors = { workload = "W", nic_mips = 400 }
overrides = [["run.packets", "600000"]]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tomli_w
from pydantic import Field

from perpacket.analysis.statistics import DEFAULT_CONFIDENCE
from perpacket.errors import ConfigurationError, StudyError
from perpacket.validation import FileTable, read_toml
from perpacket_lab.study import library
from perpacket_lab.study.point import Point, check_points
from perpacket_lab.study.stopping import Stopping
from perpacket_lab.study.study import Order, Study

SCHEMA = 1
"""Version of the file's layout."""

MOST_SEED = 2**64 - 1
"""The simulator's seeds are 64 bits wide."""

REMEDY = "restore the file from a copy, or run the study again into another directory"
"""The hint for a damaged file. No other file lists the runs."""


@dataclass(frozen=True, slots=True)
class RunConfiguration:
    """The runs of a run directory: every point with every seed."""

    study: str
    perpacket: str
    """The version that began the run. No other version may resume it."""
    seeds: tuple[int, ...]
    points: tuple[Point, ...]
    confidence: float = DEFAULT_CONFIDENCE
    order: Order = "random"
    """The order of the points in a block of a measured study."""
    stopping: Stopping | None = None
    """With a stopping rule, a point may need fewer runs than there are `seeds`."""
    definition: str = ""
    """The resolved study as the text of its file, which the directory stores as `study.toml`."""


class StoppingModel(FileTable):
    """The key `until` of the file."""

    quantity: str
    within: float = Field(gt=0)
    least: int = Field(ge=2)
    in_time_order: bool = False


class PointModel(FileTable):
    """One `[[point]]` of the file."""

    name: str
    configuration: str
    against: str | None = None
    timeline: bool = False
    factors: dict[str, str | int | float] = Field(default_factory=dict)
    overrides: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        default_factory=list
    )


class FileModel(FileTable):
    """The whole file."""

    schema_version: Literal[1] = Field(alias="schema")
    study: str
    perpacket: str
    seeds: list[int] = Field(min_length=1)
    confidence: float = Field(default=DEFAULT_CONFIDENCE, gt=0, lt=1)
    order: Order = "random"
    until: StoppingModel | None = None
    point: list[PointModel] = Field(min_length=1)


def resolve(
    study: Study,
    perpacket: str,
    seeds: tuple[int, ...] = (),
    overrides: tuple[tuple[str, str], ...] = (),
) -> RunConfiguration:
    """The runs of a study: its points with `overrides` added, with `seeds` or the study's own.

    In a study that measures and simulates, a point has only the overrides that it accepts. Raises
    `ConfigurationError` when a seed is out of range or repeated, or when an override would make the
    levels of a user's factor the same.
    """
    seeds = seeds or study.seeds
    if len(set(seeds)) != len(seeds) or not all(0 <= seed <= MOST_SEED for seed in seeds):
        raise ConfigurationError(
            f"seeds {', '.join(map(str, seeds))}: expected different numbers from 0 to 2^64 - 1",
            parameter="seeds",
            value=str(seeds),
        )
    if study.definition and not study.is_built_in:
        _check_factors(study, [name for name, _ in overrides])
    added = tuple((name, str(value)) for name, value in overrides)
    points = tuple(
        replace(
            point,
            overrides=point.overrides
            + tuple(pair for pair in added if study.accepts(point, pair[0])),
        )
        for point in study.points
    )
    return RunConfiguration(
        study.name,
        perpacket,
        seeds,
        points,
        study.confidence,
        study.order,
        study.stopping and replace(study.stopping, in_time_order=study.is_measured),
        study.definition,
    )


def study_of(configuration: RunConfiguration) -> Study:
    """The study of a run, with the points of the run. Raises what `library.of_run` raises."""
    return library.of_run(configuration.study, configuration.definition, configuration.points)


def _check_factors(study: Study, names: list[str]) -> None:
    """Raise `ConfigurationError` if a parameter in `names` is a factor of the study."""
    for name in names:
        if len({dict(point.overrides).get(name) for point in study.points}) > 1:
            raise ConfigurationError(
                f"{name} is a factor of study {study.name}: its points need different values",
                parameter=name,
                hint="change its levels in the study's file",
            )


def to_toml(configuration: RunConfiguration) -> str:
    """The text of the file."""
    content: dict[str, object] = {
        "schema": SCHEMA,
        "study": configuration.study,
        "perpacket": configuration.perpacket,
        "seeds": list(configuration.seeds),
    }
    if configuration.confidence != DEFAULT_CONFIDENCE:
        content["confidence"] = configuration.confidence
    if configuration.order != "random":
        content["order"] = configuration.order
    if (rule := configuration.stopping) is not None:
        content["until"] = {name: getattr(rule, name) for name in StoppingModel.model_fields}
    content["point"] = [_table(point) for point in configuration.points]
    return (
        "# The configuration of this run. Written by perpacket; without it the observations are "
        "invalid.\n" + tomli_w.dumps(content)
    )


def _table(point: Point) -> dict[str, object]:
    """One `[[point]]`, without keys that have their default value."""
    table: dict[str, object] = {"name": point.name, "configuration": point.configuration}
    if point.against is not None:
        table["against"] = point.against
    if point.timeline:
        table["timeline"] = True
    table["factors"] = dict(point.factors)
    table["overrides"] = [list(pair) for pair in point.overrides]
    return table


def read(file: Path) -> RunConfiguration:
    """Read the file; raises `ConfigurationError` naming the file, the key and what was expected."""
    model = read_toml(file, FileModel, REMEDY)
    points = tuple(
        Point(
            **dict(point) | {"overrides": tuple((name, value) for name, value in point.overrides)}
        )
        for point in model.point
    )
    try:
        check_points(model.study, points)
    except StudyError as error:
        raise ConfigurationError(f"{file}: {error}", hint=REMEDY) from None
    stopping = None
    if model.until is not None:
        stopping = Stopping(**dict(model.until), confidence=model.confidence)
    return RunConfiguration(
        model.study,
        model.perpacket,
        tuple(model.seeds),
        points,
        model.confidence,
        model.order,
        stopping,
    )
