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
    "Ip": {
        "total packets received": "IpInReceives",
        "forwarded": "IpForwDatagrams",
        "incoming packets discarded": "IpInDiscards",
        "incoming packets delivered": "IpInDelivers",
        "requests sent out": "IpOutRequests",
        "outgoing packets dropped": "IpOutDiscards",
        "fragments dropped after timeout": "IpReasmTimeout",
        "reassemblies required": "IpReasmReqds",
        "packets reassembled ok": "IpReasmOKs",
        "packet reassemblies failed": "IpReasmFails",
        "packet reassembles failed": "IpReasmFails",
        "fragments received ok": "IpFragOKs",
        "fragments created": "IpFragCreates",
    },
    "Tcp": {
        "passive connection openings": "TcpPassiveOpens",
        "active connection openings": "TcpActiveOpens",
        "active connections openings": "TcpActiveOpens",
        "failed connection attempts": "TcpAttemptFails",
        "segments received": "TcpInSegs",
        "segments sent out": "TcpOutSegs",
        "segments send out": "TcpOutSegs",
        "segments retransmit": "TcpRetransSegs",
        "bad segments received": "TcpInErrs",
    },
    "Udp": {
        "packets received": "UdpInDatagrams",
        "packet receive errors": "UdpInErrors",
        "packets sent": "UdpOutDatagrams",
        "receive buffer errors": "UdpRcvbufErrors",
        "send buffer errors": "UdpSndbufErrors",
    },
    "TcpExt": {
        "syn cookies sent": "TcpExtSyncookiesSent",
        "syn cookies received": "TcpExtSyncookiesRecv",
        "packets pruned from receive queue": "TcpExtPruneCalled",
        "packets collapsed in receive queue": "TcpExtTCPRcvCollapsed",
        "times the listen queue of a socket overflowed": "TcpExtListenOverflows",
        "syns to listen sockets": "TcpExtListenDrops",
        "tcp sockets finished time wait": "TcpExtTW",
        "connections aborted due to memory pressure": "TcpExtTCPAbortOnMemory",
        "other tcp timeouts": "TcpExtTCPTimeouts",
    },
}
"""The words of `netstat -s` by section, by net-tools' statistics.c, and their names in nstat."""


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


def parameters(text: str) -> Iterator[Parameters]:
    """The numbers of `ethtool -l`, `-g` or `-c`, for each interface."""
    pattern = r"^(?=(?:Channel|Ring|Coalesce) parameters for \S+:)"
    for block in re.split(pattern, text, flags=re.MULTILINE):
        title = re.match(r"(Channel|Ring|Coalesce) parameters for (\S+):", block)
        if title is not None:
            yield _parameters(block, Parameters(GROUPS[title[1]], title[2]))


def _parameters(block: str, found: Parameters) -> Parameters:
    rows = found.present
    for line in block.splitlines():
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
        largest = re.search(r"gso_max_size (\d+)", block)
        yield Link(
            head[1],
            int(head[3]),
            "loopback" if loopback else kind[1] if kind else "hardware",
            int(queues[1]) if queues else 1,
            discipline[1] if discipline else "",
            largest_packet=largest[1] if largest else "",
        )


def sysctls(text: str) -> dict[str, str]:
    """The lines `name = value` of `sysctl -a`."""
    rows = re.findall(r"^((?:net|kernel|vm)\.[\w.\-/]+)\s*=\s*(.*)$", text, re.MULTILINE)
    return {name: " ".join(value.split()) for name, value in rows}


def netstat(text: str) -> dict[str, int]:
    """The counters of `netstat -s` by their names in nstat."""
    found: dict[str, int] = {}
    section = ""
    for line in text.splitlines():
        title = re.fullmatch(r"(\w+):\s*", line)
        if title:
            section = title[1].removesuffix("6") if title[1] in ("Ip6", "Udp6") else title[1]
            continue
        if not section or not line[:1].isspace():
            continue
        words = line.strip()
        # What net-tools has no words for has the kernel's name: `InCsumErrors: 5`.
        if named := re.fullmatch(r"([A-Z]\w+): (\d+)", words):
            found[section + named[1]] = int(named[2])
        elif section == "TcpExt" and (
            low := re.fullmatch(r"TCP ran low on memory (\d+) times", words)
        ):
            found["TcpExtTCPMemoryPressures"] = int(low[1])
        elif counted := re.match(r"(\d+) (.*)$", words):
            for start, name in NETSTAT.get(section, {}).items():
                if counted[2].lower().startswith(start):
                    found[name] = found.get(name, 0) + int(counted[1])
                    break
    return found


def nodes(text: str) -> dict[int, str]:
    """The processors of each memory node, in the output of lscpu or numactl."""
    rows = re.findall(r"^NUMA node(\d+) CPU\(s\):\s+([\d,-]+)$", text, re.MULTILINE)
    rows += [(node, ",".join(cpus.split())) for node, cpus in
             re.findall(r"^node (\d+) cpus: ([\d ]+)$", text, re.MULTILINE)]  # fmt: skip
    return {int(node): cpus for node, cpus in rows}


def kernel_release(text: str) -> str:
    """The kernel in the first line of mpstat or sar, or in the output of uname."""
    matched = re.search(r"^Linux (?:\S+ )?(\d+\.\d+\S*)[ \t]+[(#]", text, re.MULTILINE)
    return matched[1] if matched else ""


def speeds(text: str) -> dict[str, float]:
    """The speed of each interface in bits a second, as `ethtool INTERFACE` prints it."""
    rows = re.findall(r"^Settings for (\S+):$(?:\n\s.*)*?\n\s*Speed: (\d+)Mb/s", text, re.MULTILINE)
    return {name: 1e6 * float(megabits) for name, megabits in rows}


def half_duplex(text: str) -> list[str]:
    """The interfaces whose link is half duplex, as `ethtool INTERFACE` prints it."""
    return re.findall(r"^Settings for (\S+):$(?:\n\s.*)*?\n\s*Duplex: Half", text, re.MULTILINE)


def throttled(text: str) -> float:
    """The share of periods in which a control group had used up its quota; its cpu.stat."""
    periods, stopped = (
        re.search(rf"^nr_{name} (\d+)$", text, re.MULTILINE) for name in ("periods", "throttled")
    )
    if periods is None or stopped is None or not int(periods[1]):
        return 0.0
    return int(stopped[1]) / int(periods[1])


def rate_bps(text: str) -> float:
    """The rate that iperf3 or iperf measured, in bits a second; 0 without one."""
    rows = re.findall(r"([\d.]+) ([KMG])bits/sec.*?(?:receiver|sender)?\s*$", text, re.MULTILINE)
    scale = {"K": 1e3, "M": 1e6, "G": 1e9}
    return float(rows[-1][0]) * scale[rows[-1][1]] if rows else 0.0


def missed(text: str) -> dict[str, dict[str, int]]:
    """The received frames, and those that found no room, in `ip -s link` and ifconfig."""
    found: dict[str, dict[str, int]] = {}
    name, columns = "", list[str]()
    for line in text.splitlines():
        head = re.match(r"(?:\d+: )?([\w.@-]+?)(?:@\S+)?:\s+(?:<|flags=)", line)
        if head:
            name = head[1]
        words = line.split()
        received = re.search(r"RX packets\s*(\d+)", line)
        overruns = re.search(r"RX errors \d+\s+dropped \d+\s+overruns (\d+)", line)
        if name and words[:1] == ["RX:"]:
            columns = words[1:]
        elif columns:
            row = dict(zip(columns, words, strict=False))
            lost = [row.get(key, "") for key in ("missed", "overrun", "overrn")]
            counts = [int(number) for number in lost if number.isdigit()]
            if row.get("packets", "").isdigit() and counts:
                found[name] = {"rx_packets": int(row["packets"]), "rx_missed_errors": max(counts)}
            columns = []
        elif name and received:
            found[name] = {"rx_packets": int(received[1])}
        elif name and overruns:
            found.setdefault(name, {})["rx_missed_errors"] = int(overruns[1])
    return found


def calls(text: str) -> dict[str, int]:
    """The system calls that returned without error, by name, in the output of `strace -c`."""
    if "usecs/call" not in text:
        return {}
    rows = re.findall(
        r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(\d+)?\s*([a-z_]\w+)$", text, re.MULTILINE
    )
    return {name: int(count) - int(errors or 0) for count, errors, name in rows if name != "total"}


def hashed_fields(text: str) -> dict[str, str]:
    """What chooses a queue, by protocol; `ethtool -n IF rx-flow-hash`."""
    found: dict[str, str] = {}
    pattern = r"^(\w+) over (IPV[46]) flows use these fields.*\n((?:[\w ].*\n?)*)"
    for protocol, version, rows in re.findall(pattern, text, re.MULTILINE):
        has_ports = "src port" in rows or "L4 bytes" in rows
        of = "ports" if has_ports else "nothing" if rows.strip() == "None" else "addresses"
        found[f"{protocol.lower()}{version[-1]}"] = of
    return found


def cpu_count(text: str) -> int:
    """The number of processors in lscpu's output; 0 without it."""
    matched = re.search(r"^CPU\(s\):\s+(\d+)", text, re.MULTILINE)
    return int(matched[1]) if matched else 0
