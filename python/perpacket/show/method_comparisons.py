"""Ways side by side: what a measurement, a simulation and a model say of the same scenario."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from perpacket.analysis.findings import Finding
from perpacket.analysis.methods import Agreement
from perpacket.show.tables import Cell, Table
from perpacket.show.wording import plural, sentence_case, signed_interval, typographic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perpacket.analysis.methods import Contrast, Estimate

LOOKS: Final = {
    Agreement.AGREE: ("\N{CHECK MARK}", "verdict-agrees"),
    Agreement.DIFFER: ("\N{NOT EQUAL TO}", "verdict-differs"),
}
UNDECIDED: Final = ("\N{EN DASH}", "verdict-not-simulated")
"""Sign and class of the style sheet: two ways agree, differ, or nobody can tell."""

MOST_FINDINGS: Final = 5
"""Fewer than of other findings: each comes with a sentence."""

NOTE: Final = (
    "The largest differences in percentage points, each with its 95 % interval and the assumption "
    "that the runs speak against most."
)


def headline(contrasts: Sequence[Contrast]) -> str:
    """One sentence on how many pairs agree."""
    count = Counter(contrast.verdict for contrast in contrasts)
    agree, differ = count[Agreement.AGREE], count[Agreement.DIFFER]
    told = f"Of {plural(len(contrasts), 'pair')} of ways, {agree} agree and {differ} differ"
    rest = len(contrasts) - agree - differ
    return f"{told}; {rest} cannot be told." if rest else f"{told}."


def findings(contrasts: Sequence[Contrast]) -> list[Finding]:
    """The largest differences, each question's first, in the order of the questions."""
    differing = sorted(
        (row for row in contrasts if row.verdict is Agreement.DIFFER),
        key=lambda row: -abs(row.difference.value) if row.difference else 0.0,
    )
    first = {row.question: row for row in reversed(differing)}
    chosen = [*first.values(), *(row for row in differing if first[row.question] is not row)]
    kept = {id(row) for row in chosen[:MOST_FINDINGS]}
    return [_finding(row) for row in contrasts if id(row) in kept]


def _finding(row: Contrast) -> Finding:
    value, bounds = signed_interval(row.difference, "") if row.difference else ("", "")
    subject = f"{row.title}, {row.scenario}: {row.second.way} over {row.first.way}"
    return Finding(value, bounds, subject, "", f"Assumed: {typographic(row.assumption)}")


def table(contrasts: Sequence[Contrast]) -> Table:
    """Every pair, in the study's order."""
    columns = ("Scenario", "Quantity", "One way", "%", "Another", "%", "Difference", "Verdict")
    return Table(
        "ways-table",
        "Two ways to each number, in per cent; differences in percentage points. Intervals are at "
        "95 %; a model is paired with the runs that feed it.",
        columns,
        tuple(name in ("%", "Difference") for name in columns),
        tuple(_row(row) for row in contrasts),
    )


def _row(row: Contrast) -> tuple[Cell, ...]:
    sign, look = LOOKS.get(row.verdict, UNDECIDED)
    value, bounds = signed_interval(row.difference, "") if row.difference else ("\N{EN DASH}", "")
    assumption = f"assumed: {typographic(row.assumption)}" if row.assumption else ""
    return (
        Cell(row.scenario),
        Cell(row.title),
        Cell(row.first.way),
        _value(row.first),
        Cell(row.second.way),
        _value(row.second),
        Cell(value, bounds, row.difference.value if row.difference else None),
        Cell(f"{sign} {typographic(row.verdict_text)}", assumption, look=look),
    )


def _value(estimate: Estimate) -> Cell:
    interval = estimate.interval
    if interval is None:
        return Cell("\N{EN DASH}")
    return Cell(typographic(str(interval)), sort=interval.value)


def warnings(contrasts: Sequence[Contrast]) -> list[str]:
    """What casts doubt on the runs, each with the scenarios that it is about."""
    about: dict[str, list[str]] = {}
    for row in contrasts:
        for warning in row.warnings:
            about.setdefault(warning, []).append(row.scenario)
    return [
        f"{sentence_case(', '.join(dict.fromkeys(scenarios)))}: {warning}."
        for warning, scenarios in about.items()
    ]


def lines(contrasts: Sequence[Contrast], question: str) -> list[dict[str, object]]:
    """A row of `charts.curve` for each way and level of a question, none twice."""
    records: dict[tuple[str, float], dict[str, object]] = {}
    for row in contrasts:
        for estimate in (row.first, row.second):
            interval = estimate.interval
            if row.question != question or interval is None:
                continue
            records[estimate.way, row.level] = {
                "x": row.level,
                "y": interval.value,
                "low": interval.low if interval.is_bounded else None,
                "high": interval.high if interval.is_bounded else None,
                "series": estimate.way,
                "published": None,
                "calibrated": None,
            }
    return list(records.values())
