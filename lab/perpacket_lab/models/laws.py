"""LAWS: the gain in throughput when communication work moves from the host to its NIC.

Host and NIC work in parallel, and the slowest of host, NIC and wire is the limit. Source: Shivam
and Chase, *On the Elusive Benefits of Protocol Offload*, 2003, as used by Patwardhan, Lebeck and
Sorin, *Communication Breakdown*, section 5.

The model assumes that work is divisible and proportional to data, that offload adds no work on the
host, and that latency and memory are never the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpacket_lab.models.checks import numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

LIMITS = ("host", "nic", "wire")
"""The possible limits with offload, in the order of `Offload.limit`'s numbers."""

PUBLISHED = (
    ("ApacheBench", 34.0, 1.95, 52.0),
    ("Surge", 25.6, 3.0, 34.5),
    ("SlashCode", 1.0, 99.0, 1.0),
    ("SPECweb99_SSL", 6.5, 14.0, 7.0),
    ("Trade3", 4.0, 24.0, 4.0),
)
"""Table 5 of *Communication Breakdown*: workload, network share of CPU (%), gamma, gain (%)."""

COLUMNS_DIFFER = (
    "The published gamma is rounded, but the published gain is computed from the network share "
    "before rounding. So 1/gamma and the gain of a row can differ by about a point."
)
"""The reason why 1/gamma is not the published gain."""


def gain_of_cheaper_part(
    part_share: ArrayLike, cost: ArrayLike, network_share: ArrayLike = 0.0
) -> NDArray[np.float64]:
    """The gain in throughput, a fraction, if a part of the busy time costs less.

    `cost` is the part's new cost as a fraction of its cost now, from 0 to 1. The network's share
    moves to the NIC. Shares are fractions of busy CPU time. Section 5.2 of *Communication
    Breakdown* halves the cost of perl in SlashCode. The gain that it prints, 62.5 %, follows if
    perl takes 75 % and the network 1 % of the time. But by its text, perl takes 75 % of httpd's
    time, so at most 56 % of all time. From this a gain of 40.8 % follows.
    """
    part = numbers("part share", part_share, high=1.0)
    network = numbers("network share", network_share, high=1.0)
    left = 1.0 - part * (1.0 - numbers("cost", cost, high=1.0)) - network
    numbers("share that is left", left, positive=True)
    return 1.0 / left - 1.0


@dataclass(frozen=True, slots=True)
class Offload:
    """The gain by offload, and the limit of throughput with it."""

    gain: NDArray[np.float64]
    """A fraction."""
    limit: NDArray[np.intp]
    """Index into `LIMITS`: the limit with offload."""


def gamma_of_share(network_share: ArrayLike) -> NDArray[np.float64]:
    """The application ratio gamma = (1 - share) / share for a share of communication.

    `network_share` is a fraction of *busy* CPU time, above 0 and at most 1.
    """
    share = numbers("network share", network_share, high=1.0, positive=True)
    return (1.0 - share) / share


def offload(
    gamma: ArrayLike,
    p: ArrayLike = 1.0,
    *,
    alpha: ArrayLike = 0.0,
    beta: ArrayLike = 1.0,
    sigma: ArrayLike = 0.0,
) -> Offload:
    """The gain by offload; all arguments broadcast against each other.

    - `gamma`: application ratio, application over communication work, at least 0
    - `p`: share of the communication work that is offloaded, 0 to 1
    - `alpha`: lag ratio, NIC time over host time for the same work; with 0 the NIC is never the
      limit
    - `beta`: structural ratio, share of the offloaded work that the NIC has to do, at least 0
    - `sigma`: wire ratio, share of the wire that the host fills without offload; with 0 the wire is
      never the limit, above 1 it is the limit without offload

    In the symbols of the source, a and o are the application's and the communication work for a
    unit of data, X and Y the times of host and NIC for a unit of work, and B the wire's bandwidth.
    The unit of throughput is the host's limit without offload, 1/((a+o)X). So gamma = a/o,
    alpha = Y/X and sigma = 1/B:

        without = min(1/sigma, 1)
        with    = min(1/sigma, (gamma+1)/(gamma+1-p), (gamma+1)/(p beta alpha))
        gain    = with/without - 1

    If only the host is a limit, the gain is p/(gamma-p+1), and 1/gamma for p = 1. It is infinite if
    all work of the host is offloaded (gamma = 0) to a NIC that is never the limit.
    """
    import numpy as np

    ratios = np.broadcast_arrays(
        numbers("gamma", gamma),
        numbers("p", p, high=1.0),
        numbers("alpha", alpha),
        numbers("beta", beta),
        numbers("sigma", sigma),
    )
    application, share, lag, structure, wire_share = ratios
    with np.errstate(divide="ignore"):
        wire = 1.0 / wire_share
        host = (application + 1.0) / (application + 1.0 - share)
        nic = (application + 1.0) / (share * structure * lag)
    limits = np.stack([host, nic, wire])
    without = np.minimum(wire, 1.0)
    return Offload(limits.min(axis=0) / without - 1.0, limits.argmin(axis=0))


def best_share(gamma: float, alpha: float, beta: float = 1.0) -> float:
    """The share `p`, at most 1, at which host and NIC are equally busy: a larger `p` gains nothing.

    p = (gamma+1)/(1 + beta alpha) solves (gamma+1-p) = p beta alpha.
    """
    application = float(numbers("gamma", gamma))
    work = float(numbers("alpha", alpha)) * float(numbers("beta", beta))
    return min(1.0, (application + 1.0) / (1.0 + work))
