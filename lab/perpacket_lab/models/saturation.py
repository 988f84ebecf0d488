"""Throughput grows with the number of connections until the server is saturated.

    X(n) = min(n X(m) / m, X(m) / U(m)),  from throughput X and utilization U at m connections

These are the asymptotic bounds of a closed queueing network: few customers never wait, and a
saturated server works at its service rate. Source: Denning and Buzen, *The Operational Analysis of
Queueing Network Models*, ACM Computing Surveys 10(3), 1978.

The model assumes that the cost of a request does not depend on the number of connections, and that
clients and the network are never the limit. It omits queueing, so it is an upper bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpacket_lab.models.checks import numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def relative_throughput(
    connections: ArrayLike, at: float, utilization: float
) -> NDArray[np.float64]:
    """Throughput relative to `at` connections, where the server had that `utilization`.

    `connections` are 1 or more, `utilization` is a fraction above 0 and at most 1.
    """
    import numpy as np

    count = numbers("connections", connections, low=1.0)
    base = numbers("at", at, low=1.0)
    busy = numbers("utilization", utilization, high=1.0, positive=True)
    return np.minimum(count / base, 1.0 / busy)
