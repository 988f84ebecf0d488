"""The tables of a report, as data: the page turns them into HTML."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from perpacket.analysis import means
from perpacket.analysis.published import Comparison, Verdict
from perpacket.show.terms import SIMULATED, Voice, voice_of
from perpacket.show.wording import (
    compact,
    place,
    signed_interval,
    typographic,
    verdict_in_words,
    with_unit,
)

if TYPE_CHECKING:
    import polars as pl

    from perpacket.analysis.statistics import Interval
    from perpacket.study.study import Study

# A browser on a phone still scrolls this many cells.
MOST_RAW_CELLS: Final = 30_000

VERDICT_SIGNS: Final = {
    Verdict.AGREES: "\N{CHECK MARK}",
    Verdict.DIFFERS: "\N{NOT EQUAL TO}",
    Verdict.OUTSIDE: "\N{NOT EQUAL TO}",
    Verdict.NOT_SIMULATED: "\N{EN DASH}",
    Verdict.SAME_DIRECTION: "\N{CHECK MARK}",
    Verdict.OPPOSITE: "\N{NOT EQUAL TO}",
    Verdict.UNDECIDED: "\N{EN DASH}",
    Verdict.TOO_WIDE: "\N{EN DASH}",
}


VERDICT_LOOKS: Final = {
    Verdict.AGREES: "verdict-agrees",
    Verdict.SAME_DIRECTION: "verdict-agrees",
    Verdict.DIFFERS: "verdict-differs",
    Verdict.OUTSIDE: "verdict-outside",
    Verdict.OPPOSITE: "verdict-outside",
    Verdict.UNDECIDED: "verdict-not-simulated",
    Verdict.TOO_WIDE: "verdict-not-simulated",
    Verdict.NOT_SIMULATED: "verdict-not-simulated",
}
"""Classes of the style sheet: what speaks for the published value, against it, and neither."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: what it shows, a remark below, what it sorts by, and the class of its look."""

    text: str
    remark: str = ""
    sort: float | None = None
    look: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first column heads the rows; numeric columns are set to the right."""

    identifier: str
    caption: str
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of the table of means: its title with the unit, and how to get it."""

    title: str
    column: str
    scale: float = 1.0

    @property
    def most(self) -> float:
        """What the number can be: a share is all at most."""
        return 100.0 if self.title.endswith("(%)") else math.inf


# The result's numbers that a reader looks for first. Columns without any number are left out.
MEASURES: Final = (
    Measure("Requests/s", "requests_per_s"),
    Measure("Content (Mb/s)", "content_mbps"),
    Measure("Goodput (Mb/s)", "goodput_mbps"),
    Measure("Packets/s", "packets_per_s"),
    Measure("Packets on the NIC (%)", "nic_packet_share", 100),
    Measure("Connections handed off (%)", "handed_off_share", 100),
    Measure("Host idle (%)", "host_idle", 100),
    Measure("Server idle (%)", "server_idle", 100),
    Measure("Clients idle (%)", "client_idle", 100),
    Measure("NIC idle (%)", "nic_idle", 100),
    Measure("Host packets sent, median delay (µs)", "host_packet_delay_us.send.median"),
    Measure("Host packets received, median delay (µs)", "host_packet_delay_us.receive.median"),
    Measure("Response, median (ms)", "response_ms.median"),
    Measure("Response, median (ms)", "latency_us.response.p50", 1e-3),
    Measure("Response, 99 % (ms)", "latency_us.response.p99", 1e-3),
    Measure("Server's processor time a request (µs)", "server_cpu_us_per_request"),
    Measure("Server's page faults/s", "server_process.page_faults_per_s"),
    Measure("Server's context switches/s", "server_process.context_switches_per_s"),
    Measure("Server's pages in memory", "server_process.resident_pages"),
    Measure("Drops", "drops"),
    Measure("Forwarded (Mb/s)", "forwarded_mbps"),
    Measure("Forwarded packets/s", "forwarded_packets_per_s"),
    Measure("Highest rate without loss (frames/s)", "throughput_pps"),
    Measure("Throughput (Mb/s)", "throughput_mbps"),
    Measure("Frames lost (%)", "loss", 100),
    Measure("Lateness, 99 % (µs)", "lateness_us.p99"),
    Measure("Jitter, mean difference of gaps (µs)", "mean_gap_difference_us.mean"),
    Measure("Packets lost", "lost"),
    Measure("Clients that timed out", "timed_out"),
    Measure("Server's processor time (% of a core)", "server_cpu_percent"),
    Measure("Page faults/s", "page_faults_per_s"),
    Measure("Context switches/s", "context_switches_per_s"),
    Measure("Active pages", "active_pages"),
    Measure("Bandwidth (MB/s)", "mbytes_per_s"),
    Measure("Dependent load (ns)", "latency_ns"),
    Measure("Context switch (ns)", "ns_per_switch"),
)
GAIN_TITLE: Final = "Gain in requests (%)"
LAYER_SUMS: Final = (
    ("Host cycles per packet", "cycles_per_packet"),
    ("L1 data misses per packet", "l1d_misses_per_packet"),
    ("L2 misses per packet", "l2_misses_per_packet"),
    ("Processor time per packet (ns)", "cpu_ns_per_packet"),
    ("Processor time per segment (ns)", "cpu_ns_per_segment"),
)


def comparison_table(comparisons: Sequence[Comparison], voice: Voice = SIMULATED) -> Table:
    """Published values beside the runs' own, in the document's order.

    A role, calibrated or held out, is told where something can be calibrated.
    """
    columns = ("Configuration", "Quantity", "Where", "Paper", voice.title, "Verdict", "Role")
    shown = len(columns) - voice.is_measured
    return Table(
        identifier="comparison",
        caption=f"Published and {voice.adjective} values in the paper's units, with the interval "
        f"over {voice.replications}",
        columns=columns[:shown],
        numeric=(False, False, False, True, True, False, False)[:shown],
        rows=tuple(_comparison_row(row, voice)[:shown] for row in comparisons),
    )


def _comparison_row(row: Comparison, voice: Voice) -> tuple[Cell, ...]:
    published = row.published
    text = verdict_in_words(row.verdict_text)
    if row.verdict is Verdict.NOT_SIMULATED:
        text = voice.nothing
    paper = published.value if published.value is not None else published.maximum
    verdict = Cell(
        f"{VERDICT_SIGNS[row.verdict]} {text}",
        remark="; ".join(row.warnings),
        sort=abs(row.difference) if row.difference is not None else None,
        look=VERDICT_LOOKS[row.verdict],
    )
    role = (
        Cell("\N{WHITE SQUARE}\N{NO-BREAK SPACE}used to calibrate", look="calibrated")
        if published.calibration
        else Cell("\N{BLACK DIAMOND}\N{NO-BREAK SPACE}held out", look="held-out")
    )
    return (
        Cell(published.point, look="name"),
        Cell(row.title or published.statement, remark=_remark(row), look="quantity"),
        Cell(place(published.where), look="where"),
        Cell(with_unit(published.text, published.unit), sort=paper),
        interval_cell(row.simulated),
        verdict,
        role,
    )


def _remark(row: Comparison) -> str:
    """What must be known of a published value; a change is from somewhere."""
    published = row.published
    start = f"from {published.against}" if published.judged == "direction" else ""
    return "; ".join(filter(None, (start, published.note)))


def interval_cell(interval: Interval | None) -> Cell:
    """A mean with its interval below it; empty where there is none."""
    if interval is None:
        return Cell("")
    value, _, bounds = typographic(str(interval)).partition(" ")
    return Cell(value, remark=bounds, sort=interval.value)


def means_table(study: Study, observations: pl.DataFrame) -> Table:
    """Every configuration of the run with its main results: means and intervals."""
    voice = voice_of(study)
    columns: dict[str, Callable[[str], Cell]] = {}
    gains = {
        point.name: gain
        for point in study.points
        if (gain := means.gain_percent(observations, point, MEASURES[0].column)) is not None
    }
    for measure in MEASURES:
        scaled = partial(operator.mul, measure.scale)
        intervals = {
            name: interval.map(scaled).within(-math.inf, measure.most)
            for name, interval in means.per_point(observations, measure.column).items()
        }
        if intervals:
            columns[measure.title] = _cells(intervals)
        if measure is MEASURES[0] and gains:
            columns[GAIN_TITLE] = lambda name: _gain_cell(gains.get(name))
    for title, event in LAYER_SUMS:
        names = [name for layer, name in means.layer_columns(observations, event).items()
                 if layer != "idle"]  # fmt: skip
        intervals = means.per_point_sum(observations, names)
        if intervals:
            columns[title] = _cells(intervals)
    return Table(
        identifier="means",
        caption=f"Every configuration: means over {voice.replications}, with intervals",
        columns=("Configuration", voice.replications.capitalize(), *columns),
        numeric=(False, *[True] * (1 + len(columns))),
        rows=_means_rows(study, observations, columns),
    )


def _means_rows(
    study: Study, observations: pl.DataFrame, columns: Mapping[str, Callable[[str], Cell]]
) -> tuple[tuple[Cell, ...], ...]:
    runs = dict(observations["point"].value_counts().iter_rows()) if observations.height else {}
    return tuple(
        (
            Cell(point.name, look="name"),
            Cell(str(runs.get(point.name, 0)), sort=float(runs.get(point.name, 0))),
            *(cell(point.name) for cell in columns.values()),
        )
        for point in study.points
    )


def _cells(intervals: Mapping[str, Interval]) -> Callable[[str], Cell]:
    return lambda name: interval_cell(intervals.get(name))


def _gain_cell(gain: Interval | None) -> Cell:
    if gain is None:
        return Cell("")
    value, bounds = signed_interval(gain, "")
    return Cell(value, remark=bounds, sort=gain.value)


def raw_table(observations: pl.DataFrame, voice: Voice = SIMULATED) -> Table:
    """One row per run: every column, or the first ones where that were too many cells."""
    shown = observations.columns
    fitting = MOST_RAW_CELLS // max(1, observations.height)
    caption = (
        f"Every run: one row per configuration and {voice.replication}, values to six significant "
        "digits"
    )
    if len(shown) > fitting:
        shown = shown[: max(3, fitting)]
        caption += (
            f" ({len(shown)} of {observations.width} columns; the file's JSON holds the others)"
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
    """The machine and the versions of a run, nested names joined by dots; `unknown` for none."""
    leaves = _leaves(environment) or [("machine and versions", "unknown")]
    return Table(
        identifier="environment",
        caption="Where this ran",
        columns=("Item", "Value"),
        numeric=(False, False),
        rows=tuple((Cell(name), Cell(text)) for name, text in leaves),
    )


def _leaves(content: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in content.items():
        if isinstance(value, Mapping):
            found += _leaves(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            found.append((f"{prefix}{name}", "; ".join(str(item) for item in value) or "none"))
        elif value is not None and not (isinstance(value, float) and math.isnan(value)):
            found.append((f"{prefix}{name}", str(value)))
    return found
