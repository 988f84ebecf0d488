"""The largest effect of a change: the part of processor time that it can remove.

The part is a share of the profile's samples, with Wilson's interval of a share (Wilson, *Probable
inference, the law of succession, and statistical inference*, JASA 22, 1927). The model
LAWS gives the gain in throughput if the processor is the limit, as if the removed work were
offloaded: p/(gamma - p + 1), where gamma = (1 - share)/share.

A bound counts the named functions. It omits effects on caches and other processes. A change that
keeps cache lines from moving between processors has another bound: the lines of a study of the
emulated machine, times an assumed latency, times the packets of the profile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpacket.advise import catalogue
from perpacket.advise.expression import NotReadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from perpacket.advise.profile import Part, Profile
    from perpacket.analysis.statistics import Interval

Z = 1.959964
"""The normal quantile of an interval of 95 %."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest effect of a change."""

    share: Interval
    """The fraction of the packet path's processor time that the change can remove."""
    gain: Interval
    """The gain in throughput if the processor is the limit, as a fraction."""
    basis: str = ""
    """The origin of a bound that is not a part of the profile."""


def of(bound: catalogue.BoundRule, profile: Profile, removable: Callable[[str], float]) -> Bound:
    """The bound of a change; raises `NotReadable` if the profile does not show the part.

    A change with both a part and moved lines can remove either, so its bound is the larger one.
    """
    fraction = min(1.0, max(0.0, removable(bound.removable)))
    found = []
    if bound.moved is None or bound.layers or bound.frames:
        share = wilson(profile.part_of(bound))
        part = share.map(lambda value: value * fraction)
        found.append(Bound(part, share.map(_gain(fraction))))
    if bound.moved is not None and (not found or _packets(profile)):
        lines = moved_share(bound.moved, profile)
        found.append(Bound(lines, lines.map(_gain(1.0)), moved_text(bound.moved)))
    return max(found, key=lambda one: one.share.value)


def moved_share(moved: catalogue.MovedLines, profile: Profile) -> Interval:
    """The time of these lines as a share of the path's processor time.

    The interval is that of the lines. The latency is an assumption without an interval.
    """
    from perpacket.analysis.statistics import Interval

    packets = _packets(profile)
    if packets == 0:
        raise NotReadable("the profile has no packets sent or received")
    path_s = profile.path_share * profile.number("total", "cpu_s")
    if path_s <= 0:
        raise NotReadable("the profile has no processor time on the packet's path")

    def share(lines: float) -> float:
        return min(1.0, max(0.0, lines * moved.latency_ns * 1e-9 * packets / path_s))

    return Interval(share(moved.value), share(moved.low), share(moved.high), moved.n, 0.95)


def _packets(profile: Profile) -> float:
    """The packets of the profile, sent and received; 0 if it has none."""
    try:
        return profile.number("packets", "sent") + profile.number("packets", "received")
    except NotReadable:
        return 0.0


def moved_text(moved: catalogue.MovedLines) -> str:
    """The lines, their assumed latency and the study."""
    return (
        f"{moved.value:g} cache lines a packet [{moved.low:g}, {moved.high:g}] that need not move "
        f"between processors, emulated ({moved.source}), times an assumed {moved.latency_ns:g} ns"
    )


def _gain(fraction: float) -> Callable[[float], float]:
    def gain(share: float) -> float:
        """The gain if `fraction` of the part is removed; finite, because some work remains."""
        most = min(share, MOST_SHARE)
        if most <= 0.0:
            return 0.0
        removed = most * fraction
        return removed / (1.0 - removed)

    return gain


MOST_SHARE = 0.99
"""The largest share for which a gain is computed, because the gain of share 1 is infinite."""


def wilson(part: Part) -> Interval:
    """The interval of a share of samples."""
    from perpacket.analysis.statistics import Interval

    if part.of <= 0:
        raise NotReadable("the profile has no samples of busy processors")
    n, share = part.of, min(1.0, part.share)
    middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Interval(share, min(low, share), max(high, share), n, 0.95)
