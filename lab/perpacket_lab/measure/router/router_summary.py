"""The reports of a run through the router as one observation.

A packet is a frame that one of the router's interfaces received or sent. A forwarded packet is a
sent frame, so it counts once. The router runs no program of its own: user code on its processors
belongs to other programs. It is no part of a packet's cost. If its share is large, the run has the
doubt `others_ran`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket_lab.measure.programs import Answer
from perpacket_lab.measure.router.router_plan import RouterPlan
from perpacket_lab.measure.summary import (
    RATE_KEPT_LEAST,
    closure_doubt,
    frames,
    number,
    numbers,
    of_profile,
    profile_doubts,
    sum_of,
    timed_layers,
)

PAGE_BYTES = 4096
"""The unit of active memory, as published: `isa2003/46-page`."""


LEAST_FORWARDED = 0.5
"""If the router sent less than this part of what the hosts received, the flows did not cross it.
The two amounts are counted over different windows, so this part is well below 1."""


@dataclass(slots=True)
class RouterWindow:
    """The measurements of one window."""

    profile: Answer
    loads: Sequence[Answer]
    router_idle: float
    router_user: float
    hosts_idle: float
    active_bytes: float
    cross: Sequence[Answer] = ()
    """The reports of the senders of cross traffic."""
    converged_s: float | None = None
    """Time until RIP had spread all routes; `None` with static routes."""


def summarize_tcp(plan: RouterPlan, window: RouterWindow) -> dict[str, object]:
    """The observation; raises `RunFailed` when a report lacks a required value."""
    profile = window.profile
    result: dict[str, object] = of_profile(profile)
    window_s = number(result["window_s"])
    sent = number(numbers(profile.get("packets")).get("sent", 0))
    sent_bytes = number(numbers(profile.get("bytes")).get("sent", 0))
    if not window_s or not sent:
        raise RunFailed("the router forwarded nothing during the profile")
    goodput_mbps = _goodput_mbps(window.loads)
    forwarded_mbps = sent_bytes * 8 / window_s / 1e6
    if plan.testbed == "ssh" and forwarded_mbps < LEAST_FORWARDED * goodput_mbps:
        raise RunFailed(
            f"the flows do not cross the router: it sent {forwarded_mbps:.0f} Mb/s, and the hosts "
            f"received {goodput_mbps:.0f} Mb/s",
            "name the hosts' addresses in the router's networks: --set router.addresses=A,B,C,D",
        )
    # In XDP on veth, and with hosts on the router's processors, the router's own time is unknown.
    forwards_here = plan.plane == "kernel" and plan.processors == "divided"
    layers = timed_layers(profile, "forwarded_packet", sent)
    layers.get("user", {}).pop("cpu_ns_per_forwarded_packet", None)
    return result | {
        "forwarded_mbps": forwarded_mbps,
        "goodput_mbps": goodput_mbps,
        "cross_mbps": _goodput_mbps(window.cross) if plan.cross_bps else None,
        "converged_s": window.converged_s,
        "forwarded_packets_per_s": sent / window_s,
        "packets_per_s": frames(profile) / window_s,
        "mean_packet_bytes": sent_bytes / sent,
        "interfaces": _interfaces(profile, window_s),
        "context_switches_per_s": number(profile.get("context_switches", 0)) / window_s,
        "active_pages": window.active_bytes / PAGE_BYTES,
        "server_idle": window.router_idle if forwards_here else None,
        "router_user": window.router_user if plan.processors == "divided" else None,
        "client_idle": window.hosts_idle,
        "layers": layers if forwards_here else None,
        "drops": number(profile.get("drops", 0)),
        "retransmissions": sum_of(window.loads, "retransmissions"),
        "doubts": _doubts(plan, window),
    }


def _doubts(plan: RouterPlan, window: RouterWindow) -> dict[str, bool]:
    """The doubts of a run; two do not apply if hosts keep the router's processors busy."""
    doubts = profile_doubts(window.profile, window.hosts_idle, "layers", "user")
    if plan.processors != "divided":
        doubts |= {"client_limited": False, "others_ran": False}
    return doubts | closure_doubt(window.profile)


def _goodput_mbps(loads: Sequence[Answer]) -> float:
    return sum(number(load["goodput_bps"]) for load in loads) / 1e6


def _interfaces(profile: Answer, window_s: float) -> dict[str, object]:
    """Throughput of each of the router's interfaces, both ways, in Mb/s of whole frames."""
    counted = profile.get("interfaces")
    return {
        str(name): {
            f"{way}_mbps": number(counts.get(f"bytes_{way}", 0)) * 8 / window_s / 1e6
            for way in ("received", "sent")
        }
        for name, counts in (counted.items() if isinstance(counted, Mapping) else ())
        if name != "lo"
    }


def summarize_search(plan: RouterPlan, answer: Answer) -> dict[str, object]:
    """The observation of a search, without a throughput where even the lowest rate failed."""
    steps = _steps(answer)
    rate = answer.get("throughput_pps")
    failed = answer.get("failed_pps")
    return {
        "throughput_pps": rate,
        "throughput_mbps": None if rate is None else number(rate) * 8 * plan.frame_bytes / 1e6,
        "failed_pps": failed,
        "loss_at_failed": loss_at(steps, failed),
        "trials": len(steps),
        "generator": answer.get("generator"),
        "receiver": answer.get("receiver"),
        "doubts": {"generator_limited": answer.get("generator_limited") is True},
    }


def summarize_loss(plan: RouterPlan, answer: Answer) -> dict[str, object]:
    """The observation of one trial: the loss at an offered rate."""
    step = _steps(answer)[-1]
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


def _steps(answer: Answer) -> list[Answer]:
    """The trials of a search; raises `RunFailed` when there are none."""
    steps = answer.get("steps")
    trials: list[Answer] = steps if isinstance(steps, list) else []
    if not trials:
        raise RunFailed("the search made no trial")
    return trials


def loss_at(steps: Sequence[Answer], rate_pps: object) -> float | None:
    """The greatest loss among the trials at a rate."""
    lost = [number(step["loss"]) for step in steps if step.get("rate_pps") == rate_pps]
    return max(lost, default=None)
