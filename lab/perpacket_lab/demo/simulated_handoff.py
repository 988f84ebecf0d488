"""Six simulated configurations of connection handoff, which show the effect of its policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perpacket.analysis.statistics import Interval
from perpacket_lab.analysis.analysis import Analysis, analyze
from perpacket_lab.analysis.published_rows import estimate
from perpacket_lab.run import start
from perpacket_lab.run.progress import ProgressFunction
from perpacket_lab.run.threads import ThreadExecutor
from perpacket_lab.study import library
from perpacket_lab.study.published import Published
from perpacket_lab.study.quantities import QUANTITIES
from perpacket_lab.study.study import Study

POLICIES = {
    "W-0-N-N-FCFS-400": "no handoff",
    "W-1024-N-N-FCFS-400": "naive handoff",
    "W-1024-P-N-FCFS-400": "host packets first",
    "W-4096-P-N-FCFS-400": "too many connections",
    "W-4096-P-L-FCFS-400": "load control",
    "W-4096-P-L-FCFS-800": "a NIC twice as fast",
}
"""The configurations in the order of the table, each with its policy in words."""

COLUMNS = (
    "gain_request_rate",
    "request_rate",
    "host_idle",
    "nic_idle",
    "packet_delay_receive_median",
)
"""The quantities of the demo's table."""

SEEDS = (1, 2, 3, 4, 5)

TIMELINE = "W-4096-P-L-FCFS-400"
"""The configuration with a chart of its state over time."""


@dataclass(frozen=True, slots=True)
class HandoffCell:
    """One quantity of one configuration: the published and the simulated value."""

    quantity: str
    unit: str
    published: float | None
    simulated: Interval | None
    calibration: bool


@dataclass(frozen=True, slots=True)
class SimulatedHandoff:
    """The simulated configurations, each with a row of cells, in the order of the table."""

    analysis: Analysis
    rows: dict[str, tuple[HandoffCell, ...]]
    notes: tuple[str, ...]


def study() -> Study:
    """The demo as a study: some points of osdi06 and their published figures."""
    whole = library.find("osdi06")
    points = tuple(replace(whole.point(name), timeline=name == TIMELINE) for name in POLICIES)
    return replace(
        whole,
        name="handoff",
        title="The gain of connection handoff, and the effect of its policies",
        points=points,
        seeds=SEEDS,
        published=tuple(
            row
            for row in whole.published
            if row.point in POLICIES and (row.against is None or row.against in POLICIES)
        ),
        figures=tuple(
            figure for figure in whole.figures if figure.kind in ("paper-beside", "timeline")
        ),
        command="perpacket demo",
        definition="",
    )


def run(
    path: Path,
    overrides: Sequence[tuple[str, str]] = (),
    workers: int | None = None,
    on_progress: ProgressFunction | None = None,
) -> SimulatedHandoff:
    """Simulate the configurations into the new directory `path`.

    Raises what `perpacket_lab.run.start.run` raises.
    """
    demo = study()
    directory = start.run(
        demo,
        path,
        overrides=tuple(overrides),
        executor=ThreadExecutor(workers),
        on_progress=on_progress,
    )
    analysis = analyze(demo, directory)
    return SimulatedHandoff(analysis, table(analysis), tuple(notes(analysis)))


def table(analysis: Analysis) -> dict[str, tuple[HandoffCell, ...]]:
    """The demo's table: every quantity of every configuration, published or not."""
    return {
        name: tuple(cell(name, quantity, analysis) for quantity in COLUMNS) for name in POLICIES
    }


def cell(point: str, quantity: str, analysis: Analysis) -> HandoffCell:
    """One cell. Gains are relative to the first configuration, which has no gain."""
    chosen = QUANTITIES[quantity]
    baseline = next(iter(POLICIES))
    simulated = None
    if not (chosen.paired and point == baseline):
        simulated, _ = estimate(analysis.estimates, chosen, point, baseline)
    figures = [row.reference for row in analysis.comparisons]
    for stated in figures:
        if stated.point == point and stated.against in (None, baseline):
            value = stated_as(stated, quantity)
            if value is not None:
                return HandoffCell(quantity, chosen.unit, value, simulated, stated.calibration)
    rates = {row.point: row for row in figures if row.quantity == "request_rate"}
    if quantity == "gain_request_rate" and point in rates and point != baseline:
        return gain_of_rates(rates[point], rates[baseline], simulated)
    return HandoffCell(quantity, chosen.unit, None, simulated, False)


def gain_of_rates(own: Published, base: Published, simulated: Interval | None) -> HandoffCell:
    """The gain from two published rates, to a tenth, for configurations without a printed gain."""
    gain = None
    if own.value is not None and base.value:
        gain = round(100 * (own.value / base.value - 1), 1)
    return HandoffCell(
        "gain_request_rate", "%", gain, simulated, own.calibration and base.calibration
    )


def stated_as(stated: Published, quantity: str) -> float | None:
    """A published value as `quantity`; a published loss is a negative gain."""
    if stated.value is None:
        return None
    if stated.quantity == quantity:
        return stated.value
    if (stated.quantity, quantity) == ("loss", "gain_request_rate"):
        return -stated.value
    return None


def notes(analysis: Analysis) -> list[str]:
    """Doubts about the run's numbers."""
    warnings = {
        f"{row.configuration}, {row.quantity.lower()}: {warning}"
        for row in analysis.comparisons
        for warning in row.warnings
    }
    return [*analysis.rankings, *sorted(warnings)]
