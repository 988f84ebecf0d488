"""The largest possible gain by offload in a run, by the model LAWS from the network's share."""

from __future__ import annotations

from typing import Final

from perpacket.analysis.statistics import Interval
from perpacket.server_cost import NETWORK_LAYERS
from perpacket_lab.analysis.estimates import Estimates, sum_of_layers
from perpacket_lab.study.quantities import Quantity, Row, of_own_busy

MOST_SHARE: Final = 0.99
"""The gain is computed for no larger share: it grows without limit as the share approaches 1."""

SHARE: Final = "share"
"""The last part of the column with a layer's share of the busy processor."""


def network_shares(estimates: Estimates, event: str = SHARE) -> dict[str, Interval]:
    """The network layers' share of the server's own busy time, a fraction, by point.

    Empty if the runs have no layers, because the kernel's accounts have only user, kernel and
    interrupt time.
    """
    if "tcp" not in estimates.layers(event):
        return {}
    network = sum_of_layers(NETWORK_LAYERS, event)

    def own_share(row: Row) -> float | None:
        share = network(row)
        percent = None if share is None else of_own_busy(share, row)
        return None if percent is None else percent / 100

    entry = Quantity("network share", "Network", "", own_share, kind="share")
    sums = {point: estimates.mean(point, entry) for point in estimates.rows}
    return {point: share for point, share in sums.items() if share is not None and share.value > 0}


def gain_percent(share: float, offloaded: float = 1.0) -> float:
    """The gain (%) if the NIC does a fraction of the network's share: see `models.laws`."""
    from perpacket_lab.models import laws

    if share <= 0:
        return 0.0
    gamma = laws.gamma_of_share(min(share, MOST_SHARE))
    return 100 * float(laws.offload(gamma, offloaded).gain)
