"""Partial handoff: how many connections a NIC should own.

A share f of the connections is on the NIC. Host and NIC work in parallel; the slower one limits.
This is LAWS (`perpacket.models.laws`) where the offloaded work is whole connections, and where the
NIC also works for connections it does not own:

    X(f) = min(1/(A - f S), 1/(n0 + f n1)),  best at f* = (A - n0)/(S + n1), clipped to 0..1.

Assumes that the cost of a request depends only on which processor owns its connection: no queueing,
no cache effects of the share, and connections that are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpacket.errors import ConfigurationError
from perpacket.models.checks import numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds a request costs the two processors.

    `host_s` (A): host time of a request whose connection the host runs; `saved_s` (S): host time
    saved when the NIC runs it; `nic_host_s` (n0): NIC time of a request of a host connection;
    `nic_extra_s` (n1): NIC time added when the NIC runs the connection.
    """

    host_s: float
    saved_s: float
    nic_host_s: float
    nic_extra_s: float

    def __post_init__(self) -> None:
        """Reject costs that no machine has."""
        numbers("host_s", self.host_s, positive=True)
        numbers("saved_s", self.saved_s)
        numbers("nic_host_s", self.nic_host_s)
        numbers("nic_extra_s", self.nic_extra_s)
        if self.saved_s > self.host_s:
            raise ConfigurationError(
                f"saved_s = {self.saved_s:g}: expected at most host_s = {self.host_s:g}",
                parameter="saved_s",
                value=f"{self.saved_s:g}",
                allowed="a request cannot save more than it costs",
            )


def throughput(costs: Costs, share: ArrayLike) -> NDArray[np.float64]:
    """Requests a second with a `share` (0 to 1) of the connections on the NIC: X(f)."""
    import numpy as np

    f = numbers("share", share, high=1.0)
    with np.errstate(divide="ignore"):
        host = 1.0 / (costs.host_s - f * costs.saved_s)
        nic = 1.0 / (costs.nic_host_s + f * costs.nic_extra_s)
    return np.minimum(host, nic)


def best_share(costs: Costs) -> float:
    """The share f* with the highest throughput, 0 to 1; 0 when the NIC limits from the start.

    Where handing over changes neither side (S + n1 = 0) every share is as good, and this is 0.
    """
    change = costs.saved_s + costs.nic_extra_s
    if change == 0:
        return 0.0
    return min(1.0, max(0.0, (costs.host_s - costs.nic_host_s) / change))


def gain(costs: Costs, share: ArrayLike) -> NDArray[np.float64]:
    """Throughput with a share on the NIC over that with none, minus 1: a fraction."""
    gained: NDArray[np.float64] = throughput(costs, share) / throughput(costs, 0.0) - 1.0
    return gained
