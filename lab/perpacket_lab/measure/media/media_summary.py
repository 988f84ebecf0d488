"""The reports of the programs of one run of a media server as one observation.

The counts of `serve media` are differences between two of its reports, at both ends of the window.
Another server has only the kernel's counts of its processes, and the packets that clients received.
The clients' results are over their whole time after the warm-up, which includes the window. Page
faults and context switches are those of the server process. Cache misses are present only with a
PMU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket_lab.measure.media.media_plan import MediaPlan
from perpacket_lab.measure.media.media_programs import MIB
from perpacket_lab.measure.programs import Answer
from perpacket_lab.measure.summary import (
    cache_misses,
    number,
    numbers,
    profile_doubts,
    sum_of,
    worst,
)

COUNTS = {
    "packets_per_s": ("packets",),
    "sends_per_s": ("sends",),
    "reads_per_s": ("reads",),
    "starved_per_s": ("starved",),
    "dropped_per_s": ("dropped",),
    "minor_faults_per_s": ("page_faults", "minor"),
    "major_faults_per_s": ("page_faults", "major"),
    "voluntary_switches_per_s": ("context_switches", "voluntary"),
    "involuntary_switches_per_s": ("context_switches", "involuntary"),
}
"""Rates of the server: the name in an observation, and the path in the server's report."""

WORST_OF = ("lateness_us", "start_up_ms")
MEAN_OF = ("jitter_us", "mean_gap_difference_us")
"""How values of several client processes are combined. `WORST_OF` names values with quantiles,
which cannot be averaged: the worst is reported. `MEAN_OF` names means over streams."""

SUMS = ("clients", "played", "timed_out", "failed", "packets", "lost", "reordered", "duplicates")


@dataclass(frozen=True, slots=True)
class MediaReports:
    """The reports of the programs of one run, and the idle shares of the processors."""

    before: Answer | None
    after: Answer | None
    """The server's reports at both ends of the window; `None` for another server."""
    process: Mapping[str, object] | None
    """The kernel's counts of the server's processes over the window, for another server."""
    profile: Answer
    loads: Sequence[Answer]
    server_idle: float
    client_idle: float
    threads: tuple[int, int]
    """The server's threads before the first client and at the end of the window."""
    read_delay_ms: int
    memory_limit_bytes: int | None

    def raw(self) -> dict[str, object]:
        """The reports without the single streams; the keys become parts of file names."""
        brief = [{name: load[name] for name in load if name != "streams"} for load in self.loads]
        server = {"before": self.before, "after": self.after, "process": self.process}
        return {"profile": self.profile, "load": brief, "server": server}


def summarize(plan: MediaPlan, reports: MediaReports) -> dict[str, object]:
    """The observation; raises `RunFailed` when a report lacks a required value."""
    clients = _clients(reports.loads)
    result: dict[str, object] = {
        **clients,
        **_server(reports),
        "server_idle": reports.server_idle,
        "client_idle": reports.client_idle,
        "read_delay_ms": reports.read_delay_ms,
        "media_mib": plan.media_bytes / MIB,
        "memory_limit_mib": (
            None if reports.memory_limit_bytes is None else reports.memory_limit_bytes / MIB
        ),
        "layers": numbers(reports.profile.get("layers")),
        "categories": numbers(reports.profile.get("categories")),
        **cache_misses(reports.profile),
        "backend": reports.profile.get("backend"),
        "samples": reports.profile.get("samples"),
    }
    return result | {
        "doubts": {
            "content_wrong": number(clients["content_errors"]) > 0,
            **profile_doubts(reports.profile, reports.client_idle, "categories", "other_programs"),
        }
    }


def _clients(loads: Sequence[Answer]) -> dict[str, object]:
    """The results of all clients."""
    total = {name: sum_of(loads, name) for name in SUMS}
    refused = sum(
        number(count) for load in loads for count in numbers(load.get("refused")).values()
    )
    played = total["played"]
    expected = total["packets"] + total["lost"]
    values: dict[str, object] = {
        **total,
        "refused": refused,
        "not_playing_share": 1 - played / total["clients"] if total["clients"] else 0.0,
        "throughput_mbps": sum_of(loads, "throughput_bps") / 1e6,
        "loss_share": total["lost"] / expected if expected else 0.0,
        "content_errors": sum_of(loads, "content_errors"),
        "client_cpu_s": sum_of(loads, "cpu_s"),
    }
    for name in WORST_OF:
        values[name] = worst([load.get(name) for load in loads])
    for name in MEAN_OF:
        values[name] = _mean([(numbers(load.get(name)), load) for load in loads], played)
    return values


def _mean(spreads: Sequence[tuple[Mapping[str, object], Answer]], played: float) -> object:
    """The mean over all streams; `None` if none played."""
    if not played:
        return None
    # A process has no mean if none of its clients played.
    playing = [(spread, number(load.get("played", 0))) for spread, load in spreads]
    total = sum(number(spread.get("mean")) * streams for spread, streams in playing if streams)
    return {"mean": total / played}


def _server(reports: MediaReports) -> dict[str, object]:
    """The server's rates over the window, and its processor time per packet."""
    if reports.before is None or reports.after is None:
        return _foreign(reports)
    window_s = _difference(reports, ("uptime_s",))
    if window_s <= 0:
        raise RunFailed("no time passed between two reports of the server")
    rates = {name: _difference(reports, path) / window_s for name, path in COUNTS.items()}
    cpu_s = _difference(reports, ("cpu_s",))
    packets = rates["packets_per_s"] * window_s
    threads = reports.threads[1] - reports.threads[0]
    playing = number(reports.after.get("playing", 0))
    switches = rates["voluntary_switches_per_s"] + rates["involuntary_switches_per_s"]
    return {
        **rates,
        "server_cpu_percent": 100 * cpu_s / window_s,
        "cpu_us_per_packet": 1e6 * cpu_s / packets if packets else None,
        "page_faults_per_s": rates["minor_faults_per_s"] + rates["major_faults_per_s"],
        "context_switches_per_s": switches,
        "playing": playing,
        "threads_per_stream": threads / playing if playing else None,
        "window_s": window_s,
    }


def _foreign(reports: MediaReports) -> dict[str, object]:
    """The rates of a server without reports, from the counts of the kernel and the clients."""
    if reports.process is None:
        raise RunFailed("the kernel has no counts of the server's processes over the window")
    process = reports.process
    counted = {name: number(process[name]) for name in ("major_faults_per_s", "page_faults_per_s")}
    busy, threads = number(process["processors_busy"]), reports.threads[1] - reports.threads[0]
    packets_per_s = sum(
        number(load.get("packets", 0)) / number(load["window_s"])
        for load in reports.loads
        if load.get("window_s")
    )
    playing = sum_of(reports.loads, "played")
    return {
        **counted,
        "packets_per_s": packets_per_s,
        "server_cpu_percent": 100 * busy,
        "cpu_us_per_packet": 1e6 * busy / packets_per_s if packets_per_s else None,
        "context_switches_per_s": number(process["context_switches_per_s"]),
        "playing": playing,
        "threads_per_stream": threads / playing if playing else None,
        "window_s": number(process["window_s"]),
    }


def _difference(reports: MediaReports, path: Sequence[str]) -> float:
    """The growth of a count of the server over the window."""
    differences = []
    for report in (reports.before, reports.after):
        value: object = report
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        differences.append(number(value))
    return differences[1] - differences[0]
