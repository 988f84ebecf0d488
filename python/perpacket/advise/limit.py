"""What limits the traffic, in the order in which the reasons are to be removed.

Limits that are not the processor come first: if one is there, a cheaper packet makes no traffic
faster. Advice begins with the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from perpacket.advise.expression import NotReadable

if TYPE_CHECKING:
    from perpacket.advise.growth import Growth
    from perpacket.advise.observation import Observation

SHAPERS = ("tbf", "htb", "hfsc", "cake", "netem")
"""Queueing disciplines that delay packets on purpose."""

TUNNELS = ("vxlan", "geneve", "gretap", "gre", "ip6gre", "ipip", "sit", "wireguard", "bareudp")
"""Kinds of interfaces that put frames into other frames; rtnl_link_ops of drivers/net and net."""

LEAST_DELAYED_PER_S = 20
"""The least number of delays a second of a shaper that limits."""

FULL = 0.9
"""The least busy share of a processor, or of a thread's time on one, that limits."""

IDLE_SHARE = 0.1
"""The busiest processor of an idle machine is busy for less than this."""

LEAST_RETRANSMITTED = 0.02
"""The share of segments sent again that is no accident of a path with little loss."""

LEAST_LOST = 1e-4
"""The least share of frames that a full queue dropped, or of segments with wrong checksums."""

LEAST_SQUEEZED = 0.1
"""The least share of frames in polls that ended early; each such poll had up to `BUDGET`."""

BUDGET = 300
"""The default of net.core.netdev_budget, the frames of one round of polls."""

ALLOWANCE = "allowance_exceeded"
"""The end of the names of what a provider drops or delays; Linux, drivers/net/ethernet/amazon."""

RING_DROPS = (
    "rx_missed_errors", "rx_no_buffer_count", "rx_no_dma_resources", "rx_out_of_buffer",
    "rx_fifo_errors", "rx_queue_*_drops", "rx_drops", "rx_overruns", "rx_dropped_full",
)  # fmt: skip
"""Drivers' names of frames for which the receive ring had no room."""

HALF = 0.5

LEAST_STOLEN = 0.1
"""The least share of a processor's time that the host gave to others, and that limits."""

LEAST_REFUSED = 1e-3
"""The least share of connections or datagrams for which a program's queue had no room."""

FEW_RETURNED = 0.1
"""The share of SYN cookies that come back; clients return most, and a flood almost none."""

LEAST_COOKIES = 0.05
"""The least share of received segments that were answered by a cookie, in a flood."""

FULL_TABLE = 0.95
"""The part of nf_conntrack_max from which the table of connections is full."""


class What(StrEnum):
    """What limits the traffic."""

    ALLOWANCE = "allowance of the provider"
    OFFLOAD = "broken offload"
    QUEUEING = "queueing discipline"
    BACKLOG = "full backlog"
    RING = "full ring"
    SQUEEZE = "time squeezes"
    TABLE = "full connection table"
    FLOOD = "flood of connection requests"
    ACCEPT = "full accept queue"
    DATAGRAMS = "full sockets of datagrams"
    STOLEN = "time of other guests"
    ONE = "one processor"
    ALL = "all processors"
    WINDOW = "window of the receivers"
    BUFFER = "send buffer"
    LOSS = "loss on the path"
    CLIENT = "client"
    IDLE = "idle machine"
    NOTHING = "nothing"


ELSEWHERE = (
    What.ALLOWANCE, What.STOLEN, What.QUEUEING, What.WINDOW, What.LOSS, What.CLIENT, What.IDLE,
)  # fmt: skip
"""The limits that no change of the catalogue moves."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What limits the traffic, in a sentence."""

    what: What
    text: str

    @property
    def is_processor(self) -> bool:
        """Whether cheaper packets raise the limit."""
        return self.what in (What.ONE, What.ALL)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the traffic waits for something that no change of the network moves."""
        return self.what in ELSEWHERE


def of(seen: Observation) -> Limit | None:
    """The limit during the profile; None if no counter shows one."""
    grown = seen.growth
    if grown is None:
        return None
    return next(_limits(grown, seen), None)


def _limits(grown: Growth, seen: Observation) -> Iterator[Limit]:
    yield from _allowances(grown)
    yield from _offload(grown, seen)
    yield from _shapers(grown)
    yield from _queues(grown)
    yield from _table(grown, seen)
    yield from _programs(grown)
    yield from _stolen(grown)
    yield from _processors(grown)
    yield from _squeezes(grown)
    yield from _connections(grown)
    if grown.busy:
        yield _nothing(max(grown.busy.values()))


def _allowances(grown: Growth) -> Iterator[Limit]:
    for interface, rows in grown.drivers.items():
        least = LEAST_LOST * grown.frames
        names = {
            name: number
            for name, number in rows.items()
            if name.endswith(ALLOWANCE) and number > least
        }
        if names:
            listed = ", ".join(f"{name} {number:,}" for name, number in names.items())
            yield Limit(
                What.ALLOWANCE,
                f"an allowance of the provider on {interface}: {listed}. The provider delays or "
                "drops these packets before or after this machine; a larger instance, or fewer "
                "packets, connections or bytes, moves the limit",
            )


def _offload(grown: Growth, seen: Observation) -> Iterator[Limit]:
    """Wrong checksums, or many segments sent again on a tunnel whose offload is on."""
    wrong = sum(grown.protocols.get(name, 0) for name in ("TcpInCsumErrors", "UdpInCsumErrors"))
    received = grown.protocols.get("TcpInSegs", 0) + grown.protocols.get("UdpInDatagrams", 0)
    if wrong > LEAST_LOST * (received + wrong):
        yield Limit(
            What.OFFLOAD,
            f"a broken offload: {wrong:,} received segments or datagrams had wrong checksums. The "
            "sender's interface, or a tunnel on the way, does not write them correctly",
        )
    tunnels = [name for name in seen.interfaces if seen.links[name].kind in TUNNELS]
    if tunnels and grown.retransmitted >= LEAST_RETRANSMITTED:
        yield Limit(
            What.OFFLOAD,
            f"loss inside of a tunnel: {100 * grown.retransmitted:.1f} % of the segments were sent "
            f"again, and {tunnels[0]} is a tunnel. A broken checksum offload does this",
        )


def _shapers(grown: Growth) -> Iterator[Limit]:
    """Each shaper that delayed packets and had some waiting, or dropped some."""
    for interface, queue in grown.queues.items():
        if queue.kind not in SHAPERS or not (queue.waiting_bytes or queue.dropped):
            continue
        if grown.seconds and queue.delayed / grown.seconds < LEAST_DELAYED_PER_S:
            continue
        if not queue.delayed:
            continue
        rate = f"{queue.delayed / grown.seconds:,.0f} times a second" if grown.seconds else (
            f"{queue.delayed:,} times"
        )  # fmt: skip
        yield Limit(
            What.QUEUEING,
            f"the queueing discipline {queue.kind} of {interface}: it delayed packets {rate}, "
            f"dropped {queue.dropped:,}, and {queue.waiting_bytes:,} bytes wait",
        )


def _queues(grown: Growth) -> Iterator[Limit]:
    """Queues on the way to the stack that dropped frames because they were full."""
    for interface, rows in grown.drivers.items():
        lost = grown.driver(interface, *RING_DROPS)
        received = max(rows.get("rx_packets", 0), grown.frames)
        if lost > LEAST_LOST * (received + lost):
            yield Limit(
                What.RING,
                f"the receive ring of {interface} was full: {lost:,} frames found no room. The "
                "processor did not empty it in time",
            )
    dropped = {cpu: row.dropped for cpu, row in grown.backlogs.items() if row.dropped > 0}
    if sum(dropped.values()) > LEAST_LOST * grown.frames:
        cpu = max(dropped, key=lambda name: dropped[name])
        yield Limit(
            What.BACKLOG,
            f"a full backlog: {sum(dropped.values()):,} frames found the queue of a processor full "
            f"(netdev_max_backlog), most of them that of {cpu}",
        )


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
    elif refused > LEAST_LOST * max(grown.frames, grown.protocols.get("IpInReceives", 0)):
        yield Limit(
            What.TABLE,
            f"a full connection table: connection tracking dropped {refused:,} packets, for which "
            "it found no room",
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
    refused = counts.get("TcpExtListenOverflows", 0)
    if refused > LEAST_REFUSED * (refused + counts.get("TcpPassiveOpens", 0)):
        yield Limit(
            What.ACCEPT,
            f"a full accept queue: {refused:,} connections found no room, because the program does "
            "not accept them in time. Clients send again after a second or more",
        )
    lost, read = counts.get("UdpRcvbufErrors", 0), counts.get("UdpInDatagrams", 0)
    if lost > LEAST_REFUSED * (lost + read):
        yield Limit(
            What.DATAGRAMS,
            f"full sockets: {lost:,} of {lost + read:,} datagrams found no room in the socket of "
            "their program, which does not read them in time",
        )


def _stolen(grown: Growth) -> Iterator[Limit]:
    """A host that runs others on this guest's processors."""
    shares = grown.stolen.values()
    share = sum(shares) / len(shares) if shares else 0.0
    if share > LEAST_STOLEN:
        yield Limit(
            What.STOLEN,
            f"the host: for {100 * share:.0f} % of the time a processor of this guest was ready, "
            "and the host ran others on it (steal). Fewer guests on the host, or processors of its "
            "own, move the limit",
        )


def _processors(grown: Growth) -> Iterator[Limit]:
    """All processors or one."""
    busy = grown.busy
    if not busy:
        return
    mean = sum(busy.values()) / len(busy)
    name = max(busy, key=lambda cpu: busy[cpu])
    if min(busy.values()) >= FULL:
        yield Limit(What.ALL, f"all processors: they are {100 * mean:.0f} % busy")
    elif busy[name] >= FULL:
        softirq = grown.softirq.get(name, 0.0)
        share = f", {100 * softirq:.0f} % of its time in softirqs" if softirq >= HALF else ""
        yield Limit(
            What.ONE,
            f"one processor: {name} is {100 * busy[name]:.0f} % busy{share}, and all together "
            f"{100 * mean:.0f} %",
        )
    elif grown.thread >= FULL:
        yield Limit(
            What.ONE,
            f"one processor: a thread of the server runs {100 * grown.thread:.0f} % of the time, "
            f"and processors are {100 * mean:.0f} % busy",
        )


def _squeezes(grown: Growth) -> Iterator[Limit]:
    for cpu, row in grown.backlogs.items():
        if row.received > 0 and row.squeezed * BUDGET > LEAST_SQUEEZED * row.received:
            yield Limit(
                What.SQUEEZE,
                f"time squeezes: {cpu} ended {row.squeezed:,} polls while frames waited, for "
                f"{row.received:,} frames",
            )


def _connections(grown: Growth) -> Iterator[Limit]:
    """The peers, their windows, or the path between."""
    senders = grown.senders
    if senders.window_ms > HALF * senders.busy_ms:
        yield Limit(
            What.WINDOW,
            f"the window of the receivers: for {100 * senders.window_ms / senders.busy_ms:.0f} % "
            "of the time in which connections had data to send, the receiver's window was full. "
            "The receiving program or its buffers are too slow or too small",
        )
    elif senders.buffer_ms > HALF * senders.busy_ms:
        yield Limit(
            What.BUFFER,
            f"the send buffers: for {100 * senders.buffer_ms / senders.busy_ms:.0f} % of the time "
            "in which connections had data to send, their buffers were full",
        )
    if grown.retransmitted >= LEAST_RETRANSMITTED:
        yield Limit(
            What.LOSS,
            f"loss on the path: {100 * grown.retransmitted:.1f} % of the segments were sent again, "
            "so senders lower their windows",
        )
    if grown.unsent >= max(1, grown.connections / 2):
        yield Limit(
            What.CLIENT,
            f"the clients or their network: {grown.unsent} of {grown.connections} connections have "
            "data that is not acknowledged",
        )


def _nothing(busiest: float) -> Limit:
    if busiest < IDLE_SHARE:
        return Limit(
            What.IDLE,
            f"nothing: the machine is idle. Its busiest processor is {100 * busiest:.0f} % busy",
        )
    return Limit(
        What.NOTHING,
        f"nothing on this machine: its busiest processor is {100 * busiest:.0f} % busy, and the "
        "clients ask for no more",
    )
