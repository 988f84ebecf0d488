"""The facts that expressions use: numbers of the profile, of the machine and of the server.

A fact is read when an expression uses it. A fact that cannot be read raises `NotReadable`. Its text
becomes the reason why a change cannot be judged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from perpacket.advise import (
    limit,
    limit_interfaces,
    links,
    observation,
    receiving_facts,
    resource_facts,
    server_processes,
)
from perpacket.advise.catalogue import Change
from perpacket.advise.expression import Function, NotReadable, Value, ratio
from perpacket.advise.growth import Growth
from perpacket.advise.observation import Observation
from perpacket.advise.settings.files import controls
from perpacket.advise.texts import UNNAMED
from perpacket.measure import cpu_lists

FREQUENCY = "/sys/devices/system/cpu/cpu*/cpufreq/"

FIXED = " [fixed]"
"""The end of a value that the driver does not allow to change, in `ethtool -k`."""


class Facts(Mapping[str, Value]):
    """The facts about a change on an interface; `interface` is empty if none carried packets."""

    def __init__(self, seen: Observation, change: Change, interface: str) -> None:
        """Read nothing yet."""
        self.seen: Observation = seen
        self.change = change
        self.interface = interface
        self._found: dict[str, Value] = {}
        self.functions: dict[str, Function] = {
            name: partial(function, self) for name, function in FUNCTIONS.items()
        }

    def __getitem__(self, name: str) -> Value:
        """The fact; raises `NotReadable` if it cannot be read."""
        if name not in self._found:
            self._found[name] = FACTS[name](self)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is such a fact, even one that cannot be read."""
        return name in FACTS

    def __iter__(self) -> Iterator[str]:
        """The names of all facts."""
        return iter(FACTS)

    def __len__(self) -> int:
        """The number of all facts."""
        return len(FACTS)

    def number(self, name: str) -> float:
        """A fact that is a number."""
        return _number(self[name])

    def _share(self, layer: Value, kind: Value = "") -> float:
        """The share of a layer, or of a kind of work in it."""
        return self.seen.profile.cells([str(layer)], [str(kind)] if kind else ()).share

    def _frames(self, *functions: Value) -> float:
        """The share of samples with one of these functions in their call chain."""
        return self.seen.profile.chains([str(one) for one in functions]).share

    def _feature(self, name: Value) -> str:
        """A feature of the interface, `on` or `off`; empty if it cannot be read."""
        table = {"kind": "ethtool-feature", "feature": str(name)}
        try:
            return self.seen.read_setting(table, self.interface).removesuffix(FIXED)
        except NotReadable:
            return ""

    @property
    def no_server(self) -> str:
        """Why there is no server."""
        if self.seen.is_case:
            return "no file is its configuration: `nginx -T`, or its file"
        return "no server was named: `--pid PID`"

    def _known(self, name: Value) -> bool:
        """Whether a fact can be read."""
        try:
            return self[str(name)] is not None
        except NotReadable:
            return False

    def _driver(self, *patterns: Value) -> int:
        """The growth of the driver's counters of the interface whose names match."""
        return _growth(self).driver(self.link.name, *map(str, patterns))

    def _option(self, name: Value) -> str:
        """The present value of a server's option, by the name of its change."""
        server = self.seen.server
        if server is None:
            raise NotReadable(self.no_server)
        if server.unread:
            raise NotReadable(server.unread)
        if name not in server.options:
            raise NotReadable(f"{server.kind} has no such option")
        return server.options[str(name)]

    @property
    def is_fixed(self) -> bool:
        """Whether the driver does not allow to change the setting; ethtool prints it."""
        setting = self.change.setting
        if setting is None or setting["kind"] != "ethtool-feature":
            return False
        try:
            return self.seen.read_setting(setting, self.interface).endswith(FIXED)
        except NotReadable:
            return False

    @property
    def link(self) -> links.Link:
        """The interface of the change; raises `NotReadable` if there is none."""
        if self.interface not in self.seen.links:
            raise NotReadable("no interface carried packets during the profile")
        return self.seen.links[self.interface]

    def file(self, path: str) -> str:
        """The contents of a file of sysfs; of several, separated by `;` if they differ."""
        return self.seen.read_setting({"kind": "file", "path": path}, self.interface)

    def carried(self, key: str) -> float:
        """The growth of a counter of the interface during the profile."""
        try:
            return self.seen.profile.number("interfaces", self.link.name, key)
        except NotReadable:
            if self.seen.is_case:
                raise NotReadable("no file counts packets: `/proc/net/dev`") from None
            raise


def _interface_kind(facts: Facts) -> str:
    if facts.link.name == UNNAMED:
        raise NotReadable("no file names an interface: `ip -d link`")
    return facts.link.kind


def _tx_queues(facts: Facts) -> int:
    """The send queues of the interface."""
    if not facts.link.tx_queues:
        raise NotReadable(f"no file shows the queues of {facts.link.name}: `ethtool -l`")
    return facts.link.tx_queues


def _number(value: Value) -> float:
    try:
        return float(value)
    except ValueError:
        raise NotReadable(f"{value} is no number") from None


def _sysctl(facts: Facts, name: str) -> str:
    return facts.seen.read_setting({"kind": "sysctl", "name": name}, "")


def _require_here(facts: Facts, what: str) -> None:
    """Raise `NotReadable` for a fact that no file of another machine shows."""
    if facts.seen.is_case:
        raise NotReadable(f"no file shows {what}")


def _present(facts: Facts) -> str:
    change = facts.change
    if change.setting is not None:
        return facts.seen.read_setting(change.setting, facts.interface).removesuffix(FIXED)
    return facts._option(change.name)


def _mask(facts: Facts) -> int:
    """The number in a processor mask of the kernel (hexadecimal, with commas).

    If the setting has several masks, the largest one.
    """
    text = str(facts["present"]).removeprefix("mask:").split(";")
    try:
        return max((int(mask.replace(",", ""), 16) for mask in text), default=0)
    except ValueError:
        raise NotReadable(f"{facts['present']} is no mask of processors") from None


def _is_zero(facts: Facts) -> bool:
    return str(facts["present"]).rstrip("nums") in ("0", "")


def _part(facts: Facts) -> float:
    """The share of processor time that the change concerns."""
    return facts.seen.profile.part_of(facts.change.bound).share


def _response_bytes(facts: Facts) -> float:
    """Bytes sent per request. Received frames are no requests: some are acknowledgments."""
    return ratio(facts.carried("bytes_sent"), _requests(facts), "requests")


def _growth(facts: Facts) -> Growth:
    return facts.seen.grown


def _merged(facts: Facts) -> float:
    """Segments in each packet that reached IP: 1 if nothing was merged before.

    A merged packet counts once in InReceives, and each of its segments in the counters of ECN;
    ip_rcv_core of net/ipv4/ip_input.c.
    """
    ecn = ("IpExtInNoECTPkts", "IpExtInECT1Pkts", "IpExtInECT0Pkts", "IpExtInCEPkts")
    grown = _growth(facts)
    return ratio(grown.count(*ecn), grown.count("IpInReceives"), "received packets")


def _merged_text(facts: Facts) -> str:
    try:
        merged = _merged(facts)
    except NotReadable as reason:
        return f"how many segments it merges was not counted ({reason})"
    verdict = "nothing is merged" if merged < LITTLE_MERGED else "frames are merged"
    return f"{merged:.2f} segments reached IP in each packet: {verdict}"


LITTLE_MERGED = 1.1
"""With fewer segments a packet, GRO merges nothing that matters."""


def _limit(facts: Facts) -> str:
    what = limit.of(facts.seen)
    return "" if what is None else what.what.value


def _filtered(facts: Facts) -> float:
    """The share of received IPv4 packets that the stack neither delivers nor forwards.

    Rules of the packet filter and failed routes drop them. Source: net/ipv4/ip_input.c.
    """
    grown = _growth(facts)
    received = grown.count("IpInReceives")
    fragments = grown.count("IpReasmReqds") - grown.count("IpReasmOKs")
    passed = grown.count("IpInDelivers", "IpForwDatagrams") + max(0, fragments)
    return max(0.0, 1 - ratio(passed, received, "received packets"))


def _filtered_text(facts: Facts) -> str:
    try:
        return f"the stack drops {100 * _filtered(facts):.0f} % of received packets"
    except NotReadable as reason:
        return f"dropped packets were not counted ({reason})"


def _most(facts: Facts, kind: str, parameter: str) -> float:
    table = {"kind": kind, "parameter": f"max-{parameter}"}
    return _number(facts.seen.read_setting(table, facts.interface))


def _deferred_polls(facts: Facts) -> float:
    """The polls for which interrupts are deferred; `NotReadable` before Linux 5.8."""
    path = "/sys/class/net/{interface}/napi_defer_hard_irqs"
    return _number(facts.seen.read_setting({"kind": "file", "path": path}, facts.interface))


def _kernel(facts: Facts) -> str:
    return _sysctl(facts, "kernel.osrelease")


def _kernel_number(facts: Facts) -> float:
    """The kernel's version as a number: 5.04 for 5.4, and 5.13 for 5.13."""
    major, minor = (int(part) for part in re.findall(r"\d+", _kernel(facts))[:2])
    return major + minor / 100


def _requests(facts: Facts) -> float:
    try:
        return facts.seen.profile.number("requests")
    except NotReadable:
        raise NotReadable("requests were not counted: `--requests URL`") from None


def _connections_per_request(facts: Facts, way: str) -> float:
    """Connections that began during the profile for each request that the server answered."""
    requests = _requests(facts)
    return ratio(facts.seen.profile.number("connections", way), requests, "requests")


def _busy_share(facts: Facts) -> float:
    grown = facts.seen.growth
    if facts.seen.is_case and grown is not None and grown.busy:
        return sum(grown.busy.values()) / len(grown.busy)
    return 1.0 - facts.seen.profile.number("idle", "share_of_time")


def _server_cpus(facts: Facts) -> set[int]:
    _require_here(facts, "the processors on which the server may run")
    if not facts.seen.workers:
        raise NotReadable("no server was named: `--pid PID`")
    found: set[int] = set()
    for pid in facts.seen.workers[1:] or facts.seen.workers:
        try:
            found |= os.sched_getaffinity(pid)
        except OSError:
            continue
    return found


def _frequency_share(facts: Facts) -> float:
    """The present frequency as a share of the highest, the mean over processors."""
    now, most = (
        [_number(text) for text in facts.file(FREQUENCY + name).split(";")]
        for name in ("scaling_cur_freq", "cpuinfo_max_freq")
    )
    return min(1.0, (sum(now) / len(now)) / (sum(most) / len(most)))


def _names_programs(facts: Facts) -> bool:
    """Whether call chains name the functions of programs, and not only their files."""
    stacks = facts.seen.profile.stacks
    unnamed = sum(stack.samples for stack in stacks if stack.functions and stack.is_own_code)
    if not stacks or unnamed > LEAST_UNNAMED * sum(stack.samples for stack in stacks):
        raise NotReadable("the profile does not name the functions of programs: `perf record -g`")
    return True


LEAST_UNNAMED = 0.02
"""The share of samples in unnamed code of programs from which their functions are unknown."""


def _kernel_tls(facts: Facts) -> bool:
    if facts.seen.is_case:
        return True  # it is a module since Linux 4.13, and the risk names it
    from perpacket.machine import network

    return network.KERNEL_TLS.attempt(network.enable_kernel_tls).available


def _unpaced_control(facts: Facts) -> str:
    """A congestion control without pacing timers that the namespace accepts: cubic, else reno."""
    _require_here(facts, "the congestion controls of the kernel")
    _, accepted = controls(facts.seen.scope)
    return "cubic" if "cubic" in accepted else "reno"


def _rules_text(facts: Facts) -> str:
    try:
        return f"{facts.number('rules'):.0f} rules are in the longest chain"
    except NotReadable as reason:
        return f"the rules were not counted ({reason})"


def _rules(facts: Facts) -> int:
    if facts.seen.is_case:
        return int(facts.seen.read_setting({"kind": "rules"}, ""))
    return links.rules(facts.seen.scope)


def _cpus(facts: Facts) -> int:
    if not facts.seen.cpus:
        raise NotReadable("no file shows the number of processors: `lscpu`")
    return facts.seen.cpus


def _most_workers(facts: Facts) -> float:
    """The number of workers from which there are more than processors; netty has twice as many."""
    server = facts.seen.server
    is_netty = server is not None and server.kind == server_processes.JAVA
    return facts.number("cpus") * (2 if is_netty else 1)


LEAST_QUEUE = 4096
"""The default of net.core.somaxconn since Linux 5.4."""

FUNCTIONS: dict[str, Function] = {
    "share": Facts._share,
    "frames": Facts._frames,
    "option": Facts._option,
    "option_number": lambda facts, name: _number(facts._option(name)),
    "sysctl": lambda facts, name: _sysctl(facts, str(name)),
    "grown": lambda facts, *names: _growth(facts).count(*map(str, names)),
    "driver": Facts._driver,
    "feature": Facts._feature,
    "known": Facts._known,
    "message": lambda facts, name: _growth(facts).messages.get(str(name), 0),
}
"""Each function of expressions by name; it gets the facts first."""

FACTS: dict[str, Callable[[Facts], Value]] = {
    "interface": lambda facts: facts.link.name,
    "interface_kind": _interface_kind,
    "is_virtual": lambda facts: facts.link.kind != "hardware",
    "is_loopback": lambda facts: facts.link.kind == "loopback",
    "mtu": lambda facts: facts.link.mtu,
    "is_tunnel": lambda facts: facts.link.kind in limit_interfaces.TUNNELS,
    "has_tunnel": lambda facts: any(
        facts.seen.links[name].kind in limit_interfaces.TUNNELS for name in facts.seen.interfaces
    ),
    "queueing": lambda facts: facts.link.queueing,
    "is_shaped": lambda facts: facts.link.queueing in limit_interfaces.SHAPERS,
    "limit": _limit,
    "tx_queues": _tx_queues,
    "present": _present,
    "present_number": lambda facts: _number(facts["present"]),
    "present_last": lambda facts: _number(str(facts["present"]).split()[-1]),
    "present_mask": _mask,
    "present_is_zero": _is_zero,
    "part": _part,
    "part_percent": lambda facts: 100 * facts.number("part"),
    "sent_frames": lambda facts: facts.carried("packets_sent"),
    "received_frames": lambda facts: facts.carried("packets_received"),
    "bytes_per_sent_frame": lambda facts: ratio(
        facts.carried("bytes_sent"), facts.number("sent_frames"), "sent frames"
    ),
    "bytes_per_received_frame": lambda facts: ratio(
        facts.carried("bytes_received"), facts.number("received_frames"), "received frames"
    ),
    "frames_sent_per_received": lambda facts: ratio(
        facts.number("sent_frames"), facts.number("received_frames"), "received frames"
    ),
    "response_bytes": _response_bytes,
    "drops": lambda facts: facts.seen.profile.number("drops"),
    "connections": lambda facts: observation.sockets(facts.seen.workers),
    "connections_per_request": lambda facts: _connections_per_request(facts, "accepted"),
    "connected_per_request": lambda facts: _connections_per_request(facts, "opened"),
    "busy_share": _busy_share,
    "busy_percent": lambda facts: 100 * facts.number("busy_share"),
    "filtered": _filtered,
    "filtered_text": _filtered_text,
    "forwarding_percent": lambda facts: 100 * facts._frames("ip_forward", "ip6_forward"),
    "names_programs": _names_programs,
    "merged": _merged,
    "merged_text": _merged_text,
    "squeezed": lambda facts: sum(row.squeezed for row in _growth(facts).backlogs.values()),
    "backlog_drops": lambda facts: sum(row.dropped for row in _growth(facts).backlogs.values()),
    "stack_frames": lambda facts: _growth(facts).frames,
    "doubled_present": lambda facts: 2 * facts.number("present_number"),
    "quadrupled_present": lambda facts: 4 * facts.number("present_number"),
    "larger_queue": lambda facts: max(LEAST_QUEUE, 2 * facts.number("present_number")),
    "most_ring": lambda facts: _most(facts, "ethtool-rings", "rx"),
    "deferred_polls": _deferred_polls,
    "kprobe_percent": lambda facts: 100 * facts._frames("kprobe_*", "kretprobe_*"),
    "kernel": _kernel,
    "kernel_number": _kernel_number,
    "most_queues": lambda facts: _most(facts, "ethtool-channels", "combined"),
    "wanted_queues": lambda facts: min(facts.number("most_queues"), facts.number("cpus")),
    "datagrams": lambda facts: _growth(facts).count("UdpInDatagrams", "Udp6InDatagrams"),
    "wrong_checksums": lambda facts: _growth(facts).count("TcpInCsumErrors", "UdpInCsumErrors"),
    "retransmitted_percent": lambda facts: 100 * _growth(facts).retransmitted,
    "collapsed": lambda facts: _growth(facts).count("TcpExtPruneCalled", "TcpExtTCPRcvCollapsed"),
    "receive_space": lambda facts: _growth(facts).senders.receive_space,
    "cpus": _cpus,
    "server_cpus": lambda facts: len(_server_cpus(facts)),
    "server_cpu_list": lambda facts: cpu_lists.ranges(sorted(_server_cpus(facts))),
    "server_name": lambda facts: facts.seen.server.kind if facts.seen.server else "no server",
    "workers": lambda facts: facts._option("workers"),
    "most_workers": _most_workers,
    "flow_entries": lambda facts: _sysctl(facts, "net.core.rps_sock_flow_entries"),
    "frequency_share": _frequency_share,
    "frequency_percent": lambda facts: 100 * facts.number("frequency_share"),
    "kernel_tls": _kernel_tls,
    "unpaced_control": _unpaced_control,
    "rules": _rules,
    "rules_text": _rules_text,
    **receiving_facts.FACTS,
    **resource_facts.FACTS,
}
"""Each fact by name."""
