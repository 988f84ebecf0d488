"""LAWS: how much throughput gains when communication work moves from the host to its NIC.

Host and NIC work in parallel, and the slowest of host, NIC and wire limits. Source: Shivam
and Chase, *On the Elusive Benefits of Protocol Offload*, 2003, as used by Patwardhan, Lebeck and
Sorin, *Communication Breakdown*, section 5.

Assumes that work is divisible and proportional to data, that handing work over costs the host
nothing beyond what `p` leaves it, and that latency and memory never limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpacket.models.checks import numbers

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
    "The published gamma is rounded, while the published gain follows from the network share "
    "before rounding, so that 1/gamma and the gain of one row can differ by a point or so."
)
"""Why a gain computed from the published gamma is not the published gain."""


@dataclass(frozen=True, slots=True)
class Offload:
    """Throughput with and without offload, in units of the unaided host's own limit."""

    without: NDArray[np.float64]
    with_offload: NDArray[np.float64]
    gain: NDArray[np.float64]
    """with / without - 1, as a fraction."""
    limit: NDArray[np.intp]
    """Index into `LIMITS`: the limit with offload."""


def gamma_of_share(network_share: ArrayLike) -> NDArray[np.float64]:
    """Application ratio gamma = (1 - share) / share of a share of CPU spent on communication.

    `network_share` is a fraction, above 0 and at most 1, of *busy* CPU time.
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
    """Gain of offloading; all arguments broadcast against each other.

    - `gamma`: application over communication work for a unit of data, at least 0
    - `p`: share of the communication work that is offloaded, 0 to 1
    - `alpha`: time the NIC needs for work over the host's; 0 is a NIC that is never the limit
    - `beta`: share of the offloaded work that remains to be done on the NIC, at least 0
    - `sigma`: share of the wire the unaided host can fill; 0 is a wire that is never the limit,
      above 1 the wire was the limit before

    With the unaided host's limit 1/((a+o)X) as unit, a/o = gamma, alpha = Y/X, sigma = 1/B:

        without = min(1/sigma, 1)
        with    = min(1/sigma, (gamma+1)/(gamma+1-p), (gamma+1)/(p beta alpha))
        gain    = with/without - 1

    Where only the host limits this is p/(gamma-p+1), and 1/gamma for p = 1: infinite where all of
    a host's work is offloaded (gamma = 0) to a NIC that never limits.
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
    paces = np.stack([host, nic, wire])
    without = np.minimum(wire, 1.0)
    aided = paces.min(axis=0)
    return Offload(without, aided, aided / without - 1.0, paces.argmin(axis=0))


def best_share(gamma: float, alpha: float, beta: float = 1.0) -> float:
    """The share `p` at which host and NIC are equally busy, at most 1: more gains nothing.

    From (gamma+1-p) = p beta alpha follows p = (gamma+1)/(1 + beta alpha).
    """
    application = float(numbers("gamma", gamma))
    work = float(numbers("alpha", alpha)) * float(numbers("beta", beta))
    return min(1.0, (application + 1.0) / (1.0 + work))
