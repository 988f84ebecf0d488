"""The reports of the programs of one run as one observation.

The values that reports tabulate have the same names as in simulated results. The groups of the
profile have their own names.

A layer's time is per packet and per segment. A packet is a frame at the server's interfaces. With
segmentation offload, and always on virtual interfaces, one frame carries many segments, and more
when the sender is faster. A segment is what the stack counts (OutSegs and InSegs of RFC 4022): one
packet on the wire of a machine without offloads. Comparisons between loads and with papers use
segments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket_lab.measure.programs import Answer
from perpacket_lab.measure.summary import (
    RATE_KEPT_LEAST,
    cache_misses,
    closure_doubt,
    frames,
    number,
    numbers,
    of_profile,
    profile_doubts,
    sum_of,
    timed_layers,
    worst,
)
from perpacket_lab.measure.web.web_plan import WebPlan

ERRORS_MOST = 0.01
"""In SPECweb99 a connection conforms if it has under 1 % errors. A run with more is not SPECweb99's
workload."""

WRONG_MOST = 0.001
"""A run of an application fails if a larger share of its answers is wrong."""

RATES = ("requests_per_s", "content_mbps", "goodput_bps")


@dataclass(frozen=True, slots=True)
class RunReports:
    """The reports of the programs of one run, and the idle shares of the processors."""

    profile: Answer
    loads: Sequence[Answer]
    server: Answer | None
    network: Mapping[str, object] | None
    server_idle: float
    client_idle: float
    server_process: Mapping[str, object] | None = None
    """The kernel's counts of the server's processes; `None` if it has none."""

    def raw(self) -> dict[str, object]:
        """The complete reports; the keys become parts of file names."""
        reports: dict[str, object] = {"profile": self.profile, "load": list(self.loads)}
        if self.server is not None:
            reports["server"] = self.server
        if self.network is not None:
            reports["network"] = self.network
        return reports


def summarize(plan: WebPlan, reports: RunReports) -> dict[str, object]:
    """The observation; raises `RunFailed` when a report lacks a required value."""
    profile = reports.profile
    result: dict[str, object] = of_profile(profile)
    window_s, packets = number(result["window_s"]), frames(profile)
    if not window_s or not packets:
        raise RunFailed(
            "no packet crossed the server's interfaces during the profile: the load did not reach "
            "the server, or used interfaces that are not counted"
        )
    segments = _segments(profile)
    rates = _rates(plan, reports.loads)
    wrong = number(rates.get("error_share", 0))
    if plan.application and wrong > WRONG_MOST:
        raise RunFailed(f"{plan.application}: {100 * wrong:.2g} % of the answers are wrong")
    result |= {
        **rates,
        "packets": numbers(profile.get("packets")),
        "packets_per_s": packets / window_s,
        "segments_per_s": segments / window_s,
        "segments_per_packet": segments / packets,
        "profiled_requests": profile.get("requests"),
        "server_idle": reports.server_idle,
        "client_idle": reports.client_idle,
        "layers": timed_layers(profile, "segment", segments),
        "skid_share": profile.get("skid_share"),
        "network": numbers(reports.network or {}),
        "server_process": reports.server_process,
        **cache_misses(profile),
    }
    result["server_cpu_us_per_request"] = _cpu_us_per_request(result)
    return result | {"doubts": _doubts(plan, reports, result)}


def _rates(plan: WebPlan, loads: Sequence[Answer]) -> dict[str, object]:
    """The results of the clients, or of the sender, over all of them."""
    rates: dict[str, object] = {}
    for name in RATES:
        values = [number(load[name]) for load in loads if load.get(name) is not None]
        if values:
            rates[name] = sum(values)
    if "goodput_bps" in rates:
        rates["goodput_mbps"] = number(rates.pop("goodput_bps")) / 1e6
    rates["client_cpu_s"] = sum(
        number(load.get("client_cpu_s", load.get("cpu_s", 0))) for load in loads
    )
    if plan.is_web:
        requests = sum_of(loads, "requests")
        errors = sum(sum(map(number, numbers(load.get("errors")).values())) for load in loads)
        rates["error_share"] = errors / (requests + errors) if requests + errors else 0.0
        rates["connections_per_s"] = sum(
            number(load["connections_opened"]) / number(load["duration_s"])
            for load in loads
            if load.get("connections_opened") is not None and load.get("duration_s")
        )
        rates["latency_us"] = worst([load.get("latency_us") for load in loads])
        conforming = [load["conforming"] for load in loads if load.get("conforming") is not None]
        if conforming and plan.kind == "specweb99":
            rates["conforming"] = sum(number(value) for value in conforming)
    else:
        for name in ("segments", "retransmissions"):
            rates[name] = sum_of(loads, name)
        rates["rtt_us"] = worst([load.get("rtt_us") for load in loads])
    return rates


def _cpu_us_per_request(result: Mapping[str, object]) -> float | None:
    """Processor time of the server's processes per request; `None` if either is unknown."""
    process, rate = result.get("server_process"), result.get("requests_per_s")
    if not isinstance(process, Mapping) or not rate:
        return None
    return 1e6 * number(process["processors_busy"]) / number(rate)


def _segments(profile: Answer) -> float:
    """TCP segments sent and received in the window; frames if the profile has no such count."""
    packets = numbers(profile.get("packets"))
    ways = ("segments_sent", "segments_received")
    return sum(number(packets.get(way, 0)) for way in ways) or frames(profile)


def _doubts(plan: WebPlan, reports: RunReports, result: Mapping[str, object]) -> dict[str, bool]:
    """The doubts of the run."""
    rate_kept = True
    if plan.rate_mbps and not plan.is_web:
        rate_kept = number(result.get("goodput_mbps", 0)) >= RATE_KEPT_LEAST * plan.rate_mbps
    profile = reports.profile
    return {
        **profile_doubts(profile, reports.client_idle, "categories", "other_programs"),
        "rate_missed": not rate_kept,
        "many_errors": number(result.get("error_share", 0)) > ERRORS_MOST,
        "not_conforming": number(result.get("conforming", plan.connections)) < plan.connections,
        "network_late": (reports.network or {}).get("kept") is False,
        **closure_doubt(profile),
    }
