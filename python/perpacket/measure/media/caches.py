"""Level-1 misses and memory throughput of the server's processors, where counters exist."""

from __future__ import annotations

from collections.abc import Mapping

from perpacket.measure.programs import Answer
from perpacket.measure.summary import frames, number

LINE_BYTES = 64
"""The unit in which a cache reads memory, on x86-64 and almost all ARMv8 processors."""


def counted(profile: Answer) -> dict[str, object]:
    """Misses of the level-1 data cache, and the memory that misses of the last level read.

    A profile samples one of both events at most, and none without performance counters. What is
    not sampled is absent. Prefetches and write-backs are no part of the memory read.
    """
    found: dict[str, object] = {}
    level_1 = per_second(profile, "l1d_misses_per_packet")
    last_level = per_second(profile, "llc_misses_per_packet")
    if level_1 is not None:
        found["l1d_misses_per_s"] = level_1
    if last_level is not None:
        found["memory_read_mbytes_per_s"] = last_level * LINE_BYTES / 1e6
    return found


def per_second(profile: Answer, event: str) -> float | None:
    """The events of all layers in a second; `None` where none was counted."""
    layers = profile.get("layers")
    costs = layers.values() if isinstance(layers, Mapping) else ()
    per_packet = [
        number(cost[event])
        for cost in costs
        if isinstance(cost, Mapping) and cost.get(event) is not None
    ]
    window_s = number(profile.get("window_s", 0))
    return sum(per_packet) * frames(profile) / window_s if per_packet and window_s else None
