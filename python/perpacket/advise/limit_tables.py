"""Limits of tables, memory and queues that programs and connections share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perpacket.advise import log_texts
from perpacket.advise.expression import NotReadable
from perpacket.advise.limit_interfaces import LEAST_LOST
from perpacket.advise.limit_kinds import Limit, What

if TYPE_CHECKING:
    from perpacket.advise.growth import Growth
    from perpacket.advise.observation import Observation

LEAST_REFUSED = 1e-3
"""The least share of connections or datagrams for which a program's queue had no room."""

FEW_RETURNED = 0.1
"""The share of SYN cookies that come back; clients return most, and a flood almost none."""

LEAST_COOKIES = 0.05
"""The least share of received segments that were answered by a cookie, in a flood."""

FULL_TABLE = 0.95
"""The part of nf_conntrack_max from which the table of connections is full."""

DEFAULT_PORTS = "32768 60999"
"""The default of net.ipv4.ip_local_port_range."""

MOST_PORTS_IN_USE = 0.9
"""The part of the local ports to one address from which new connections find none."""


def of_tables(grown: Growth, seen: Observation) -> Iterator[Limit]:
    """The limits of tables, memory and queues, in the order in which they are to be removed."""
    yield from _table(grown, seen)
    yield from _room(grown, seen)
    yield from _programs(grown)


def _table(grown: Growth, seen: Observation) -> Iterator[Limit]:
    """The table of connection tracking, which refuses new connections if it is full."""
    refused = grown.protocols.get("ConntrackDrop", 0)
    try:
        now, most = (
            int(seen.read_setting({"kind": "sysctl", "name": f"net.netfilter.{name}"}, ""))
            for name in ("nf_conntrack_count", "nf_conntrack_max")
        )
    except (NotReadable, ValueError):
        now, most = 0, 0
    if most and now >= FULL_TABLE * most:
        yield Limit(
            What.TABLE,
            f"a full connection table: it has {now:,} of at most {most:,} connections "
            "(nf_conntrack_max), and packets of new ones are dropped",
        )
    elif grown.messages.get(log_texts.TABLE_FULL, 0):
        yield Limit(
            What.TABLE,
            "a full connection table: the kernel wrote `nf_conntrack: table full, dropping packet`",
        )
    elif refused > LEAST_LOST * max(grown.frames, grown.protocols.get("IpInReceives", 0)):
        yield Limit(
            What.TABLE,
            f"a full connection table: connection tracking dropped {refused:,} packets, for which "
            "it found no room",
        )


def _sysctl(seen: Observation, name: str, default: str = "") -> list[int]:
    """The numbers of a setting; those of the default if they cannot be read."""
    try:
        text = seen.read_setting({"kind": "sysctl", "name": name}, "")
    except NotReadable:
        text = default
    return [int(word) for word in text.split() if word.isdigit()]


def _room(grown: Growth, seen: Observation) -> Iterator[Limit]:
    """Tables and memory that are shared by all connections."""
    most = _sysctl(seen, "net.ipv4.neigh.default.gc_thresh3")
    overflows = grown.protocols.get("NeighbourTableFull", 0)
    if overflows or grown.messages.get(log_texts.NEIGHBOURS_FULL, 0):
        size = f"{most[0]:,}" if most else "an unknown number of"
        yield Limit(
            What.NEIGHBOURS,
            f"a full table of neighbours: it has room for {size} (gc_thresh3), and packets to "
            "others are dropped",
        )
    yield from _ports(grown, seen)
    memory = _sysctl(seen, "net.ipv4.tcp_mem")
    pages, pressed = grown.sockets.memory_pages, grown.protocols.get("TcpExtTCPMemoryPressures", 0)
    is_above = len(memory) == 3 and pages > memory[1]
    if grown.messages.get(log_texts.MEMORY, 0) or is_above or (pressed and not memory):
        used = f"TCP uses {pages:,} pages" if pages else "TCP has no memory left"
        limits = f", and its limits (tcp_mem) are {' '.join(map(str, memory))}" if memory else ""
        yield Limit(
            What.MEMORY,
            f"the memory of TCP: {used}{limits}. Above the second, windows shrink and queued data "
            "of all connections is dropped",
        )
    if failed := grown.messages.get(log_texts.NO_FILE, 0):
        yield Limit(
            What.DESCRIPTORS,
            f"the open files of a program: it failed {failed} times with `too many open files`. "
            "Raise its limit (LimitNOFILE), or look for connections that it does not close",
        )


def _ports(grown: Growth, seen: Observation) -> Iterator[Limit]:
    """Local ports to one address, which closed connections use for a minute."""
    ports = _sysctl(seen, "net.ipv4.ip_local_port_range", DEFAULT_PORTS)
    first, last = ports if len(ports) == 2 else map(int, DEFAULT_PORTS.split())
    count = max(1, last - first + 1)
    peer = max(grown.sockets.peers, key=lambda name: grown.sockets.peers[name], default="")
    used = grown.sockets.peers.get(peer, 0)
    opened, accepted = (grown.protocols.get(f"Tcp{way}Opens", 0) for way in ("Active", "Passive"))
    closed = grown.sockets.time_wait if opened > accepted else 0
    if (
        not grown.messages.get(log_texts.NO_PORT, 0)
        and max(used, closed) < MOST_PORTS_IN_USE * count
    ):
        return
    which = f"{used:,} connections to {peer}" if used > closed else (
        f"{grown.sockets.time_wait:,} closed connections wait for a minute (TIME-WAIT)"
    )  # fmt: skip
    yield Limit(
        What.PORTS,
        f"no free local ports: {which}, and there are {count:,} ports to one address "
        f"({first} to {last})",
    )


def _programs(grown: Growth) -> Iterator[Limit]:
    """Queues between the kernel and programs that refused connections or datagrams."""
    counts = grown.protocols
    sent, returned = (counts.get(f"TcpExtSyncookies{way}", 0) for way in ("Sent", "Recv"))
    if sent > LEAST_COOKIES * counts.get("TcpInSegs", sent) and returned < FEW_RETURNED * sent:
        yield Limit(
            What.FLOOD,
            f"a flood of connection requests: {sent:,} were answered by a SYN cookie, and only "
            f"{returned:,} cookies came back. Most of these requests are from no client",
        )
    if same := grown.sockets.uneven:
        full = sum(one.waiting >= max(other.most for other in same) for one in same)
        yield Limit(
            What.UNEVEN,
            f"{full} of the {len(same)} listening sockets of {same[0].address} has a full queue "
            f"({max(one.waiting for one in same)} connections), and the others have room. The "
            "kernel chooses a socket by the hash of the connection, whatever its program does",
        )
    refused = counts.get("TcpExtListenOverflows", 0) + counts.get("TcpExtTCPReqQFullDrop", 0)
    full_queues = [one for one in grown.sockets.listeners if one.is_full and one.waiting > 1]
    if full_queues and not refused:
        one = max(full_queues, key=lambda queue: queue.waiting)
        yield Limit(
            What.ACCEPT,
            f"a full accept queue: {one.waiting} connections wait at {one.address}, which has room "
            f"for {one.most}, because the program does not accept them in time",
        )
    if refused > LEAST_REFUSED * (refused + counts.get("TcpPassiveOpens", 0)):
        yield Limit(
            What.ACCEPT,
            f"a full accept queue: {refused:,} connections found no room, because the program does "
            "not accept them in time. Clients send again after a second or more"
            + "".join(
                f"; {one.waiting} wait at {one.address}, room for {one.most}" for one in full_queues
            ),
        )
    lost, read = counts.get("UdpRcvbufErrors", 0), counts.get("UdpInDatagrams", 0)
    if lost > LEAST_REFUSED * (lost + read):
        yield Limit(
            What.DATAGRAMS,
            f"full sockets: {lost:,} of {lost + read:,} datagrams found no room in the socket of "
            f"their program, which does not read them in time{_fullest(grown)}",
        )


def _fullest(grown: Growth) -> str:
    """The socket of datagrams that dropped most."""
    drops = grown.sockets.datagram_drops
    if not drops or not max(drops.values()):
        return ""
    address = max(drops, key=lambda name: drops[name])
    return f"; the socket {address} dropped {drops[address]:,}"
