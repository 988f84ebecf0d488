"""Parsers of the kernel's counters as text: files of /proc, and the output of ss and nstat.

Each function is pure: text in, numbers out. Text that has another form gives no numbers.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

FAMILIES = "TcpExt|IpExt|MPTcpExt|Icmp6|Udp6|UdpLite6|UdpLite|Ip6|Tcp|Udp|Icmp|IcmpMsg|Ip"
"""The prefixes of nstat's names: the first words of /proc/net/snmp and /proc/net/netstat."""

COLUMNS = {"bytes_received": 0, "packets_received": 1, "bytes_sent": 8, "packets_sent": 9}
"""The columns of /proc/net/dev; net/core/net-procfs.c."""

MS = re.compile(r"\b(busy|rwnd_limited|sndbuf_limited):(\d+)ms")


@dataclass(frozen=True, slots=True)
class Backlog:
    """The counts of a processor in /proc/net/softnet_stat; net/core/net-procfs.c."""

    received: int
    """Frames that the processor passed to the stack."""
    dropped: int
    """Frames that found its queue (`netdev_max_backlog`) full."""
    squeezed: int
    """How often a poll ended by its budget or its time while frames waited."""
    steered: int = 0
    """Interprocessor interrupts of RPS that it got."""


@dataclass(frozen=True, slots=True)
class Senders:
    """The connections of `ss -ti` together; times in milliseconds since each was opened."""

    count: int = 0
    busy_ms: int = 0
    """How long data waited to be sent or acknowledged."""
    window_ms: int = 0
    """The part of it in which the receiver's window was full."""
    buffer_ms: int = 0
    """The part of it in which the send buffer was full, and could not grow."""
    application: int = 0
    """Connections whose program does not write enough to fill the path (`app_limited`)."""
    receive_space: int = 0
    """The largest space of a receive buffer that is in use, in bytes (`rcv_space`)."""


NO_SENDERS = Senders()


def backlogs(text: str) -> dict[str, Backlog]:
    """The counts of each processor.

    Column 12 has its number since Linux 5.10. If numbers repeat, the file has other columns, and
    the place of the row counts.
    """
    if re.match(r"\s*entries\b", text):
        return {}  # a table of /proc/net/stat
    rows = [
        [int(word, 16) for word in words]
        for words in map(str.split, text.splitlines())
        if len(words) >= 9 and all(re.fullmatch(r"[0-9a-f]{8}", word) for word in words)
    ]
    numbered = [row[12] for row in rows if len(row) > 12]
    cpus = numbered if len(set(numbered)) == len(rows) else range(len(rows))
    return {
        f"cpu{cpu}": Backlog(row[0], row[1], row[2], row[9] if len(row) > 9 else 0)
        for cpu, row in zip(cpus, rows, strict=True)
    }


def protocols(text: str) -> dict[str, int]:
    """Counters by their names in nstat, from nstat's output or /proc/net/snmp and netstat."""
    counts: dict[str, int] = {}
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        family, colon, names = line.partition(":")
        if colon and following.startswith(f"{family}:") and re.fullmatch(FAMILIES, family):
            values = following.split()[1:]
            if all(re.fullmatch(r"-?\d+", value) for value in values):
                named = zip(names.split(), values, strict=False)
                counts.update({family + name: int(value) for name, value in named})
        if matched := re.fullmatch(rf"((?:{FAMILIES})\w+)\s+(\d+)(\s+[\d.]+)?", line.strip()):
            counts[matched[1]] = int(matched[2])
    return {**counts, **_tracking(lines)}


TABLES = {
    "insert_failed": ("ConntrackDrop", "drop"),
    "table_fulls": ("NeighbourTableFull", "table_fulls"),
}
"""A column that only one file of /proc/net/stat has, its counter, and the counted column.

Sources: ct_cpu_seq_show of net/netfilter/nf_conntrack_standalone.c, and neigh_stat_seq_show of
net/core/neighbour.c.
"""


def _tracking(lines: Sequence[str]) -> dict[str, int]:
    """What connection tracking dropped, and how often the table of neighbours was full.

    Each processor has a row with hexadecimal numbers in nf_conntrack and arp_cache of
    /proc/net/stat, or one of `conntrack -S`.
    """
    found: Counter[str] = Counter()
    for place, line in enumerate(lines):
        columns = line.replace(",", " ").split()
        named = next((of for key, of in TABLES.items() if key in columns), None)
        if columns[:1] == ["entries"] and named is not None:
            at = columns.index(named[1])
            rows = itertools.takewhile(
                lambda row: re.fullmatch(r"([0-9a-f]{8}\s*)+", row), lines[place + 1 :]
            )
            found[named[0]] += sum(int(row.split()[at], 16) for row in rows)
        elif re.match(r"cpu=\d+\s", line) and "insert_failed=" in line:
            dropped = re.search(r"(?<![\w_])drop=(\d+)", line)
            found["ConntrackDrop"] += int(dropped[1]) if dropped else 0
    return dict(found)


def devices(text: str) -> dict[str, dict[str, int]]:
    """The packets and bytes of each interface in /proc/net/dev."""
    found: dict[str, dict[str, int]] = {}
    for name, counters in re.findall(
        r"^\s*(\S+):\s*((?:\d+[ \t]+){15}\d+)[ \t]*$", text, re.MULTILINE
    ):
        numbers = counters.split()
        found[name] = {key: int(numbers[column]) for key, column in COLUMNS.items()}
    return found


def interrupts(text: str) -> dict[str, list[int]]:
    """The interrupts of each name in /proc/interrupts, by processor."""
    lines = text.splitlines()
    header = next((line for line in lines if re.match(r"\s*CPU\d+\b", line)), "")
    count = len(header.split())
    rows: dict[str, list[int]] = {}
    for line in lines if count else ():
        matched = re.match(r"\s*(\d+):((?:\s+\d+)+)\s+(.*)$", line)
        if matched and len(numbers := matched[2].split()) >= count:
            name = matched[3].split()[-1] if matched[3] else ""
            own = rows.setdefault(name, [0] * count)
            rows[name] = [sum(pair) for pair in zip(own, map(int, numbers[:count]), strict=True)]
    return rows


def interrupt_numbers(text: str, names: Sequence[str]) -> list[str]:
    """The numbers of the interrupts whose names have one of these names as a word."""
    rows = re.findall(r"^\s*(\d+):.*\s(\S+)$", text, re.MULTILINE)
    return [number for number, row in rows if any(_has_word(row, name) for name in names)]


def _has_word(text: str, name: str) -> bool:
    pattern = rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])"
    return bool(name) and re.search(pattern, text, re.IGNORECASE) is not None


def of_interface(rows: Mapping[str, Sequence[int]], interface: str) -> dict[str, list[int]]:
    """The interrupts whose name has the interface's name as a word, as most drivers write it.

    A virtio interface's interrupts have the name of its device, such as `virtio0-input.0`. They
    count if no name has that of the interface, and only one such device has queues.
    """
    named = {name: list(row) for name, row in rows.items() if _has_word(name, interface)}
    virtio = {name: list(row) for name, row in rows.items()
              if re.match(r"virtio\d+-(input|output)", name)}  # fmt: skip
    devices = {name.partition("-")[0] for name in virtio}
    of_cards = {name: (card, list(row)) for name, row in rows.items() if (card := card_of(name))}
    if not named and len(devices) == 1:
        return virtio
    if not named and not virtio and len({card for card, _ in of_cards.values()}) == 1:
        return {name: row for name, (_, row) in of_cards.items()}
    return named


def card_of(name: str) -> str:
    """The PCI address in the name of a queue's interrupt; empty for others.

    The names are those of mlx5, mlx4, gve and mana, which do not have the interface.
    """
    matched = re.match(r"(?:mlx5_comp|mlx4-|gve-ntfy-blk|mana_q)\d+@(?:pci:)?(\S+)", name)
    return matched[1] if matched else ""


def longest_chain(text: str) -> int:
    """The number of rules in the longest chain.

    From iptables-save, `iptables -L`, `nft list ruleset`, or the count in a case.
    """
    counted = re.findall(r"^rules in the longest chain: (\d+)$", text, re.MULTILINE)
    chains = Counter(re.findall(r"^(?:\[\d+:\d+\] )?-A (\S+) ", text, re.MULTILINE))
    return max([0, *chains.values(), *map(int, counted), *_of_listing(text), *_of_nft(text)])


def _of_listing(text: str) -> Iterator[int]:
    """The rules of each chain of `iptables -L`."""
    for block in re.split(r"^Chain \S+ \(.*\)\n", text, flags=re.MULTILINE)[1:]:
        rows = itertools.takewhile(str.strip, block.splitlines())
        yield sum(not re.match(r"\s*(num|pkts|target)\s", row) for row in rows)


def _of_nft(text: str) -> Iterator[int]:
    """The rules of each chain of `nft list ruleset`."""
    for block in re.findall(r"^\s*chain \S+ \{\n(.*?)^\s*\}", text, re.MULTILINE | re.DOTALL):
        rows = [row.strip() for row in block.splitlines()]
        yield sum(bool(row) and not row.startswith(("type ", "policy ", "#")) for row in rows)


def senders(text: str) -> Senders:
    """The connections of `ss -ti`."""
    times = {"busy": 0, "rwnd_limited": 0, "sndbuf_limited": 0}
    for name, value in MS.findall(text):
        times[name] += int(value)
    spaces = [int(value) for value in re.findall(r"\brcv_space:(\d+)", text)]
    return Senders(
        len(re.findall(r"\bcwnd:\d+", text)),
        times["busy"],
        times["rwnd_limited"],
        times["sndbuf_limited"],
        len(re.findall(r"\bapp_limited\b", text)),
        max(spaces, default=0),
    )


def statistics(text: str) -> dict[str, int]:
    """The counters of a driver, as `ethtool -S` prints them."""
    rows = re.findall(r"^\s*([^:\n]+?):\s*(\d+)\s*$", text, re.MULTILINE)
    return {name: int(value) for name, value in rows}
