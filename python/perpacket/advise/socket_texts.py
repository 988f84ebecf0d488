"""Parsers of texts about sockets: ss, netstat, and /proc/net/sockstat, tcp and udp.

Each function is pure: text in, facts out. Text that has another form gives no facts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TIME_WAIT, LISTEN = "06", "0A"
"""States in /proc/net/tcp; include/net/tcp_states.h."""

STATES = (
    "ESTAB(?:LISHED)?|TIME[-_]WAIT|CLOSE[-_]WAIT|FIN[-_]WAIT[-_]?[12]|SYN[-_]SENT|LAST[-_]ACK|"
    "CLOSING"
)

LISTENING = re.compile(r"^(?:tcp6?\s+)?LISTEN\s+(\d+)\s+(\d+)\s+(\S+:\S+)\s", re.MULTILINE)
"""A listening socket of `ss -l`: the connections that wait, their most, and the address."""

OLD_LISTENING = re.compile(r"^tcp6?\s+(\d+)\s+\d+\s+(\S+:\S+)\s+\S+\s+LISTEN\b", re.MULTILINE)
"""The same of netstat, which does not print the most."""

CONNECTION = re.compile(
    rf"^(?:tcp6?\s+)?({STATES})\s+\d+\s+\d+\s+(\S+):(\d+)\s+(\S+:\d+)", re.MULTILINE
)
OLD_CONNECTION = re.compile(
    rf"^tcp6?\s+\d+\s+\d+\s+(\S+):(\d+)\s+(\S+:\d+)\s+({STATES})\b", re.MULTILINE
)

OF_KERNEL = re.compile(
    r"^\s*\d+: ([0-9A-F]{8,32}):([0-9A-F]{4}) ([0-9A-F]{8,32}:[0-9A-F]{4}) ([0-9A-F]{2}) "
    r"[0-9A-F]{8}:([0-9A-F]{8}) (.*)$",
    re.MULTILINE,
)
"""A socket of /proc/net/tcp or udp: both addresses, the state, the receive queue, and the rest."""

ESTABLISHED = re.compile(r"^(?:tcp6?\s+)?ESTAB\s+(\d+)\s+\d+\s+\S+:\d+\s", re.MULTILINE)

UNREAD_BYTES = 65536
"""From so many bytes in its receive queue a connection's program reads slowly."""

SUMMARY = re.compile(r"^TCP:\s+\d+ \(estab (\d+), .*timewait (\d+)", re.MULTILINE)
"""The line of `ss -s`."""

SOCKSTAT = re.compile(r"^TCP: inuse (\d+) orphan (\d+) tw (\d+) alloc \d+ mem (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket."""

    address: str
    waiting: int
    """Connections that the program has not accepted."""
    most: int = 0
    """The most that may wait; 0 if the text does not show it."""

    @property
    def is_full(self) -> bool:
        """Whether the queue has no room. The kernel lets one more wait than its limit."""
        return self.most > 0 and self.waiting >= self.most


@dataclass(frozen=True, slots=True)
class Sockets:
    """What is known of the sockets of a machine."""

    listeners: tuple[Listener, ...] = ()
    time_wait: int = 0
    """Closed connections whose addresses wait for a minute."""
    memory_pages: int = 0
    """The memory of TCP."""
    peers: Mapping[str, int] = field(default_factory=dict)
    """The local ports that connections to each peer's address and port use."""
    datagram_drops: Mapping[str, int] = field(default_factory=dict)
    """The datagrams that found the socket full, by the local address of the socket."""
    connections: int = 0
    """Established connections that were listed."""
    unread: int = 0
    """Those of them with data that the program has not read."""
    datagram_room: int = 0
    """The bytes of the largest receive buffer of a socket of datagrams."""

    @property
    def uneven(self) -> Sequence[Listener]:
        """The sockets of one address, if some are full and others almost empty."""
        for address in {one.address for one in self.listeners}:
            same = [one for one in self.listeners if one.address == address]
            limit = max(one.most for one in same)
            full = [one for one in same if one.is_full or (limit and one.waiting >= limit)]
            idle = [one for one in same if one.waiting <= 0.1 * max(limit, 1)]
            if full and len(idle) >= len(same) / 2:
                return same
        return ()

    def with_(self, other: Sockets) -> Sockets:
        """Both texts together."""
        return Sockets(
            self.listeners + other.listeners,
            max(self.time_wait, other.time_wait),
            max(self.memory_pages, other.memory_pages),
            {**self.peers, **other.peers},
            {**self.datagram_drops, **other.datagram_drops},
            self.connections + other.connections,
            self.unread + other.unread,
            max(self.datagram_room, other.datagram_room),
        )


def sockets(text: str) -> Sockets:
    """The sockets that a text shows."""
    listeners = [
        Listener(where, int(now), int(most)) for now, most, where in LISTENING.findall(text)
    ]
    listeners += [Listener(where, int(now)) for now, where in OLD_LISTENING.findall(text)]
    rows = [(state, peer) for state, _, _, peer in CONNECTION.findall(text)]
    rows += [(state, peer) for _, _, peer, state in OLD_CONNECTION.findall(text)]
    kernel = OF_KERNEL.findall(text)
    is_tcp = "drops" not in text
    if is_tcp:
        for _, port, peer, state, queue, _ in kernel:
            if state == LISTEN:
                listeners.append(Listener(f":{int(port, 16)}", int(queue, 16)))
            else:
                rows.append(("TIME-WAIT" if state == TIME_WAIT else state, peer))
    waiting = sum(state.startswith("TIME") for state, _ in rows)
    summary, stat = SUMMARY.search(text), SOCKSTAT.search(text)
    counts = (waiting, int(summary[2]) if summary else 0, int(stat[3]) if stat else 0)
    drops = {} if is_tcp else {
        f":{int(port, 16)}": int(rest.split()[-1]) for _, port, _, _, _, rest in kernel
    }  # fmt: skip
    of_ss, room = _datagrams(text)
    queues = ESTABLISHED.findall(text)
    return Sockets(
        tuple(listeners),
        max(counts),
        int(stat[4]) if stat else 0,
        Counter(peer for _, peer in rows),
        {**drops, **of_ss},
        len(queues),
        sum(int(queue) >= UNREAD_BYTES for queue in queues),
        room,
    )


def _datagrams(text: str) -> tuple[dict[str, int], int]:
    """The drops of each socket of `ss -uam`, and the largest receive buffer."""
    found: dict[str, int] = {}
    address, room = "", 0
    for line in text.splitlines():
        head = re.match(r"^(?:udp\s+)?(?:UNCONN|ESTAB)\s+\d+\s+\d+\s+(\S+:\S+)\s", line)
        address = head[1] if head else address
        memory = re.search(r"skmem:\(r\d+,rb(\d+),.*,d(\d+)\)", line)
        if memory and address:
            found[address] = found.get(address, 0) + int(memory[2])
            room = max(room, int(memory[1]))
    return found, room
