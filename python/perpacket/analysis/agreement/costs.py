"""The cost of a request in one observation, measured or simulated, in units of its own machine.

The unit is processor time in a measurement and cycles in a simulation: every use divides one cost
by another of the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from perpacket.analysis.estimates import Rows
from perpacket.analysis.methods import MethodValue
from perpacket.study.quantities import BUSY, Row, layers, number

MEASURED = "measured"
SIMULATED = "simulated"
METHODS = (MEASURED, SIMULATED)
"""Methods that have runs of their own; models are computed from those."""

STACK = ("tcp", "udp", "ip", "ethernet", "driver", "bypass")
"""The network stack below the system calls: the layers that both methods separate from the others.
Sockets are part of the simulator's system calls."""

PER_US = 1e6


def per_packet(row: Row, names: Sequence[str]) -> float | None:
    """Cost of some layers: ns a segment where it was measured, cycles a packet where simulated."""
    event = "ns" if row["way"] == MEASURED else "cycles"
    return layers(event, names)(row)


def stack_share(row: Row) -> float | None:
    """The stack's part of the busy processor, as a fraction."""
    return share_of(row, STACK)


def share_of(row: Row, names: Sequence[str]) -> float | None:
    """The part of some layers in the busy processor, as a fraction."""
    part, whole = per_packet(row, names), per_packet(row, BUSY)
    return part / whole if part is not None and whole else None


def segments_per_request(row: Row) -> float | None:
    """Segments sent and received a request."""
    if row["way"] != MEASURED:
        return _over_requests(row, "packets_per_s")
    # The server's own count over the very window of the profile, where it has one.
    requests, window_s = row.get("profiled_requests"), number(row, "window_s")
    segments_per_s = number(row, "segments_per_s")
    if isinstance(requests, int | float) and requests and window_s and segments_per_s:
        return segments_per_s * window_s / requests
    return _over_requests(row, "segments_per_s")


def _over_requests(row: Row, column: str) -> float | None:
    found, requests_per_s = number(row, column), number(row, "requests_per_s")
    return found / requests_per_s if found is not None and requests_per_s else None


def host_us(row: Row) -> float | None:
    """Busy time of the host a request."""
    idle = number(row, "server_idle" if row["way"] == MEASURED else "host_idle")
    return _busy_us(row, idle)


def nic_us(row: Row) -> float | None:
    """Busy time of the simulated NIC a request."""
    return _busy_us(row, number(row, "nic_idle"))


def _busy_us(row: Row, idle: float | None) -> float | None:
    requests_per_s = number(row, "requests_per_s")
    return PER_US * (1 - idle) / requests_per_s if idle is not None and requests_per_s else None


def busy(row: Row) -> float | None:
    """How busy the server's processors were, as a fraction."""
    idle = number(row, "server_idle" if row["way"] == MEASURED else "host_idle")
    return None if idle is None else 1 - idle


def estimated(
    method: str, runs: str, rows: Mapping[int, Row], value: Callable[[Row], float | None]
) -> MethodValue:
    """What a function of each run of a point says, in per cent."""
    found = {seed: value(row) for seed, row in rows.items()}
    return MethodValue(method, runs, {s: 100 * one for s, one in found.items() if one is not None})


def seeds_of(rows: Rows, *points: str) -> list[int]:
    """The seeds that all these points have a run with."""
    common = set.intersection(*(set(rows.get(point, {})) for point in points))
    return sorted(common)


def mean_of(rows: Mapping[int, Row], value: Callable[[Row], float | None]) -> float:
    """The mean of what a function says of a point's runs; 0 where it says nothing."""
    found = [one for row in rows.values() if (one := value(row)) is not None]
    return sum(found) / len(found) if found else 0.0
