"""The tables of an analysis that the command line and pages in Markdown print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perpacket.analysis.claim import Verdict
from perpacket.analysis.ratios import ratio_text
from perpacket.analysis.statistics import number_text
from perpacket.show.table import Table
from perpacket_lab.show import change_tables, result_tables
from perpacket_lab.show.tables import percent_text

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.conclusions import Conclusion
    from perpacket_lab.analysis.published_comparison import Comparison
    from perpacket_lab.analysis.run_comparison import RunComparison


def tables_of(analysis: Analysis) -> list[Table]:
    """The main results of a run: its changes, its summary, or its comparisons and contests.

    The tables are those of the page, except the one of published values, which has fewer columns.
    """
    if analysis.changes:
        return change_tables.tables_of(analysis)
    compared = [comparison_table(analysis, analysis.comparisons)] if analysis.comparisons else []
    if analysis.summary is not None:
        published = compared if analysis.conclusions else []
        summaries = result_tables.summary_tables(analysis)
        return [*summaries, *published, *_conclusion_tables(analysis.conclusions)]
    if methods := result_tables.method_table(analysis):
        return [methods]
    return [*compared, *result_tables.contest_tables(analysis.contests)]


def _conclusion_tables(conclusions: Sequence[Conclusion]) -> Iterator[Table]:
    if conclusions:
        rows = tuple(
            (conclusion.text, str(conclusion.verdict), conclusion.evidence)
            for conclusion in conclusions
        )
        headings = ("conclusion", "verdict", "because")
        yield Table.of_texts("Conclusions of the document", headings, rows)


def comparison_table(analysis: Analysis, comparisons: Sequence[Comparison]) -> Table:
    """Published values beside those of the run; `c` marks values used to calibrate."""
    terms = analysis.terms
    names = [point.configuration for point in analysis.study.points]
    rows = tuple(
        (
            noted(row.reference.statement or quantity_text(row), row.reference.note),
            # The configuration identifies the point if no other point has the same one.
            row.configuration if names.count(row.configuration) == 1 else row.reference.point,
            row.reference.unit,
            row.reference.text + (" c" if row.reference.calibration else ""),
            row.text,
            row.difference_text,
            "" if row.verdict is Verdict.NOT_JUDGED else str(row.standing),
            row.strict_text if row.value is not None else terms.no_value,
        )
        for row in comparisons
    )
    own, percent = terms.adjective, percent_text(analysis)
    marks = "" if analysis.study.is_measured else "; c: used to calibrate"
    return Table.of_texts(
        f"{analysis.study.title}: published and {own} [{percent} interval]{marks}",
        (
            *("published result", "where", "unit", "published", own),
            "difference",
            "verdict",
            "strictly",
        ),
        rows,
        ("published", own, "difference"),
    )


def noted(text: str, note: str) -> str:
    """A text with the note on it in brackets."""
    return f"{text} ({note})" if note else text


def quantity_text(row: Comparison) -> str:
    """The quantity of a comparison; for a change, also the point where it starts."""
    published = row.reference
    start = f" from {published.against}" if published.judged == "direction" else ""
    return f"{row.quantity}{start}"


def run_comparison_table(compared: RunComparison) -> Table:
    """A row for each point and quantity of two runs."""
    rows = tuple(
        (
            ratio.subject,
            ratio.quantity,
            number_text(ratio.detail.first),
            number_text(ratio.detail.second),
            ratio_text(ratio),
            str(ratio.verdict),
        )
        for ratio in compared.ratios
    )
    headings = ("point", "quantity", "A", "B", "B/A", "verdict")
    title = f"B over A [{100 * compared.confidence:g} % interval]"
    return Table.of_texts(title, headings, rows, headings[2:5])
