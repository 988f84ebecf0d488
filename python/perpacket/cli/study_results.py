"""Prints what a user's study tells of a run: quantities by point, and effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpacket.cli import output

if TYPE_CHECKING:
    from perpacket.analysis.effects import Effects, Results
    from perpacket.study.study import Study


def describe(results: Results) -> dict[str, object]:
    """For JSON."""
    return {
        "results": [row.as_dict() for row in results.rows],
        "effects": [each.as_dict() for each in results.effects],
        "remarks": list(results.remarks),
    }


def write(study: Study, results: Results) -> None:
    """The quantities as a table of one row for each point and quantity, then the effects."""
    rows = [
        (
            row.point,
            row.quantity,
            row.unit,
            "-" if row.interval is None else str(row.interval),
            "0" if row.interval is None else str(row.interval.n),
            "!" * bool(row.warnings),
        )
        for row in results.rows
    ]
    headings = ("point", "quantity", "unit", "mean", "runs", "")
    marks = "; !: see the notes" if any(row[-1] for row in rows) else ""
    title = f"{study.title}: means [{100 * results.confidence:g} % interval]{marks}"
    output.write_table(title, headings, rows, right=("mean", "runs"))
    for effects in results.effects:
        write_effects(effects, results.confidence)


def write_effects(effects: Effects, confidence: float) -> None:
    """What each factor explains of one quantity; `*` marks effects that are there."""
    rows = [
        (
            row.effect,
            str(row.interval)
            if row.interval.is_bounded
            else output.number_text(row.interval.value),
            "*" if row.share is not None and row.is_significant else "",
            "-" if row.share is None else f"{100 * row.share:.2f} %",
            row.confounded_text,
        )
        for row in effects.rows
    ]
    rows.append(("replications", "", "", f"{100 * effects.error_share:.2f} %", ""))
    headings = ("effect", "value", "", "of the variation", "confounded with")
    shown = len(headings) if any(row.confounded for row in effects.rows) else len(headings) - 1
    unit = f" ({effects.unit})" if effects.unit else ""
    title = (
        f"Effects on {effects.quantity}{unit} [{100 * confidence:g} % interval], "
        f"{effects.replications} runs each; *: the interval leaves out zero"
    )
    output.write_table(
        title, headings[:shown], [row[:shown] for row in rows], right=headings[1:4:2]
    )
