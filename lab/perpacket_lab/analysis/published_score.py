"""How far a run agrees with published values.

Values used to calibrate are counted separately: their agreement shows a fit and predicts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from perpacket.analysis.claim import MET, MISSED, Verdict
from perpacket_lab.analysis.published_comparison import Standing
from perpacket_lab.analysis.terms import SIMULATED, Terms
from perpacket_lab.analysis.wording import plural, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perpacket_lab.analysis.published_comparison import Comparison

MOST_DISAGREEMENTS: Final = 12
"""Rows of the list of disagreements. The table of comparisons has all rows."""


PLURALS: Final = {
    Standing.IN_PART: "hold in part",
    Standing.FAILS: "do not hold",
    Standing.UNTESTED: "cannot be tested here",
}
"""The standings in sentences about several values."""


@dataclass(frozen=True, slots=True)
class Score:
    """A count at the top of a report: `10 of 16`, the label of the count, and a remark."""

    value: str
    label: str
    remark: str


def scores(comparisons: Sequence[Comparison], terms: Terms = SIMULATED) -> list[Score]:
    """How many published values agree, separately for those used to calibrate."""
    groups = (
        (False, terms.agreeing),
        (True, "published values used to calibrate agree"),
    )
    scores = []
    for calibration, label in groups:
        rows = [
            row for row in comparisons if row.reference.calibration is calibration and row.is_judged
        ]
        if rows:
            agreeing = sum(row.verdict in MET for row in rows)
            scores.append(Score(f"{agreeing} of {len(rows)}", label, _typical_distance(rows)))
    return scores


def _typical_distance(rows: Sequence[Comparison]) -> str:
    """The median distance, separately for per cent of a value and for percentage points."""
    parts = []
    for unit, text in (("%", "%"), ("points", "points")):
        distances = [
            abs(row.detail.size)
            for row in rows
            if row.detail.unit == unit
            and row.detail.size is not None
            and row.reference.judged == "value"
        ]
        if distances:
            parts.append(signed(median(distances), text).lstrip("+"))
    return f"median distance {' or '.join(parts)}" if parts else ""


def disagreements(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Every published value that does not agree: first those that were not used to calibrate.

    In both groups, changes opposite to the published direction come first. The other values follow
    by distance, the largest first.
    """
    missed = [row for row in comparisons if row.verdict in MISSED]
    return sorted(
        missed,
        key=lambda row: (
            row.reference.calibration,
            row.verdict is not Verdict.OPPOSITE,
            -_distance(row),
        ),
    )


def _distance(row: Comparison) -> float:
    """The distance to the published value, in per cent of it."""
    published = row.reference
    nearest = published.value if published.value is not None else published.maximum
    nearest = nearest if nearest is not None else published.minimum
    if row.value is None or nearest is None:
        return 0.0
    if published.unit.startswith("%"):
        return abs(row.detail.size or 0.0)
    return 100 * abs(row.value.value - nearest) / (abs(nearest) or 1.0)


def headline(comparisons: Sequence[Comparison], terms: Terms = SIMULATED) -> str:
    """How many published values hold within their tolerance, and how many agree strictly."""
    return " ".join(filter(None, (_standings(comparisons), _strict(comparisons, terms))))


def _standings(comparisons: Sequence[Comparison]) -> str:
    """How many values that were not used to calibrate hold, hold in part, and do not."""
    rows = [row for row in comparisons if row.is_judged and not row.reference.calibration]
    if not rows:
        return ""
    counts = {each: sum(row.standing is each for row in rows) for each in Standing}
    own = " not used to calibrate" if any(row.reference.calibration for row in comparisons) else ""
    noun = f"{plural(len(rows), 'published value')}{own}"
    parts = [f"{counts.pop(Standing.HOLDS)} of {noun} hold"]
    parts += [f"{count} {PLURALS[each]}" for each, count in counts.items() if count]
    return f"Within 25 %, {', '.join(parts)}. Strictly:"


def _strict(comparisons: Sequence[Comparison], terms: Terms) -> str:
    """One sentence on how many published values agree."""
    if not terms.is_calibrated:
        return _shape_headline(comparisons)
    held_out = [row for row in comparisons if not row.reference.calibration and row.is_judged]
    if not comparisons:
        return "This run is compared with no published value."
    if not held_out:
        return "All published values were used to calibrate: agreement shows a fit, no prediction."
    missed = [row for row in held_out if row.verdict is not Verdict.AGREES]
    if not missed:
        count = plural(len(held_out), "published value")
        return f"All {count} agree with the simulation, not counting those used to calibrate."
    return (
        f"Of {plural(len(held_out), 'published value')} not used to calibrate, "
        f"{len(held_out) - len(missed)} agree with the simulation and {len(missed)} do not."
    )


def _shape_headline(comparisons: Sequence[Comparison]) -> str:
    """One sentence on how many published changes, shares and orders this machine shows too."""
    rows = [row for row in comparisons if row.is_judged]
    if not rows:
        return "This run is compared with no published value."
    parts = []
    for judged, noun, many in (
        ("direction", "published change", ""),
        ("value", "published share or order", "published shares and orders"),
    ):
        of_kind = [row for row in rows if row.reference.judged == judged]
        if of_kind:
            agreeing = sum(row.verdict in MET for row in of_kind)
            agree = "agrees" if agreeing == 1 else "agree"
            direction = " in direction" if judged == "direction" else ""
            parts.append(f"{agreeing} of {plural(len(of_kind), noun, many)} {agree}{direction}")
    undecided = sum(row.verdict in (Verdict.NOT_DISTINGUISHABLE, Verdict.TOO_WIDE) for row in rows)
    if undecided:
        parts.append(f"the intervals of {undecided} are too wide")
    return f"{'; '.join(parts)}."
