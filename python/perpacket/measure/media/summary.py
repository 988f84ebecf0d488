"""The answers of the programs of one run of a media server as one observation.

The server's own counts are differences between two reports of it, at the edges of the window; what
clients saw is of their whole time after the warm-up, which holds the window. Page faults and
context switches are the server process's own. Cache misses are there only where a PMU counted them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket.measure.media.plan import MediaPlan
from perpacket.measure.media.programs import MIB
from perpacket.measure.programs import Answer
from perpacket.measure.web.summary import OTHERS_MOST, number, numbers, worst
from perpacket.study.doubts import CLIENT_IDLE_LEAST

MISSES = "llc_misses_per_packet"
"""What the profiler counts of the caches, by layer."""

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
"""Rates of the server: name in an observation, and where the server's report counts it."""

WORST_OF = ("lateness_us", "start_up_ms")
MEAN_OF = ("jitter_us", "mean_gap_difference_us")
"""Of several processes of clients: quantiles cannot be averaged, means over streams can."""

SUMS = ("clients", "played", "timed_out", "failed", "packets", "lost", "reordered", "duplicates")


@dataclass(frozen=True, slots=True)
class MediaReports:
    """The reports of the programs of one run, and how idle the processors were."""

    before: Answer
    after: Answer
    """The server's reports at the edges of the window."""
    profile: Answer
    loads: Sequence[Answer]
    server_idle: float
    client_idle: float
    threads: tuple[int, int]
    """Of the server, before it had a client and at the end of the window."""
    read_delay_ms: int
    memory_limit_bytes: int | None

    def raw(self) -> dict[str, object]:
        """The answers whole but for the single streams, by the names of their files."""
        brief = [{name: load[name] for name in load if name != "streams"} for load in self.loads]
        server = {"before": self.before, "after": self.after}
        return {"profile": self.profile, "load": brief, "server": server}


def summarize(plan: MediaPlan, answers: MediaReports) -> dict[str, object]:
    """The observation; raises `RunFailed` when an answer lacks a required value."""
    clients = _clients(answers.loads)
    result: dict[str, object] = {
        **clients,
        **_server(answers),
        "server_idle": answers.server_idle,
        "client_idle": answers.client_idle,
        "read_delay_ms": answers.read_delay_ms,
        "media_mib": plan.media_bytes / MIB,
        "memory_limit_mib": (
            None if answers.memory_limit_bytes is None else answers.memory_limit_bytes / MIB
        ),
        "layers": numbers(answers.profile.get("layers")),
        **_misses(answers.profile),
        "backend": answers.profile.get("backend"),
        "samples": answers.profile.get("samples"),
    }
    return result | {"doubts": _doubts(answers, clients)}


def _clients(loads: Sequence[Answer]) -> dict[str, object]:
    """What all clients saw."""
    total: dict[str, float] = {
        name: sum(number(load.get(name, 0)) for load in loads) for name in SUMS
    }
    refused = sum(
        number(count) for load in loads for count in numbers(load.get("refused")).values()
    )
    played = total["played"]
    came = total["packets"] + total["lost"]
    found: dict[str, object] = {
        **total,
        "refused": refused,
        "not_playing_share": 1 - played / total["clients"] if total["clients"] else 0.0,
        "throughput_mbps": sum(number(load.get("throughput_bps", 0)) for load in loads) / 1e6,
        "loss_share": total["lost"] / came if came else 0.0,
        "content_errors": sum(number(load.get("content_errors", 0)) for load in loads),
        "client_cpu_s": sum(number(load.get("cpu_s", 0)) for load in loads),
    }
    for name in WORST_OF:
        found[name] = worst([load.get(name) for load in loads])
    for name in MEAN_OF:
        found[name] = _mean([(numbers(load.get(name)), load) for load in loads], played)
    return found


def _mean(spreads: Sequence[tuple[Mapping[str, object], Answer]], played: float) -> object:
    """The mean over all streams; None where none played."""
    if not played:
        return None
    # Clients of which none played have no mean.
    playing = [(one, number(load.get("played", 0))) for one, load in spreads]
    total = sum(number(one.get("mean")) * streams for one, streams in playing if streams)
    return {"mean": total / played}


def _server(answers: MediaReports) -> dict[str, object]:
    """What the server did a second of the window, and what a packet took of its processor."""
    window_s = _difference(answers, ("uptime_s",))
    if window_s <= 0:
        raise RunFailed("no time passed between two reports of the server")
    rates = {name: _difference(answers, path) / window_s for name, path in COUNTS.items()}
    cpu_s = _difference(answers, ("cpu_s",))
    packets = rates["packets_per_s"] * window_s
    threads = answers.threads[1] - answers.threads[0]
    playing = number(answers.after.get("playing", 0))
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


def _difference(answers: MediaReports, path: Sequence[str]) -> float:
    """How much a count of the server grew over the window."""
    found = []
    for report in (answers.before, answers.after):
        value: object = report
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        found.append(number(value))
    return found[1] - found[0]


def _misses(profile: Answer) -> dict[str, object]:
    """Last-level misses of all layers; nothing where no PMU counted them."""
    layers, packets = profile.get("layers"), numbers(profile.get("packets"))
    costs = layers.values() if isinstance(layers, Mapping) else ()
    found = [cost.get(MISSES) for cost in costs if isinstance(cost, Mapping)]
    counted = [number(value) for value in found if value is not None]
    if not counted:
        return {}
    frames = sum(number(packets.get(way, 0)) for way in ("sent", "received"))
    window_s = number(profile.get("window_s", 0))
    misses = sum(counted)
    return {
        "cache_misses_per_packet": misses,
        "cache_misses_per_s": misses * frames / window_s if window_s else None,
    }


def _doubts(answers: MediaReports, clients: Mapping[str, object]) -> dict[str, bool]:
    """What casts doubt on the run, each as a flag."""
    others = numbers(numbers(answers.profile.get("categories")).get("other_programs"))
    return {
        "client_limited": answers.client_idle < CLIENT_IDLE_LEAST,
        "content_wrong": number(clients["content_errors"]) > 0,
        "samples_lost": number(answers.profile.get("lost", 0)) > 0,
        "others_ran": number(others.get("share", 0)) > OTHERS_MOST,
    }
