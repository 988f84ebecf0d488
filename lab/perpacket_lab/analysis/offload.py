"""The largest possible gain by offload in a run, by the model LAWS from the network's share."""

from __future__ import annotations

from typing import Final

from perpacket.analysis.statistics import Interval
from perpacket.server_cost import NETWORK_LAYERS
from perpacket_lab.analysis.estimates import Estimates

MOST_SHARE: Final = 0.99
"""The gain is computed for no larger share: it grows without limit as the share approaches 1."""

SHARE: Final = "share"
"""The last part of the column with a layer's share of the busy processor."""


def network_shares(estimates: Estimates, event: str = SHARE) -> dict[str, Interval]:
    """The network layers' share of the busy processor, a fraction, by point.

    Empty if the runs have no layers, because the kernel's accounts have only user, kernel and
    interrupt time.
    """
    layers = estimates.layers(event)
    if "tcp" not in layers:
        return {}
    network = [layer for layer in NETWORK_LAYERS if layer in layers]
    sums = {point: estimates.layer_sum(point, network, event) for point in estimates.rows}
    return {point: share for point, share in sums.items() if share is not None and share.value > 0}


def gain_percent(share: float, offloaded: float = 1.0) -> float:
    """The gain (%) if the NIC does a fraction of the network's share: see `models.laws`."""
    from perpacket_lab.models import laws

    if share <= 0:
        return 0.0
    gamma = laws.gamma_of_share(min(share, MOST_SHARE))
    return 100 * float(laws.offload(gamma, offloaded).gain)
