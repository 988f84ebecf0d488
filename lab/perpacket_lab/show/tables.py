"""The tables of a report as data: the page turns them into HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from perpacket.analysis.claim import MET, MISSED, Verdict
from perpacket.show.table import Cell, Table
from perpacket_lab.analysis.findings import GAIN_COLUMN
from perpacket_lab.analysis.published_comparison import Comparison
from perpacket_lab.analysis.terms import SIMULATED, Terms
from perpacket_lab.analysis.wording import (
    compact,
    place,
    signed_interval,
    typographic,
    verdict_in_words,
    with_unit,
)
from perpacket_lab.study.quantities import COLUMNS

if TYPE_CHECKING:
    import polars as pl

    from perpacket.analysis.statistics import Interval
    from perpacket_lab.analysis.analysis import Analysis

MOST_RAW_CELLS: Final = 30_000
"""The largest table that a browser on a phone scrolls smoothly."""

AGREES, DISAGREES, OPEN = "\N{CHECK MARK}", "\N{NOT EQUAL TO}", "\N{EN DASH}"


def sign_of(verdict: Verdict) -> tuple[str, str]:
    """The sign and the class in the style sheet: agreement, disagreement, or neither."""
    if verdict in MET:
        return AGREES, "verdict-agrees"
    if verdict in MISSED:
        return DISAGREES, "verdict-differs" if verdict is Verdict.DIFFERS else "verdict-outside"
    return OPEN, "verdict-not-simulated"


GAIN_TITLE: Final = "Gain in requests (%)"
LAYER_SUMS: Final = (
    ("Host cycles per packet", "cycles_per_packet"),
    ("L1 data misses per packet", "l1d_misses_per_packet"),
    ("L2 misses per packet", "l2_misses_per_packet"),
    ("Processor time per packet (ns)", "cpu_ns_per_packet"),
    ("Processor time per segment (ns)", "cpu_ns_per_segment"),
)


def comparison_table(analysis: Analysis) -> Table:
    """Published values beside those of the run, in the document's order.

    For simulated runs, the last column has the role of the published value: used to calibrate, or
    held out.
    """
    terms = analysis.terms
    columns = (
        *("Configuration", "Quantity", "Where", "Paper", terms.title),
        *("Difference", "Verdict", "Strictly", "Role"),
    )
    shown = len(columns) if terms.is_calibrated else len(columns) - 1
    return Table(
        identifier="comparison",
        caption=f"Published and {terms.adjective} values in the paper's units, with the interval "
        f"over {terms.replications}",
        columns=columns[:shown],
        numeric=tuple(name in ("Paper", terms.title, "Difference") for name in columns[:shown]),
        rows=tuple(_comparison_row(row, terms)[:shown] for row in analysis.comparisons),
    )


def _comparison_row(row: Comparison, terms: Terms) -> tuple[Cell, ...]:
    published = row.reference
    text = verdict_in_words(row.strict_text)
    if row.verdict is Verdict.NO_VALUE:
        text = terms.no_value
    paper = published.value if published.value is not None else published.maximum
    sign, css = sign_of(row.verdict)
    verdict = Cell(
        f"{sign} {text}",
        remark="; ".join(row.warnings),
        sort=abs(row.detail.size) if row.detail.size is not None else None,
        css=css,
    )
    role = (
        Cell("\N{WHITE SQUARE}\N{NO-BREAK SPACE}used to calibrate", css="calibrated")
        if published.calibration
        else Cell("\N{BLACK DIAMOND}\N{NO-BREAK SPACE}held out", css="held-out")
    )
    return (
        Cell(published.point, css="name"),
        Cell(row.quantity or published.statement, remark=_remark(row), css="quantity"),
        Cell(place(published.where), css="where"),
        Cell(with_unit(published.text, published.unit), sort=paper),
        interval_cell(row.value),
        Cell(typographic(row.difference_text)),
        Cell("" if row.verdict is Verdict.NOT_JUDGED else str(row.standing), css="standing"),
        verdict,
        role,
    )


def _remark(row: Comparison) -> str:
    """The point from which a change starts, and the note on the published value."""
    published = row.reference
    start = f"from {published.against}" if published.judged == "direction" else ""
    return "; ".join(filter(None, (start, published.note)))


def interval_cell(interval: Interval | None) -> Cell:
    """A mean with its interval below it; empty if there is none."""
    if interval is None:
        return Cell("")
    value, _, bounds = typographic(str(interval)).partition(" ")
    return Cell(value, bounds, sort=interval.value)


def means_table(analysis: Analysis) -> Table:
    """Every configuration of the run with its main results: means and intervals."""
    estimates, terms = analysis.estimates, analysis.terms
    columns: dict[str, Mapping[str, Cell]] = {}
    for entry in COLUMNS.values():
        if not entry.in_table:
            continue
        means = estimates.means(entry.in_percent)
        if means:
            cells = {point: interval_cell(mean) for point, mean in means.items()}
            columns[entry.in_percent.heading] = cells
        if entry is GAIN_COLUMN and (gains := _gains(analysis)):
            columns[GAIN_TITLE] = gains
    for title, event in LAYER_SUMS:
        layers = estimates.layers(event)
        sums = {
            point: interval_cell(total)
            for point in estimates.rows
            if (total := estimates.layer_sum(point, layers, event)) is not None
        }
        if sums:
            columns[title] = sums
    rows = []
    for point in analysis.study.points:
        runs = estimates.runs(point.name)
        head = (Cell(point.name, css="name"), Cell(str(runs), sort=float(runs)))
        rest = (column.get(point.name, Cell("")) for column in columns.values())
        rows.append((*head, *rest))
    return Table(
        identifier="means",
        caption=f"Every configuration: means over {terms.replications}, with "
        f"{percent_text(analysis)} intervals",
        columns=("Configuration", terms.replications.capitalize(), *columns),
        numeric=(False, *[True] * (1 + len(columns))),
        rows=tuple(rows),
    )


def _gains(analysis: Analysis) -> dict[str, Cell]:
    """The gain of each point over its baseline."""
    gains = {}
    for point in analysis.study.points:
        gain = analysis.estimates.gain(point, GAIN_COLUMN)
        if gain is not None:
            value, bounds = signed_interval(gain, "")
            gains[point.name] = Cell(value, bounds, sort=gain.value)
    return gains


def percent_text(analysis: Analysis) -> str:
    """The confidence of a run's intervals, as `95 %`."""
    return f"{100 * analysis.confidence:g} %"


def raw_table(observations: pl.DataFrame, terms: Terms = SIMULATED) -> Table:
    """One row per run, with every column, or the first columns up to `MOST_RAW_CELLS`."""
    shown = observations.columns
    fitting = MOST_RAW_CELLS // max(1, observations.height)
    caption = (
        f"Every run: one row per configuration and {terms.replication}, values to six significant "
        "digits"
    )
    if len(shown) > fitting:
        shown = shown[: max(3, fitting)]
        caption += (
            f" ({len(shown)} of {observations.width} columns; the file's JSON has the others)"
        )
    frame = observations.select(shown)
    return Table(
        identifier="runs",
        caption=caption,
        columns=tuple(shown),
        numeric=tuple(dtype.is_numeric() for dtype in frame.dtypes),
        rows=tuple(tuple(Cell(compact(value)) for value in row) for row in frame.iter_rows()),
    )


def environment_table(environment: Mapping[str, object]) -> Table:
    """The machine and the versions of a run. Dots join nested names."""
    leaves = _leaves(environment) or [("machine and versions", "unknown")]
    return Table(
        identifier="environment",
        caption="The machine and the versions of this run",
        columns=("Item", "Value"),
        numeric=(False, False),
        rows=tuple((Cell(name), Cell(text)) for name, text in leaves),
    )


def _leaves(content: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    leaves: list[tuple[str, str]] = []
    for name, value in content.items():
        if isinstance(value, Mapping):
            leaves += _leaves(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            leaves.append((f"{prefix}{name}", "; ".join(str(item) for item in value) or "none"))
        elif value is not None and not (isinstance(value, float) and math.isnan(value)):
            leaves.append((f"{prefix}{name}", str(value)))
    return leaves
