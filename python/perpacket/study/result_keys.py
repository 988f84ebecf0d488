"""Numbers of a result by their own names, beside the named quantities of `studies.quantities`.

A user's study and a comparison of two runs may name either: a quantity, as `busy_share.TCP`, or a
number of the result by its dotted name, as `layers.tcp.cpu_ns_per_segment`. Names of numbers end
with their unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from perpacket.study.quantities import QUANTITIES, Quantity, Row

RATES = ("requests_per_s", "content_mbps", "packets_per_s")

SIMULATED = (
    *RATES,
    "connections_per_s",
    "nic_packet_share",
    "handed_off_share",
    "host_idle",
    "nic_idle",
    "stack_share",
    "drops",
    "retransmissions",
    "timeouts",
    "connections_on_nic.mean",
    *(f"response_ms.{statistic}" for statistic in ("mean", "median", "p99")),
    *(
        f"host_packet_delay_us.{way}.{statistic}"
        for way in ("send", "receive")
        for statistic in ("mean", "median", "p99")
    ),
)
"""What every simulation tells; docs/simulator.md says what each is."""

MEASURED = (
    *RATES,
    "goodput_mbps",
    "segments_per_s",
    "segments_per_packet",
    "server_idle",
    "client_idle",
    "error_share",
    "unclaimed_share",
    *(
        f"latency_us.{from_when}.{statistic}"
        for from_when in ("service", "response")
        for statistic in ("mean", "p50", "p90", "p99", "p999", "max")
    ),
)
"""What a measured run tells; docs/measuring.md says what each is."""

GROUPED = {
    "simulated": re.compile(r"layers\.\w+\.(cycles|instructions|l1d_misses|l2_misses)_per_packet"),
    "measured": re.compile(
        r"(layers|kinds|regions|categories|host_stack)\.\w+\."
        r"(share|cpu_s|\w+_per_(packet|segment|request))"
    ),
}
"""What is told for each part of the processor's time."""

GROUPED_IN_WORDS = {
    "simulated": "layers.LAYER.EVENT, as layers.tcp.cycles_per_packet",
    "measured": "GROUP.PART.NUMBER, as layers.tcp.cpu_ns_per_segment or kinds.copy.share",
}


def is_known(kind: str, name: str) -> bool:
    """Whether a run of that kind, `simulated` or `measured`, can tell a number of that name."""
    found = QUANTITIES.get(name)
    return (found is not None and not found.paired) or is_column(kind, name)


def is_column(kind: str, name: str) -> bool:
    """Whether a result holds it as it is, not as something that is computed from it."""
    plain = SIMULATED if kind == "simulated" else MEASURED
    return name in plain or GROUPED[kind].fullmatch(name) is not None


def known(kind: str) -> str:
    """The names there are, in words: for messages."""
    plain = SIMULATED if kind == "simulated" else MEASURED
    return f"{', '.join(plain)}; {GROUPED_IN_WORDS[kind]}; a quantity, as ns.TCP or busy_share.TCP"


def quantity(name: str) -> Quantity:
    """The quantity of that name, or the number of the result; None where a row lacks it."""
    found = QUANTITIES.get(name)
    if found is not None and not found.paired:
        return found

    def value(row: Row) -> float | None:
        number = row.get(name)
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        return float(number) if is_number else None  # type: ignore[arg-type]

    return Quantity(name, name, "", value)


def columns(rows: Iterable[Row]) -> list[str]:
    """The numbers of results that any of these rows has, without the machine's timings."""
    identity = {"point", "configuration", "seed", "schema"}
    names = {
        name: None
        for row in rows
        for name, value in row.items()
        if isinstance(value, float) and name not in identity and not name.startswith("timing.")
    }
    return list(names)
