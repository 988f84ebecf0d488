"""Handing connections to the NIC, simulated: six configurations that tell what policies are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perpacket.analysis.analysis import Analysis, analyze
from perpacket.analysis.published_rows import estimate
from perpacket.analysis.statistics import Interval
from perpacket.run import start
from perpacket.run.simulated_runs import ProgressFunction
from perpacket.study import library
from perpacket.study.published import Published
from perpacket.study.quantities import QUANTITIES
from perpacket.study.study import Study

STORY = {
    "W-0-N-N-FCFS-400": "no handoff",
    "W-1024-N-N-FCFS-400": "naive handoff",
    "W-1024-P-N-FCFS-400": "host packets first",
    "W-4096-P-N-FCFS-400": "too many connections",
    "W-4096-P-L-FCFS-400": "load control",
    "W-4096-P-L-FCFS-800": "a NIC twice as fast",
}
"""The configurations in the order of the story, and what each stands for."""

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
"""The configuration whose state over time is drawn."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One quantity of one configuration: what the paper says of it, and what was simulated."""

    quantity: str
    unit: str
    published: float | None
    simulated: Interval | None
    calibration: bool


@dataclass(frozen=True, slots=True)
class Story:
    """What was simulated: a row of cells for each configuration, in the order of the story."""

    analysis: Analysis
    rows: dict[str, tuple[Cell, ...]]
    notes: tuple[str, ...]


def study() -> Study:
    """The demo as a study: the story's points of osdi06 and the figures published of them."""
    whole = library.find("osdi06")
    points = tuple(replace(whole.point(name), timeline=name == TIMELINE) for name in STORY)
    return replace(
        whole,
        name="handoff",
        title="What connection handoff gains, and what its policies are for",
        points=points,
        seeds=SEEDS,
        published=tuple(
            row
            for row in whole.published
            if row.point in STORY and (row.against is None or row.against in STORY)
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
) -> Story:
    """Simulate the story into the new directory `path`.

    Raises what `perpacket.run.start.run` raises.
    """
    demo = study()
    directory = start.run(
        demo, path, overrides=tuple(overrides), workers=workers, on_progress=on_progress
    )
    analysis = analyze(demo, directory)
    return Story(analysis, table(analysis), tuple(notes(analysis)))


def table(analysis: Analysis) -> dict[str, tuple[Cell, ...]]:
    """The demo's table: every quantity of every configuration, published or not."""
    return {name: tuple(cell(name, quantity, analysis) for quantity in COLUMNS) for name in STORY}


def cell(point: str, quantity: str, analysis: Analysis) -> Cell:
    """One cell. Gains are against the first configuration, which has none itself."""
    chosen = QUANTITIES[quantity]
    baseline = next(iter(STORY))
    simulated = None
    if not (chosen.paired and point == baseline):
        simulated, _ = estimate(analysis.estimates, chosen, point, baseline)
    figures = [row.published for row in analysis.comparisons]
    for stated in figures:
        if stated.point == point and stated.against in (None, baseline):
            value = stated_as(stated, quantity)
            if value is not None:
                return Cell(quantity, chosen.unit, value, simulated, stated.calibration)
    rates = {row.point: row for row in figures if row.quantity == "request_rate"}
    if quantity == "gain_request_rate" and point in rates and point != baseline:
        return gain_of_rates(rates[point], rates[baseline], simulated)
    return Cell(quantity, chosen.unit, None, simulated, False)


def gain_of_rates(own: Published, base: Published, simulated: Interval | None) -> Cell:
    """The gain that two published rates imply where the paper prints none, to a tenth."""
    gain = None
    if own.value is not None and base.value:
        gain = round(100 * (own.value / base.value - 1), 1)
    return Cell("gain_request_rate", "%", gain, simulated, own.calibration and base.calibration)


def stated_as(stated: Published, quantity: str) -> float | None:
    """A published value as `quantity`: the paper prints some gains as losses."""
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
        f"{row.configuration}, {row.title.lower()}: {warning}"
        for row in analysis.comparisons
        for warning in row.warnings
    }
    return [*analysis.rankings, *sorted(warnings)]
