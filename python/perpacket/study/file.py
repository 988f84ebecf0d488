"""A user's study as its file has it, checked; nothing here looks at the machine.

Mistakes are told with the file, the key and what was expected instead.
"""

from __future__ import annotations

import math
import os.path
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from perpacket.analysis.statistics import DEFAULT_CONFIDENCE
from perpacket.errors import ConfigurationError
from perpacket.run.configuration_file import toml_value
from perpacket.run.stopping import LEAST_RUNS
from perpacket.study import quantities
from perpacket.study.designs import DesignKind
from perpacket.study.study import Level, Order

SCHEMA = 1
"""Version of the file's layout."""

Scalar = str | bool | int | float
"""A value of a parameter."""

PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")

CONFIGURATION = "configuration"
"""The one entry of a scenario that is no parameter: the simulated machine and workload."""

TRACE = "load.trace"
"""The parameter that is a path: it is told from the folder of the study's file."""


class StudyFile(BaseModel):
    """The whole file; docs/studies.md and the examples say what each key is for."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True, frozen=True)

    schema_version: Literal[1] = Field(alias="schema", default=1)
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=+-]*$")
    title: str = ""
    question: str = ""
    kind: Literal["measured", "simulated"]
    design: DesignKind = "full"
    generators: dict[str, list[str]] = Field(default_factory=dict)
    quantities: list[str] = Field(default_factory=list)
    replications: Annotated[int, Field(ge=1)] = 5
    replications_most: Annotated[int, Field(ge=2)] | None = None
    until: str | None = None
    until_quantity: str | None = None
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = DEFAULT_CONFIDENCE
    seed: Annotated[int, Field(ge=0, le=2**32)] = 1
    order: Order | None = None
    scenario: dict[str, Scalar]
    factors: dict[str, list[Scalar]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def is_whole(self) -> Self:
        """Keys that need each other are there together, and lists hold what they must."""
        if (self.until is None) != (self.replications_most is None):
            raise ValueError("expected until and replications_most together, or neither")
        if self.until is None and self.until_quantity is not None:
            raise ValueError("expected until_quantity only beside until")
        if self.until is not None:
            self._check_stopping()
        if self.order is not None and self.kind == "simulated":
            raise ValueError("order is for measured studies: simulated runs disturb no other")
        for name in self.quantities:
            if not quantities.is_known(self.kind, name):
                raise ValueError(
                    f"quantities: no {name!r}; there are {quantities.known(self.kind)}"
                )
        for name, levels in self.factors.items():
            _check_levels(name, levels)
            if name in self.scenario:
                raise ValueError(f"{name} is in factors and in scenario: it must be in one of them")
        return self

    def _check_stopping(self) -> None:
        share = PERCENT.fullmatch(self.until or "")
        if share is None or not 0 < float(share[1]) < 100:
            raise ValueError(f'until: expected a share such as "2 %", not {self.until!r}')
        if self.replications < LEAST_RUNS or (self.replications_most or 0) < self.replications:
            raise ValueError(
                f"expected replications of {LEAST_RUNS} or more beside until, which is first asked "
                "after them, and no fewer replications_most"
            )
        name = self.until_quantity
        told = self.quantities
        if (
            name is None
            and told
            and not any(quantities.is_column(self.kind, each) for each in told)
        ):
            raise ValueError("expected until_quantity: none of quantities is a number of a result")
        if name is not None and not quantities.is_column(self.kind, name):
            raise ValueError(
                f"until_quantity: no number {name!r} in a result; there are "
                f"{quantities.known(self.kind).rpartition(';')[0]}"
            )

    @property
    def within(self) -> float | None:
        """The share that `until` names, None without one."""
        share = PERCENT.fullmatch(self.until or "")
        return float(share[1]) / 100 if share else None


def _check_levels(name: str, levels: list[Scalar]) -> None:
    """Raise `ValueError` unless the levels are two or more, different, finite and of one type."""
    if len(levels) < 2:
        raise ValueError(f"factors.{name}: expected two levels or more; one is for scenario")
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


def parse(text: str, where: Path) -> StudyFile:
    """The study in `text`, which stands in the file `where`.

    Raises `ConfigurationError` naming file, key and what was expected.
    """
    try:
        content = tomllib.loads(text)
        for table in ("scenario", "factors", "generators"):
            if isinstance(content.get(table), dict):
                content[table] = _flat(content[table])
        file = StudyFile.model_validate(content)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{where}: no TOML: {error}", hint=EXAMPLE_HINT) from None
    except ValidationError as error:
        raise ConfigurationError(f"{where}: {problem_text(error)}", hint=EXAMPLE_HINT) from None
    return _with_whole_paths(file, where)


EXAMPLE_HINT = "`perpacket study new` prints an example with every key"


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Dotted names for nested tables: `a.b = 1`, `[a] b = 1` and `"a.b" = 1` are one and the same.

    Of two values for one name the later stays; TOML itself refuses most of those.
    """
    found: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def problem_text(error: ValidationError) -> str:
    """The first problem as `key: what was expected, not what was found`."""
    problem = error.errors()[0]
    # The names of types in a union are ours, not the user's.
    places = [str(part) for part in problem["loc"] if part not in ("str", "bool", "int", "float")]
    key = ".".join(places)
    if problem["type"] == "extra_forbidden":
        names = [field.alias or name for name, field in StudyFile.model_fields.items()]
        close = get_close_matches(key, names, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        return f"{key}: no such key: {meant}there are {', '.join(names)}"
    if problem["type"] == "missing":
        return f"{key}: it must be given"
    text = problem["msg"].removeprefix("Value error, ")
    if places and places[0] in ("scenario", "factors"):
        text = (
            "expected a text, a number or a switch"
            if places[0] == "scenario"
            else ("expected a list of texts, numbers or switches: the factor's levels")
        )
    return f"{key}: {text}, not {problem['input']!r}" if key else text


def _with_whole_paths(file: StudyFile, where: Path) -> StudyFile:
    """The same with a trace's path from the root, so that the study may be kept elsewhere."""

    def whole(value: Scalar) -> Scalar:
        return os.path.abspath(where.parent / value) if isinstance(value, str) and value else value

    scenario, factors = dict(file.scenario), dict(file.factors)
    if TRACE in scenario:
        scenario[TRACE] = whole(scenario[TRACE])
    if TRACE in factors:
        factors[TRACE] = [whole(level) for level in factors[TRACE]]
    return file.model_copy(update={"scenario": scenario, "factors": factors})


def to_toml(file: StudyFile) -> str:
    """The text of a file that says the same: what a run directory keeps."""
    content = file.model_dump(by_alias=True, exclude_defaults=True) | {"schema": SCHEMA}
    tables = {
        key: content.pop(key) for key in ("generators", "scenario", "factors") if key in content
    }
    lines = ["# A study, resolved. Written by perpacket."]
    lines += [f"{key} = {toml_value(content[key])}" for key in sorted(content)]
    for name, table in tables.items():
        lines += ["", f"[{name}]"]
        lines += [f"{toml_value(key)} = {toml_value(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def text_of(value: Scalar) -> str:
    """A value as an override has it: switches in small letters."""
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
