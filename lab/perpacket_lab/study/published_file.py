"""The file of a document's published numbers (`[[figure]]`), with which a study is compared.

    source = "H. Kim and S. Rixner, Connection Handoff Policies, OSDI 2006"

    [[figure]]
    id = "osdi06/51-PN-rate"
    where = "5.1"
    statement = "request rate"
    configuration = "W-1024-P-N-FCFS-400"
    quantity = "request_rate"
    unit = "req/s"
    value = 26663
    calibration = true

The built-in files have `figure = [...]` with an inline table for each row, a row a line.

`configuration` is the name of a point. A figure has a `value`, or a `min`, a `max` or both.
`resolution` is the step of the last printed digit; by default that of the last digit in the file.
`judged = "direction"` compares only the sign of a change: `min = 0` is a rise, `max = 0` a fall.
`judged = "order"` shows the value without a verdict. `region_order` and `instruction_order` compare
the order of such values.
`among` lists the points of an extreme that the document reached, as "up to 25 %": the highest of
the run is compared with the value. `tolerance` is the distance, in per cent of the value, at which
it holds; by default 25.
`note` is printed beside the figure.
`conclusion` is a sentence of the document that the figure supports, without a full stop.

`[[place]]` names a table, figure or section of the document: its `name` as `Figure 5`, its `title`,
the titles of the study's `charts` that draw it, and the `reason` why the study shows nothing of it
or only a part. A place needs a published number, a chart or a reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field, model_validator

from perpacket.errors import ConfigurationError
from perpacket.validation import FileTable, read_toml
from perpacket_lab.study.published import TOLERANCE_PERCENT, DocumentPlace, JudgedBy, Published
from perpacket_lab.study.quantities import QUANTITIES

WIDEST_POINTS = 20.0
"""The widest interval of a share, in percentage points, that can agree with a published value."""


class PublishedRow(FileTable):
    """One row of the file."""

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
    judged: JudgedBy = "value"
    conclusion: str = ""
    note: str = ""
    tolerance: int | float = Field(default=TOLERANCE_PERCENT, gt=0)
    among: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def has_a_number(self) -> PublishedRow:
        """Check that a figure has a value or bounds, in the unit of its quantity."""
        bounded = self.min is not None or self.max is not None
        if (self.value is not None) == bounded:
            raise ValueError("expected either a value or min, max or both")
        if self.among and (self.value is None or self.configuration not in self.among):
            raise ValueError("among: expected a value, and the configuration in the list")
        quantity = QUANTITIES.get(self.quantity)
        if quantity is None:
            raise ValueError(f"no quantity {self.quantity!r}")
        if quantity.unit != self.unit:
            raise ValueError(f"{self.quantity} is in {quantity.unit!r}, not {self.unit!r}")
        if quantity.paired != (self.against is not None):
            raise ValueError(
                f"{self.quantity}: only gains and increases have the key against, and they need it"
            )
        return self


class PlaceRow(FileTable):
    """A table or figure of the document."""

    name: str = Field(pattern=r"^(Table|Figure|Section) [\w.]+$")
    title: str
    charts: list[str] = Field(default_factory=list)
    reason: str = ""


class PublishedFile(FileTable):
    """The whole file."""

    source: str
    figure: list[PublishedRow] = Field(min_length=1)
    place: list[PlaceRow] = Field(default_factory=list)

    def in_a_study(self) -> dict[str, object]:
        """The content as keys of a study's file."""
        content = self.model_dump(exclude_unset=True)
        return content | {"published": content.pop("figure")}

    @model_validator(mode="after")
    def has_something_of_every_place(self) -> PublishedFile:
        """Check that each place has published numbers, charts, or the reason why it has neither."""
        named = {name for row in self.figure for name in places_in(row.where)}
        for place in self.place:
            if place.name not in named and not place.charts and not place.reason:
                raise ValueError(f"place {place.name}: expected charts or a reason")
        return self


def read(path: Path) -> PublishedFile:
    """The checked file.

    Raises `ConfigurationError` naming the file, the key and what was expected.
    """
    return read_toml(path, PublishedFile)


def rows_about(
    rows: Sequence[PublishedRow], known: Collection[str], is_measured: bool
) -> tuple[Published, ...]:
    """The rows as `Published`, in the file's order; `known` are the names of all points.

    A measured share agrees only if its interval is narrow. Raises `ConfigurationError` naming
    the row and the point that does not exist.
    """
    for row in rows:
        for name in (row.configuration, row.against or row.configuration, *row.among):
            if name not in known:
                raise ConfigurationError(f"{row.id}: the study has no point {name!r}")
    published = [to_published(row) for row in rows]
    return tuple(
        replace(row, widest=WIDEST_POINTS)
        if is_measured and row.unit == "%" and row.judged == "value"
        else row
        for row in published
    )


def places_of(rows: Sequence[PlaceRow], charts: Collection[str]) -> tuple[DocumentPlace, ...]:
    """The rows as `DocumentPlace`, in the file's order; `charts` are the titles of the charts.

    Raises `ConfigurationError` naming a place with a chart that the study does not have.
    """
    for row in rows:
        if unknown := sorted(set(row.charts) - set(charts)):
            raise ConfigurationError(f"place {row.name}: the study has no chart {unknown[0]!r}")
    return tuple(DocumentPlace(row.name, row.title, tuple(row.charts), row.reason) for row in rows)


def places_in(where: str) -> list[str]:
    """The tables and figures in `where`, or else its sections.

    `3.3, Figure 4` has `Figure 4`, and `5.1` has `Section 5.1`.
    """
    named = re.findall(r"(?:Table|Figure) [\w.]*\w", where)
    return named or [f"Section {each}" for each in re.split(r"[,;] *", where)]


def to_published(figure: PublishedRow) -> Published:
    """The figure as a `Published`."""
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
        conclusion=figure.conclusion,
        tolerance=float(figure.tolerance),
        among=tuple(figure.among),
    )


def step(printed: float) -> float:
    """The step of the last digit of a number as written: 1 for 12, 0.01 for 0.92."""
    digits = f"{printed:f}".rstrip("0") if isinstance(printed, float) else str(printed)
    decimals = len(digits.partition(".")[2])
    return float(10.0**-decimals)
