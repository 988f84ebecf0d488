"""The conclusions of a document, tested by a run.

Published figures support a conclusion. The conclusion is true in a run if the run agrees with each
of these figures, and not true if the run disagrees with one. `published.judge` decides on a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from perpacket.analysis.claim import MET, MISSED, Verdict
from perpacket_lab.analysis.published_comparison import Comparison
from perpacket_lab.analysis.wording import plural


class Truth(StrEnum):
    """The verdict on a conclusion."""

    TRUE = "true here"
    NOT_TRUE = "not true here"
    NOT_DECIDED = "not decided here"
    """The interval of a figure includes zero, or is too wide."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A sentence of a document, with the figures that decide on it."""

    text: str
    rows: tuple[Comparison, ...]

    @property
    def verdict(self) -> Truth:
        """Whether the conclusion is true in the run."""
        verdicts = {row.verdict for row in self.rows}
        if verdicts & MISSED:
            return Truth.NOT_TRUE
        return Truth.TRUE if verdicts <= MET else Truth.NOT_DECIDED

    @property
    def evidence(self) -> str:
        """The figures that disagree, or else the undecided ones, each beside the run's value."""
        deciding = {
            Truth.TRUE: MET,
            Truth.NOT_TRUE: MISSED,
            Truth.NOT_DECIDED: set(Verdict) - MET - MISSED,
        }[self.verdict]
        return "; ".join(_beside(row) for row in self.rows if row.verdict in deciding)


def _beside(row: Comparison) -> str:
    """A figure with the value of the run and, if there is one, the published value."""
    unit = f" {row.reference.unit}"
    value = row.reference.value
    published = "" if value is None else f", published {row.reference.text}{unit}"
    return f"{row.reference.statement}: {row.text}{unit}{published}"


def conclusions_of(comparisons: Sequence[Comparison]) -> list[Conclusion]:
    """The conclusions of the figures that have runs, in the document's order."""
    by_conclusion: dict[str, list[Comparison]] = {}
    for row in comparisons:
        if row.reference.conclusion and row.verdict is not Verdict.NO_VALUE:
            by_conclusion.setdefault(row.reference.conclusion, []).append(row)
    return [Conclusion(text, tuple(rows)) for text, rows in by_conclusion.items()]


def paragraph(conclusions: Sequence[Conclusion]) -> str:
    """Which conclusions are true, which are not, and which are open; empty without any."""
    if not conclusions:
        return ""
    sentences = [f"{plural(len(conclusions), 'conclusion')} of the document tested."]
    for verdict in Truth:
        some = [conclusion for conclusion in conclusions if conclusion.verdict is verdict]
        texts = [
            conclusion.text
            if verdict is Truth.TRUE
            else f"{conclusion.text} ({conclusion.evidence})"
            for conclusion in some
        ]
        if texts:
            sentences.append(f"{verdict.capitalize()}: {'; '.join(texts)}.")
    return " ".join(sentences)
