"""Two profiles compared: the ratio of each layer's cost of a packet, with its interval.

A profile is one document of `perpacket profile`, or the windows that `--every` prints. Of two
single windows, the interval follows from the intervals of their shares. Of several windows, it
follows from their differences. A short window may have no sample of a small layer. Therefore
consecutive windows are added up to groups. The number of groups is the largest in `GROUPS` with
which every group has samples. Groups follow each other in time, so neighbours may be alike.
Therefore the interval uses the number of independent groups. The intervals of layers and of kinds
are corrected for their number (Bonferroni).

The total is the server's cost (`perpacket.server_cost`), not that of all programs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist

from perpacket.analysis.claim import Claim, Pair, Verdict, ratio_claim, shown
from perpacket.analysis.ratios import OPERATORS, RatioRule, ratio_text
from perpacket.analysis.statistics import (
    Interval,
    paired_ratio,
    unpaired_ratio,
)
from perpacket.errors import ConfigurationError
from perpacket.profile_document import Cost, ProfileDocument
from perpacket.server_cost import OFF_PATH, of_profiles

Window = ProfileDocument
Count = Callable[[Window], float]
Part = Callable[[Window], Cost]
Costs = Callable[[Window], Mapping[str, Cost]]

Share = tuple[float, float, float]
"""A share of the busy time, and the ends of its interval of 95 % within one profile."""

GROUPS = (20, 10, 5)
LEAST_WINDOWS = 3
"""With fewer windows there is no interval."""

CONFIDENCE = 0.95

MEASURES = {"cpu_ns": "ns", "cycles": "cycles", "instructions": "instructions"}
"""The measures of a cost, with their units. The first that both profiles have is compared."""

SAME_TRAFFIC = 0.05
"""If the traffic differs by a larger share, the costs are those of different work."""

TOTAL = "total"
"""The server's cost: its own code, and the stack's on its behalf."""
KIND = "kind."
"""The prefix of a kind's name in rules. A layer's name has no prefix."""

HINT = "`perpacket profile --format json` prints such a file, also with `--every 1s`"


class Unit(StrEnum):
    """The unit of work by which a cost is divided."""

    PACKET = "packet"
    REQUEST = "request"


class Decision(StrEnum):
    """Whether a rule is broken. A ratio that matches a rule breaks it."""

    BROKEN = "broken"
    KEPT = "kept"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class JudgedRule:
    """A rule with the ratio to which it applies, and the decision."""

    rule: RatioRule
    ratio: Claim[Pair]
    decision: Decision


@dataclass(frozen=True, slots=True)
class ProfileComparison:
    """The ratios B/A of the traffic and of the costs."""

    windows: tuple[int, int]
    unit: Unit
    measure: str
    """A key of `MEASURES`."""
    paired: bool
    traffic: tuple[Claim[Pair], ...]
    total: Claim[Pair]
    layers: tuple[Claim[Pair], ...]
    kinds: tuple[Claim[Pair], ...]
    cells: Mapping[tuple[str, str], tuple[float, float]]
    """The cost of each layer and kind of work in A and in B."""
    judged: tuple[JudgedRule, ...]
    notes: tuple[str, ...]

    @property
    def changed_most(self) -> Claim[Pair] | None:
        """The layer with the largest difference whose interval excludes 1."""
        return max(
            shown(self.layers),
            key=lambda claim: abs(claim.detail.second - claim.detail.first),
            default=None,
        )


def read(path: Path) -> list[Window]:
    """The windows of a file; raises `ConfigurationError` if it is no profile."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: expected a profile: {error}", hint=HINT) from None
    windows: list[Window] = []
    decoder, place = json.JSONDecoder(), 0
    while place < len(text.rstrip()):
        try:
            document, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:  # the latter for too many brackets
            raise ConfigurationError(f"{path}: {error}", hint=HINT) from None
        if not isinstance(document, dict) or "window_s" not in document:
            raise ConfigurationError(f"{path}: expected a profile", hint=HINT)
        windows.append(ProfileDocument.parse(document, str(path)))
        while text[place : place + 1].isspace():
            place += 1
    if not windows:
        raise ConfigurationError(f"{path}: the file is empty", hint=HINT)
    return windows


def compare(
    first: Sequence[Window],
    second: Sequence[Window],
    *,
    unit: Unit = Unit.PACKET,
    paired: bool = False,
    rules: Sequence[RatioRule] = (),
) -> ProfileComparison:
    """Compare B (`second`) with A (`first`).

    With `paired`, the n-th windows of both are a pair, so effects on both cancel out. Raises
    `ConfigurationError` if the profiles have no common measure, if paired profiles have different
    numbers of windows, and for a rule about a name that the profiles do not have.
    """
    if paired and len(first) != len(second):
        raise ConfigurationError(
            f"--paired: A has {len(first)} windows and B has {len(second)}; expected the same "
            "number",
            parameter="--paired",
        )
    measure = common_measure(first, second)
    chosen = _busy_pairs(first, second) if paired else (_busy(first), _busy(second))
    if not all(chosen):
        raise ConfigurationError("expected packets in both profiles", hint=HINT)
    if unit is Unit.REQUEST and not all(map(requests, (*chosen[0], *chosen[1]))):
        raise ConfigurationError(
            "--per request: a window counted no request",
            parameter="--per",
            hint="profile with --requests URL",
        )
    for name, windows in zip("AB", chosen, strict=True):
        cost = of_profiles(windows)
        if cost is not None:
            cost.require_load(f"profile {name}")
    sides = ComparedProfiles(*chosen, paired)
    below = packets if unit is Unit.PACKET else requests

    def rows(costs: Costs, prefix: str = "") -> tuple[Claim[Pair], ...]:
        parts = {name: partial(part_of, costs, name) for name in _names(costs, *chosen)}
        confidence = 1 - (1 - CONFIDENCE) / max(1, len(parts))
        return tuple(
            sides.ratio(
                prefix + name, amount(measure, part), below, confidence, partial(share, part)
            )
            for name, part in parts.items()
        )

    total = sides.ratio(TOTAL, server(measure), below, CONFIDENCE, server_share)
    layers, kinds = rows(layers_of), rows(lambda window: window.kinds, KIND)
    traffic = tuple(sides.ratio(name, above, per) for name, above, per in traffic_rows(unit))
    by_name = {judged.quantity: judged for judged in (total, *layers, *kinds)}
    notes = list(_notes(first, second, chosen, traffic))
    return ProfileComparison(
        (len(first), len(second)),
        unit,
        measure,
        paired,
        traffic,
        total,
        layers,
        kinds,
        {
            (layer, kind): sides.costs(cell(measure, layer, kind), below)
            for layer, kind in _cells(*chosen)
        },
        tuple(judge(rule, by_name) for rule in rules),
        tuple(notes),
    )


def judge(rule: RatioRule, ratios: Mapping[str, Claim[Pair]]) -> JudgedRule:
    """A rule applied to its ratio; raises `ConfigurationError` if the profiles do not have it."""
    ratio = ratios.get(rule.quantity)
    if ratio is None:
        raise ConfigurationError(
            f"--fail-if {str(rule)!r}: the profiles have no {rule.quantity}",
            parameter="--fail-if",
            hint=f"there are {', '.join(ratios)}",
        )
    return JudgedRule(rule, ratio, decision(rule, ratio.value))


def decision(rule: RatioRule, interval: Interval | None) -> Decision:
    """Broken or kept if the whole interval decides so; undecided otherwise."""
    if interval is None or not interval.is_bounded:
        return Decision.UNDECIDED
    low, high = (OPERATORS[rule.sign](end, rule.limit) for end in (interval.low, interval.high))
    if low != high:
        return Decision.UNDECIDED
    return Decision.BROKEN if low else Decision.KEPT


@dataclass(frozen=True, slots=True)
class ComparedProfiles:
    """The windows of A and of B."""

    first: Sequence[Window]
    second: Sequence[Window]
    paired: bool

    def costs(self, above: Count, below: Count) -> tuple[float, float]:
        """A quotient over all windows of A, and of B."""
        return quotient(self.first, above, below), quotient(self.second, above, below)

    def ratio(
        self,
        name: str,
        above: Count,
        below: Count,
        confidence: float = CONFIDENCE,
        share_of: Callable[[Window], Share | None] | None = None,
    ) -> Claim[Pair]:
        """The ratio B/A of a quotient of two counts.

        For two single windows, its interval follows from those of `share_of`.
        """
        of = paired_ratio if self.paired else unpaired_ratio
        interval: Interval | None = None
        for number_of_groups in GROUPS:
            first, second = (
                [quotient(group, above, below) for group in groups(side, number_of_groups)]
                for side in (self.first, self.second)
            )
            if min(len(first), len(second)) >= LEAST_WINDOWS and min(*first, *second) > 0:
                interval = of(second, first, confidence, in_time_order=True)
                break
        costs = self.costs(above, below)
        if share_of is not None and len(self.first) == len(self.second) == 1 and costs[0]:
            shares = share_of(self.first[0]), share_of(self.second[0])
            interval = of_shares(costs[1] / costs[0], shares, confidence)
        return ratio_claim("", name, interval, Pair(*costs, self.paired))


def layers_of(window: Window) -> Mapping[str, Cost]:
    """The layers of a window."""
    return window.layers


def part_of(costs: Costs, name: str, window: Window) -> Cost:
    """The cost of a part of a window; without numbers if the window does not have it."""
    return costs(window).get(name, Cost())


OTHERS: Part = partial(part_of, layers_of, OFF_PATH)
"""The cost of other programs."""


def share(part: Part, window: Window) -> Share | None:
    """The share of a part of a window; None if the window has no interval of it."""
    cost = part(window)
    value, low, high = cost.share or 0.0, cost.low or 0.0, cost.high or 0.0
    return (value, low, high) if value > 0 and low <= value <= high else None


def server_share(window: Window) -> Share | None:
    """The share of the server's cost, from that of other programs."""
    others = share(OTHERS, window)
    return None if others is None else (1 - others[0], 1 - others[2], 1 - others[1])


def of_shares(value: float, shares: Sequence[Share | None], confidence: float) -> Interval | None:
    """The interval of the ratio of two windows' costs, from the intervals of their shares.

    The variance of the ratio's logarithm is the sum of the relative variances of the two shares
    (delta method). None if a share has no interval, or one as wide as its value.
    """
    relative = [(share[2] - share[1]) / 2 / share[0] for share in shares if share is not None]
    if len(relative) < len(shares) or max(relative) >= 1 or value <= 0:
        return None
    wider = NormalDist().inv_cdf((1 + confidence) / 2) / NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    factor = math.exp(wider * math.hypot(*relative))
    return Interval(value, value / factor, value * factor, 1, confidence)


def groups(windows: Sequence[Window], most: int) -> list[Sequence[Window]]:
    """Consecutive windows in at most `most` groups of about the same size."""
    number_of_groups = min(len(windows), most)
    ends = [round(index * len(windows) / number_of_groups) for index in range(number_of_groups + 1)]
    return [windows[begin:end] for begin, end in pairwise(ends)]


def quotient(windows: Sequence[Window], above: Count, below: Count) -> float:
    """The sum of one count divided by the sum of another; 0 if the other is 0."""
    whole = math.fsum(below(window) for window in windows)
    return math.fsum(above(window) for window in windows) / whole if whole else 0.0


def packets(window: Window) -> float:
    """Frames sent and received."""
    return window.packets.both


def requests(window: Window) -> float:
    """Answered requests; 0 if they were not counted."""
    return window.requests or 0.0


def amount(measure: str, part: Part) -> Count:
    """A function that returns the cost of a part for all packets of a window."""
    return lambda window: part(window).per_packet(measure) * packets(window)


def total_of(window: Window) -> Cost:
    """The cost of all programs."""
    return window.total


def server(measure: str) -> Count:
    """The server's cost (`perpacket.server_cost`): all layers but that of other programs."""
    whole, others = amount(measure, total_of), amount(measure, OTHERS)
    return lambda window: whole(window) - others(window)


def cell(measure: str, layer: str, kind: str) -> Count:
    """The cost of a kind of work in a layer."""
    whole = amount(measure, total_of)
    return lambda window: window.layer_kinds.get(layer, {}).get(kind, 0.0) * whole(window)


def traffic_rows(unit: Unit) -> list[tuple[str, Count, Count]]:
    """The quotients that describe the traffic: name, numerator and denominator."""

    def window_s(window: Window) -> float:
        return window.window_s

    rows: list[tuple[str, Count, Count]] = [
        ("packets/s", packets, window_s),
        ("bytes a packet", lambda window: window.bytes.both, packets),
        ("sent share", lambda window: window.packets.sent or 0.0, packets),
        ("segments a packet", lambda window: window.packets.segments, packets),
    ]
    if unit is Unit.REQUEST:
        rows += [("requests/s", requests, window_s), ("packets a request", packets, requests)]
    return rows


def common_measure(first: Sequence[Window], second: Sequence[Window]) -> str:
    """The first measure that every window with packets has."""
    for measure in MEASURES:
        windows = [window for window in (*first, *second) if packets(window)]
        if all(window.total.per_packet(measure) for window in windows):
            return measure
    raise ConfigurationError("the profiles have no cost of a packet in common", hint=HINT)


def _busy(windows: Sequence[Window]) -> list[Window]:
    return [window for window in windows if packets(window)]


def _busy_pairs(
    first: Sequence[Window], second: Sequence[Window]
) -> tuple[list[Window], list[Window]]:
    pairs = [pair for pair in zip(first, second, strict=True) if all(map(packets, pair))]
    return [first for first, _ in pairs], [second for _, second in pairs]


def _names(costs: Costs, *sides: Sequence[Window]) -> list[str]:
    return list(dict.fromkeys(name for side in sides for window in side for name in costs(window)))


def _cells(*sides: Sequence[Window]) -> list[tuple[str, str]]:
    tables = [window.layer_kinds for side in sides for window in side]
    cells = dict.fromkeys(
        (layer, kind) for table in tables for layer in table for kind in table[layer]
    )
    layers = list(dict.fromkeys(layer for layer, _ in cells))
    return sorted(cells, key=lambda pair: layers.index(pair[0]))


def _notes(
    first: Sequence[Window],
    second: Sequence[Window],
    chosen: tuple[Sequence[Window], Sequence[Window]],
    traffic: Sequence[Claim[Pair]],
) -> list[str]:
    notes = []
    moved = [
        item
        for item in traffic
        if is_moved(item) and item.quantity not in ("packets/s", "requests/s")
    ]
    if moved:
        names = ", ".join(f"{claim.quantity} {ratio_text(claim)}" for claim in moved)
        notes.append(f"the traffic differs ({names}): the costs are of different work")
    if min(map(len, chosen)) < LEAST_WINDOWS:
        single = max(map(len, chosen)) == 1
        missing = (
            "intervals are those of the samples within each profile" if single else "no intervals"
        )
        notes.append(
            f"{missing}: for the difference between windows, {LEAST_WINDOWS} of each profile are "
            "needed: `perpacket profile --every 1s`"
        )
    idle = len(first) + len(second) - sum(map(len, chosen))
    if idle:
        notes.append(f"{idle} windows without packets are left out")
    backends = {str(window.backend) for window in (*first, *second)}
    if len(backends) > 1:
        notes.append(f"the profiles measure differently: {', '.join(sorted(backends))}")
    counts_all = {
        any(note.startswith(WITHOUT_SERVER) for note in window.limits)
        for window in (*first, *second)
    }
    if len(counts_all) > 1:
        notes.append("one profile has the user code of every program, and one that of a server")
    return notes


WITHOUT_SERVER = "no server was named"
"""The beginning of the profiler's note on a profile without `--pid`."""


def is_moved(ratio: Claim[Pair]) -> bool:
    """Whether the traffic differs by more than `SAME_TRAFFIC`, and not by chance."""
    first, second = ratio.detail.first, ratio.detail.second
    if not first or not second:
        return bool(first) != bool(second)
    is_clear = ratio.verdict.is_shown or ratio.verdict is Verdict.NO_INTERVAL
    return is_clear and not 1 - SAME_TRAFFIC <= second / first <= 1 + SAME_TRAFFIC
