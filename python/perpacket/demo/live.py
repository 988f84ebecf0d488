"""The machine at hand, measured: our web server at three numbers of connections, over loopback.

Needs no root. Where the kernel lets nobody profile it, the kernel's own accounts stand in, which
know user, kernel and interrupt time and no layers; that is said beside the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perpacket import machine
from perpacket.analysis.statistics import Interval, mean
from perpacket.errors import MachineLacks, PerpacketError
from perpacket.measure.web.runner import WebRunner
from perpacket.run import start
from perpacket.run.directory import RunDirectory
from perpacket.run.simulated_runs import ProgressFunction
from perpacket.study.figure import Figure
from perpacket.study.point import Level, Point
from perpacket.study.study import Study

CONNECTIONS = (4, 32, 256)
FILE_BYTES = 10_240
SEEDS = (1, 2, 3)
DURATION_S = 2.0
WARMUP_S = 0.5

PROFILING = "perf_cpu_wide"
"""The capability without which there are no layers."""

COARSE = "accounts"
"""What stands in for it."""

COLUMNS = ("requests_per_s", "latency_us.service.p99", "server_idle")
LAYERS = ("user", "syscall", "socket", "tcp", "ip", "ethernet", "driver", "interrupt", "scheduler")


@dataclass(frozen=True, slots=True)
class Live:
    """What was measured: for each number of connections, each quantity over the repetitions.

    Without a `directory` nothing could be measured, and `notes` says why.
    """

    study: Study
    directory: RunDirectory | None
    rows: Mapping[int, Mapping[str, Interval]]
    """By connections; quantities are those of `COLUMNS`, and `ns.LAYER` per packet."""
    notes: tuple[str, ...]


def study(events: str = "best") -> Study:
    """Three points of a web server, as a study."""
    runner = WebRunner()
    return Study(
        name="live",
        title="What a packet costs this machine",
        question="A 10 KB file from `perpacket serve web` over loopback, to kept-alive connections "
        "that ask as fast as they are answered: what does each layer cost?",
        points=tuple(point(connections, events) for connections in CONNECTIONS),
        seeds=SEEDS,
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
    """Measure into the new directory `path`; what keeps it from measuring is a note, no error."""
    chosen = study()
    try:
        events, notes = what_can_profile()
        chosen = study(events)
        directory = start.run(chosen, path, on_progress=on_progress)
    except (MachineLacks, OSError) as error:
        return Live(chosen, None, {}, (f"nothing was measured: {error}", *hint_of(error)))
    rows = rows_of(directory)
    if not rows:
        reasons = [failure.reason for failure in directory.failures()]
        return Live(chosen, None, {}, (f"nothing was measured: {reasons[0]}",))
    return Live(chosen, directory, rows, notes)


def what_can_profile() -> tuple[str, tuple[str, ...]]:
    """The profile's events here, and what must be said about it."""
    found = {item.name: item for item in machine.of_the_kernel()}
    profiling = found.get(PROFILING)
    if profiling is None or profiling.available:
        return "best", ()
    return COARSE, (
        f"no layers: {profiling.detail}; user, kernel and interrupt time stand in",
        *((profiling.next_step,) if profiling.next_step else ()),
    )


def hint_of(error: Exception) -> tuple[str, ...]:
    """What to do about an error, where it says so."""
    return (error.hint,) if isinstance(error, PerpacketError) and error.hint else ()


def rows_of(directory: RunDirectory) -> dict[int, dict[str, Interval]]:
    """Means over the repetitions."""
    frame = directory.observations()
    rows: dict[int, dict[str, Interval]] = {}
    for connections in CONNECTIONS:
        own = [row for row in frame.to_dicts() if row.get("connections") == connections]
        if not own:
            continue
        quantities = {name: [row.get(name) for row in own] for name in COLUMNS}
        for layer in LAYERS:
            column = f"layers.{layer}.cpu_ns_per_packet"
            quantities[f"ns.{layer}"] = [row.get(column) for row in own]
        counted = {
            name: [value for value in values if isinstance(value, int | float)]
            for name, values in quantities.items()
        }
        rows[connections] = {
            name: mean(values) for name, values in counted.items() if len(values) == len(own)
        }
    return rows
