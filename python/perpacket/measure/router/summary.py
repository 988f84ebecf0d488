"""The answers of a run through the router as one observation.

A packet is a frame at one of the router's interfaces, received or sent, as everywhere; a forwarded
packet is one that was sent again, so that it counts once. The router runs no program of its own:
user code on its processors is that of others, takes no part in a packet's cost, and is a doubt
where there is much of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket.measure.programs import Answer
from perpacket.measure.router.plan import RouterPlan
from perpacket.measure.web.summary import (
    CLOSURE_MOST,
    GROUPS,
    OTHERS_MOST,
    RATE_KEPT_LEAST,
    number,
    numbers,
)
from perpacket.study.doubts import CLIENT_IDLE_LEAST

PAGE_BYTES = 4096
"""The unit of active memory, as published: `isa2003/46-page`."""


@dataclass(slots=True)
class Window:
    """What was read over one window."""

    profile: Answer
    loads: Sequence[Answer]
    router_idle: float
    router_user: float
    hosts_idle: float
    active_bytes: float


def summarize_tcp(plan: RouterPlan, window: Window) -> dict[str, object]:
    """The observation; raises `RunFailed` when an answer lacks a required value."""
    profile = window.profile
    if "layers" not in profile:
        raise RunFailed("the profile has no layers: it is not the profile of this version")
    window_s = number(profile.get("window_s", 0))
    packets, carried = numbers(profile.get("packets")), numbers(profile.get("bytes"))
    sent, received = number(packets.get("sent", 0)), number(packets.get("received", 0))
    if not window_s or not sent:
        raise RunFailed("the router forwarded nothing while it was profiled")
    goodput_bps = sum(number(load["goodput_bps"]) for load in window.loads)
    forwards_here = plan.plane == "kernel"
    result: dict[str, object] = {
        "forwarded_mbps": number(carried.get("sent", 0)) * 8 / window_s / 1e6,
        "goodput_mbps": goodput_bps / 1e6,
        "forwarded_packets_per_s": sent / window_s,
        "packets_per_s": (sent + received) / window_s,
        "mean_packet_bytes": number(carried.get("sent", 0)) / sent,
        "interfaces": interfaces(profile, window_s),
        "context_switches_per_s": number(profile.get("context_switches", 0)) / window_s,
        "active_pages": window.active_bytes / PAGE_BYTES,
        # In XDP on veth the frame's sender forwards it: the router's processors tell nothing then.
        "server_idle": window.router_idle if forwards_here else None,
        "router_user": window.router_user,
        "client_idle": window.hosts_idle,
        "layers": layers(profile, sent) if forwards_here else None,
        **{group: numbers(profile[group]) for group in GROUPS[1:] if group in profile},
        "drops": number(profile.get("drops", 0)),
        "retransmissions": sum(number(load.get("retransmissions", 0)) for load in window.loads),
        "backend": profile.get("backend"),
        "samples": profile.get("samples"),
        "unclaimed_share": profile.get("unclaimed_share"),
        "window_s": window_s,
    }
    return result | {"doubts": doubts(window)}


def interfaces(profile: Answer, window_s: float) -> dict[str, object]:
    """Throughput of each of the router's interfaces, both ways, in Mb/s of whole frames."""
    counted = profile.get("interfaces")
    found: dict[str, object] = {}
    for name, counts in counted.items() if isinstance(counted, Mapping) else ():
        if name == "lo":
            continue
        found[str(name)] = {
            f"{way}_mbps": number(counts.get(f"bytes_{way}", 0)) * 8 / window_s / 1e6
            for way in ("received", "sent")
        }
    return found


def layers(profile: Answer, forwarded: float) -> dict[str, object]:
    """The layers of the kernel with their time per forwarded packet; user code is not the router's.

    Where counters were sampled there is no time: then a layer's is its share of the busy time.
    """
    busy_s = number(numbers(profile.get("closure")).get("stat_cpu_s", 0))
    found: dict[str, object] = {}
    for name, cost in numbers(profile["layers"]).items():
        filled = dict(cost) if isinstance(cost, Mapping) else {}
        cpu_s = filled.get("cpu_s")
        if cpu_s is None:
            cpu_s = number(filled.get("share", 0)) * busy_s
        if name != "user":
            filled["cpu_ns_per_forwarded_packet"] = number(cpu_s) * 1e9 / forwarded
        found[name] = filled
    return found


def doubts(window: Window) -> dict[str, bool]:
    """What casts doubt on the run, each as a flag."""
    profile = window.profile
    closure = numbers(profile.get("closure"))
    differs = abs(number(closure.get("difference", 0)))
    user = numbers(numbers(profile.get("layers")).get("user"))
    return {
        "client_limited": window.hosts_idle < CLIENT_IDLE_LEAST,
        "samples_lost": number(profile.get("lost", 0)) > 0,
        "others_ran": number(user.get("share", 0)) > OTHERS_MOST,
        "closure_broken": differs > max(CLOSURE_MOST, number(closure.get("resolution", 0))),
    }


def summarize_search(plan: RouterPlan, answer: Answer) -> dict[str, object]:
    """The observation of a search; its throughput is missing where even the lowest rate failed."""
    steps = answer.get("steps")
    if not isinstance(steps, list) or not steps:
        raise RunFailed("the search made no trial")
    found = answer.get("throughput_pps")
    failed = answer.get("failed_pps")
    frame_bits = 8 * plan.frame_bytes
    return {
        "throughput_pps": found,
        "throughput_mbps": None if found is None else number(found) * frame_bits / 1e6,
        "failed_pps": failed,
        "loss_at_failed": loss_at(steps, failed),
        "trials": len(steps),
        "generator": answer.get("generator"),
        "receiver": answer.get("receiver"),
        "doubts": {"generator_limited": answer.get("generator_limited") is True},
    }


def summarize_loss(plan: RouterPlan, answer: Answer) -> dict[str, object]:
    """The observation of one trial: what of an offered rate was lost."""
    steps = answer.get("steps")
    if not isinstance(steps, list) or not steps or not isinstance(steps[-1], Mapping):
        raise RunFailed("the trial was not made")
    step = steps[-1]
    sent, duration_s = number(step.get("sent")), number(step.get("duration_s"))
    return {
        "loss": number(step.get("loss")),
        "sent_pps": sent / duration_s if duration_s else None,
        "received": number(step.get("received")),
        "generator": answer.get("generator"),
        "receiver": answer.get("receiver"),
        "doubts": {
            "generator_limited": duration_s * plan.rate_pps * RATE_KEPT_LEAST > sent,
        },
    }


def loss_at(steps: Sequence[object], rate_pps: object) -> float | None:
    """The greatest loss among the trials at a rate."""
    lost = [
        number(step["loss"])
        for step in steps
        if isinstance(step, Mapping) and step.get("rate_pps") == rate_pps
    ]
    return max(lost, default=None)
