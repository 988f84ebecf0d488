"""The conclusions of documents, and the published rows that decide on them: `scorecard.toml`."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

METHODS: Final = ("measured", "emulated", "simulated", "modelled")
"""The methods, in the order of the table's columns."""


class Rows(BaseModel):
    """Published rows of a study: patterns of their identifiers, without the document's prefix."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    study: str
    rows: list[str] = Field(min_length=1)


ComputedName = Literal["peaks", "sessions"]
"""Comparisons of several kept runs, or of a kept log: `analysis.scorecard.COMPUTED`."""


class DocumentFigure(BaseModel):
    """A chart of the document's own page: of no single run."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    """Its place in the document, as `Figure 4`."""
    title: str
    caption: str
    claims: ComputedName
    """The comparisons below the chart, and its marks unless it is of a log."""
    log: str = ""
    """The kept log whose sessions are drawn."""


class Modelled(BaseModel):
    """A number of a model, and the published value beside it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    call: str = Field(pattern=r"^\w+:\w+$")
    """`module:function` of `perpacket_lab.models`."""
    arguments: list[float] = Field(default_factory=list)
    buses_mbytes_per_s: tuple[float, float] | None = None
    """The internal and the external bus of a server, which is then the first argument."""
    as_printed: bool = False
    """Whether the formula is the one printed, with its mistakes."""
    scale: float = 1.0
    value: float
    unit: str


class DocumentConclusion(BaseModel):
    """A conclusion of a document, in a sentence of ours."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    claim: str
    where: str
    published: str
    measured: Rows | ComputedName | None = None
    emulated: Rows | None = None
    simulated: Rows | None = None
    modelled: Modelled | None = None
    cannot: dict[str, str] = Field(default_factory=dict)
    """The reason why a method does not test it."""

    def rows_of(self, method: str) -> Rows | None:
        """The rows that decide by a method; None if it has none."""
        rows = getattr(self, method)
        return rows if isinstance(rows, Rows) else None


class Document(BaseModel):
    """A document with its conclusions."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    """The prefix of its published rows."""
    page: str
    """The name of its page in `docs/documents`."""
    title: str
    citation: str
    studies: list[str]
    """Its studies, the best method first."""
    cannot: dict[str, str] = Field(default_factory=dict)
    """The reason why a method tests none of its conclusions, or few."""
    conclusion: list[DocumentConclusion]
    figure: list[DocumentFigure] = Field(default_factory=list)


class Contradiction(BaseModel):
    """A place where a document contradicts itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    document: str
    where: str
    printed: str
    follows: str
    """What its other numbers give."""


def documents() -> list[Document]:
    """The documents in the order of the file."""
    return [Document.model_validate(table) for table in _read("scorecard.toml")["document"]]


def contradictions(document: str) -> list[Contradiction]:
    """The contradictions of a document, in its order."""
    rows = [Contradiction.model_validate(table) for table in _read("contradictions.toml")["slip"]]
    return [row for row in rows if row.document == document]


def _read(name: str) -> dict[str, list[dict[str, object]]]:
    """A file beside the studies."""
    text = (files(__package__) / "library" / name).read_text(encoding="utf-8")
    return tomllib.loads(text)
