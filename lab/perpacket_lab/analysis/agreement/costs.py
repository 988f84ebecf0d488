"""The cost of a request in one measured, simulated or emulated observation.

The unit is processor time in a measurement, cycles in a simulation and instructions in an
emulation. The units cancel out, because every use divides two costs of the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from perpacket_lab.analysis.methods import MethodValue
from perpacket_lab.study.quantities import BUSY, Row, Rows, layers, number

MEASURED = "measured"
SIMULATED = "simulated"
METHODS = (MEASURED, SIMULATED)
"""The methods whose runs have requests and time. Models are computed from these runs."""

EMULATED = "emulated"
"""The method whose runs count instructions, and have neither requests nor time."""

SIMULATED_INSTRUCTIONS = "simulated instructions"
"""The instructions of simulated runs, which an emulation also counts."""

EVENTS = {MEASURED: "ns", SIMULATED: "cycles", EMULATED: "instructions"}
"""The event that each method counts as the cost of a layer."""

STACK = ("tcp", "udp", "ip", "ethernet", "driver", "bypass")
"""The network stack below the system calls. Both methods count these layers separately. The
simulator counts sockets as part of the system calls."""

US_PER_S = 1e6


class ShareOf(Protocol):
    """A function for the share of some layers."""

    def __call__(self, row: Row, names: Sequence[str]) -> float | None:
        """The share, as a fraction."""
        ...


def per_packet(row: Row, names: Sequence[str]) -> float | None:
    """The cost of some layers: ns per segment, or cycles or instructions per packet."""
    return layers(EVENTS[str(row["way"])], names)(row)


def stack_share(row: Row) -> float | None:
    """The stack's share of the busy processor, as a fraction."""
    return share_of(row, STACK)


def share_of(row: Row, names: Sequence[str], event: str = "") -> float | None:
    """The share of some layers in the busy processor, as a fraction.

    It is counted in `event`, by default that of the method.
    """
    own = event or EVENTS[str(row["way"])]
    part, whole = layers(own, names)(row), layers(own, BUSY)(row)
    return part / whole if part is not None and whole else None


def share_of_instructions(row: Row, names: Sequence[str]) -> float | None:
    """The share of some layers in the instructions of the busy processor, as a fraction."""
    return share_of(row, names, "instructions")


def segments_per_request(row: Row) -> float | None:
    """The segments sent and received per request."""
    if row["way"] != MEASURED:
        return _over_requests(row, "packets_per_s")
    # Prefer the requests that the server counted in the window of the profile.
    requests, window_s = row.get("profiled_requests"), number(row, "window_s")
    segments_per_s = number(row, "segments_per_s")
    if isinstance(requests, int | float) and requests and window_s and segments_per_s:
        return segments_per_s * window_s / requests
    return _over_requests(row, "segments_per_s")


def _over_requests(row: Row, column: str) -> float | None:
    cost, requests_per_s = number(row, column), number(row, "requests_per_s")
    return cost / requests_per_s if cost is not None and requests_per_s else None


def host_us(row: Row) -> float | None:
    """The host's busy time per request."""
    return _per_request_us(row, busy(row))


def nic_us(row: Row) -> float | None:
    """The simulated NIC's busy time per request."""
    idle = number(row, "nic_idle")
    return _per_request_us(row, None if idle is None else 1 - idle)


def _per_request_us(row: Row, busy_share: float | None) -> float | None:
    rate = number(row, "requests_per_s")
    return US_PER_S * busy_share / rate if busy_share is not None and rate else None


def busy(row: Row) -> float | None:
    """The busy share of the server's processors, as a fraction."""
    idle = number(row, "server_idle" if row["way"] == MEASURED else "host_idle")
    return None if idle is None else 1 - idle


def estimated(
    method: str, runs: str, rows: Mapping[int, Row], value: Callable[[Row], float | None]
) -> MethodValue:
    """The value of a function in each run of a point, in per cent."""
    values = {seed: value(row) for seed, row in rows.items()}
    return MethodValue(
        method, runs, {s: 100 * share for s, share in values.items() if share is not None}
    )


def seeds_of(rows: Rows, *points: str) -> list[int]:
    """The seeds that all these points have."""
    common = set.intersection(*(set(rows.get(point, {})) for point in points))
    return sorted(common)


def mean_of(rows: Mapping[int, Row], value: Callable[[Row], float | None]) -> float:
    """The mean of a function over a point's runs; 0 if no run has a value."""
    values = [number for row in rows.values() if (number := value(row)) is not None]
    return sum(values) / len(values) if values else 0.0
