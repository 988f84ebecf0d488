"""The worth of a nanosecond at a layer: a known cost is added, and throughput is measured.

Nobody can make a layer of the kernel faster for a trial, but a cost can be added. Rules of nftables
add it in `ip`. The slope of throughput against the added cost is measured in blocks of windows with
different numbers of rules. Removing the layer is an extrapolation of that line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpacket.advise.effect import Window, quantities, unit_of
from perpacket.analysis.statistics import Interval, StatisticsError, mean
from perpacket.errors import ConfigurationError

LAYERS = ("ip",)
"""The layers at which a cost can be added."""

RULES = (100, 200)
"""The added numbers of rules, beside none."""


@dataclass(frozen=True, slots=True)
class Slope:
    """The change of throughput and of latency for each nanosecond a packet, as shares."""

    layer: str
    rate_title: str
    added_ns: Mapping[int, float]
    """The measured cost of each number of rules, per packet."""
    layer_ns: float
    """The layer's cost a packet without rules."""
    rate_change_per_ns: Interval
    p99_change_per_ns: Interval | None

    @property
    def removal(self) -> Interval:
        """The change of throughput without the layer, by extrapolation, as a share."""
        return self.rate_change_per_ns.map(lambda worth: -worth * self.layer_ns)


def check(layer: str) -> None:
    """Raise `ConfigurationError` for a layer at which nothing can be added."""
    if layer not in LAYERS:
        raise ConfigurationError(
            f"--slope {layer}: a known cost can be added in {', '.join(LAYERS)} alone",
            parameter="--slope",
            value=layer,
        )


def fit(layer: str, found: Sequence[Window], amounts: Sequence[int], confidence: float) -> Slope:
    """The slope from windows whose `side` is an index into `amounts`, which begin with 0.

    Each block gives one slope, by least squares through its windows. Raises `StatisticsError`
    without whole blocks.
    """
    unit = unit_of(found)
    by_key = {one.key: one for one in quantities(unit)}
    rate, late = by_key["units_per_s"], by_key["latency_us.p99"]
    cost_ns = {
        side: 1e9
        * math.fsum(one.layers.get(layer, 0.0) for one in found if one.side == side)
        / math.fsum(one.packets for one in found if one.side == side)
        for side in range(len(amounts))
    }
    added = {side: cost_ns[side] - cost_ns[0] for side in cost_ns}
    blocks: dict[int, list[Window]] = {}
    for window in found:
        blocks.setdefault(window.block, []).append(window)
    whole = [block for block in blocks.values() if {one.side for one in block} == set(cost_ns)]
    if len(whole) < 2:
        raise StatisticsError("a slope needs two whole blocks of windows")
    rates = [slope_of(block, added, lambda w: rate.over([w])) for block in whole]
    lates = [slope_of(block, added, lambda w: late.over([w])) for block in whole]
    return Slope(
        layer,
        rate.title,
        {amounts[side]: added[side] for side in added},
        cost_ns[0],
        mean([one for one in rates if one is not None], confidence),
        mean([one for one in lates if one is not None], confidence) if None not in lates else None,
    )


def slope_of(block: Sequence[Window], added: Mapping[int, float], value_of: object) -> float | None:
    """The slope of the logarithm of a value against the added cost; None if a window lacks it."""
    assert callable(value_of)
    points = [(added[one.side], value_of(one)) for one in block]
    if any(value is None or value <= 0 for _, value in points):
        return None
    x_mean = math.fsum(x for x, _ in points) / len(points)
    y_mean = math.fsum(math.log(y) for _, y in points) / len(points)
    spread = math.fsum((x - x_mean) ** 2 for x, _ in points)
    if spread == 0:
        return None
    return math.fsum((x - x_mean) * (math.log(y) - y_mean) for x, y in points) / spread
