"""Tables of quantities."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from from_code import markdown
from perpacket_lab.show import json as json_documents
from perpacket_lab.study.quantities import BOUNDS, COLUMNS, QUANTITIES, Quantity

HEADINGS = ("key", "title", "unit", "counts", "measured", "bounds", "better")


def columns(root: Path) -> str:
    """Return a table of every number of a result."""
    return table(COLUMNS.values())


def named(root: Path) -> str:
    """Return a table of the named quantities, without the changes against a baseline."""
    return table(entry for entry in QUANTITIES.values() if not entry.name.endswith(" increase"))


def table(entries: Iterable[Quantity]) -> str:
    """Return a table with a row for each quantity."""
    return markdown.table(HEADINGS, map(row, entries))


def row(entry: Quantity) -> tuple[str, ...]:
    """Return the row of a quantity with its unit and bounds."""
    least, most = BOUNDS[entry.kind]
    bounds = (
        "any" if least < 0 else f"{least:g} to {most:g}" if most < 1000 else f"{least:g} or more"
    )
    texts = entry.title, entry.unit, entry.counts, entry.measured, bounds, entry.better
    return markdown.code(entry.name), *texts


def study_documents(root: Path) -> str:
    """Return a table of every key that the verbs of `perpacket study` print."""
    rows = ((markdown.code(key), meaning) for key, meaning in json_documents.keys().items())
    return markdown.table(("key", "meaning"), rows)
