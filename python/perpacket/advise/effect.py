"""The effect of a change, from windows with it and without it.

A block has four windows: two `before` (A) and two `changed` (B), in the order ABBA or BAAB, so that
a drift of the machine cancels out. Each block contributes one logarithm of a ratio. The interval is
Student's over blocks.

The floor shows how far apart windows are without a change. Each block has the ratio of its two
unchanged windows. The floor is half the width of the interval of these ratios. A change is claimed
only if its interval excludes 1 and the change is larger than the floor. The floor compares single
windows, but the effect compares pairs of windows. So the floor is about 1.4 times the half-width of
the effect. If there is no difference, about one trial in a hundred makes a false claim.

A trial of a server's option also has a null: the server itself, compared with a second server
without a change. Two servers with the same options may differ, because their memory lies elsewhere.
The floor is at least the farther end of the null's interval.

The cost is the server's (`perpacket.server_cost`), because the varying time of other programs would
hide a small effect. If a trial runs a command of the user, which may start a
program, the cost is the time of all programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from perpacket import server_cost
from perpacket.analysis import claim
from perpacket.analysis.statistics import Interval, StatisticsError, mean

BEFORE, CHANGED, ITSELF = 0, 1, 2
"""The sides of a trial with one change. A trial of a server's option compares two second servers.
Its third side is the server itself, whose only difference from the first side is that it was
started by somebody else."""

LEAST_BLOCKS = 3
"""With fewer blocks the interval of a ratio is too wide to be of use."""

GOAL = 0.02
"""The size of a change (2 %) for which the needed number of windows is reported."""

KIB = 1024

PATH, ALL = "path", "all"
"""The processor time that is a cost: the server's, or that of all programs."""


class CostVerdict(StrEnum):
    """The verdict of a trial on a quantity that should be small."""

    CHEAPER = "cheaper"
    DEARER = "dearer"
    NOT_DISTINGUISHABLE = "not distinguishable"


@dataclass(frozen=True, slots=True)
class Window:
    """The counts of one window."""

    block: int
    side: int
    seconds: float
    cpu_s: float
    """Busy processor time of the profiled processors."""
    layers: Mapping[str, float]
    """The busy time by layer; empty without the right to sample."""
    packets: float
    """Frames sent and received."""
    payload_bytes: float
    requests: float | None = None
    retransmissions: float = 0.0
    drops: float = 0.0
    latency_us: Mapping[str, float] = field(default_factory=dict)
    """Quantiles of the time to a response, if the trial's own load measured it."""

    @property
    def path_s(self) -> float:
        """The server's cost: busy processor time of the layers of the packet's path."""
        return server_cost.of_layers(self.layers).server_s


Ratio = Callable[[Window], tuple[float, float] | None]
"""Numerator and denominator of a quantity in a window; None if the window lacks it."""


@dataclass(frozen=True, slots=True)
class WindowRatio:
    """A ratio of two counts."""

    key: str
    title: str
    unit: str
    ratio: Ratio
    is_cost: bool = False
    """Whether a smaller value is cheaper."""
    counted: str = ""
    """The processor time that a cost counts: `path` or `all`; empty for other quantities."""

    def over(self, windows: Sequence[Window]) -> float | None:
        """The ratio of the sums over windows; None if one lacks it."""
        pairs = [self.ratio(window) for window in windows]
        if not pairs or any(pair is None for pair in pairs):
            return None
        above = math.fsum(pair[0] for pair in pairs if pair)
        below = math.fsum(pair[1] for pair in pairs if pair)
        return above / below if below else None


@dataclass(frozen=True, slots=True)
class Effect:
    """A quantity without and with the change."""

    quantity: WindowRatio
    before: float
    changed: float
    ratio: Interval | None
    """The value with the change divided by the value without it.

    None if a count is zero, or with fewer than `LEAST_BLOCKS` blocks.
    """
    verdict: CostVerdict | None = None
    """The verdict on a cost; None for other quantities."""


@dataclass(frozen=True, slots=True)
class Effects:
    """All quantities of a trial."""

    cost: Effect
    """The effect on processor time per unit of work, which decides the trial's verdict."""
    others: tuple[Effect, ...]
    layers: tuple[Effect, ...]
    floor: float
    """Half the width of the interval of the ratio of unchanged windows, as a share."""
    unit: str
    blocks: int
    null: Interval | None = None
    """The cost of the server itself, divided by that of a second server without a change."""

    @property
    def counted(self) -> str:
        """The processor time of the cost: `path` or `all`."""
        return self.cost.quantity.counted

    @property
    def verdict(self) -> CostVerdict:
        """The verdict on processor time per unit of work."""
        return self.cost.verdict or CostVerdict.NOT_DISTINGUISHABLE

    @property
    def blocks_for_goal(self) -> int | None:
        """The approximate number of blocks that would show a change of `GOAL`.

        None without an interval.
        """
        if self.cost.ratio is None or not self.cost.ratio.is_bounded:
            return None
        wanted = math.log1p(GOAL)
        needed = max(half_width(self.cost.ratio), self.floor)
        return max(LEAST_BLOCKS, math.ceil(self.blocks * (needed / wanted) ** 2))


def unit_of(windows: Sequence[Window]) -> str:
    """The unit of work: a request if every window counted them, else a KiB of payload."""
    return "request" if all(window.requests for window in windows) else "KiB"


def counted_in(windows: Sequence[Window], wanted: str) -> str:
    """The processor time that can be counted. `path` needs layers in every window."""
    return wanted if all(window.path_s > 0 for window in windows) else ALL


def units(window: Window, unit: str) -> float:
    """The work done in a window."""
    return (window.requests or 0.0) if unit == "request" else window.payload_bytes / KIB


def quantities(unit: str, counted: str = ALL) -> tuple[WindowRatio, ...]:
    """The quantities of a trial. The first is the cost that decides the verdict.

    `counted` is the processor time of that cost, `path` or `all`.
    """

    def seconds(window: Window) -> float:
        return window.path_s if counted == PATH else window.cpu_s

    def per_unit(count: Callable[[Window], float]) -> Ratio:
        return lambda window: (count(window), units(window, unit))

    def latency(name: str) -> Ratio:
        return lambda w: (w.latency_us[name], 1.0) if name in w.latency_us else None

    return (
        WindowRatio(
            "cpu_us_per_unit",
            f"processor time a {unit}",
            "us",
            per_unit(lambda window: 1e6 * seconds(window)),
            is_cost=True,
            counted=counted,
        ),
        WindowRatio(
            "cpu_ns_per_packet",
            "processor time a packet",
            "ns",
            lambda window: (1e9 * seconds(window), window.packets),
            is_cost=True,
            counted=counted,
        ),
        WindowRatio(
            "all_cpu_us_per_unit",
            f"processor time of all programs a {unit}",
            "us",
            per_unit(lambda window: 1e6 * window.cpu_s),
            counted=ALL,
        ),
        WindowRatio(
            "packets_per_unit",
            f"packets a {unit}",
            "",
            per_unit(lambda window: window.packets),
        ),
        WindowRatio(
            "units_per_s",
            "requests/s" if unit == "request" else "KiB/s",
            "1/s",
            lambda window: (units(window, unit), window.seconds),
        ),
        WindowRatio("latency_us.p50", "time to a response, median", "us", latency("p50")),
        WindowRatio("latency_us.p99", "time to a response, 99 %", "us", latency("p99")),
        WindowRatio(
            "retransmissions_per_s",
            "retransmissions/s",
            "1/s",
            lambda window: (window.retransmissions, window.seconds),
        ),
        WindowRatio("drops_per_s", "drops/s", "1/s", lambda window: (window.drops, window.seconds)),
    )


def layer_quantity(layer: str, unit: str) -> WindowRatio:
    """The processor time of a layer per unit of work."""

    def ratio(window: Window) -> tuple[float, float]:
        return 1e6 * window.layers.get(layer, 0.0), units(window, unit)

    return WindowRatio(f"layers.{layer}.cpu_us_per_unit", layer, "us", ratio, is_cost=True)


def effects(
    windows: Sequence[Window], confidence: float = 0.95, side: int = CHANGED, counted: str = PATH
) -> Effects:
    """The effect of one side of a trial; raises `StatisticsError` without a whole block.

    The intervals of the layers are corrected for the number of layers (Bonferroni). If a window has
    no layers, the cost is the time of all programs.
    """
    unit = unit_of(windows)
    counted = counted_in(windows, counted)
    blocks = by_block(windows, side)
    if not blocks:
        raise StatisticsError("a trial needs a whole block of windows")
    first, *rest = quantities(unit, counted)
    floor = floor_of(blocks, first, confidence)
    null = null_of(windows, first, confidence)
    if null is not None:
        floor = max(floor, abs(math.log(null.low)), abs(math.log(null.high)))
    cost = effect(blocks, first, confidence, floor)
    others = [one for each in rest if (one := effect(blocks, each, confidence, floor))]
    names = sorted({name for window in windows for name in window.layers if name != "idle"})
    corrected = 1 - (1 - confidence) / max(1, len(names))
    layers = [
        one for name in names if (one := effect(blocks, layer_quantity(name, unit), corrected, 0.0))
    ]
    layers.sort(key=lambda one: one.before, reverse=True)
    if cost is None:
        raise StatisticsError("no work was counted in the windows: is there traffic?")
    return Effects(cost, tuple(others), tuple(layers), floor, unit, len(blocks), null)


def null_of(windows: Sequence[Window], quantity: WindowRatio, confidence: float) -> Interval | None:
    """The ratio of the server itself to a second server without a change; None without the two."""
    found = effect(by_block(windows, ITSELF), quantity, confidence, 0.0)
    ratio = None if found is None else found.ratio
    return ratio if ratio is not None and ratio.is_bounded and ratio.low > 0 else None


Block = tuple[list[Window], list[Window]]
"""The unchanged and the changed windows of a block."""


def by_block(windows: Sequence[Window], side: int = CHANGED) -> list[Block]:
    """The blocks that have windows of both sides."""
    found: dict[int, Block] = {}
    for window in windows:
        block = found.setdefault(window.block, ([], []))
        if window.side in (BEFORE, side):
            block[window.side == side].append(window)
    return [block for block in found.values() if block[0] and block[1]]


def effect(
    blocks: Sequence[Block], quantity: WindowRatio, confidence: float, floor: float
) -> Effect | None:
    """The effect on one quantity; None if the windows lack it."""
    before = quantity.over([window for block in blocks for window in block[0]])
    changed = quantity.over([window for block in blocks for window in block[1]])
    if before is None or changed is None:
        return None
    logs = [one for block in blocks if (one := log_ratio(quantity, block[1], block[0])) is not None]
    if len(logs) < len(blocks) or len(logs) < LEAST_BLOCKS:
        return Effect(quantity, before, changed, None)
    ratio = mean(logs, confidence).map(math.exp)
    return Effect(
        quantity, before, changed, ratio, judge(ratio, floor) if quantity.is_cost else None
    )


def judge(ratio: Interval, floor: float) -> CostVerdict:
    """Whether a ratio of costs shows a change."""
    verdict = claim.judge(ratio, claim.Relation.RATIO, floor=floor)
    if not verdict.is_shown:
        return CostVerdict.NOT_DISTINGUISHABLE
    return CostVerdict.CHEAPER if verdict is claim.Verdict.LOWER else CostVerdict.DEARER


def floor_of(blocks: Sequence[Block], quantity: WindowRatio, confidence: float) -> float:
    """Half the interval of the ratios of the blocks' two unchanged windows; 0 with few blocks."""
    logs = [
        one
        for before, _ in blocks
        if len(before) > 1 and (one := log_ratio(quantity, before[1:2], before[:1])) is not None
    ]
    if len(logs) < LEAST_BLOCKS:
        return 0.0
    interval = mean(logs, confidence)
    return (interval.high - interval.low) / 2


def half_width(ratio: Interval) -> float:
    """Half the width of a ratio's interval, in logarithms.

    If it is small, it is about half the interval's width divided by the ratio.
    """
    return (math.log(ratio.high) - math.log(ratio.low)) / 2


def log_ratio(
    quantity: WindowRatio, above: Sequence[Window], below: Sequence[Window]
) -> float | None:
    """The logarithm of a quantity's ratio in two sets of windows; None unless both are positive."""
    first, second = quantity.over(above), quantity.over(below)
    return math.log(first / second) if first and second and first > 0 and second > 0 else None
