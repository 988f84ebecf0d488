"""The file of a study: its keys and their checks, independent of the machine.

The studies of perpacket and those of users have the same keys; docs/studies.md describes them.
Errors name the file, the key and what was expected.
"""

from __future__ import annotations

import math
import os.path
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

import tomli_w
from pydantic import Field, ValidationError, model_validator

from perpacket.analysis.statistics import DEFAULT_CONFIDENCE
from perpacket.errors import ConfigurationError
from perpacket.validation import FileTable, problem_text
from perpacket_lab.study import published_file, quantities
from perpacket_lab.study.designs import DesignKind
from perpacket_lab.study.figure import FigureKind
from perpacket_lab.study.lengths import Length, at_length, is_by_length
from perpacket_lab.study.point import Level
from perpacket_lab.study.published_file import PlaceRow, PublishedRow
from perpacket_lab.study.stopping import LEAST_RUNS

SCHEMA = 1
"""Version of the file's layout."""

Scalar = str | bool | int | float
"""A value of a parameter."""

Kind = Literal["measured", "simulated"]

Part = Literal["measured", "simulated", "emulated"]
"""The kind of an experiment. `emulated` runs an unmodified kernel on an emulated machine."""

Condition = dict[str, Scalar | list[Scalar]]
"""Levels of factors. A point matches if each of its levels equals the value or is in the list."""

PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")

TRACE = "load.trace"
"""The parameter that is a path, relative to the study's file."""

EXPECTED = {
    "scenario": "expected a text, a number or a switch",
    "factors": "expected a list of texts, numbers or switches: the factor's levels",
}
"""Tables with values of several types, and their values in words."""

EXAMPLE_HINT = "`perpacket study new` prints an example with every key"


class Rule(FileTable):
    """`[[when]]`: levels and parameters of the points that match a condition."""

    condition: Condition = Field(alias="if")
    scenario: dict[str, Scalar] = Field(default_factory=dict)
    levels: dict[str, Scalar] = Field(default_factory=dict)


class Experiment(FileTable):
    """`[[experiment]]`: a part of the points, which `--only` selects by name."""

    name: str = ""
    kind: Part | None = None
    """By default the kind of the file. A measured study may simulate and emulate some points."""
    point: str = ""
    """The name of each point, with `{factor}` for levels."""
    against: str = ""
    """The name of the baseline."""
    lengths: list[Length] = Field(default_factory=list)
    """The lengths that include the experiment; all if empty."""
    on_request: bool = False
    """Whether the experiment runs only if `--only` names it."""
    design: DesignKind = "full"
    generators: dict[str, list[str]] = Field(default_factory=dict)
    levels: dict[str, Scalar] = Field(default_factory=dict)
    """Factors that do not vary in this experiment, with their level."""
    cases: list[dict[str, Scalar]] = Field(default_factory=list)
    """Sets of levels that occur together. The design runs once in each case."""
    factors: dict[str, list[Scalar]] = Field(default_factory=dict)
    scenario: dict[str, Scalar] = Field(default_factory=dict)


class FigureTable(FileTable):
    """`[[figure]]`: a figure, or one for each combination of entries of the lists in `each`."""

    kind: FigureKind
    title: str
    x: str = ""
    y: str | list[str]
    series: str | None = None
    where: str | dict[str, Scalar] = Field(default_factory=dict)
    x_title: str = ""
    y_title: str = ""
    caption: str = ""
    optional: bool = False
    """Whether reports omit it where the run has no data for it."""
    each: list[str] = Field(default_factory=list)


class ContestTable(FileTable):
    """`[[contest]]`: competitors compared along a factor; `each` repeats it as in a figure."""

    title: str
    competitor: str
    along: str
    quantity: str
    where: str | dict[str, Scalar] = Field(default_factory=dict)
    lower_wins: str | bool = False
    along_title: str = ""
    each: list[str] = Field(default_factory=list)


class Asked(FileTable):
    """`[asked]`: the options with which a built-in study ran, in the resolved file of a run."""

    length: Length = "default"
    only: list[str] = Field(default_factory=list)
    traces: dict[str, str] = Field(default_factory=dict)
    """The files of the logs by name."""


class StudyFile(FileTable):
    """The whole file."""

    schema_version: Literal[1] = Field(alias="schema", default=1)
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=+-]*$")
    title: str = ""
    question: str = ""
    kind: Kind
    runner: Literal["web", "media", "router", "bench", "what-if", "emulated"] = "web"
    """`web` measures a web server or the bulk sender, `media` a media server, `router` a router,
    `bench` the machine, and `what-if` the changes of the catalogue under the loads of `web`.
    `emulated` runs an unmodified kernel on an emulated machine."""
    design: DesignKind = "full"
    generators: dict[str, list[str]] = Field(default_factory=dict)
    quantities: list[str] = Field(default_factory=list)
    ranked: list[str] = Field(default_factory=list)
    function: str = ""
    """The function that compares methods, as `package.module:function`."""
    replications: Annotated[int, Field(ge=1)] = 5
    replications_most: Annotated[int, Field(ge=2)] | None = None
    until: str | None = None
    until_quantity: str | None = None
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = DEFAULT_CONFIDENCE
    seed: Annotated[int, Field(ge=0, le=2**32)] = 1
    order: Literal["random", "grouped", "as-written"] | None = None
    source: str = ""
    limits: list[str] = Field(default_factory=list)
    timeline: list[str] = Field(default_factory=list)
    """Names of the points whose first run records its state over time."""
    scenario: dict[str, Scalar] = Field(default_factory=dict)
    factors: dict[str, list[Scalar]] = Field(default_factory=dict)
    levels: dict[str, Scalar] = Field(default_factory=dict)
    """The level of each factor in experiments that do not vary the factor."""
    labels: dict[str, dict[str, Scalar]] = Field(default_factory=dict)
    """For each factor, the levels in this file, each with its name in the results."""
    when: list[Rule] = Field(default_factory=list)
    without: list[Condition] = Field(default_factory=list)
    """Combinations of levels that the study leaves out."""
    experiment: list[Experiment] = Field(default_factory=list)
    lists: dict[str, list[dict[str, str | bool | int | float | dict[str, Scalar]]]] = Field(
        default_factory=dict
    )
    """Lists of entries. An entry is a table: a key is a word, and its value replaces `{word}` in a
    figure or contest. The key `each` of a figure or contest names lists, and the study has one
    figure or contest for each combination of their entries."""
    figure: list[FigureTable] = Field(default_factory=list)
    contest: list[ContestTable] = Field(default_factory=list)
    published: list[PublishedRow] = Field(default_factory=list)
    place: list[PlaceRow] = Field(default_factory=list)
    """The tables and figures of the document."""
    asked: Asked | None = None

    @model_validator(mode="after")
    def is_consistent(self) -> Self:
        """Check keys that depend on each other, and the contents of lists."""
        if (self.until is None) != (self.replications_most is None):
            raise ValueError("expected until and replications_most together, or neither")
        if self.until is None and self.until_quantity is not None:
            raise ValueError("expected until_quantity only together with until")
        if self.until is not None:
            self._check_stopping()
        if self.order is not None and self.kind == "simulated":
            raise ValueError("order is for measured studies: simulated runs have no order")
        for name in self.quantities:
            if not quantities.is_known(self.kind, name):
                raise ValueError(
                    f"quantities: no {name!r}; there are {quantities.known(self.kind)}"
                )
        for name, levels in self.factors.items():
            _check_levels(name, levels)
            if name in self.scenario:
                raise ValueError(
                    f"{name} is in factors and in scenario: expected in only one of them"
                )
        if self.factors and self.experiment:
            raise ValueError(
                "factors: expected inside each [[experiment]], because the file has experiments"
            )
        return self

    def _check_stopping(self) -> None:
        share = PERCENT.fullmatch(self.until or "")
        if share is None or not 0 < float(share[1]) < 100:
            raise ValueError(f'until: expected a share such as "2 %", not {self.until!r}')
        if self.replications < LEAST_RUNS or (self.replications_most or 0) < self.replications:
            raise ValueError(
                f"with until, expected {LEAST_RUNS} or more for replications, and at least as many "
                "for replications_most"
            )
        name = self.until_quantity
        columns = [each for each in self.quantities if quantities.is_column(self.kind, each)]
        if name is None and self.quantities and not columns:
            raise ValueError(
                "expected until_quantity, because no entry of quantities is a number of a result"
            )
        if name is not None and not quantities.is_column(self.kind, name):
            raise ValueError(
                f"until_quantity: no number {name!r} in a result; there are "
                f"{quantities.known(self.kind).rpartition(';')[0]}"
            )

    @property
    def within(self) -> float | None:
        """The share in `until`; None without `until`."""
        share = PERCENT.fullmatch(self.until or "")
        return float(share[1]) / 100 if share else None

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """The experiments; a file without experiments is one experiment."""
        if self.experiment:
            return tuple(self.experiment)
        whole = Experiment(design=self.design, generators=self.generators, factors=self.factors)
        return (whole,)


def _check_levels(name: str, levels: list[Scalar]) -> None:
    """Raise `ValueError` unless the levels are two or more, different, finite and of one type."""
    if len(levels) < 2:
        raise ValueError(
            f"factors.{name}: expected two levels or more; a single level belongs in scenario"
        )
    if len({_type_of(level) for level in levels}) > 1:
        raise ValueError(f"factors.{name}: expected levels of one type: all numbers or all texts")
    if any(isinstance(level, float) and not math.isfinite(level) for level in levels):
        raise ValueError(f"factors.{name}: expected finite numbers")
    if len(set(levels)) != len(levels):
        raise ValueError(f"factors.{name}: expected different levels")


def _type_of(level: Scalar) -> str:
    if isinstance(level, bool):
        return "switch"
    return "number" if isinstance(level, int | float) else "text"


Content = dict[str, object]
"""The tables of a TOML file."""


def read_content(text: str, where: Path) -> Content:
    """The tables of a file and of the files that it includes; `where` is its path.

    Raises `ConfigurationError` naming the file that cannot be read.
    """
    try:
        content: Content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{where}: invalid TOML: {error}", hint=EXAMPLE_HINT) from None
    experiments = content.get("experiment")
    for owner in (content, *(experiments if isinstance(experiments, list) else ())):
        for table in ("scenario", "factors", "generators"):
            value = owner.get(table)
            if isinstance(value, dict):
                owner[table] = _flat(value)
    rows = content.get("published")
    if isinstance(rows, str):
        content |= published_file.read(where.parent / rows).in_a_study()
    included = content.pop("include", [])
    for name in included if isinstance(included, list) else [included]:
        path = where.parent / str(name)
        content = _merged(read_content(_read(path), path), content)
    return content


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: invalid UTF-8: {error}", hint=EXAMPLE_HINT) from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None


def _merged(base: Content, own: Content) -> Content:
    """The tables of `base`. Values of `own` replace those with the same key; limits are added."""
    merged = dict(base)
    for key, value in own.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _merged(below, value)
        elif key == "limits" and isinstance(below, list) and isinstance(value, list):
            merged[key] = [*below, *value]
        else:
            merged[key] = value
    return merged


def resolved(content: Content, length: Length, only: tuple[str, ...] = ()) -> Content:
    """The content at one length, with the experiments in `only`, or the default ones.

    Raises `ConfigurationError` naming an experiment that the study does not have.
    """
    tables = at_length(content, length)
    assert isinstance(tables, dict)
    experiments = tables.get("experiment")
    if not isinstance(experiments, list):
        experiments = []
    named = [each.get("name", "") for each in experiments if isinstance(each, dict)]
    for name in only:
        if name not in named:
            raise ConfigurationError(
                f"--only {name}: study {tables.get('name')} has no such experiment",
                parameter="--only",
                value=name,
                allowed=f"use one or more of {','.join(dict.fromkeys(filter(None, named)))}",
            )
    if experiments:
        tables["experiment"] = [
            {key: value for key, value in each.items() if key not in ("lengths", "on_request")}
            for each in experiments
            if length in each.get("lengths", [length])
            and (each.get("name") in only if only else not each.get("on_request"))
        ]
    return tables


def check(content: Content, where: Path) -> StudyFile:
    """The checked study; raises `ConfigurationError` naming file, key and what was expected."""
    try:
        file = StudyFile.model_validate(content)
    except ValidationError as error:
        names = [field.alias or name for name, field in StudyFile.model_fields.items()]
        text = problem_text(error, names, EXPECTED)
        raise ConfigurationError(f"{where}: {text}", hint=EXAMPLE_HINT) from None
    return _with_whole_paths(file, where)


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Dotted names for nested tables: `a.b = 1`, `[a] b = 1` and `"a.b" = 1` are the same.

    If a name has two values, the later one is used; TOML itself rejects most such files.
    """
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict) and not is_by_length(value):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _with_whole_paths(file: StudyFile, where: Path) -> StudyFile:
    """The file with absolute paths of traces, so that a run directory can store the study."""

    def whole(value: Scalar) -> Scalar:
        return os.path.abspath(where.parent / value) if isinstance(value, str) and value else value

    scenario, factors = dict(file.scenario), dict(file.factors)
    if TRACE in scenario:
        scenario[TRACE] = whole(scenario[TRACE])
    if TRACE in factors:
        factors[TRACE] = [whole(level) for level in factors[TRACE]]
    return file.model_copy(update={"scenario": scenario, "factors": factors})


def to_toml(file: StudyFile) -> str:
    """The text of a file with the same content, for the run directory."""
    content = file.model_dump(by_alias=True, exclude_defaults=True, exclude_none=True)
    text = tomli_w.dumps({"schema": SCHEMA, **content})
    return f"# A study, resolved. Written by perpacket.\n{text}"


def text_of(value: Scalar) -> str:
    """A value as text for an override; switches are `true` and `false`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def as_levels(levels: list[Scalar]) -> list[Level]:
    """Levels of one type, so that the factor is one column of a table."""
    if any(isinstance(level, bool) for level in levels):
        return [text_of(level) for level in levels]
    if all(isinstance(level, int) for level in levels):
        return list(levels)
    if all(isinstance(level, int | float) for level in levels):
        return [float(level) for level in levels]
    return [str(level) for level in levels]
