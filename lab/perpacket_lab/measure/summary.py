"""The parts of an observation that all kinds of runs share: values, layers and doubts.

A doubt is a flag for a reason why a run may be invalid. The report names every run with a doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perpacket.errors import RunFailed
from perpacket.server_cost import OFF_PATH
from perpacket_lab.measure.programs import Answer
from perpacket_lab.study import other_programs
from perpacket_lab.study.quantities import CLIENT_IDLE_LEAST

RATE_KEPT_LEAST = 0.97
"""A rate-limited sender that delivers less than this share of its rate did not run at that rate."""

CLOSURE_MOST = 0.02
"""Largest relative difference between the profile's processor time and the kernel's, unless the
resolution of the kernel's count is coarser."""

OTHERS_MOST = 0.05
"""Largest share of the server's busy time in user code of other programs. The profiler uses about
1 %."""

KERNEL_MODULES = {
    **dict.fromkeys(("socket", "tcp", "udp", "ip", "ethernet"), "network"),
    "driver": "driver",
    "scheduler": "scheduling",
    "interrupt": "interrupt",
}
"""The module of each of these layers; the other layers of the kernel are the module `kernel`."""

LEVEL_1, LAST_LEVEL = "l1d_misses_per_packet", "llc_misses_per_packet"
"""The profiler's counts of cache misses, by layer."""

LINE_BYTES = 64
"""The unit in which a cache reads memory, on x86-64 and almost all ARMv8 processors."""

GROUPS = ("kinds", "regions", "categories", "modules", "host_stack")
"""The profile's ways to divide the same samples, besides layers."""


def of_profile(profile: Answer) -> dict[str, object]:
    """The profile's values for the observation; raises `RunFailed` if there are no layers."""
    if "layers" not in profile:
        raise RunFailed("the profile has no layers: it is not the profile of this version")
    return {
        **{group: numbers(profile[group]) for group in GROUPS if group in profile},
        **_parts(profile),
        "backend": profile.get("backend"),
        "samples": profile.get("samples"),
        "unclaimed_share": profile.get("unclaimed_share"),
        "interrupts": numbers(profile.get("interrupts")),
        "window_s": number(profile.get("window_s", 0)),
    }


def _parts(profile: Answer) -> dict[str, object]:
    """The share of the busy time for each part of the application and for the kernel's work.

    The layer `other` has the user code of other programs, which is no work of the kernel.
    """
    costs = numbers(numbers(profile.get("parts")).get("costs"))
    if not costs:
        return {}
    others = numbers(numbers(profile.get("categories")).get(other_programs.NAME))
    others_share = number(others.get("share", 0))
    shares = {name: number(numbers(cost)["share"]) for name, cost in costs.items()}
    for name, cost in numbers(profile["layers"]).items():
        share = number(numbers(cost).get("share", 0))
        if name == "user":
            unnamed = max(0.0, share - sum(shares.values()))
            shares[other_programs.PART] = unnamed + others_share
        elif name != "idle":
            share = max(0.0, share - others_share) if name == OFF_PATH else share
            module = KERNEL_MODULES.get(name, "kernel")
            shares[module] = shares.get(module, 0.0) + share
    return {"parts": {name: {"share": share} for name, share in shares.items()}}


def timed_layers(profile: Answer, unit: str, count: float) -> dict[str, dict[str, object]]:
    """The layers with their processor time in ns divided by `count`; keys end in `unit`.

    A profile of sampled counters has no times. A layer's time is then its share of the busy time.
    """
    busy_s = numbers(profile.get("closure")).get("stat_cpu_s")
    layers: dict[str, dict[str, object]] = {}
    for name, cost in numbers(profile["layers"]).items():
        layer = dict(cost) if isinstance(cost, Mapping) else {}
        cpu_s = layer.get("cpu_s")
        if cpu_s is None and busy_s is not None:
            cpu_s = number(layer.get("share", 0)) * number(busy_s)
        if cpu_s is not None:
            layer[f"cpu_ns_per_{unit}"] = number(cpu_s) * 1e9 / count
        layers[name] = layer
    return layers


def frames(profile: Answer) -> float:
    """Frames that the server's interfaces sent and received."""
    packets = numbers(profile.get("packets"))
    return sum(number(packets.get(way, 0)) for way in ("sent", "received"))


def cache_misses(profile: Answer) -> dict[str, object]:
    """Misses of the level-1 data cache and of the last level, and the memory that the latter read.

    A profile samples one of the two at most. What no PMU counted is absent. Prefetches and
    write-backs are no part of the memory read.
    """
    misses: dict[str, object] = {}
    window_s = number(profile.get("window_s", 0))
    per_s = frames(profile) / window_s if window_s else None
    level_1, last_level = (_of_all_layers(profile, event) for event in (LEVEL_1, LAST_LEVEL))
    if level_1 is not None:
        misses["l1d_misses_per_s"] = per_s and level_1 * per_s
    if last_level is not None:
        misses["cache_misses_per_packet"] = last_level
        misses["cache_misses_per_s"] = per_s and last_level * per_s
        misses["memory_read_mbytes_per_s"] = per_s and last_level * per_s * LINE_BYTES / 1e6
    return misses


def _of_all_layers(profile: Answer, event: str) -> float | None:
    """The events per packet of all layers; `None` if none was counted."""
    costs = numbers(profile.get("layers")).values()
    counted = [numbers(cost).get(event) for cost in costs]
    counts = [number(value) for value in counted if value is not None]
    return sum(counts) if counts else None


def profile_doubts(profile: Answer, client_idle: float, group: str, name: str) -> dict[str, bool]:
    """The doubts about a profiled run. Entry `name` of `group` is user code of other programs."""
    others = numbers(numbers(profile.get(group)).get(name))
    return {
        "client_limited": client_idle < CLIENT_IDLE_LEAST,
        "samples_lost": number(profile.get("lost", 0)) > 0,
        "others_ran": number(others.get("share", 0)) > OTHERS_MOST,
    }


def closure_doubt(profile: Answer) -> dict[str, bool]:
    """Whether the profile's processor time differs from the kernel's count."""
    closure = numbers(profile.get("closure"))
    differs = abs(number(closure.get("difference", 0)))
    return {"closure_broken": differs > max(CLOSURE_MOST, number(closure.get("resolution", 0)))}


def sum_of(loads: Sequence[Answer], name: str) -> float:
    """A number summed over the loads; a load without it counts 0."""
    return sum(number(load.get(name, 0)) for load in loads)


def worst(answers: Sequence[object]) -> dict[str, object]:
    """The maximum of each number over the clients, because quantiles cannot be averaged."""
    values: dict[str, object] = {}
    for answer in answers:
        for name, value in numbers(answer).items():
            earlier = values.get(name)
            if isinstance(value, Mapping):
                values[name] = worst([earlier, value])
            elif isinstance(value, int | float) and not isinstance(value, bool):
                values[name] = max(value, earlier) if isinstance(earlier, int | float) else value
    return values


def number(value: object) -> float:
    """A number of a program's report; raises `RunFailed` for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RunFailed(f"a program's report has {value!r} where a number was expected")
    return float(value)


def numbers(content: object) -> dict[str, object]:
    """The scalar values of nested objects. Lists are only in the raw reports."""
    if not isinstance(content, Mapping):
        return {}
    values: dict[str, object] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            values[name] = numbers(value)
        elif value is None or isinstance(value, str | int | float):
            values[name] = value
    return values
