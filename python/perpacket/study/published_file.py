"""Reads `published.toml`, the figures of a document that a study is compared with.

    [[figure]]
    id = "osdi06/51-PN-rate"
    where = "5.1"
    statement = "request rate"
    configuration = "W-1024-P-N-FCFS-400"
    quantity = "request_rate"
    unit = "req/s"
    value = 26663
    calibration = true

`configuration` is the name of a point. A figure has a `value`, or a `min`, a `max` or both.
`resolution` is the step of the last printed digit; without it, that of the value as written.
`judged = "direction"` asks a change for its sign alone: `min = 0` is a rise, `max = 0` a fall.
"""

from __future__ import annotations

import tomllib
from importlib.resources.abc import Traversable

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from perpacket.analysis.published import Judged, Published
from perpacket.errors import ConfigurationError
from perpacket.run.configuration_file import first_problem
from perpacket.study.quantities import QUANTITIES
from perpacket.study.study import Point


class FigureModel(BaseModel):
    """One `[[figure]]` of the file."""

    model_config = ConfigDict(extra="forbid", strict=True)
    id: str
    where: str
    statement: str
    configuration: str
    quantity: str
    unit: str
    value: int | float | None = None
    min: int | float | None = None
    max: int | float | None = None
    resolution: int | float | None = None
    against: str | None = None
    calibration: bool = False
    judged: Judged = "value"
    note: str = ""

    @model_validator(mode="after")
    def has_a_number(self) -> FigureModel:
        """A figure states a value or bounds, in the unit of its quantity."""
        bounded = self.min is not None or self.max is not None
        if (self.value is not None) == bounded:
            raise ValueError("expected either a value or min, max or both")
        quantity = QUANTITIES.get(self.quantity)
        if quantity is None:
            raise ValueError(f"no quantity {self.quantity!r}")
        if quantity.unit != self.unit:
            raise ValueError(f"{self.quantity} is in {quantity.unit!r}, not {self.unit!r}")
        if quantity.paired != (self.against is not None):
            raise ValueError(f"{self.quantity}: against is for gains and increases, and only those")
        return self


class FileModel(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", strict=True)
    source: str
    figure: list[FigureModel] = Field(min_length=1)


def read(file: Traversable, points: tuple[Point, ...]) -> tuple[str, tuple[Published, ...]]:
    """The document's citation and its figures, in the file's order.

    Raises `ConfigurationError` naming the file, the figure and what was expected.
    """
    try:
        model = FileModel.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error}") from None
    except ValidationError as error:
        raise ConfigurationError(f"{file}: {first_problem(error)}") from None
    names = {point.name for point in points}
    for figure in model.figure:
        for name in (figure.configuration, figure.against or figure.configuration):
            if name not in names:
                raise ConfigurationError(f"{file}: {figure.id}: the study has no point {name!r}")
    return model.source, tuple(to_published(figure) for figure in model.figure)


def to_published(figure: FigureModel) -> Published:
    """The figure as the comparison wants it."""
    printed = next(n for n in (figure.value, figure.min, figure.max) if n is not None)
    return Published(
        figure=figure.id,
        where=figure.where,
        statement=figure.statement,
        point=figure.configuration,
        quantity=figure.quantity,
        unit=figure.unit,
        value=figure.value,
        minimum=figure.min,
        maximum=figure.max,
        resolution=step(printed) if figure.resolution is None else figure.resolution,
        against=figure.against,
        calibration=figure.calibration,
        note=figure.note,
        judged=figure.judged,
    )


def step(printed: float) -> float:
    """The step of the last digit of a number as written: 1 for 12, 0.01 for 0.92."""
    digits = f"{printed:f}".rstrip("0") if isinstance(printed, float) else str(printed)
    decimals = len(digits.partition(".")[2])
    return float(10.0**-decimals)
