"""Parsers of the output of ethtool, tc, ip, sysctl and netstat, for machines that only sent texts.

Each function is pure: text in, facts out. Text that has another form gives no facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from perpacket.advise.links import Link, Queue

GROUPS = {"Channel": "ethtool-channels", "Ring": "ethtool-rings", "Coalesce": "ethtool-coalesce"}
"""The kinds of settings for the titles of `ethtool -l`, `-g` and `-c`."""

NETSTAT = {
    "passive connection openings": "TcpPassiveOpens",
    "active connection openings": "TcpActiveOpens",
    "syn cookies sent": "TcpExtSyncookiesSent",
    "syn cookies received": "TcpExtSyncookiesRecv",
    "segments received": "TcpInSegs",
    "segments sent out": "TcpOutSegs",
    "segments retransmit": "TcpRetransSegs",
    "bad segments received": "TcpInErrs",
    "incsumerrors": "TcpInCsumErrors",
    "packets pruned from receive queue": "TcpExtPruneCalled",
    "packets collapsed in receive queue": "TcpExtTCPRcvCollapsed",
    "times the listen queue of a socket overflowed": "TcpExtListenOverflows",
    "total packets received": "IpInReceives",
    "incoming packets delivered": "IpInDelivers",
    "receive buffer errors": "UdpRcvbufErrors",
}
"""The words of `netstat -s` for counters, by net-tools' statistics.c, and their names in nstat."""


@dataclass(slots=True)
class Parameters:
    """What one text of ethtool shows of an interface."""

    kind: str
    interface: str
    present: dict[str, str] = field(default_factory=dict)
    most: dict[str, str] = field(default_factory=dict)


def features(text: str) -> tuple[str, dict[str, str]] | None:
    """The interface and its features in `ethtool -k`."""
    title = re.search(r"^Features for (\S+):", text, re.MULTILINE)
    if title is None:
        return None
    rows = re.findall(r"^\s*([\w-]+): ((?:on|off)\b(?: \[fixed\])?)", text, re.MULTILINE)
    found = dict(rows)
    # The old names of ethtool's own table; ethtool_features of ethtool.c.
    for old, name in FEATURES.items():
        if old in found:
            found.setdefault(name, found[old])
    return title[1], found


FEATURES = {
    "generic-receive-offload": "rx-gro",
    "generic-segmentation-offload": "tx-generic-segmentation",
    "tcp-segmentation-offload": "tx-tcp-segmentation",
    "scatter-gather": "tx-scatter-gather",
    "rx-checksumming": "rx-checksum",
    "tx-checksumming": "tx-checksum-ip-generic",
    "large-receive-offload": "rx-lro",
}


def parameters(text: str) -> Parameters | None:
    """The numbers of `ethtool -l`, `-g` or `-c`."""
    title = re.search(r"^(Channel|Ring|Coalesce) parameters for (\S+):", text, re.MULTILINE)
    if title is None:
        return None
    found = Parameters(GROUPS[title[1]], title[2])
    rows = found.present
    for line in text.splitlines():
        if line.startswith("Pre-set maximums"):
            rows = found.most
        elif line.startswith("Current hardware settings"):
            rows = found.present
        for name, value in re.findall(r"([\w-][\w ()-]*?):\s+(\d+|on|off)\b", line):
            rows[name.lower().replace(" ", "-")] = value
    return found


def disciplines(text: str) -> dict[str, Queue]:
    """The root queueing discipline of each interface in `tc -s qdisc`."""
    roots: dict[str, Queue] = {}
    blocks = re.split(r"^(?=qdisc )", text, flags=re.MULTILINE)
    for block in blocks:
        head = re.match(r"qdisc (\S+) \S+ (?:dev (\S+) )?(root|parent|ingress)?", block)
        if head is None or head[2] is None or head[1] in ("ingress", "clsact"):
            continue
        counted = re.search(r"dropped (\d+), overlimits (\d+)", block)
        waits = re.search(r"backlog (\d+)([KM]?)b", block)
        scale = {"": 1, "K": 1024, "M": 1024 * 1024}
        queue = Queue(
            head[1],
            int(counted[2]) if counted else 0,
            int(counted[1]) if counted else 0,
            int(waits[1]) * scale[waits[2]] if waits else 0,
        )
        if head[3] == "root" or head[2] not in roots:
            roots[head[2]] = queue
    return roots


def links(text: str) -> Iterator[Link]:
    """The interfaces of `ip -d link`."""
    for block in re.split(r"^(?=\d+: )", text, flags=re.MULTILINE):
        head = re.match(r"\d+: ([^:@\s]+)(?:@\S+)?: <([^>]*)>.* mtu (\d+)", block)
        if head is None:
            continue
        kind = re.search(
            r"^\s+(veth|vxlan|geneve|bridge|vlan|bond|gre|gretap|ipip|sit|wireguard|tun|dummy|"
            r"macvlan|ipvlan|ifb)\b",
            block,
            re.MULTILINE,
        )
        loopback = "LOOPBACK" in head[2]
        queues = re.search(r"numtxqueues (\d+)", block)
        discipline = re.search(r"qdisc (\S+)", block)
        yield Link(
            head[1],
            int(head[3]),
            "loopback" if loopback else kind[1] if kind else "hardware",
            int(queues[1]) if queues else 1,
            discipline[1] if discipline else "",
        )


def sysctls(text: str) -> dict[str, str]:
    """The lines `name = value` of `sysctl -a`."""
    rows = re.findall(r"^((?:net|kernel|vm)\.[\w.\-/]+)\s*=\s*(.*)$", text, re.MULTILINE)
    return {name: " ".join(value.split()) for name, value in rows}


def netstat(text: str) -> dict[str, int]:
    """The counters of `netstat -s` by their names in nstat."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        words = line.strip().lower()
        matched = re.match(r"(\d+) (.*)$", words) or re.match(r"(incsumerrors): (\d+)$", words)
        if matched is None:
            continue
        first, second = matched.groups()
        number, label = (first, second) if first.isdigit() else (second, first)
        for start, name in NETSTAT.items():
            if label.startswith(start):
                found[name] = found.get(name, 0) + int(number)
    return found


def cpu_count(text: str) -> int:
    """The number of processors in lscpu's output; 0 without it."""
    matched = re.search(r"^CPU\(s\):\s+(\d+)", text, re.MULTILINE)
    return int(matched[1]) if matched else 0
