"""The guards of a trial: signs that a change harms the users of the server, in one window.

They compare the last window with the worst window without the change. They are wide, because one
window is short, and because a trial measures smaller effects with intervals.
"""

from __future__ import annotations

from collections.abc import Sequence

from perpacket.advise.effect import BEFORE, CHANGED, Window
from perpacket.errors import RunFailed

FACTOR = 5.0
"""So many times the worst value without the change is harm, if it is above the least one."""

LEAST_P99_US = 50_000.0
"""A lower p99 is no harm: other programs on the machine can cause it in a short window."""

LEAST_SHARE = 0.02
"""A loss of less than this share of the packets is no harm."""


class Harmful(RunFailed):
    """A change that harms the users; the trial undid it."""


def harm(found: Sequence[Window]) -> str:
    """The harm that the last window shows; empty if it shows none, or is one without the change."""
    unchanged = [window for window in found if window.side == BEFORE]
    if not unchanged or found[-1].side != CHANGED:
        return ""
    last = found[-1]
    if (p99 := last.latency_us.get("p99")) is not None:
        usual = max((window.latency_us.get("p99", 0.0) for window in unchanged), default=0.0)
        if usual and p99 > max(LEAST_P99_US, FACTOR * usual):
            return f"p99 is {p99 / 1000:,.1f} ms, and was {usual / 1000:,.1f} ms at most"
    for what in ("retransmissions", "drops"):
        share = getattr(last, what) / last.packets
        usual = max(getattr(window, what) / window.packets for window in unchanged)
        if share > max(LEAST_SHARE, FACTOR * usual):
            now, before = 100 * share, 100 * usual
            return f"{what} are {now:.1f} % of the packets, and were {before:.1f} % at most"
    return ""
