"""The facts of the texts of one moment: each text is recognized by its content."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from perpacket.advise import (
    config_texts,
    kernel_texts,
    log_texts,
    processor_texts,
    socket_texts,
    tool_texts,
)
from perpacket.advise.links import Link, Queue
from perpacket.advise.servers import Server
from perpacket.advise.socket_texts import Sockets
from perpacket.machine.files import Copies
from perpacket.machine.nodes import INTERFACES, NODES

QUEUE = re.compile(
    r"(?!virtio)(?:[a-z0-9_]+-)?((?!tx|rx)[a-z][a-z0-9]*)-(?:tx|rx)"
    r"|((?:en|eth|em|p\dp|wl)[a-z0-9]*)-(?:fp-|q)?\d",
    re.IGNORECASE,
)
"""The names that drivers give to the interrupts of queues, with the interface's name."""

OF_DRIVER = re.compile(
    r"NIC statistics|^\s*rx_(?:missed_errors|no_buffer_count)\s*:|^\s*\w+_allowance_exceeded\s*:",
    re.MULTILINE,
)

STATISTICS = re.compile(r"ethtool\b.*-S[\s_-]+([a-z][\w.]*?)(?:\.\w+)?(?:\s|$)")
"""The interface in a command, or in a file named after it, such as `ethtool-S-eth0.txt`."""

UNNAMED = "INTERFACE"
"""The name of an interface that no file names."""

IRQBALANCE = re.compile(r"irqbalance\.service.*?^\s*Active: (\w+)", re.MULTILINE | re.DOTALL)

Value = TypeVar("Value")

Parsed = object
"""What a parser found; nothing if it is empty or 0."""


@dataclass(slots=True)
class Texts:
    """What the texts of one moment show."""

    protocols: dict[str, int] = field(default_factory=dict)
    backlogs: dict[str, kernel_texts.Backlog] = field(default_factory=dict)
    received_softirqs: dict[str, int] = field(default_factory=dict)
    interrupts: dict[str, list[int]] = field(default_factory=dict)
    drivers: dict[str, dict[str, int]] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    senders: kernel_texts.Senders = kernel_texts.NO_SENDERS
    devices: dict[str, dict[str, int]] = field(default_factory=dict)
    features: dict[str, dict[str, str]] = field(default_factory=dict)
    parameters: list[tool_texts.Parameters] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)
    files: Copies = field(default_factory=Copies)
    shares: dict[str, processor_texts.Shares] = field(default_factory=dict)
    idle_states: dict[str, processor_texts.IdleState] = field(default_factory=dict)
    programs: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    sockets: Sockets = field(default_factory=Sockets)
    messages: Counter[str] = field(default_factory=Counter)
    speeds: dict[str, float] = field(default_factory=dict)
    rate_bps: float = 0.0
    hashed: dict[str, str] = field(default_factory=dict)
    throttled: float = 0.0
    half_duplex: list[str] = field(default_factory=list)
    irqbalance: str = ""
    """The state of irqbalance's unit, such as `inactive`; empty if it is unknown."""
    configuration: tuple[str, str] = ("", "")
    """The name and the text of a server's configuration."""
    cpus: int = 0
    rules: int = 0
    """The rules in the longest chain of the packet filter."""
    unnamed: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    """The drivers' counters whose text does not name their interface, by file."""

    def add(self, name: str, text: str) -> tuple[str, ...]:
        """Add the facts of a section of a text; what was recognized in it."""
        is_copy = " /" not in name and self.files.add(name, text)  # not a command with a path
        named = tuple(self._recognized(name, text))
        return named or (("a copy of a file of /proc or /sys",) if is_copy else ())

    def _recognized(self, name: str, text: str) -> Iterator[str]:
        for title, add in RECOGNIZED.items():
            # Damaged texts have digits and numbers that no kernel prints.
            with contextlib.suppress(ValueError, ArithmeticError, IndexError):
                if add(self, name, text):
                    yield title

    def _add_interrupts(self, _: str, text: str) -> Parsed:
        rows = kernel_texts.interrupts(text)
        self.interrupts.update(rows)
        self._count(max((len(row) for row in rows.values()), default=0))
        return rows

    def _add_backlogs(self, _: str, text: str) -> Parsed:
        rows = kernel_texts.backlogs(text)
        self.backlogs.update(rows)
        self._count(len(rows))
        return rows

    def _add_softirqs(self, _: str, text: str) -> Parsed:
        rows = processor_texts.received_softirqs(text)
        self.received_softirqs.update(rows)
        self._count(len(rows))
        return rows

    def _add_shares(self, _: str, text: str) -> Parsed:
        rows = processor_texts.processors(text)
        self.shares.update(rows)
        self._count(sum(name != processor_texts.ALL for name in rows))
        counted = re.search(r"\((\d+) CPU\)", text)
        self._count(int(counted[1]) if counted else 0)
        return rows

    def _add_cpus(self, _: str, text: str) -> Parsed:
        count, nodes = tool_texts.cpu_count(text), tool_texts.nodes(text)
        self._count(count)
        for node, cpus in nodes.items():
            self.files.texts[f"{NODES}/node{node}/cpulist"] = cpus
        if nodes:
            self.files.texts[f"{NODES}/online"] = ",".join(map(str, nodes))
        return count or nodes

    def _count(self, cpus: int) -> None:
        self.cpus = max(self.cpus, cpus)

    def _add_protocols(self, _: str, text: str) -> Parsed:
        counts = {**kernel_texts.protocols(text), **tool_texts.netstat(text)}
        self.protocols.update(counts)
        return counts

    def _add_missed(self, _: str, text: str) -> Parsed:
        rows = tool_texts.missed(text)
        for name, counts in rows.items():
            self.drivers.setdefault(name, {}).update(counts)
        return rows

    def _add_drivers(self, name: str, text: str) -> Parsed:
        rows, named = kernel_texts.statistics(text), STATISTICS.search(name)
        if not named and not OF_DRIVER.search(text):
            return 0
        if named:
            self.drivers.setdefault(named[1], {}).update(rows)
        else:
            self.unnamed.append((name, rows))
        return rows

    def _add_senders(self, _: str, text: str) -> Parsed:
        found = kernel_texts.senders(text)
        if found.count or found.busy_ms:
            self.senders = found
        return found.count

    def _add_sockets(self, _: str, text: str) -> Parsed:
        found = socket_texts.sockets(text)
        self.sockets = self.sockets.with_(found)
        return int(found != Sockets())

    def _add_rules(self, _: str, text: str) -> Parsed:
        rules = kernel_texts.longest_chain(text)
        self.rules = max(self.rules, rules)
        return rules

    def _add_features(self, _: str, text: str) -> Parsed:
        named = tool_texts.features(text)
        if named is not None:
            self.features.setdefault(named[0], {}).update(named[1])
        return int(named is not None)

    def _add_parameters(self, _: str, text: str) -> Parsed:
        numbers = list(tool_texts.parameters(text))
        self.parameters += numbers
        return numbers

    def _add_links(self, _: str, text: str) -> Parsed:
        links = {link.name: link for link in tool_texts.links(text)}
        self.links.update(links)
        return links

    def _add_sysctls(self, name: str, text: str) -> Parsed:
        sysctls = tool_texts.sysctls(text)
        if re.search(r"\bconntrack (-C|--count)\b", name) and text.strip().isdigit():
            sysctls["net.netfilter.nf_conntrack_count"] = text.strip()
        self.sysctls.update(sysctls)
        if release := tool_texts.kernel_release(text):
            self.sysctls.setdefault("kernel.osrelease", release)
        return sysctls

    def _add_speeds(self, _: str, text: str) -> Parsed:
        speeds, rate = tool_texts.speeds(text), tool_texts.rate_bps(text)
        self.speeds.update(speeds)
        self.half_duplex += tool_texts.half_duplex(text)
        self.rate_bps = max(self.rate_bps, rate)
        return speeds or rate

    def _add_quota(self, _: str, text: str) -> Parsed:
        share = tool_texts.throttled(text)
        self.throttled = max(self.throttled, share)
        return int("nr_throttled" in text)

    def _add_services(self, _: str, text: str) -> Parsed:
        matched = IRQBALANCE.search(text)
        self.irqbalance = matched[1] if matched else self.irqbalance
        return int(matched is not None)

    def _add_configuration(self, name: str, text: str) -> Parsed:
        if config_texts.server(name, text, 0) is None:
            return 0
        self.configuration = (name, text)
        return 1

    @property
    def server(self) -> Server | None:
        """The server whose configuration is among the texts."""
        name, text = self.configuration
        return config_texts.server(name, text, self.cpus) if text else None

    @property
    def names(self) -> list[str]:
        """Every interface that a text names."""
        sources: Sequence[Mapping[str, object]] = (
            self.links,
            self.devices,
            self.features,
            self.queues,
            {one.interface: one for one in self.parameters},
            dict.fromkeys(self.files.names(INTERFACES)),
            self.drivers,
            self.speeds,
        )
        found = list(dict.fromkeys(name for source in sources for name in source))
        named = filter(None, (QUEUE.match(name) for name in self.interrupts))
        by_interrupts = dict.fromkeys(match[1] or match[2] for match in named)
        return found or [*by_interrupts] or [UNNAMED]

    def name_drivers(self) -> None:
        """Assign drivers' counters to interfaces: by the file's name, or to the only interface."""
        for path, rows in self.unnamed:
            words = re.split(r"[^\w.@]+", path)
            stems = {word for one in words for word in (one, one.rpartition(".")[0])}
            named = [name for name in self.names if name in stems]
            others = [name for name in self.names if name != "lo"]
            self.drivers.setdefault((named or others or [UNNAMED])[0], {}).update(rows)


def _into(
    field_of: Callable[[Texts], dict[str, Value]], parse: Callable[[str], Mapping[str, Value]]
) -> Callable[[Texts, str, str], Parsed]:
    """A method that adds all that a parser finds to one mapping."""

    def add(texts: Texts, _: str, text: str) -> Parsed:
        rows = parse(text)
        field_of(texts).update(rows)
        return rows

    return add


RECOGNIZED: dict[str, Callable[[Texts, str, str], Parsed]] = {
    "interrupts by processor": Texts._add_interrupts,
    "softnet_stat": Texts._add_backlogs,
    "softirqs by processor": Texts._add_softirqs,
    "times of processors": Texts._add_shares,
    "processors and nodes": Texts._add_cpus,
    "counters of protocols": Texts._add_protocols,
    "packets by interface": _into(lambda texts: texts.devices, kernel_texts.devices),
    "frames that an interface missed": Texts._add_missed,
    "counters of a driver": Texts._add_drivers,
    "queueing disciplines": _into(lambda texts: texts.queues, tool_texts.disciplines),
    "windows of connections": Texts._add_senders,
    "sockets": Texts._add_sockets,
    "rules of the packet filter": Texts._add_rules,
    "features of an interface": Texts._add_features,
    "parameters of an interface": Texts._add_parameters,
    "interfaces": Texts._add_links,
    "settings of the kernel": Texts._add_sysctls,
    "states of idle processors": _into(
        lambda texts: texts.idle_states, processor_texts.idle_states
    ),
    "processor time of programs": _into(lambda texts: texts.programs, processor_texts.programs),
    "system calls": _into(lambda texts: texts.calls, tool_texts.calls),
    "messages of limits": _into(lambda texts: texts.messages, log_texts.messages),
    "the quota of a control group": Texts._add_quota,
    "speed or rate": Texts._add_speeds,
    "fields that choose a queue": _into(lambda texts: texts.hashed, tool_texts.hashed_fields),
    "the state of irqbalance": Texts._add_services,
    "the configuration of a server": Texts._add_configuration,
}
"""Each kind of text, and the method that adds its facts."""
