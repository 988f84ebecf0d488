"""The files that show whether a queue, a table or memory was full, for cases.

Without one of them, advice must not say that it was not full.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from perpacket.advise.expression import NotReadable
from perpacket.advise.limit_interfaces import RING_DROPS
from perpacket.advise.limit_kinds import What

if TYPE_CHECKING:
    from perpacket.advise.observation import Observation

Shows = Callable[["Observation"], bool]


def _any_of(*titles: str) -> Shows:
    """Whether a text of one of these kinds was recognized; `texts.RECOGNIZED`."""

    def shows(seen: Observation) -> bool:
        return any(title in found.split(", ") for _, found in seen.files for title in titles)

    return shows


def _counts_connections(seen: Observation) -> bool:
    """Whether the size of the table of connections is known, or what it refused."""
    try:
        seen.read_setting({"kind": "sysctl", "name": "net.netfilter.nf_conntrack_count"}, "")
    except NotReadable:
        grown = seen.grown
        return "ConntrackDrop" in grown.protocols or bool(grown.messages)
    return True


def _counts_ring_drops(seen: Observation) -> bool:
    names = {name.lower() for rows in seen.grown.drivers.values() for name in rows}
    return any(fnmatch.filter(names, pattern) for pattern in RING_DROPS)


_SOFTNET = "/proc/net/softnet_stat", _any_of("softnet_stat")

SHOWN_BY: Mapping[What, tuple[str, Shows]] = {
    What.RING: ("ethtool -S", _counts_ring_drops),
    What.BACKLOG: _SOFTNET,
    What.SQUEEZE: _SOFTNET,
    What.TABLE: ("sysctl -a", _counts_connections),
    What.NEIGHBOURS: ("dmesg", lambda seen: bool(seen.grown.messages)
                      or "NeighbourTableFull" in seen.grown.protocols),
    What.PORTS: ("ss -s", _any_of("sockets", "messages of limits")),
    What.MEMORY: ("/proc/net/sockstat", lambda seen: seen.grown.sockets.memory_pages > 0
                  or "TcpExtTCPMemoryPressures" in seen.grown.protocols),
    What.ACCEPT: ("nstat -az", _any_of("counters of protocols", "sockets")),
    What.DATAGRAMS: ("nstat -az", _any_of("counters of protocols")),
}  # fmt: skip
"""By limit: the command or file that shows it, and whether the files of a case do."""


def missing(limits: Sequence[What], seen: Observation) -> NotReadable | None:
    """Why no file shows any of these limits; None if one does, or if this machine was read."""
    sources = [SHOWN_BY[what] for what in limits if what in SHOWN_BY]
    if not seen.is_case or len(sources) < max(1, len(limits)):
        return None
    if any(shows(seen) for _, shows in sources):
        return None
    return NotReadable(f"no file shows whether this limits: {limits[0]} (`{sources[0][0]}`)")
