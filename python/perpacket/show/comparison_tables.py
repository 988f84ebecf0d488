"""A comparison of two profiles as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perpacket.analysis import ratios
from perpacket.analysis.profile_comparison import CONFIDENCE, MEASURES, TOTAL
from perpacket.analysis.statistics import number_text
from perpacket.show.table import Table

if TYPE_CHECKING:
    from perpacket.analysis.claim import Claim, Pair
    from perpacket.analysis.profile_comparison import ProfileComparison

SCHEMA = 1

SMALLEST_SHARE = 0.005
"""Rows below this share of both totals are only in the JSON document, unless they changed."""

WIDEST = 100
"""An interval is printed only if its upper end is less than this many times its lower end."""


def tables(compared: ProfileComparison) -> Iterator[Table]:
    """The traffic first, then the costs."""
    pairing = "paired windows" if compared.paired else "windows"
    counts = f"{compared.windows[0]} and {compared.windows[1]} {pairing}"
    percent = f"{100 * CONFIDENCE:g} % interval"
    headings = ("", "A", "B", "B/A", "verdict")
    yield Table.of_texts(
        f"traffic of A and B, {counts} [{percent}]",
        headings,
        _rows([row for row in compared.traffic if row.detail.first or row.detail.second]),
        headings[1:4],
    )
    least = [
        SMALLEST_SHARE * value
        for value in (compared.total.detail.first, compared.total.detail.second)
    ]
    shown = [
        judged
        for judged in (compared.total, *compared.layers, *compared.kinds)
        if judged.detail.first >= least[0]
        or judged.detail.second >= least[1]
        or judged.verdict.is_shown
    ]
    unit = f"{MEASURES[compared.measure]} a {compared.unit}"
    yield Table.of_texts(
        f"cost in {unit}; intervals of layers and kinds are corrected for their number",
        headings,
        _rows(shown),
        headings[1:4],
    )


def _rows(claims: Sequence[Claim[Pair]]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            claim.quantity,
            number_text(claim.detail.first),
            number_text(claim.detail.second),
            ratio_text(claim),
            str(claim.verdict),
        )
        for claim in claims
    )


def ratio_text(ratio: Claim[Pair]) -> str:
    """`1.05 [1.02, 1.08]`; only the value if there is no interval or it is too wide."""
    if ratio.value is not None and ratio.value.high < WIDEST * ratio.value.low:
        return ratios.ratio_text(ratio)
    return f"{ratio.detail.second / ratio.detail.first:.3g}" if ratio.detail.first else "-"


def headline(compared: ProfileComparison) -> str:
    """A sentence on the change of the cost, and on the layer that changed most."""
    unit = f"{MEASURES[compared.measure]} a {compared.unit}"
    total, most = compared.total, compared.changed_most
    costs = f"{number_text(total.detail.first)} to {number_text(total.detail.second)} {unit}"
    text = f"{total.verdict}: the cost is {ratio_text(total)} times as large, {costs}"
    if most is None:
        return f"{text}; no layer changed for certain"
    by = most.detail.second - most.detail.first
    return (
        f"{text}; {most.quantity} changed most, by {'+' if by > 0 else ''}{number_text(by)} {unit}"
    )


def document(compared: ProfileComparison) -> dict[str, object]:
    """The comparison as JSON."""
    return {
        "schema": SCHEMA,
        "windows": list(compared.windows),
        "measure": compared.measure,
        "unit": str(compared.unit),
        "paired": compared.paired,
        "traffic": {item.quantity: _fields(item) for item in compared.traffic},
        TOTAL: _fields(compared.total),
        "layers": {layer.quantity: _fields(layer) for layer in compared.layers},
        "kinds": {kind.quantity: _fields(kind) for kind in compared.kinds},
        "rules": {str(judged.rule): str(judged.decision) for judged in compared.judged},
        "notes": list(compared.notes),
    }


def _fields(ratio: Claim[Pair]) -> dict[str, object]:
    every = ratios.ratio_fields(ratio)
    return {key: every[key] for key in ("first", "second", "ratio", "verdict")}
