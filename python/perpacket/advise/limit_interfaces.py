"""Limits of interfaces: allowances, broken offloads, full links, shapers, full rings."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from perpacket.advise import log_texts
from perpacket.advise.expression import NotReadable
from perpacket.advise.limit_kinds import Limit, What

if TYPE_CHECKING:
    from perpacket.advise.growth import Growth
    from perpacket.advise.observation import Observation

SHAPERS = ("tbf", "htb", "hfsc", "cake", "netem")
"""Queueing disciplines that delay packets on purpose."""

TUNNELS = ("vxlan", "geneve", "gretap", "gre", "ip6gre", "ipip", "sit", "wireguard", "bareudp")
"""Kinds of interfaces that put frames into other frames; rtnl_link_ops of drivers/net and net."""

LEAST_DELAYED_PER_S = 20
"""The least number of delays a second of a shaper that limits."""

LEAST_RETRANSMITTED = 0.02
"""The share of segments sent again that is no accident of a path with little loss."""

LEAST_LOST = 1e-4
"""The least share of frames that a full queue dropped, or of segments with wrong checksums."""

ALLOWANCE = "allowance_exceeded"
"""The end of the names of what a provider drops or delays; Linux, drivers/net/ethernet/amazon."""

RING_DROPS = (
    "rx_missed_errors", "rx_no_buffer_count", "rx_no_dma_resources", "rx_out_of_buffer",
    "rx_fifo_errors", "rx_queue_*_drops", "rx_drops", "rx_overruns", "rx_dropped_full",
    "rx_discards", "rx_discards_phy", "port.rx_discards",
)  # fmt: skip
"""Drivers' names of frames for which the receive ring had no room."""

OF_QUEUE = r"(?:queue_\d+_[rt]x|[rt]x_?(?:queue_)?\d+)_(?:cnt|packets)"
"""Drivers' names of the frames of a queue."""

FULL_LINK = 0.9
"""The part of an interface's speed from which it is full: headers and gaps need the rest."""

WAITS = ("__pv_queued_spin_lock_slowpath", "native_queued_spin_lock_slowpath",
         "queued_spin_lock_slowpath")  # fmt: skip
"""The functions that wait for a spin lock."""

SENDERS = ("sch_direct_xmit", "__dev_queue_xmit", "__dev_xmit_skb", "__qdisc_run", "qdisc_run*",
           "net_tx_action")  # fmt: skip
"""The functions that take the lock of a queueing discipline; net/core/dev.c, net/sched."""

LEAST_LOCKED = 0.1
"""The least share of processor time in which a lock limits."""

BROKEN = ("rx_crc_errors*", "rx_symbol_err*", "rx_frame_errors", "rx_fcs_errors", "rx_crc_err*")
"""Drivers' names of frames that arrived damaged."""

PAUSED = ("rx_pause*", "rx_flow_control_xoff", "rx_prio*_pause", "rx_xoff*")
"""Drivers' names of frames by which the other end asks to stop sending."""

LEAST_BROKEN = 1e-6
"""The least share of damaged frames that is no accident: a good cable has far fewer."""

LEAST_PAUSED = 1e-3


def of_interfaces(grown: Growth, seen: Observation) -> Iterator[Limit]:
    """The limits of interfaces, in the order in which they are to be removed."""
    yield from _allowances(grown)
    yield from _offload(grown, seen)
    yield from _links(grown)
    yield from _shapers(grown, seen)
    yield from _queues(grown)


def _allowances(grown: Growth) -> Iterator[Limit]:
    for interface, rows in grown.drivers.items():
        least = LEAST_LOST * grown.frames
        names = {
            name: number
            for name, number in rows.items()
            if name.endswith(ALLOWANCE) and number > max(least, LEAST_LOST * _frames_of(rows))
        }
        if names:
            listed = ", ".join(f"{name} {number:,}" for name, number in names.items())
            yield Limit(
                What.ALLOWANCE,
                f"an allowance of the provider on {interface}: {listed}. The provider delays or "
                "drops these packets before or after this machine; a larger instance, or fewer "
                "packets, connections or bytes, moves the limit",
            )


def _frames_of(rows: Mapping[str, int]) -> int:
    """The frames that a driver counted, by queue if not all together."""
    queues = (number for name, number in rows.items() if re.fullmatch(OF_QUEUE, name))
    return max(rows.get("rx_packets", 0) + rows.get("tx_packets", 0), sum(queues))


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
    if failed := grown.messages.get(log_texts.CHECKSUM, 0):
        yield Limit(
            What.CHECKSUMS,
            f"broken checksums: the kernel wrote {failed} times `hw csum failure`. The interface, "
            "or its driver, reports wrong checksums of received frames",
        )
    tunnels = [name for name in seen.interfaces if _may_break(name, grown, seen)]
    if tunnels and grown.retransmitted >= LEAST_RETRANSMITTED:
        yield Limit(
            What.OFFLOAD,
            f"loss inside of a tunnel: {100 * grown.retransmitted:.1f} % of the segments were sent "
            f"again, and {tunnels[0]} is a tunnel. A broken checksum offload does this",
        )


def _may_break(name: str, grown: Growth, seen: Observation) -> bool:
    """Whether an interface is a tunnel that carries the traffic, and whose offload may be on."""
    if seen.links[name].kind not in TUNNELS:
        return False
    table = {"kind": "ethtool-feature", "feature": "tx-checksumming"}
    with contextlib.suppress(NotReadable):
        if seen.read_setting(table, name).startswith("off"):
            return False
    sent = grown.devices.get(name, {}).get("packets_sent", 0)
    most = max((row.get("packets_sent", 0) for row in grown.devices.values()), default=0)
    return 2 * sent >= most


def _links(grown: Growth) -> Iterator[Limit]:
    """Interfaces that send or receive at their speed, or do not send at all."""
    if stuck := grown.messages.get(log_texts.TIMED_OUT, 0):
        yield Limit(
            What.TIMEOUT,
            f"a stuck interface: the kernel wrote {stuck} times that a transmit queue timed out. "
            "Its driver, its firmware or the host of a virtual one has a defect",
        )
    for interface, rows in grown.drivers.items():
        received = max(rows.get("rx_packets", 0), grown.frames, 1)
        broken, paused = (grown.driver(interface, *names) for names in (BROKEN, PAUSED))
        if broken > LEAST_BROKEN * received and broken > 1:
            yield Limit(
                What.CABLE,
                f"broken frames on {interface}: {broken:,} arrived damaged. A cable, a transceiver "
                "or a port is bad; the senders see it as loss",
            )
        if paused > LEAST_PAUSED * received and paused > 1:
            yield Limit(
                What.PAUSE,
                f"pause frames on {interface}: the switch or the other end asked {paused:,} times "
                "to stop sending, because its buffers are full",
            )
    for interface in grown.half_duplex:
        yield Limit(
            What.LINK,
            f"the link of {interface} is half duplex: both ends agreed on no better mode, so "
            "frames collide. Let both negotiate, or look at the cable",
        )
    for interface, speed in grown.speeds.items():
        row = grown.devices.get(interface, {})
        most = max((row.get(f"bytes_{way}", 0) for way in ("sent", "received")), default=0)
        rate = 8 * most / grown.seconds if grown.seconds else grown.rate_bps
        if rate >= FULL_LINK * speed:
            yield Limit(
                What.LINK,
                f"the link of {interface}: {rate / 1e6:,.0f} of its {speed / 1e6:,.0f} Mb/s are "
                "in use",
            )


def _shapers(grown: Growth, seen: Observation) -> Iterator[Limit]:
    """Each shaper that delayed packets and had some waiting, or dropped some; or its lock."""
    shapers = [name for name, link in seen.links.items() if link.queueing in SHAPERS]
    with contextlib.suppress(NotReadable):
        locked = seen.profile.chains(WAITS, callers=SENDERS).share
        if shapers and locked >= LEAST_LOCKED:
            yield Limit(
                What.LOCK,
                f"the lock of the queueing discipline {seen.links[shapers[0]].queueing} of "
                f"{shapers[0]}: processors wait for it {100 * locked:.0f} % of their busy time, "
                "and only one at a time can use it",
            )
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
            f"(netdev_max_backlog), most of them that of {cpu} ({dropped[cpu]:,})",
        )
