"""A comparison of two emulations as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perpacket.analysis import ratios
from perpacket.analysis.statistics import number_text
from perpacket.show import comparison_tables as shown
from perpacket.show.table import Table

if TYPE_CHECKING:
    from perpacket.analysis.claim import Claim, Pair
    from perpacket_lab.analysis.emulation_comparison import EmulationComparison

SCHEMA = 1
FUNCTIONS_SHOWN = 20


def tables(found: EmulationComparison) -> Iterator[Table]:
    """The costs by request and by packet, then the functions that changed most."""
    for compared in found.by_unit.values():
        yield from shown.tables(compared)
    rows = [function_row(one) for one in found.functions[:FUNCTIONS_SHOWN]]
    headings = ("function", "A", "B", "B - A", "B/A", "verdict")
    title = f"functions that changed most, in instructions a {found.unit}"
    yield Table.of_texts(title, headings, tuple(rows), headings[1:5])


def function_row(claim: Claim[Pair]) -> tuple[str, ...]:
    """The cells of a function."""
    first, second = claim.detail.first, claim.detail.second
    return (
        claim.quantity,
        number_text(first),
        number_text(second),
        f"{second - first:+,.2f}",
        shown.ratio_text(claim),
        state(claim),
    )


def state(claim: Claim[Pair]) -> str:
    """Whether a function is new or gone, or else the verdict on its ratio."""
    if not claim.detail.first:
        return "new"
    return "gone" if not claim.detail.second else str(claim.verdict)


def headline(found: EmulationComparison) -> str:
    """A sentence on the cost by the first unit, and on what changed most."""
    return shown.headline(found.by_unit[found.unit])


def document(found: EmulationComparison) -> dict[str, object]:
    """The comparison as JSON."""
    functions = {
        one.quantity: {**ratios.ratio_fields(one), "verdict": state(one)} for one in found.functions
    }
    return {
        "schema": SCHEMA,
        **{f"per_{unit}": shown.document(one) for unit, one in found.by_unit.items()},
        "functions": {
            name: {key: fields[key] for key in ("first", "second", "ratio", "verdict")}
            for name, fields in functions.items()
        },
        "rules": {str(one.rule): str(one.decision) for one in found.judged},
        "notes": list(found.notes),
    }
