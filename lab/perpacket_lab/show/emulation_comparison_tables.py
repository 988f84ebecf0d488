"""A comparison of two emulations as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def tables(comparison: EmulationComparison) -> Iterator[Table]:
    """The costs by request and by packet, then the functions that changed most."""
    for compared in comparison.by_unit.values():
        yield from shown.tables(compared)
    rows = [function_row(claim) for claim in comparison.functions[:FUNCTIONS_SHOWN]]
    headings = ("function", "A", "B", "B - A", "B/A", "verdict")
    title = (
        f"functions that changed most, in instructions a {comparison.unit}; intervals are not "
        "corrected for their number"
    )
    if rows:
        yield Table.of_texts(title, headings, tuple(rows), headings[1:5])
    if comparison.options:
        pairs = [(each.group, each.option, each.first, each.second) for each in comparison.options]
        title = "options of the kernels that differ (n: not set)"
        yield Table.of_texts(title, ("group", "option", "A", "B"), pairs)


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


def changes_table(compared: Mapping[str, EmulationComparison]) -> Table:
    """A row for each change of the catalogue, by the first unit."""
    rows = []
    for text, comparison in compared.items():
        by_unit = comparison.by_unit[comparison.unit]
        total = by_unit.total
        most = by_unit.changed_most if total.value else max(by_unit.layers, key=difference)
        by = most.detail.second - most.detail.first if most else 0
        rows.append(
            (
                text,
                number_text(total.detail.first),
                number_text(total.detail.second),
                shown.ratio_text(total),
                str(total.verdict),
                f"{most.quantity} {by:+,.1f}" if most else "",
            )
        )
    unit = comparison.unit
    headings = ("change", "before", "changed", "ratio", "verdict", "layer that changed most")
    return Table.of_texts(f"instructions a {unit}", headings, tuple(rows), headings[1:4])


def changes_document(compared: Mapping[str, EmulationComparison]) -> dict[str, object]:
    """The comparisons of changes as JSON."""
    return {
        "schema": SCHEMA,
        "changes": [{"change": text, **document(one)} for text, one in compared.items()],
    }


def difference(claim: Claim[Pair]) -> float:
    """How much a cost differs."""
    return abs(claim.detail.second - claim.detail.first)


def headline(comparison: EmulationComparison) -> str:
    """A sentence on the cost by the first unit, and on what changed most."""
    return shown.headline(comparison.by_unit[comparison.unit])


def document(comparison: EmulationComparison) -> dict[str, object]:
    """The comparison as JSON."""
    functions = {
        claim.quantity: {**ratios.ratio_fields(claim), "verdict": state(claim)}
        for claim in comparison.functions
    }
    return {
        "schema": SCHEMA,
        **{f"per_{unit}": shown.document(each) for unit, each in comparison.by_unit.items()},
        "functions": {
            name: {key: fields[key] for key in ("first", "second", "ratio", "verdict")}
            for name, fields in functions.items()
        },
        "kernel_options": {
            each.option: {"group": each.group, "first": each.first, "second": each.second}
            for each in comparison.options
        },
        "rules": {str(rule.rule): str(rule.decision) for rule in comparison.judged},
        "notes": list(comparison.notes),
    }
