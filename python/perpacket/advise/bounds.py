"""The largest effect of a change: the part of processor time that it can remove.

The part is a share of the profile's samples, with Wilson's interval of a share (Wilson, *Probable
inference, the law of succession, and statistical inference*, JASA 22, 1927). The model
LAWS gives the gain in throughput if the processor is the limit, as if the removed work were
offloaded: p/(gamma - p + 1), where gamma = (1 - share)/share.

A bound counts the named functions. It omits effects on caches and other processes.
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


def of(bound: catalogue.BoundRule, profile: Profile, removable: Callable[[str], float]) -> Bound:
    """The bound of a change; raises `NotReadable` if the profile does not show the part."""
    part = profile.part_of(bound)
    fraction = min(1.0, max(0.0, removable(bound.removable)))
    share = wilson(part)
    return Bound(share.map(lambda value: value * fraction), share.map(_gain(fraction)))


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
