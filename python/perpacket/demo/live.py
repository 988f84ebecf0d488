"""Measure this machine: our web server at three numbers of connections, over loopback.

This needs no root. Where the kernel forbids profiling, the kernel's own accounts replace the
profile: user, kernel and interrupt time, and no layers. A note reports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perpacket import machine
from perpacket.analysis.analysis import Analysis, analyze
from perpacket.analysis.statistics import Interval
from perpacket.errors import MachineLacks, PerpacketError
from perpacket.measure.web.runner import WebRunner
from perpacket.run import start
from perpacket.run.simulated_runs import ProgressFunction
from perpacket.study.figure import Figure
from perpacket.study.point import Level, Point
from perpacket.study.study import Study

CONNECTIONS = (4, 32, 256)
FILE_BYTES = 10_240
BLOCKS = tuple(range(1, 13))
DURATION_S = 0.4
WARMUP_S = 0.1
"""Twelve short windows a point, in random order within blocks. They take as long as three windows
of two seconds, and what disturbs the machine for a second disturbs one of twelve, not one of
three."""

PROFILING = "perf_cpu_wide"
"""The capability without which there are no layers."""

COARSE = "accounts"
"""The events that need no such right."""

COLUMNS = ("requests_per_s", "latency_us.service.p99", "server_idle")
LAYERS = ("user", "syscall", "socket", "tcp", "ip", "ethernet", "driver", "interrupt", "scheduler")


@dataclass(frozen=True, slots=True)
class Live:
    """The measured quantities by number of connections.

    Without an `analysis` nothing could be measured, and `notes` has the reason.
    """

    analysis: Analysis | None
    rows: Mapping[int, Mapping[str, Interval]]
    """By connections: the quantities of `COLUMNS`, and `ns.LAYER` per packet."""
    notes: tuple[str, ...]

    @property
    def has_layers(self) -> bool:
        """Whether the machine was profiled, which advice needs."""
        return any(any(name.startswith("ns.") for name in row) for row in self.rows.values())


def study(events: str = "best") -> Study:
    """Three points of a web server, as a study."""
    runner = WebRunner()
    return Study(
        name="live",
        title="What a packet costs this machine",
        question="A 10 KB file from `perpacket serve web` over loopback, to kept-alive connections "
        "that ask as fast as they are answered: what does each layer cost?",
        points=tuple(point(connections, events) for connections in CONNECTIONS),
        seeds=BLOCKS,
        runner=runner,
        measured_runner=runner,
        figures=figures(),
        limits=(
            "Loopback has no driver, no wire and no interrupts of a network card.",
            "Packets over loopback are as large as segmentation offload makes them.",
        ),
        command="perpacket demo",
    )


def point(connections: int, events: str) -> Point:
    """One number of connections."""
    factors: dict[str, Level] = {"connections": connections}
    parameters = {
        "load.kind": "file",
        "load.size_bytes": FILE_BYTES,
        "load.connections": connections,
        "testbed.kind": "loopback",
        "profile.events": events,
        "run.duration_s": DURATION_S,
        "run.warmup_s": WARMUP_S,
    }
    overrides = tuple((name, str(value)) for name, value in parameters.items())
    return Point(f"web-{connections}c", "file", factors, overrides)


def figures() -> tuple[Figure, ...]:
    """What the report draws of it."""
    return (
        Figure(
            "stacked-layers",
            "Cost of a packet by layer",
            "connections",
            "cpu_ns_per_packet",
            x_title="connections",
            y_title="processor time per packet (ns)",
        ),
        Figure(
            "curve",
            "Requests a second",
            "connections",
            "requests_per_s",
            x_title="connections",
            y_title="requests/s",
        ),
        Figure(
            "curve",
            "Time to a response",
            "connections",
            "latency_us.response.p50,latency_us.response.p99",
            x_title="connections",
            y_title="time to a response (µs)",
        ),
        Figure(
            "laws",
            "What offload could gain here at most",
            "",
            "share",
            caption="By LAWS, which takes a NIC that never limits and a hand-over that costs "
            "nothing. Over loopback the network's share holds the receiver's work too.",
        ),
    )


def run(path: Path, on_progress: ProgressFunction | None) -> Live:
    """Measure into the new directory `path`; a machine that cannot be measured is a note."""
    try:
        events, notes = what_can_profile()
        chosen = study(events)
        directory = start.run(chosen, path, on_progress=on_progress)
    except (MachineLacks, OSError) as error:
        return Live(None, {}, (f"nothing was measured: {error}", *hint_of(error)))
    analysis = analyze(chosen, directory)
    rows = rows_of(analysis)
    if not rows:
        return Live(None, {}, (f"nothing was measured: {analysis.run.failures[0].reason}",))
    return Live(analysis, rows, notes)


def what_can_profile() -> tuple[str, tuple[str, ...]]:
    """The events that this machine lets us profile, and notes on what it forbids."""
    found = {item.name: item for item in machine.of_the_kernel()}
    profiling = found.get(PROFILING)
    if profiling is None or profiling.available:
        return "best", ()
    return COARSE, (
        f"no layers: {profiling.detail}; user, kernel and interrupt time instead",
        *((profiling.next_step,) if profiling.next_step else ()),
    )


def hint_of(error: Exception) -> tuple[str, ...]:
    """The hint of an error, where it has one."""
    return (error.hint,) if isinstance(error, PerpacketError) and error.hint else ()


def rows_of(analysis: Analysis) -> dict[int, dict[str, Interval]]:
    """The mean of each quantity that all windows of a point have."""
    names = {name: name for name in COLUMNS}
    names |= {f"ns.{layer}": f"layers.{layer}.cpu_ns_per_packet" for layer in LAYERS}
    rows: dict[int, dict[str, Interval]] = {}
    for each in analysis.study.points:
        windows = analysis.estimates.runs(each.name)
        found = {name: analysis.estimates.mean(each.name, key) for name, key in names.items()}
        row = {
            name: interval
            for name, interval in found.items()
            if interval is not None and interval.n == windows
        }
        if row:
            rows[int(each.factors["connections"])] = row
    return rows
