"""The tables of contests, of method comparisons and of a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from perpacket.analysis.claim import Verdict
from perpacket.analysis.statistics import decimals_for, format_number
from perpacket.show.table import Cell, Table
from perpacket_lab.analysis.findings import NO_LEADER, between
from perpacket_lab.analysis.wording import number, plural, signed_interval, typographic, with_unit
from perpacket_lab.show import kernel_tables
from perpacket_lab.show.tables import interval_cell, percent_text, sign_of

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.contests import ContestLevel, ContestResult, Crossing
    from perpacket_lab.analysis.factor_effects import EffectRow, FactorEffects, SummaryRow
    from perpacket_lab.analysis.methods import MethodComparison, MethodValue
    from perpacket_lab.analysis.terms import Terms

NO_CROSSING: Final = "no change of the winner is shown"

METHOD_WORDS: Final = {
    Verdict.TOO_WIDE: str(Verdict.TOO_WIDE),
    Verdict.NO_INTERVAL: "one run: no interval",
    Verdict.NO_VALUE: "left out",
}
"""The verdicts on methods that neither agree nor differ."""


def contest_tables(contests: Sequence[ContestResult]) -> list[Table]:
    """The crossings and the levels; none without contests."""
    return [crossing_table(contests), level_table(contests)] if contests else []


def level_table(contests: Sequence[ContestResult]) -> Table:
    """The leader at each level of each contest, and those not distinguishable from it."""
    return Table(
        identifier="standings",
        caption="The leader at each level, and the competitors not distinguishable from it",
        columns=("Contest", "Level", "Leader", "Best mean", "Not distinguishable"),
        numeric=(False, True, False, True, False),
        rows=tuple(_level_row(contest, level) for contest in contests for level in contest.levels),
    )


def _level_row(contest: ContestResult, level: ContestLevel) -> tuple[Cell, ...]:
    value, _, bounds = typographic(str(level.value)).partition(" ")
    near = level.not_distinguishable
    return (
        Cell(contest.contest.title, css="quantity"),
        Cell(number(level.level), remark=contest.contest.along_title, sort=level.level),
        Cell(NO_LEADER if near else level.leader),
        Cell(with_unit(value, contest.unit), bounds, sort=level.value.value),
        Cell(", ".join((level.leader, *near)) if near else "", remark="; ".join(level.doubts)),
    )


def crossing_table(contests: Sequence[ContestResult]) -> Table:
    """The crossings of leaders; a contest without one has a row with `NO_CROSSING`."""
    return Table(
        identifier="crossings",
        caption="Crossings: one competitor leads at the first level, the other at the second. The "
        "position is shown if every block has the crossing.",
        columns=("Contest", "Leads before", "Leads after", "Between", "Crossing", "The winner"),
        numeric=(False, False, False, False, True, False),
        rows=tuple(row for contest in contests for row in _crossing_rows(contest)),
    )


def _crossing_rows(contest_result: ContestResult) -> Iterator[tuple[Cell, ...]]:
    title = Cell(contest_result.contest.title, css="quantity")
    for crossing in contest_result.crossings:
        yield (
            title,
            Cell(crossing.before),
            Cell(crossing.after),
            Cell(between(crossing), remark=contest_result.contest.along_title, sort=crossing.low),
            _position(crossing),
            Cell(winner_text(crossing)),
        )
    if not contest_result.crossings:
        yield (title, Cell(NO_CROSSING), *[Cell("")] * 4)


def winner_text(crossing: Crossing) -> str:
    """Whether the winner changes at a crossing."""
    return f"may stay {' or '.join(crossing.may_stay)}" if crossing.may_stay else "changes"


def _position(crossing: Crossing) -> Cell:
    if crossing.position is None:
        return Cell("not in every block")
    value, _, bounds = str(crossing.position).partition(" ")
    return Cell(value, bounds, sort=crossing.position.value)


def method_table(analysis: Analysis) -> Table | None:
    """Every pair of methods, in the study's order; None if no methods are compared."""
    if not analysis.methods:
        return None
    columns = ("Scenario", "Quantity", "Method", "%", "Other method", "%", "Difference", "Verdict")
    return Table(
        identifier="methods-table",
        caption="Two methods for each number, in per cent; differences in percentage points, with "
        f"{percent_text(analysis)} intervals. A model's values are paired with the runs "
        "from which they are computed.",
        columns=columns,
        numeric=tuple(name in ("%", "Difference") for name in columns),
        rows=tuple(_method_row(row) for row in analysis.methods),
    )


def _method_row(row: MethodComparison) -> tuple[Cell, ...]:
    words = {"agree": Verdict.AGREES, "differ": Verdict.DIFFERS}
    sign, css = sign_of(words.get(method_verdict(row), Verdict.NOT_JUDGED))
    value, bounds = signed_interval(row.value, "") if row.value else ("\N{EN DASH}", "")
    assumption = f"assumed: {typographic(row.remark)}" if row.remark else ""
    return (
        Cell(row.subject),
        Cell(row.quantity),
        Cell(row.detail.first.method),
        _method_value(row.detail.first),
        Cell(row.detail.second.method),
        _method_value(row.detail.second),
        Cell(value, bounds, sort=row.value.value if row.value else None),
        Cell(f"{sign} {typographic(method_verdict_text(row))}", remark=assumption, css=css),
    )


def method_verdict(row: MethodComparison) -> str:
    """`agree`, `differ`, or why neither is shown."""
    return METHOD_WORDS.get(row.verdict) or ("differ" if row.verdict.is_shown else "agree")


def method_verdict_text(row: MethodComparison) -> str:
    """`agree`, or `differ by -3.2 points`."""
    word = method_verdict(row)
    if not row.verdict.is_shown:
        return word
    size = abs(row.interval.value)
    sign = "+" if row.interval.value > 0 else "-"
    return f"{word} by {sign}{format_number(size, decimals_for(size))} {row.unit}"


def _method_value(value: MethodValue) -> Cell:
    interval = value.interval
    if interval is None:
        return Cell("\N{EN DASH}")
    return Cell(typographic(str(interval)), sort=interval.value)


def summary_tables(analysis: Analysis) -> list[Table]:
    """The quantities, then the effects on each; none for a study without a summary."""
    if analysis.summary is None:
        return []
    percent = percent_text(analysis)
    effects = [
        _effects_table(each, number, percent, analysis.terms)
        for number, each in enumerate(analysis.summary.effects, 1)
    ]
    summary = _summary_table(analysis.summary.rows, percent)
    return [*kernel_tables.tables_of(analysis), summary, *effects]


def _summary_table(rows: tuple[SummaryRow, ...], percent: str) -> Table:
    return Table(
        identifier="summary",
        caption=f"The quantities of the study: means with the {percent} interval",
        columns=("Point", "Quantity", "Mean", "Unit", "Runs"),
        numeric=(False, False, True, False, True),
        rows=tuple(
            (
                Cell(row.subject, remark=row.remark, css="name"),
                Cell(row.quantity, css="quantity"),
                interval_cell(row.value),
                Cell(row.unit),
                Cell("0" if row.value is None else str(row.value.n)),
            )
            for row in rows
        ),
    )


def _effects_table(effects: FactorEffects, number: int, percent: str, terms: Terms) -> Table:
    is_part = any(row.detail.confounded for row in effects.rows)
    columns = ("Effect", "Value", "Of the variation (%)", "Interval excludes zero")
    shown = (*columns, "Confounded with") if is_part else columns
    rows = [_effect_row(row) for row in effects.rows]
    spread = _share_cell(100 * effects.error_share)
    rows.append((Cell(f"spread of {terms.replications}"), Cell(""), spread, Cell(""), Cell("")))
    unit = f", {effects.unit}" if effects.unit else ""
    return Table(
        identifier=f"effects-{number}",
        caption=f"Effects on {effects.quantity}{unit}: half the change from the lower to the upper "
        f"level, with the {percent} interval over "
        f"{plural(effects.replications, terms.replication)}",
        columns=shown,
        numeric=(False, True, True, False, False)[: len(shown)],
        rows=tuple(row[: len(shown)] for row in rows),
    )


def _effect_row(row: EffectRow) -> tuple[Cell, ...]:
    is_mean = row.detail.share is None
    return (
        Cell(row.subject, css="name"),
        interval_cell(row.interval),
        Cell("") if row.detail.share is None else _share_cell(100 * row.detail.share),
        Cell("" if is_mean else "yes" if row.verdict.is_shown else "no"),
        Cell(row.detail.confounded_text),
    )


def _share_cell(percent: float) -> Cell:
    return Cell(format_number(percent, 2), sort=percent)
