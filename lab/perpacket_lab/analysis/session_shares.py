"""The shares of packets of the longest and the shortest sessions of a log (OSDI 2006, 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from perpacket.analysis.statistics import DEFAULT_CONFIDENCE, Interval
from perpacket_lab.analysis.published_comparison import Comparison, compare
from perpacket_lab.study.published import Published

Log = Mapping[str, Any]
"""What `perpacket trace info` printed of a log (`result`), with the command."""

LOG: Final = "world-cup-day-6"

ROWS: Final = (
    (
        "top_tenth_share",
        "Packets of the longest tenth of the connections",
        Published("osdi06/f4-top10-w", "5.2", "over", LOG, "", "%", minimum=60.0),
    ),
    (
        "bottom_half_share",
        "Packets of the shorter half of the connections",
        Published("osdi06/f4-half", "3.3, Figure 4", "below", LOG, "", "%", maximum=10.0),
    ),
)
"""The share of `session_packets`, its title and the published bound."""

PUBLISHED_CURVE: Final = {50: 10.0, 90: 40.0}
"""The same bounds as points of the curve: the packets (%) of the shortest connections (%)."""


def of_day_6(logs: Mapping[str, Log]) -> list[Comparison]:
    """The published shares beside those of day 6 of the World Cup; empty without its log."""
    log = logs.get(LOG)
    if log is None:
        return []
    shares = log["result"]["session_packets"]
    comparisons = []
    for key, title, published in ROWS:
        percent = 100 * float(shares[key])
        exact = Interval(percent, percent, percent, 1, DEFAULT_CONFIDENCE)
        comparisons.append(compare(published, "", exact, title=title))
    return comparisons
