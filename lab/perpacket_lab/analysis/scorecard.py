"""Whether the conclusions of a document hold, by method, from runs of its studies.

A conclusion names published rows of a study, or a function that compares several runs or a log.
`published_comparison` judges each row; this module only counts them. A conclusion holds if every
tested row holds, and does not hold if none does; otherwise it holds in part. Rows without a verdict
count for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Final

from perpacket.analysis.statistics import DEFAULT_CONFIDENCE, Interval
from perpacket_lab.analysis import peaks, session_shares
from perpacket_lab.analysis.analysis import Analysis
from perpacket_lab.analysis.doubts import disturbed
from perpacket_lab.analysis.published_comparison import Comparison, Standing, compare
from perpacket_lab.analysis.session_shares import Log
from perpacket_lab.study.published import Published
from perpacket_lab.study.scorecard_file import (
    METHODS,
    Document,
    DocumentConclusion,
    Modelled,
)

Compare = Callable[[Mapping[str, Analysis], Mapping[str, Log]], list[Comparison]]
"""Comparisons from runs by study and logs by name."""

COMPUTED: Final[Mapping[str, Compare]] = {
    "peaks": lambda analyses, _: peaks.of_bounds(analyses),
    "sessions": lambda _, logs: session_shares.of_day_6(logs),
}
"""The comparisons that no single run has, by the name in `scorecard.toml`."""


@dataclass(frozen=True, slots=True)
class ScorecardCell:
    """What one method shows of a conclusion."""

    rows: tuple[Comparison, ...] = ()
    reason: str = ""
    """Why the method does not test the conclusion."""
    awaited: int = 0
    """The values that the run lacks."""
    is_disturbed: bool = False
    """Whether other programs disturbed a point of the rows."""

    @property
    def standing(self) -> Standing | None:
        """Whether the conclusion holds; None if the method does not apply."""
        standings = [row.standing for row in self.rows if row.standing is not Standing.UNTESTED]
        if not standings:
            return Standing.UNTESTED if self.rows or self.reason else None
        for all_of in (Standing.HOLDS, Standing.FAILS):
            if all(standing is all_of for standing in standings):
                return all_of
        return Standing.IN_PART

    @property
    def text(self) -> str:
        """The standing with the first number, or the reason; empty if the method does not apply."""
        if self.standing is None:
            return ""
        if not self.rows:
            return f"{self.standing}: {self.reason}"
        mark = "\\*" if self.is_disturbed else ""
        tested = [row for row in self.rows if row.standing is not Standing.UNTESTED]
        if not tested:
            return f"{self.standing}{mark}: interval too wide, {number_of(self.rows[0])}"
        holding = sum(row.standing is Standing.HOLDS for row in tested)
        count = f" ({holding} of {len(tested)} values)" if len(tested) > 1 else ""
        published = tested[0].reference
        beside = f"; published {published.text}" if published.value is not None else ""
        waits = f"; {self.awaited} more await a run" if self.awaited else ""
        return f"**{self.standing}**{mark}{count}: {number_of(tested[0])}{beside}{waits}"


def number_of(row: Comparison) -> str:
    """A value of a run with its interval, unless it is exact, and its unit."""
    text = row.text
    if row.value is not None and row.value.low == row.value.high:
        text = text.partition(" ")[0]
    return f"{text} {row.reference.unit}".strip()


@dataclass(frozen=True, slots=True)
class ScorecardRow:
    """A conclusion with a cell for each method."""

    conclusion: DocumentConclusion
    cells: Mapping[str, ScorecardCell]


def scorecard_of(
    document: Document, analyses: Mapping[str, Analysis], logs: Mapping[str, Log]
) -> list[ScorecardRow]:
    """The conclusions of a document, by method; `analyses` are runs by study, `logs` by name."""
    return [
        ScorecardRow(
            conclusion,
            {method: _cell(document, conclusion, method, analyses, logs) for method in METHODS},
        )
        for conclusion in document.conclusion
    ]


def _cell(
    document: Document,
    conclusion: DocumentConclusion,
    method: str,
    analyses: Mapping[str, Analysis],
    logs: Mapping[str, Log],
) -> ScorecardCell:
    if method == "modelled" and conclusion.modelled is not None:
        return ScorecardCell((_of_model(conclusion.modelled),))
    if method == "measured" and isinstance(conclusion.measured, str):
        return ScorecardCell(tuple(COMPUTED[conclusion.measured](analyses, logs)))
    wanted = conclusion.rows_of(method)
    if wanted is None:
        return ScorecardCell(reason=conclusion.cannot.get(method, ""))
    analysis = analyses.get(wanted.study)
    if analysis is None:
        return ScorecardCell(reason="awaits a run")
    matched = [matching(document, name, analysis.comparisons) for name in wanted.rows]
    rows = tuple(row for some in matched for row in some if row.value is not None)
    if not rows:
        return ScorecardCell(reason="awaits a run")
    points = disturbed(analysis.estimates.rows)
    noisy = any(row.reference.point in points for row in rows)
    return ScorecardCell(rows, "", sum(not some for some in matched), noisy)


def matching(
    document: Document, pattern: str, comparisons: Sequence[Comparison]
) -> list[Comparison]:
    """The rows whose identifier matches a pattern, in the document's order."""
    name = f"{document.name}/{pattern}"
    return [row for row in comparisons if fnmatchcase(row.reference.figure, name)]


def _of_model(model: Modelled) -> Comparison:
    """A number of a model beside the published value."""
    from perpacket_lab.models import data_movement

    module, _, function = model.call.partition(":")
    call = getattr(import_module(f"perpacket_lab.models.{module}"), function)
    buses = model.buses_mbytes_per_s
    servers = [data_movement.buses(*buses)] if buses else []
    options = {"as_printed": True} if model.as_printed else {}
    number = model.scale * float(call(*servers, *model.arguments, **options))
    exact = Interval(number, number, number, 1, DEFAULT_CONFIDENCE)
    published = Published("", "", "", "", "", model.unit, value=model.value, resolution=1.0)
    return compare(published, "", exact)
