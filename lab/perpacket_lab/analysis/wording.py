"""Names and numbers in words."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from perpacket.analysis.statistics import Interval, decimals_for, format_number, significant
from perpacket_lab.study.quantities import STATISTICS, UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perpacket_lab.study.point import Point

MINUS: Final = "\N{MINUS SIGN}"

WIDE_INTERVAL: Final = 10.0
"""In percentage points. The value of a wider interval is printed without decimals."""

# Workload-NICconnections-order-load control-selection-MIPS: OSDI 2006, section 5.
SHORTHAND: Final = re.compile(
    r"(?P<workload>[WIDS])-(?P<connections>\d+)-(?P<order>[PN])-(?P<control>[LNR])"
    r"-(?P<selection>FCFS|T\d+|LIFETIME|ORACLE)-(?P<mips>\d+)"
)
WORKLOADS: Final = {
    "W": "World Cup",
    "I": "IBM",
    "D": "SPECweb99",
    "S": "SPECweb99 static",
}
ORDERS: Final = {"P": "host packets first", "N": "packets in arrival order"}
LOAD_CONTROLS: Final = {"L": "load control", "R": "load control with active restore", "N": ""}
SELECTIONS: Final = {"LIFETIME": "chosen by predicted lifetime", "ORACLE": "chosen by an oracle"}

NOTATION: Final = (
    ("W, I, D, S", "workload: World Cup, IBM, SPECweb99 with dynamic requests, SPECweb99 static"),
    ("0, 256, 1024, …", "connections the NIC may own; 0 is no handoff"),
    ("P, N", "order on the NIC: host packets first, or packets in arrival order"),
    ("L, R, N", "load control, load control with active restore, or none"),
    ("FCFS", "connections are handed off first come, first served"),
    ("T4", "handed off when they send for the fourth time; likewise for other numbers"),
    ("LIFETIME, ORACLE", "chosen by predicted lifetime, or by an oracle that knows the future"),
    ("400", "million instructions per second of the NIC"),
)

ABBREVIATIONS: Final = frozenset(
    {"tcp", "udp", "ip", "nic", "l1", "l1d", "l1i", "l2", "llc", "itlb", "dtlb", "os"}
)
SUFFIX_UNITS: Final = {
    "ms": "ms",
    "us": "µs",
    "s": "s",
    "kib": "KiB",
    "mbps": "Mb/s",
    "mips": "MIPS",
}


def points_in_words(points: Sequence[Point]) -> dict[str, str]:
    """Each point's configuration in words, without the parts that all points have in common."""
    parts = {point.name: point_parts(point) for point in points}
    common = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    return {
        name: ", ".join(part for part in own if part not in common) or ", ".join(own)
        for name, own in parts.items()
    }


def point_parts(point: Point) -> list[str]:
    """The parts of a point's shorthand in words; the factors of a point without shorthand."""
    match = SHORTHAND.fullmatch(point.configuration)
    if match is None:
        return [factor_in_words(name, level) for name, level in point.factors.items()]
    rate = dict(point.overrides).get("nic.mips", match["mips"])
    workload, mips = WORKLOADS[match["workload"]], f"{rate} MIPS NIC"
    if match["connections"] == "0":
        return [workload, "no handoff", mips]
    parts = [
        workload,
        f"up to {int(match['connections']):,} connections on the NIC",
        ORDERS[match["order"]],
        LOAD_CONTROLS[match["control"]],
        selection_in_words(match["selection"]),
        mips,
    ]
    return [part for part in parts if part]


def selection_in_words(selection: str) -> str:
    """How connections are selected; empty for the default, first come, first served."""
    if selection.startswith("T"):
        return f"handed off at send {selection[1:]}"
    return SELECTIONS.get(selection, "")


def factor_in_words(name: str, level: object) -> str:
    """`l2_kib` at 256 as `L2 256 KiB`, `order` at `arrival` as `order arrival`."""
    stem, _, suffix = name.rpartition("_")
    unit = SUFFIX_UNITS.get(suffix)
    if unit is None:
        return f"{in_words(name)} {level}"
    return f"{in_words(stem)} {level} {unit}"


def statistic_in_words(column: str) -> str:
    """`latency_us.response.p99` as `99th percentile`; other columns by their last part in words."""
    last = column.rpartition(".")[2]
    return STATISTICS.get(last) or in_words(last)


def column_in_words(column: str) -> str:
    """`layers.tcp.l2_misses_per_packet` as `TCP: L2 misses per packet`."""
    return ": ".join(in_words(part) for part in column.removeprefix("layers.").split("."))


def in_words(name: str) -> str:
    """A name of the data with spaces, abbreviations in capitals and its unit in brackets."""
    words = name.split("_")
    unit = SUFFIX_UNITS.get(words[-1]) if len(words) > 1 else None
    words = words[:-1] if unit else words
    text = " ".join(word.upper() if word in ABBREVIATIONS else word for word in words)
    return f"{text} ({unit})" if unit else text


def sentence_case(text: str) -> str:
    """The text with a capital first letter and the other letters unchanged."""
    return text[:1].upper() + text[1:]


def signed(number: float, unit: str = "%") -> str:
    """`+3.1 %`, `−20 %`, `0 %`: two significant digits, or all digits of the whole part."""
    return f"{signed_text(number, min(1, decimals_for(number)))} {unit}".rstrip()


def signed_text(number: float, decimals: int) -> str:
    """A number with its sign, unless it rounds to zero."""
    text = format_number(abs(number), decimals)
    is_zero = float(text.replace(",", "")) == 0
    return text if is_zero else f"{MINUS if number < 0 else '+'}{text}"


def signed_interval(interval: Interval, unit: str = "%") -> tuple[str, str]:
    """The value with its sign and unit, and the bounds: `+15.8 %` and `[+15.1, +16.5]`.

    A narrow interval shows one decimal, a wide one none.
    """
    wide = interval.is_bounded and interval.high - interval.low >= WIDE_INTERVAL
    decimals = 0 if wide else 1
    value, low, high = (
        signed_text(number, decimals) for number in (interval.value, interval.low, interval.high)
    )
    alone = "one run" if interval.n == 1 else "no interval"
    return f"{value} {unit}".rstrip(), f"[{low}, {high}]" if interval.is_bounded else alone


def place(where: str) -> str:
    """The place of a figure in its document: `5.1, Figure 6` as `section 5.1, Figure 6`."""
    return f"section {where}" if where[:1].isdigit() else where


def with_unit(text: object, unit: str) -> str:
    """The text and its printed unit, with minus signs."""
    return f"{typographic(str(text))} {UNITS.get(unit, unit)}".rstrip()


def typographic(text: str) -> str:
    """The text with a minus sign for each hyphen that begins a number."""
    return re.sub(r"(?<![\w-])-(?=\d)", MINUS, text)


def number(value: float) -> str:
    """A number in running text: four significant digits and thousands separators."""
    return significant(value, 4, most_decimals=6)


def verdict_in_words(text: str) -> str:
    """`differs by -4.0 us` with a minus sign and the printed unit."""
    start, _, unit = typographic(text).rpartition(" ")
    return f"{start} {UNITS.get(unit, unit)}".strip()


def compact(value: object) -> str:
    """A value of a raw table: six significant digits; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    return str(value)


def plural(count: int, singular: str, many: str = "") -> str:
    """`1 run`, `5 runs`, `no runs`."""
    noun = singular if count == 1 else many or f"{singular}s"
    return f"{count:,} {noun}" if count else f"no {noun}"
