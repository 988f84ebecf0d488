"""Partial handoff: the best share of connections for a NIC, and the gain.

A share f of the connections is on the NIC. Host and NIC work in parallel, and the slower one is the
limit. The model extends LAWS (`models.laws`): the offloaded work is whole connections,
and the NIC also does work for the host's connections.

    X(f) = min(1/(A - f S), 1/(n0 + f n1)),  best at f* = (A - n0)/(S + n1), clipped to 0..1.

The model assumes that the cost of a request depends only on the owner of its connection: there is
no queueing, the share has no effect on caches, and all connections are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpacket.errors import ConfigurationError
from perpacket_lab.models.checks import numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Costs:
    """The times of a request on the two processors, in seconds.

    `host_s` (A): host time for a host connection; `saved_s` (S): host time saved if the NIC owns
    the connection; `nic_host_s` (n0): NIC time for a host connection; `nic_extra_s` (n1):
    additional NIC time if the NIC owns the connection.
    """

    host_s: float
    saved_s: float
    nic_host_s: float
    nic_extra_s: float

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` on impossible costs."""
        numbers("host_s", self.host_s, positive=True)
        numbers("saved_s", self.saved_s)
        numbers("nic_host_s", self.nic_host_s)
        numbers("nic_extra_s", self.nic_extra_s)
        if self.saved_s > self.host_s:
            raise ConfigurationError(
                f"saved_s = {self.saved_s:g}: expected at most host_s = {self.host_s:g}",
                parameter="saved_s",
                value=f"{self.saved_s:g}",
                allowed="handoff cannot save more than a request costs",
            )


def throughput(costs: Costs, share: ArrayLike) -> NDArray[np.float64]:
    """Requests per second with a `share` (0 to 1) of the connections on the NIC: X(f)."""
    import numpy as np

    f = numbers("share", share, high=1.0)
    with np.errstate(divide="ignore"):
        host = 1.0 / (costs.host_s - f * costs.saved_s)
        nic = 1.0 / (costs.nic_host_s + f * costs.nic_extra_s)
    return np.minimum(host, nic)


def best_share(costs: Costs) -> float:
    """The share f* with the highest throughput, 0 to 1.

    It is 0 if the NIC is the limit even without handoff, or if handoff has no effect (S + n1 = 0).
    """
    change = costs.saved_s + costs.nic_extra_s
    if change == 0:
        return 0.0
    return min(1.0, max(0.0, (costs.host_s - costs.nic_host_s) / change))


def gain(costs: Costs, share: ArrayLike) -> NDArray[np.float64]:
    """The gain of a share on the NIC over no handoff, as a fraction."""
    gained: NDArray[np.float64] = throughput(costs, share) / throughput(costs, 0.0) - 1.0
    return gained
