"""Measures `perpacket serve web` on this machine at three numbers of connections, over loopback.

This needs no root. If the kernel forbids profiles, the demo reports user, kernel and interrupt
time from the kernel's accounts instead of layers, and a note reports the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from perpacket import machine
from perpacket.analysis.statistics import Interval, format_number
from perpacket.errors import MachineLacks, PerpacketError
from perpacket_lab.analysis.analysis import Analysis, analyze
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.run import start
from perpacket_lab.run.progress import ProgressFunction
from perpacket_lab.study import load
from perpacket_lab.study.point import Point
from perpacket_lab.study.study import Study

COMMAND = "perpacket demo"

FILE_BYTES = 10_240
"""The size of the file in `live.toml`."""

PROFILING = "perf_cpu_wide"
"""The capability that layers need."""

COARSE = "accounts"
"""The events that every process may read."""

COLUMNS = ("requests_per_s", "latency_us.service.p99", "server_idle")
COST = "cpu_ns_per_packet"
TITLES = {"user": "the server's own code", "tcp": "TCP", "ip": "IP", "ethernet": "Ethernet"}
"""The layers whose names in a sentence differ from those of their columns."""
MOST = 0.5
"""A layer with a larger share has most of the cost."""
LAYERS = ("user", "syscall", "socket", "tcp", "ip", "ethernet", "driver", "interrupt", "scheduler")


@dataclass(frozen=True, slots=True)
class Live:
    """The measured quantities by number of connections.

    Without an `analysis` there was no measurement, and `notes` has the reason.
    """

    analysis: Analysis | None
    rows: Mapping[int, Mapping[str, Interval]]
    """By number of connections: the quantities of `COLUMNS`, and `ns.LAYER` per packet."""
    notes: tuple[str, ...]

    @property
    def has_layers(self) -> bool:
        """Whether the machine was profiled, which advice needs."""
        return any(any(name.startswith("ns.") for name in row) for row in self.rows.values())


def study() -> Study:
    """Three points of a web server, as a study."""
    return replace(load.load(Path(__file__).with_suffix(".toml")), summary=(), command=COMMAND)


def run(path: Path, on_progress: ProgressFunction | None) -> Live:
    """Measure into the new directory `path`; without a measurement, a note has the reason."""
    try:
        events, notes = usable_events()
        chosen = study()
        named = (("profile.events", events),)
        directory = start.run(chosen, path, overrides=named, on_progress=on_progress)
    except (MachineLacks, OSError) as error:
        return Live(None, {}, (f"no measurement: {error}", *hint_of(error)))
    analysis = analyze(chosen, directory)
    rows = rows_of(analysis)
    if not rows:
        return Live(None, {}, (f"no measurement: {analysis.run.failures[0].reason}",))
    lead = cost_sentence(analysis.estimates, chosen.points[-1])
    analysis = replace(analysis, findings=replace(analysis.findings, lead=lead))
    return Live(analysis, rows, notes)


def cost_sentence(estimates: Estimates, point: Point) -> str:
    """The cost of a packet at a point and the layer with most of it; empty without a cost."""
    layers = estimates.layers(COST)
    total = estimates.layer_sum(point.name, layers, COST)
    means = {layer: estimates.layer_sum(point.name, [layer], COST) for layer in layers}
    costs = {layer: mean.value for layer, mean in means.items() if mean is not None}
    if total is None or not total.value > 0:
        return ""
    largest = max(costs, key=lambda layer: costs[layer])
    share = costs[largest] / total.value
    part = "most" if share > MOST else "the largest part"
    return (
        f"A packet costs {format_number(total.value, 0)} ns of processor time at "
        f"{point.factors['connections']} connections, "
        f"{part} of it {TITLES.get(largest, largest)} ({100 * share:.0f} %)."
    )


def usable_events() -> tuple[str, tuple[str, ...]]:
    """The events of the profile on this machine, and notes on missing rights."""
    capabilities = {item.name: item for item in machine.of_the_kernel()}
    profiling = capabilities.get(PROFILING)
    if profiling is None or profiling.available:
        return "best", ()
    return COARSE, (
        f"no layers: {profiling.detail}; user, kernel and interrupt time instead",
        *((profiling.next_step,) if profiling.next_step else ()),
    )


def hint_of(error: Exception) -> tuple[str, ...]:
    """The hint of an error, if it has one."""
    return (error.hint,) if isinstance(error, PerpacketError) and error.hint else ()


def rows_of(analysis: Analysis) -> dict[int, dict[str, Interval]]:
    """The mean of each quantity that all windows of a point have."""
    names = {name: name for name in COLUMNS}
    names |= {f"ns.{layer}": f"layers.{layer}.{COST}" for layer in LAYERS}
    rows: dict[int, dict[str, Interval]] = {}
    for each in analysis.study.points:
        windows = analysis.estimates.runs(each.name)
        means = {name: analysis.estimates.mean(each.name, key) for name, key in names.items()}
        row = {
            name: interval
            for name, interval in means.items()
            if interval is not None and interval.n == windows
        }
        if row:
            rows[int(each.factors["connections"])] = row
    return rows
