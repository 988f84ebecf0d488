"""The interfaces of a network namespace, and its packet filter's rules."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from perpacket import executables
from perpacket.advise import kernel_texts
from perpacket.advise.expression import NotReadable
from perpacket.advise.network_scope import NetworkScope

IFF_UP, IFF_LOOPBACK = 0x1, 0x8
"""Flags of an interface; include/uapi/linux/if.h."""

TC_H_ROOT = 0xFFFF_FFFF
"""The parent of a root queueing discipline; include/uapi/linux/pkt_sched.h."""


@dataclass(frozen=True, slots=True)
class Link:
    """A network interface."""

    name: str
    mtu: int
    kind: str
    """`veth`, `bridge` and so on, `loopback`, or `hardware`."""
    tx_queues: int
    """The send queues; 0 if no file of a case shows them."""
    queueing: str
    address: str = ""
    """The first IPv4 address of the interface."""
    is_up: bool = True
    largest_packet: str = ""
    """The bytes of the largest packet that TCP passes to it; empty if it was not read."""


def links(scope: NetworkScope) -> Mapping[str, Link]:
    """The interfaces of a scope's namespace by name."""
    return scope.inside(_links)


def _links() -> dict[str, Link]:
    from pyroute2 import IPRoute

    found: dict[str, Link] = {}
    with IPRoute() as route:
        addresses: dict[int, str] = {}
        for one in route.get_addr(family=socket.AF_INET):
            addresses.setdefault(one.get("index"), str(one.get("local") or one.get("address")))
        for one in route.get_links():
            name = str(one.get("ifname"))
            flags = one.get("flags")
            kind = "loopback" if flags & IFF_LOOPBACK else one.get(("linkinfo", "kind"))
            queues = int(one.get("num_tx_queues") or 1)
            queueing = str(one.get("qdisc") or "")
            address = addresses.get(one.get("index"), "")
            mtu, is_up = int(one.get("mtu")), bool(flags & IFF_UP)
            found[name] = Link(name, mtu, kind or "hardware", queues, queueing, address, is_up)
    return found


@dataclass(frozen=True, slots=True)
class Queue:
    """The root queueing discipline of an interface, with its counters."""

    kind: str
    delayed: int
    """How often a packet had to wait for its rate (`overlimits`)."""
    dropped: int
    waiting_bytes: int


def queues() -> dict[str, Queue]:
    """The root queueing discipline of each interface of the thread's namespace."""
    from pyroute2 import IPRoute

    with IPRoute() as route:
        names = {one.get("index"): str(one.get("ifname")) for one in route.get_links()}
        found: dict[str, Queue] = {}
        for one in route.get_qdiscs():
            statistics = one.get_attr("TCA_STATS2")
            queue = None if statistics is None else statistics.get_attr("TCA_STATS_QUEUE")
            if one.get("parent") == TC_H_ROOT and one.get("index") in names and queue is not None:
                found[names[one.get("index")]] = Queue(
                    str(one.get_attr("TCA_KIND")),
                    queue["overlimits"],
                    queue["drops"],
                    queue["backlog"],
                )
    return found


def drivers() -> dict[str, dict[str, int]]:
    """The driver's counters of each interface of the thread's namespace that has some."""
    from pyroute2.ethtool.ioctl import IoctlEthtool

    found: dict[str, dict[str, int]] = {}
    for _, name in socket.if_nameindex():
        with contextlib.suppress(Exception):  # ioctls have errors of many types
            with closing(IoctlEthtool(name)) as ethtool:
                rows = ethtool.get_statistics()
            found[name] = {str(key): int(value) for key, value in rows}
    return found


def rules(scope: NetworkScope) -> int:
    """The number of rules in the longest chain of nftables or of the older iptables.

    Raises `NotReadable` without the right to list them.
    """
    if os.geteuid() != 0:
        raise NotReadable("only root can list the rules")
    return max(scope.inside(_rules), scope.inside(_older_rules))


def _older_rules() -> int:
    """The longest chain of iptables' own tables, which nftables does not list."""
    lengths = [0]
    for name in ("iptables-legacy-save", "ip6tables-legacy-save"):
        program = executables.find(name)
        if program is not None:
            done = subprocess.run([program], capture_output=True, text=True, check=False)
            lengths.append(kernel_texts.longest_chain(done.stdout))
    return max(lengths)


def _rules() -> int:
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.nftables.main import NFTables

    try:
        with closing(NFTables()) as tables:
            found = list(tables.get_rules())
    except (NetlinkError, OSError) as error:
        raise NotReadable(f"the rules cannot be listed: {error}") from None
    chains = Counter(
        (rule.get_attr("NFTA_RULE_TABLE"), rule.get_attr("NFTA_RULE_CHAIN")) for rule in found
    )
    return max(chains.values(), default=0)
