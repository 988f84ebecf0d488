"""What a study tells of itself as tables: quantities by point, and what each factor explains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perpacket.show.tables import Cell, Table, interval_cell
from perpacket.show.wording import plural

if TYPE_CHECKING:
    from perpacket.analysis.effects import EffectRow, Effects, Result, Results
    from perpacket.show.terms import Voice


MOST_LED: Final = 4
"""Effects in the sentence at the head of the page; those that explain most."""


def told_tables(results: Results | None, voice: Voice) -> list[Table]:
    """The quantities, then the effects on each; none where the study tells nothing of itself."""
    if results is None:
        return []
    percent = f"{100 * results.confidence:g} %"
    effects = [
        _effects_table(each, number, percent, voice)
        for number, each in enumerate(results.effects, 1)
    ]
    return [_results_table(results.rows, percent), *effects]


def lead(results: Results | None, voice: Voice) -> str:
    """The answer of a two-level design in one sentence; empty for other studies."""
    if results is None or not results.effects:
        return ""
    first = results.effects[0]
    told = [
        f"{row.effect} explains {100 * row.share:.0f} %"
        for row in first.rows
        if row.share is not None and row.is_significant
    ]
    rest = f"the spread of {voice.replications} is {100 * first.error_share:.0f} %"
    if not told:
        return (
            f"Nothing is shown to change {first.quantity}: of its variation, {rest}. So no "
            f"change of {first.quantity} that is listed here is significant."
        )
    return f"Of the variation of {first.quantity}, {', '.join(told[:MOST_LED])}; {rest}."


def _results_table(rows: tuple[Result, ...], percent: str) -> Table:
    return Table(
        identifier="told",
        caption=f"What the study asks for: means with the {percent} interval",
        columns=("Point", "Quantity", "Mean", "Unit", "Runs"),
        numeric=(False, False, True, False, True),
        rows=tuple(
            (
                Cell(row.point, remark="; ".join(row.warnings), look="name"),
                Cell(row.quantity, look="quantity"),
                interval_cell(row.interval),
                Cell(row.unit),
                Cell("0" if row.interval is None else str(row.interval.n)),
            )
            for row in rows
        ),
    )


def _effects_table(effects: Effects, number: int, percent: str, voice: Voice) -> Table:
    is_part = any(row.confounded for row in effects.rows)
    columns = ("Effect", "Value", "Of the variation (%)", "Interval leaves out zero")
    shown = (*columns, "Cannot be told from") if is_part else columns
    rows = [_effect_row(row) for row in effects.rows]
    share = 100 * effects.error_share
    rows.append((Cell(f"spread of {voice.replications}"), Cell(""), _share_cell(share),
                 Cell(""), Cell("")))  # fmt: skip
    unit = f", {effects.unit}" if effects.unit else ""
    return Table(
        identifier=f"effects-{number}",
        caption=f"What each factor explains of {effects.quantity}{unit}: half the change from the "
        f"lower to the upper level, with the {percent} interval over "
        f"{plural(effects.replications, voice.replication)}",
        columns=shown,
        numeric=(False, True, True, False, False)[: len(shown)],
        rows=tuple(row[: len(shown)] for row in rows),
    )


def _effect_row(row: EffectRow) -> tuple[Cell, ...]:
    is_mean = row.share is None
    return (
        Cell(row.effect, look="name"),
        interval_cell(row.interval),
        Cell("") if row.share is None else _share_cell(100 * row.share),
        Cell("" if is_mean else "yes" if row.is_significant else "no"),
        Cell(row.confounded_text),
    )


def _share_cell(percent: float) -> Cell:
    return Cell(f"{percent:.2f}", sort=percent)
