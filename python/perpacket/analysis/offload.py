"""What offload could gain a run at most: the network's share of its processor put through LAWS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perpacket.analysis import means
from perpacket.models.profiled import NETWORK_LAYERS

if TYPE_CHECKING:
    import polars as pl

    from perpacket.analysis.statistics import Interval

MOST_SHARE: Final = 0.99
"""Beyond this the gain has no scale: all that the processor does is communication."""


def network_shares(observations: pl.DataFrame, event: str = "share") -> dict[str, Interval]:
    """The network layers' share of the busy processor, a fraction, by point.

    Nothing where the runs know no layers: the kernel's own accounts tell user, kernel and interrupt
    time alone.
    """
    columns = means.layer_columns(observations, event)
    if "tcp" not in columns:
        return {}
    network = [columns[layer] for layer in NETWORK_LAYERS if layer in columns]
    shares = means.per_point_sum(observations, network)
    return {point: share for point, share in shares.items() if share.value > 0}


def gain_percent(share: float, offloaded: float = 1.0) -> float:
    """The gain (%) of offloading so much of a share of the busy processor: see `models.laws`."""
    from perpacket.models import laws

    if share <= 0:
        return 0.0
    gamma = laws.gamma_of_share(min(share, MOST_SHARE))
    return 100 * float(laws.offload(gamma, offloaded).gain)
