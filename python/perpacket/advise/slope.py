"""The effect of one nanosecond more per packet in a layer.

A trial cannot make a layer of the kernel faster, but it can add a known cost (`added.py`). Blocks
of windows with different amounts measure the slope of throughput against the added cost. The effect
of removing the layer is an extrapolation of that line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perpacket.advise.effect import Window, quantities, unit_of
from perpacket.analysis.statistics import Interval, mean
from perpacket.errors import RunFailed


@dataclass(frozen=True, slots=True)
class Slope:
    """The change of throughput and of latency for each nanosecond a packet, as shares."""

    layer: str
    rate_title: str
    what: str
    """The unit of an amount, such as `rules at each hook`."""
    amounts: tuple[int, ...]
    ns_of_amount: Interval
    """The cost of one unit of the amounts, per packet, as the profile measured it."""
    layer_ns: float
    """The layer's cost per packet without an added cost."""
    rate_change_per_ns: Interval
    p99_change_per_ns: Interval | None

    @property
    def removal(self) -> Interval:
        """The change of throughput without the layer, by extrapolation, as a share."""
        return self.rate_change_per_ns.map(lambda worth: -worth * self.layer_ns)


def fit(
    layer: str, what: str, found: Sequence[Window], amounts: Sequence[int], confidence: float
) -> Slope:
    """The slope from windows whose `side` is an index into `amounts`, which begin with 0.

    In each block, least squares through its windows have two slopes against the amounts: that of
    the layer's cost and that of the logarithm of throughput. Raises `RunFailed` without two whole
    blocks, or if the profile does not show that the added cost makes the layer dearer.
    """
    by_key = {one.key: one for one in quantities(unit_of(found))}
    blocks: dict[int, list[Window]] = {}
    for window in found:
        blocks.setdefault(window.block, []).append(window)
    sides = set(range(len(amounts)))
    whole = [block for block in blocks.values() if {one.side for one in block} == sides]
    if len(whole) < 2:
        raise RunFailed("a slope needs two whole blocks of windows", "let the trial run longer")

    def slopes(value_of: Callable[[Window], float | None]) -> list[float] | None:
        each = [slope_of([(amounts[w.side], value_of(w)) for w in block]) for block in whole]
        return None if None in each else [one for one in each if one is not None]

    costs = slopes(lambda window: cost_ns(layer, [window])) or []
    ns_of_amount = mean(costs, confidence)
    if ns_of_amount.low <= 0:
        raise RunFailed(
            f"{layer}: by the profile, {amounts[-1]} {what} cost "
            f"{ns_of_amount.map(lambda ns: ns * amounts[-1]).text(0)} ns a packet, which is not "
            "distinguishable from zero, so there is no slope",
            "use more or longer windows, or a load with packets through that layer",
        )
    rates = slopes(lambda window: logarithm(by_key["units_per_s"].over([window])))
    lates = slopes(lambda window: logarithm(by_key["latency_us.p99"].over([window])))
    if rates is None:
        raise RunFailed("no work was counted in a window", "a slope needs traffic in every window")
    return Slope(
        layer,
        by_key["units_per_s"].title,
        what,
        tuple(amounts[1:]),
        ns_of_amount,
        cost_ns(layer, [one for block in whole for one in block if one.side == 0]),
        ratio_of_means(rates, costs, confidence),
        None if lates is None else ratio_of_means(lates, costs, confidence),
    )


def cost_ns(layer: str, windows: Sequence[Window]) -> float:
    """The layer's cost a packet."""
    seconds = math.fsum(one.layers.get(layer, 0.0) for one in windows)
    return 1e9 * seconds / math.fsum(one.packets for one in windows)


def logarithm(value: float | None) -> float | None:
    """The logarithm of a positive value; None for others."""
    return math.log(value) if value is not None and value > 0 else None


def slope_of(points: Sequence[tuple[int, float | None]]) -> float | None:
    """The slope by least squares; None if a value is missing."""
    known = [(x, y) for x, y in points if y is not None]
    if len(known) < len(points):
        return None
    x_mean = math.fsum(x for x, _ in known) / len(known)
    y_mean = math.fsum(y for _, y in known) / len(known)
    spread = math.fsum((x - x_mean) ** 2 for x, _ in known)
    return math.fsum((x - x_mean) * (y - y_mean) for x, y in known) / spread


def ratio_of_means(above: Sequence[float], below: Sequence[float], confidence: float) -> Interval:
    """The ratio of two means of paired values, with the interval of the ratio estimator.

    The estimator's variance is that of the residuals over the squared mean of `below` (Cochran,
    Sampling Techniques, section 6.4), which includes the uncertainty of both means.
    """
    middle = math.fsum(below) / len(below)
    ratio = math.fsum(above) / math.fsum(below)
    return mean(
        [ratio + (a - ratio * b) / middle for a, b in zip(above, below, strict=True)], confidence
    )
