"""The facts that expressions use: numbers of the profile, of the machine and of the server.

A fact is read when an expression uses it. A fact that cannot be read raises `NotReadable`. Its text
becomes the reason why a change cannot be judged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from perpacket.advise import limit, links, observation
from perpacket.advise.catalogue import Change
from perpacket.advise.expression import Function, NotReadable, Value
from perpacket.advise.growth import Growth
from perpacket.advise.observation import Observation
from perpacket.advise.settings.files import controls

FREQUENCIES = "/sys/devices/system/cpu"


class Facts(Mapping[str, Value]):
    """The facts about a change on an interface; `interface` is empty if none carried packets."""

    def __init__(self, seen: Observation, change: Change, interface: str) -> None:
        """Read nothing yet."""
        self.seen = seen
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

    def _driver(self, *patterns: Value) -> int:
        """The growth of the driver's counters of the interface whose names match."""
        return _growth(self).driver(self.link.name, *map(str, patterns))

    def _option(self, name: Value) -> str:
        """The present value of a server's option, by the name of its change."""
        server = self.seen.server
        if server is None:
            raise NotReadable("no server was named: `--pid PID`")
        if server.unread:
            raise NotReadable(server.unread)
        if name not in server.options:
            raise NotReadable(f"{server.kind} has no such option")
        return server.options[str(name)]

    @property
    def link(self) -> links.Link:
        """The interface of the change; raises `NotReadable` if there is none."""
        if self.interface not in self.seen.links:
            raise NotReadable("no interface carried packets during the profile")
        return self.seen.links[self.interface]

    def carried(self, key: str) -> float:
        """The growth of a counter of the interface during the profile."""
        return self.seen.profile.number("interfaces", self.link.name, key)


def _number(value: Value) -> float:
    try:
        return float(value)
    except ValueError:
        raise NotReadable(f"{value} is no number") from None


def _ratio(numerator: float, denominator: float, what: str) -> float:
    if denominator <= 0:
        raise NotReadable(f"there were no {what}")
    return numerator / denominator


def sysctl(name: Value) -> str:
    """A sysctl of the machine."""
    try:
        return (Path("/proc/sys") / str(name).replace(".", "/")).read_text().strip()
    except OSError as error:
        raise NotReadable(f"{name}: {(error.strerror or str(error)).lower()}") from None


def _present(facts: Facts) -> str:
    change = facts.change
    if change.setting is not None:
        return facts.seen.read_setting(change.setting, facts.interface)
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
    return _ratio(facts.carried("bytes_sent"), _requests(facts), "requests")


def _interrupts_per_frame(facts: Facts) -> float:
    try:
        count = facts.seen.profile.number("interfaces", facts.link.name, "interrupts")
    except NotReadable:
        raise NotReadable(f"the interrupts of {facts.link.name} are not listed in sysfs") from None
    return _ratio(count, facts.number("received_frames"), "received frames")


def _growth(facts: Facts) -> Growth:
    if facts.seen.growth is None:
        raise NotReadable("a stored profile has no counters of processors and connections")
    return facts.seen.growth


def _busiest_softirq(facts: Facts) -> float:
    return max(_growth(facts).softirq.values(), default=0.0)


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
    return max(0.0, 1 - _ratio(passed, received, "received packets"))


def _filtered_text(facts: Facts) -> str:
    try:
        return f"the stack drops {100 * _filtered(facts):.0f} % of received packets"
    except NotReadable as reason:
        return f"dropped packets were not counted ({reason})"


def _most_queues(facts: Facts) -> float:
    table = {"kind": "ethtool-channels", "parameter": "max-combined"}
    return _number(facts.seen.read_setting(table, facts.interface))


def _requests(facts: Facts) -> float:
    try:
        return facts.seen.profile.number("requests")
    except NotReadable:
        raise NotReadable("requests were not counted: `--requests URL`") from None


def _connections_per_request(facts: Facts, counter: str) -> float:
    """The growth of a counter of TCP for each request that the server answered."""
    return _ratio(_growth(facts).count(counter), _requests(facts), "requests")


def _busy_share(facts: Facts) -> float:
    measured = facts.seen.profile
    return 1.0 - measured.number("idle", "share_of_time")


def _server_cpus(facts: Facts) -> set[int]:
    if not facts.seen.workers:
        raise NotReadable("no server was named: `--pid PID`")
    found: set[int] = set()
    for pid in facts.seen.workers[1:] or facts.seen.workers:
        try:
            found |= os.sched_getaffinity(pid)
        except OSError:
            continue
    return found


def _frequency_share(_: Facts) -> float:
    """The present frequency as a share of the highest, the mean over processors."""
    shares: list[float] = []
    for folder in Path(FREQUENCIES).glob("cpu[0-9]*/cpufreq"):
        try:
            now, most = (
                int((folder / name).read_text())
                for name in ("scaling_cur_freq", "cpuinfo_max_freq")
            )
        except (OSError, ValueError):
            continue
        shares.append(now / most)
    if not shares:
        raise NotReadable("this machine does not show the frequency of its processors")
    return min(1.0, sum(shares) / len(shares))


def _kernel_tls(_: Facts) -> bool:
    from perpacket.machine import network

    return network.KERNEL_TLS.attempt(network.enable_kernel_tls).available


def _unpaced_control(facts: Facts) -> str:
    """A congestion control without pacing timers that the namespace accepts: cubic, else reno."""
    _, accepted = controls(facts.seen.scope)
    return "cubic" if "cubic" in accepted else "reno"


def _rules_text(facts: Facts) -> str:
    try:
        return f"{facts.number('rules'):.0f} nftables rules are in the longest chain"
    except NotReadable as reason:
        return f"the rules were not counted ({reason})"


def _cpu_count() -> int:
    return os.cpu_count() or 1


FUNCTIONS: dict[str, Function] = {
    "share": Facts._share,
    "frames": Facts._frames,
    "option": Facts._option,
    "option_number": lambda facts, name: _number(facts._option(name)),
    "sysctl": lambda facts, name: sysctl(name),
    "grown": lambda facts, *names: _growth(facts).count(*map(str, names)),
    "driver": Facts._driver,
}
"""Each function of expressions by name; it gets the facts first."""

FACTS: dict[str, Callable[[Facts], Value]] = {
    "interface": lambda facts: facts.link.name,
    "interface_kind": lambda facts: facts.link.kind,
    "is_virtual": lambda facts: facts.link.kind != "hardware",
    "is_loopback": lambda facts: facts.link.kind == "loopback",
    "mtu": lambda facts: facts.link.mtu,
    "is_tunnel": lambda facts: facts.link.kind in limit.TUNNELS,
    "has_tunnel": lambda facts: any(
        facts.seen.links[name].kind in limit.TUNNELS for name in facts.seen.interfaces
    ),
    "queueing": lambda facts: facts.link.queueing,
    "is_shaped": lambda facts: facts.link.queueing in limit.SHAPERS,
    "limit": _limit,
    "tx_queues": lambda facts: facts.link.tx_queues,
    "present": _present,
    "present_number": lambda facts: _number(facts["present"]),
    "present_last": lambda facts: _number(str(facts["present"]).split()[-1]),
    "present_mask": _mask,
    "present_is_zero": _is_zero,
    "part": _part,
    "part_percent": lambda facts: 100 * facts.number("part"),
    "sent_frames": lambda facts: facts.carried("packets_sent"),
    "received_frames": lambda facts: facts.carried("packets_received"),
    "bytes_per_sent_frame": lambda facts: _ratio(
        facts.carried("bytes_sent"), facts.number("sent_frames"), "sent frames"
    ),
    "bytes_per_received_frame": lambda facts: _ratio(
        facts.carried("bytes_received"), facts.number("received_frames"), "received frames"
    ),
    "frames_sent_per_received": lambda facts: _ratio(
        facts.number("sent_frames"), facts.number("received_frames"), "received frames"
    ),
    "response_bytes": _response_bytes,
    "drops": lambda facts: facts.seen.profile.number("drops"),
    "interrupts_per_frame": _interrupts_per_frame,
    "connections": lambda facts: observation.sockets(facts.seen.workers),
    "connections_per_request": lambda facts: _connections_per_request(facts, "TcpPassiveOpens"),
    "connected_per_request": lambda facts: _connections_per_request(facts, "TcpActiveOpens"),
    "busy_share": _busy_share,
    "busy_percent": lambda facts: 100 * facts.number("busy_share"),
    "busiest_softirq_share": _busiest_softirq,
    "busiest_softirq_percent": lambda facts: 100 * facts.number("busiest_softirq_share"),
    "busiest_cpu": lambda facts: _growth(facts).busiest[0],
    "busiest_receives": lambda facts: _growth(facts).busiest[1],
    "busiest_receives_percent": lambda facts: 100 * _growth(facts).busiest[1],
    "filtered": _filtered,
    "filtered_text": _filtered_text,
    "forwarding_percent": lambda facts: 100 * facts._frames("ip_forward", "ip6_forward"),
    "most_queues": _most_queues,
    "wanted_queues": lambda facts: min(facts.number("most_queues"), facts.number("cpus")),
    "wrong_checksums": lambda facts: _growth(facts).count("TcpInCsumErrors", "UdpInCsumErrors"),
    "retransmitted_percent": lambda facts: 100 * _growth(facts).retransmitted,
    "collapsed": lambda facts: _growth(facts).count("TcpExtPruneCalled", "TcpExtTCPRcvCollapsed"),
    "receive_space": lambda facts: _growth(facts).senders.receive_space,
    "cpus": lambda facts: _cpu_count(),
    "server_cpus": lambda facts: len(_server_cpus(facts)),
    "server_cpu_list": lambda facts: ",".join(map(str, sorted(_server_cpus(facts)))),
    "server_name": lambda facts: facts.seen.server.kind if facts.seen.server else "no server",
    "workers": lambda facts: facts._option("workers"),
    "flow_entries": lambda facts: sysctl("net.core.rps_sock_flow_entries"),
    "frequency_share": _frequency_share,
    "frequency_percent": lambda facts: 100 * facts.number("frequency_share"),
    "kernel_tls": _kernel_tls,
    "unpaced_control": _unpaced_control,
    "rules": lambda facts: links.rules(facts.seen.scope),
    "rules_text": _rules_text,
}
"""Each fact by name."""
