"""The file of one observation: the point, the seed, the result and, separately, the timing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perpacket.errors import CorruptObservation
from perpacket_lab.study import other_programs
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import FUNCTIONS, Row, flatten
from perpacket_lab.study.runner_interfaces import RunOutcome

if TYPE_CHECKING:
    import polars

SCHEMA = 1
"""Version of the file's layout."""


@dataclass(frozen=True, slots=True)
class RunObservation:
    """One run of one point: the parts of its file that are not in the configuration."""

    point: str
    seed: int
    result: Mapping[str, object]
    timing: Mapping[str, object]


def to_json(study: str, point: Point, seed: int, outcome: RunOutcome) -> str:
    """The text of the file. Everything except `timing` depends only on the point and the seed."""
    content = {
        "schema": SCHEMA,
        "study": study,
        **identity(point, seed),
        "result": outcome.result,
        "timing": outcome.timing,
    }
    return json.dumps(content, indent=2) + "\n"


def identity(point: Point, seed: int) -> dict[str, object]:
    """The keys that identify the run."""
    return {
        "point": point.name,
        "seed": seed,
        "configuration": point.configuration,
        "factors": dict(point.factors),
        "overrides": [list(override) for override in point.overrides],
    }


def read(file: Path, study: str, point: Point, seed: int) -> RunObservation:
    """Read one observation and check that it belongs to this point and seed.

    Raises `FileNotFoundError` when there is no file, and `CorruptObservation` when it is damaged.
    """
    try:
        content = parse(file.read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptObservation(f"{file}: damaged: {error}") from None
    if not isinstance(content, dict):
        raise CorruptObservation(f"{file}: damaged: expected a JSON object")
    if content.get("schema", SCHEMA) != SCHEMA:
        raise CorruptObservation(
            f"{file}: another version wrote it: its schema is {content['schema']!r}, this "
            f"perpacket reads {SCHEMA}"
        )
    expected = {"schema": SCHEMA, "study": study, **identity(point, seed)}
    for key, value in expected.items():
        if content.get(key) != value:
            raise CorruptObservation(
                f"{file}: damaged: {key} is {content.get(key)!r}, expected {value!r}"
            )
    result, timing = content.get("result"), content.get("timing")
    if not isinstance(result, dict) or not isinstance(timing, dict) or not result:
        raise CorruptObservation(f"{file}: damaged: expected a result and a timing")
    return RunObservation(point.name, seed, result, timing)


def parse(text: bytes) -> object:
    """The content of a JSON file; raises `ValueError` on a number that is invalid or not finite.

    By default, Python accepts `NaN` and `Infinity`, which are not JSON, and reads `1e999` as
    infinity. Averages would contain them.
    """
    return json.loads(text, parse_constant=_finite, parse_float=_finite)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is not a finite number")
    return number


def texts_for_numbers(
    observations: Sequence[RunObservation],
) -> Iterator[tuple[RunObservation, str]]:
    """The observations with a text where other runs of the point have a number, and the problem.

    Without this check, means would silently omit such a run.
    """
    numbers: dict[str, set[str]] = {}
    for observation in observations:
        own = numbers.setdefault(observation.point, set())
        own |= {name for name, value in flatten(observation.result) if type(value) in (int, float)}
    for observation in observations:
        for name, value in flatten(observation.result):
            if isinstance(value, str) and name in numbers[observation.point]:
                yield (
                    observation,
                    f"result.{name} is {value!r}, expected a number as in its other runs",
                )


def number(observation: RunObservation, name: str) -> float | None:
    """A number of the result by its dotted name; None if the result lacks it."""
    value: object = observation.result
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def to_row(point: Point, observation: RunObservation) -> dict[str, object]:
    """The row of an observation: the run, the factors, the result and the timing.

    Numbers of the result are floats, so that a column has one type. The time of other programs is
    apart from the layers: see `study.other_programs`.
    """
    row: dict[str, object] = {
        "point": point.name,
        "configuration": point.configuration,
        "seed": observation.seed,
        **point.factors,
    }
    result = {key: value for key, value in observation.result.items() if key != FUNCTIONS}
    for name, value in (*flatten(result), *flatten(observation.timing, "timing.")):
        if name not in row:
            row[name] = float(value) if type(value) is int else value
    other_programs.separate(row)
    return row


def to_table(points: Sequence[Point], observations: Sequence[RunObservation]) -> polars.DataFrame:
    """The observations as a table, a row for each. Empty columns have the type of numbers."""
    import polars

    by_name = {point.name: point for point in points}
    rows = [to_row(by_name[observation.point], observation) for observation in observations]
    table = polars.DataFrame(rows, infer_schema_length=None)
    return table.with_columns(polars.selectors.by_dtype(polars.Null).cast(polars.Float64))


def rows_from(
    points: Iterable[Point], observations: Sequence[RunObservation]
) -> dict[str, dict[int, Row]]:
    """Observations as flat rows, by point and seed."""
    by_name = {point.name: point for point in points}
    rows: dict[str, dict[int, Row]] = {}
    for observation in observations:
        rows.setdefault(observation.point, {})[observation.seed] = to_row(
            by_name[observation.point], observation
        )
    return rows
