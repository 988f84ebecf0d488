"""The answers of the programs of one run as one observation.

What the report tabulates stands at the top under the names that simulated results have too; the
profile's groups keep their own names below. Whatever casts doubt on the run is a flag of its own:
the report names every run that has one.

A layer's time is told per packet and per segment. A packet is a frame at the server's interfaces;
with segmentation offload, and on virtual interfaces always, one frame carries many segments, the
more the faster the sender is. A segment is what the stack counts (OutSegs and InSegs of RFC 4022):
what was one packet on the wire of a machine without offloads. What is compared over loads and with
documents is per segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket.measure.programs import Answer
from perpacket.measure.web.plan import Plan
from perpacket.study.doubts import CLIENT_IDLE_LEAST

RATE_KEPT_LEAST = 0.97
"""A rate-limited sender that delivers less than this share of its rate did not run at that rate."""

ERRORS_MOST = 0.01
"""SPECweb99 lets a connection conform with under 1 % errors; more of them are another workload."""

CLOSURE_MOST = 0.02
"""The profile's processor time and the kernel's may differ by this share, or by what the kernel's
own count can tell apart where that is more."""

OTHERS_MOST = 0.05
"""Share of the server's busy processors that may go to user code of other programs; the profiler
itself takes about 1 %."""

GROUPS = ("layers", "kinds", "regions", "categories", "modules", "host_stack")
"""The profile's ways to divide the same samples."""

RATES = ("requests_per_s", "content_mbps", "goodput_bps")


@dataclass(frozen=True, slots=True)
class RunReports:
    """The reports of the programs of one run, and how idle the processors were."""

    profile: Answer
    loads: Sequence[Answer]
    server: Answer | None
    network: Mapping[str, object] | None
    server_idle: float
    client_idle: float
    server_process: Mapping[str, object] | None = None
    """What the kernel counted of the server's processes; None where it does not count them."""

    def raw(self) -> dict[str, object]:
        """The answers whole, by the names of their files."""
        found: dict[str, object] = {"profile": self.profile, "load": list(self.loads)}
        if self.server is not None:
            found["server"] = self.server
        if self.network is not None:
            found["network"] = self.network
        return found


def summarize(plan: Plan, answers: RunReports) -> dict[str, object]:
    """The observation; raises `RunFailed` when an answer lacks a required value."""
    profile = answers.profile
    if "layers" not in profile:
        raise RunFailed("the profile has no layers: it is not the profile of this version")
    packets = _packets(profile)
    result: dict[str, object] = {
        **_rates(plan, answers.loads),
        **packets,
        "server_idle": answers.server_idle,
        "client_idle": answers.client_idle,
        **{group: numbers(profile[group]) for group in GROUPS if group in profile},
        "layers": _timed(profile),
        "backend": profile.get("backend"),
        "samples": profile.get("samples"),
        "unclaimed_share": profile.get("unclaimed_share"),
        "skid_share": profile.get("skid_share"),
        "network": numbers(answers.network or {}),
        "server_process": answers.server_process,
    }
    result["server_cpu_us_per_request"] = _cpu_us_per_request(result)
    return result | {"doubts": _doubts(plan, answers, result)}


def _rates(plan: Plan, loads: Sequence[Answer]) -> dict[str, object]:
    """What the clients, or the sender, got through, over all of them."""
    found: dict[str, object] = {}
    for name in RATES:
        values = [number(load[name]) for load in loads if load.get(name) is not None]
        if values:
            found[name] = sum(values)
    if "goodput_bps" in found:
        found["goodput_mbps"] = number(found.pop("goodput_bps")) / 1e6
    found["client_cpu_s"] = sum(
        number(load.get("client_cpu_s", load.get("cpu_s", 0))) for load in loads
    )
    if plan.is_web:
        requests = sum(number(load.get("requests", 0)) for load in loads)
        errors = sum(error_count(load) for load in loads)
        found["error_share"] = errors / (requests + errors) if requests + errors else 0.0
        found["latency_us"] = worst([load.get("latency_us") for load in loads])
        conforming = [load["conforming"] for load in loads if load.get("conforming") is not None]
        if conforming and plan.kind == "specweb99":
            found["conforming"] = sum(number(value) for value in conforming)
    else:
        for name in ("segments", "retransmissions"):
            found[name] = sum(number(load.get(name, 0)) for load in loads)
        found["rtt_us"] = worst([load.get("rtt_us") for load in loads])
    return found


def _cpu_us_per_request(result: Mapping[str, object]) -> float | None:
    """Processor time of the server's processes a request; None where either is not known."""
    process, rate = result.get("server_process"), result.get("requests_per_s")
    if not isinstance(process, Mapping) or not rate:
        return None
    return 1e6 * number(process["processors_busy"]) / number(rate)


def error_count(load: Answer) -> float:
    """Failed requests of a load, all kinds together."""
    errors = load.get("errors")
    return sum(number(count) for count in errors.values()) if isinstance(errors, Mapping) else 0.0


def worst(answers: Sequence[object]) -> dict[str, object]:
    """The greatest of each number over the clients: quantiles of several cannot be averaged."""
    found: dict[str, object] = {}
    for answer in answers:
        for name, value in numbers(answer).items():
            held = found.get(name)
            if isinstance(value, Mapping):
                found[name] = worst([held, value])
            elif isinstance(value, int | float) and not isinstance(value, bool):
                found[name] = max(value, held) if isinstance(held, int | float) else value
    return found


def _packets(profile: Answer) -> dict[str, object]:
    """Packets, segments and requests of the profile's window, with their rates."""
    window_s = number(profile.get("window_s", 0))
    packets = numbers(profile.get("packets"))
    frames = sum(number(packets.get(way, 0)) for way in ("sent", "received"))
    if not window_s or not frames:
        raise RunFailed(
            "no packet crossed the server's interfaces while it was profiled: the load did not "
            "reach it, or went past the interfaces that are counted"
        )
    segments = _segments(profile)
    return {
        "packets": packets,
        "packets_per_s": frames / window_s,
        "segments_per_s": segments / window_s,
        "segments_per_packet": segments / frames,
        "profiled_requests": profile.get("requests"),
        "window_s": window_s,
    }


def _segments(profile: Answer) -> float:
    """TCP segments sent and received in the window; the frames where none are counted."""
    packets = numbers(profile.get("packets"))
    ways = ("segments_sent", "segments_received")
    segments = sum(number(packets.get(way, 0)) for way in ways)
    return segments or sum(number(packets.get(way, 0)) for way in ("sent", "received"))


def _timed(profile: Answer) -> dict[str, object]:
    """The layers with their processor time per segment.

    Where counters were sampled there is no time: then a layer's is its share of the busy time.
    """
    busy_s = numbers(profile.get("closure")).get("stat_cpu_s")
    segments = _segments(profile)
    found: dict[str, object] = {}
    for name, cost in numbers(profile["layers"]).items():
        filled = dict(cost) if isinstance(cost, Mapping) else {}
        cpu_s = filled.get("cpu_s")
        if cpu_s is None and busy_s is not None:
            cpu_s = number(filled.get("share", 0)) * number(busy_s)
        if cpu_s is not None:
            filled["cpu_ns_per_segment"] = number(cpu_s) * 1e9 / segments
        found[name] = filled
    return found


def _share_of_others(profile: Answer) -> float:
    """The share of the busy time in user code of programs that are not the server."""
    others = numbers(numbers(profile.get("categories")).get("other_programs"))
    return number(others.get("share", 0))


def _doubts(plan: Plan, answers: RunReports, result: Mapping[str, object]) -> dict[str, bool]:
    """What casts doubt on the run, each as a flag."""
    kept = True
    if plan.rate_mbps and not plan.is_web:
        kept = number(result.get("goodput_mbps", 0)) >= RATE_KEPT_LEAST * plan.rate_mbps
    closure = numbers(answers.profile.get("closure"))
    differs = abs(number(closure.get("difference", 0)))
    return {
        "client_limited": answers.client_idle < CLIENT_IDLE_LEAST,
        "rate_missed": not kept,
        "many_errors": number(result.get("error_share", 0)) > ERRORS_MOST,
        "not_conforming": number(result.get("conforming", plan.connections)) < plan.connections,
        "samples_lost": number(answers.profile.get("lost", 0)) > 0,
        "network_late": (answers.network or {}).get("kept") is False,
        "others_ran": _share_of_others(answers.profile) > OTHERS_MOST,
        "closure_broken": differs > max(CLOSURE_MOST, number(closure.get("resolution", 0))),
    }


def number(value: object) -> float:
    """A number of an answer; what is none counts as a broken answer.

    Raises `RunFailed` naming it.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RunFailed(f"{value!r} is not a number, which a program's report needs here")
    return float(value)


def numbers(content: object) -> dict[str, object]:
    """The single values of nested objects; lists are in the raw answers."""
    if not isinstance(content, Mapping):
        return {}
    found: dict[str, object] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            found[name] = numbers(value)
        elif value is None or isinstance(value, str | int | float):
            found[name] = value
    return found
