"""The tables of an analysis that the command line prints, as rows of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perpacket.analysis.ratios import ratio_text
from perpacket.analysis.statistics import number_text
from perpacket.show.text_table import TextTable
from perpacket_lab.show import changes
from perpacket_lab.show.result_tables import method_verdict_text, winner_text

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.conclusions import Conclusion
    from perpacket_lab.analysis.contests import ContestResult
    from perpacket_lab.analysis.effects import Effects, Summary
    from perpacket_lab.analysis.methods import MethodComparison, MethodValue
    from perpacket_lab.analysis.published import Comparison
    from perpacket_lab.analysis.run_comparison import RunComparison

METHOD_HEADINGS = ("scenario", "method, %", "other, %", "difference, points", "verdict", "assumed")


def tables_of(analysis: Analysis) -> list[TextTable]:
    """The main results of a run: its summary, its methods, or its comparisons and contests."""
    percent = f"{100 * analysis.confidence:g} %"
    if analysis.changes:
        return changes.text_tables(analysis, percent)
    if analysis.summary is not None:
        return [
            *_summary_tables(analysis.study.title, analysis.summary, percent),
            *([_comparison_table(analysis, percent)] if analysis.conclusions else ()),
            *_conclusion_tables(analysis.conclusions),
        ]
    if analysis.methods:
        return [*_method_tables(analysis.methods, percent)]
    found = []
    if analysis.comparisons:
        found.append(_comparison_table(analysis, percent))
    return found + _contest_tables(analysis.contests, percent)


def _conclusion_tables(conclusions: Sequence[Conclusion]) -> Iterator[TextTable]:
    if conclusions:
        rows = tuple((one.text, str(one.verdict), one.evidence) for one in conclusions)
        headings = ("conclusion", "verdict", "because")
        yield TextTable("Conclusions of the document", headings, rows)


def _summary_tables(title: str, summary: Summary, percent: str) -> Iterator[TextTable]:
    rows = tuple(
        (
            row.subject,
            row.quantity,
            row.unit,
            "-" if row.value is None else str(row.value),
            "0" if row.value is None else str(row.value.n),
            "!" * bool(row.detail),
        )
        for row in summary.rows
    )
    headings = ("point", "quantity", "unit", "mean", "runs", "")
    marks = "; !: see the notes" if any(row[-1] for row in rows) else ""
    yield TextTable(f"{title}: means [{percent} interval]{marks}", headings, rows, ("mean", "runs"))
    for effects in summary.effects:
        yield _effects_table(effects, percent)


def _effects_table(effects: Effects, percent: str) -> TextTable:
    """The effects on one quantity; `*` marks those whose interval excludes zero."""
    rows = [
        (
            row.subject,
            str(row.interval) if row.interval.is_bounded else number_text(row.interval.value),
            "*" if row.detail.share is not None and row.verdict.is_shown else "",
            "-" if row.detail.share is None else f"{100 * row.detail.share:.2f} %",
            row.detail.confounded_text,
        )
        for row in effects.rows
    ]
    rows.append(("replications", "", "", f"{100 * effects.error_share:.2f} %", ""))
    headings = ("effect", "value", "", "of the variation", "confounded with")
    shown = (
        len(headings) if any(row.detail.confounded for row in effects.rows) else len(headings) - 1
    )
    unit = f" ({effects.unit})" if effects.unit else ""
    title = (
        f"Effects on {effects.quantity}{unit} [{percent} interval], "
        f"{effects.replications} runs each; *: the interval excludes zero"
    )
    cut = tuple(row[:shown] for row in rows)
    return TextTable(title, headings[:shown], cut, headings[1:4:2])


def _comparison_table(analysis: Analysis, percent: str) -> TextTable:
    """Published values beside those of the run; `c` marks values used to calibrate."""
    study, terms = analysis.study, analysis.terms
    names = [point.configuration for point in study.points]
    rows = tuple(
        (
            # The configuration identifies the point if no other point has the same one.
            row.configuration if names.count(row.configuration) == 1 else row.reference.point,
            quantity_text(row),
            row.reference.unit,
            row.reference.text + (" c" if row.reference.calibration else ""),
            row.text,
            row.verdict_text if row.value is not None else terms.no_value,
        )
        for row in analysis.comparisons
    )
    own = terms.adjective
    marks = "" if study.is_measured else "; c: used to calibrate"
    return TextTable(
        f"{study.title}: published and {own} [{percent} interval]{marks}",
        ("configuration", "quantity", "unit", "published", own, "verdict"),
        rows,
        ("published", own),
    )


def quantity_text(row: Comparison) -> str:
    """The quantity of a comparison; for a change, also the point where it starts."""
    published = row.reference
    start = f" from {published.against}" if published.judged == "direction" else ""
    return f"{row.quantity}{start}"


def _contest_tables(contests: Sequence[ContestResult], percent: str) -> list[TextTable]:
    """The crossings of leaders, then the leader at each level."""
    if not contests:
        return []
    crossings = tuple(
        (
            one.contest.title,
            crossing.before,
            crossing.after,
            f"{number_text(crossing.low)} to {number_text(crossing.high)}",
            "not in every block" if crossing.position is None else str(crossing.position),
            winner_text(crossing),
        )
        for one in contests
        for crossing in one.crossings
    )
    names = ("contest", "leads before", "leads after", "between", f"crossing [{percent} interval]")
    title = "Where the winner changes" + ("" if crossings else ": no change is shown")
    levels = tuple(
        (
            one.contest.title,
            number_text(level.level),
            level.leader,
            f"{level.value} {one.unit}",
            ", ".join(level.not_distinguishable) or "leads all",
        )
        for one in contests
        for level in one.levels
    )
    value = f"value [{percent} interval]"
    headings = ("contest", "level", "best mean", value, "not distinguishable from")
    return [
        TextTable(title, (*names, "winner"), crossings, names[3:]),
        TextTable("The leader at each level", headings, levels, ("level", value)),
    ]


def _method_tables(methods: Sequence[MethodComparison], percent: str) -> Iterator[TextTable]:
    """A table for each quantity."""
    for title in dict.fromkeys(row.quantity for row in methods):
        rows = tuple(
            (
                row.subject,
                _method_text(row.detail.first),
                _method_text(row.detail.second),
                "-" if row.value is None else str(row.value),
                method_verdict_text(row),
                row.remark,
            )
            for row in methods
            if row.quantity == title
        )
        yield TextTable(f"{title} [{percent} interval]", METHOD_HEADINGS, rows)


def _method_text(value: MethodValue) -> str:
    return f"{value.method}: {value.interval or '-'}"


def run_comparison_table(compared: RunComparison) -> TextTable:
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
    return TextTable(title, headings, rows, headings[2:5])
