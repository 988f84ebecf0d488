"""Ways side by side, as a table and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpacket.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perpacket.analysis.methods import Contrast, Estimate

HEADINGS = ("scenario", "one way, %", "another, %", "difference, points", "verdict", "assumed")


def print_contrasts(contrasts: Sequence[Contrast]) -> None:
    """A table for each quantity."""
    for title in dict.fromkeys(row.title for row in contrasts):
        rows = [
            (
                row.scenario,
                _text(row.first),
                _text(row.second),
                "-" if row.difference is None else str(row.difference),
                row.verdict_text,
                row.assumption,
            )
            for row in contrasts
            if row.title == title
        ]
        output.write_table(f"{title} [95 % interval]", HEADINGS, rows)


def _text(estimate: Estimate) -> str:
    return f"{estimate.way}: {estimate.interval or '-'}"


def describe_contrast(row: Contrast) -> dict[str, object]:
    """Two ways to one number, for JSON: per cent, and a difference in percentage points."""
    return {
        "question": row.question,
        "title": row.title,
        "scenario": row.scenario,
        "level": row.level,
        "unit": "%",
        "first": _estimate(row.first),
        "second": _estimate(row.second),
        "difference": None if row.difference is None else row.difference.as_dict(),
        "verdict": str(row.verdict),
        "assumption": row.assumption or None,
        "warnings": list(row.warnings),
    }


def _estimate(estimate: Estimate) -> dict[str, object]:
    interval = estimate.interval
    return {
        "way": estimate.way,
        "runs": estimate.runs,
        **({"value": None} if interval is None else interval.as_dict()),
    }
