"""Facts about tables, sockets, system calls, idle states and programs, for the catalogue.

A fact that cannot be read raises `NotReadable`, as in `facts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from perpacket.advise import processor_texts
from perpacket.advise.expression import NotReadable, Value
from perpacket.advise.limit_interfaces import TUNNELS, WAITS
from perpacket.advise.limit_tables import DEFAULT_PORTS
from perpacket.advise.processor_texts import IdleState
from perpacket.advise.profile import Profile, matcher
from perpacket.machine.files import Files
from perpacket.machine.nodes import INTERFACES

if TYPE_CHECKING:
    from perpacket.advise.facts import Facts

PROXIES = (
    "envoy",
    "wrk:worker_*",
    "linkerd2-proxy",
    "ztunnel",
    "istio-proxy",
    "cilium-envoy",
    "kuma-dp",
)
"""Programs that service meshes put beside each server, and the names of Envoy's threads."""

OTHERS = ("swapper*", "ksoftirqd*", "kworker*", "perf", "migration*", "rcu_*")
"""Names of the kernel's threads, which are no servers."""

ACCEPTING = ("inet_csk_accept", "lock_sock_nested", "__lock_sock", "inet_csk_complete_hashdance",
             "inet_csk_reqsk_queue_add")  # fmt: skip
"""The functions that take the lock of a listening socket; net/ipv4/inet_connection_sock.c."""

WRITES = ("write", "writev", "sendto", "sendmsg", "send")
READS = ("read", "readv", "recvfrom", "recvmsg", "recv")
"""System calls of sockets; those of files have the same names."""


def _tunnels(facts: Facts) -> str:
    """The tunnels whose MTU is not less than that of the interface below."""
    links = facts.seen.links.values()
    below = [link.mtu for link in links if link.kind == "hardware"]
    full = [link for link in links if link.kind in TUNNELS and below and link.mtu >= min(below)]
    if not full:
        return ""
    one = full[0]
    return f"; the tunnel {one.name} has an MTU of {one.mtu}, like the interface below it"


def _fragmented(facts: Facts) -> float:
    """The share of IP packets that are fragments, received or sent, in percent."""
    grown = facts.seen.grown
    shares = []
    for fragments, packets in (("ReasmReqds", "InReceives"), ("FragCreates", "OutRequests")):
        names = (f"Ip{fragments}", f"Ip6{fragments}"), (f"Ip{packets}", f"Ip6{packets}")
        number, of = (grown.count(*both) for both in names)
        shares.append(100 * number / of if of else 0.0)
    return max(shares)


def _writes_per_read(facts: Facts) -> float:
    calls = facts.seen.grown.calls
    if not calls:
        raise NotReadable("system calls were not counted: `strace -c -f -p PID`")
    wrote, read = (sum(calls.get(name, 0) for name in names) for names in (WRITES, READS))
    return wrote / max(1, read)


def _most_written(facts: Facts) -> str:
    calls = facts.seen.grown.calls
    name = max(WRITES, key=lambda call: calls.get(call, 0))
    reads = sum(calls.get(one, 0) for one in READS)
    return f"{calls.get(name, 0):,} calls of {name} for {reads:,} that read"


IDLE = "/sys/devices/system/cpu/cpu0/cpuidle"


def states_of(files: Files) -> dict[str, IdleState]:
    """The idle states of the first processor; Documentation/admin-guide/pm/cpuidle.rst."""
    found: dict[str, IdleState] = {}
    for state in files.names(IDLE):
        name, *numbers = (files.text(f"{IDLE}/{state}/{of}") for of in ("name", "latency", "time"))
        if name and all(number.isdigit() for number in numbers):
            found[name] = IdleState(*map(float, numbers))
    return found


def _deepest(facts: Facts) -> tuple[str, IdleState]:
    states = facts.seen.grown.idle_states
    if not states and not facts.seen.is_case:
        states = states_of(Files())
    found = processor_texts.deepest(states)
    if found is None:
        raise NotReadable("no file shows the idle states of processors: `cpupower idle-info`")
    return found


def _proxies(facts: Facts) -> dict[str, float]:
    """The processor time of each proxy of a mesh, and of all other programs under no name."""
    is_proxy, is_other = matcher(PROXIES), matcher(OTHERS)
    found: dict[str, float] = {}
    rest = 0.0
    for name, samples in _times(facts).items():
        if is_proxy(name):
            of = "envoy" if name.startswith("wrk:") else name
            found[of] = found.get(of, 0.0) + samples
        elif not is_other(name):
            rest += samples
    if found and rest:
        return {**found, "": rest}
    return {}


def _times(facts: Facts) -> Mapping[str, float]:
    profile: Profile = facts.seen.profile
    if profile.stacks:
        found: dict[str, float] = {}
        for stack in profile.stacks:
            found[stack.process] = found.get(stack.process, 0.0) + stack.samples
        return found
    grown = facts.seen.growth
    if grown is None or not grown.programs:
        raise NotReadable("the time of programs was not read: `top -b -n 1`, or stacks")
    return grown.programs


def _proxy_share(facts: Facts) -> float:
    """The part of programs' time that proxies of a mesh use; 0 without other programs."""
    found = _proxies(facts)
    total = sum(found.values())
    return (total - found.get("", 0.0)) / total if total else 0.0


def _node(facts: Facts) -> str:
    return facts.file(f"{INTERFACES}/{{interface}}/device/numa_node")


def _option_line(facts: Facts) -> str:
    server = facts.seen.server
    return "" if server is None else server.lines.get(facts.change.name, "")


def _irqbalance(facts: Facts) -> str:
    state = facts.seen.grown.irqbalance
    if state and state != "active":
        return f", and irqbalance, which would spread them, is {state}"
    return ""


def _datagram_room(facts: Facts) -> float:
    room = facts.seen.grown.sockets.datagram_room
    if not room:
        raise NotReadable("no file shows the buffers of sockets: `ss -uanm`")
    return room


def _hashed(facts: Facts) -> str:
    """Protocols of datagrams that are spread by addresses alone."""
    hashed = facts.seen.grown.hashed
    if not hashed:
        raise NotReadable("no file shows how queues are chosen: `ethtool -n IF rx-flow-hash udp4`")
    return ", ".join(name for name, of in hashed.items() if of == "addresses")


def _accept_lock(facts: Facts) -> float:
    """The share of waits for the locks of listening sockets."""
    return facts.seen.profile.chains(WAITS, callers=ACCEPTING).share


def _tracked_per_bucket(facts: Facts) -> float:
    names = ("net.netfilter.nf_conntrack_count", "net.netfilter.nf_conntrack_buckets")
    count, buckets = (
        float(facts.seen.read_setting({"kind": "sysctl", "name": name}, "")) for name in names
    )
    return count / max(1.0, buckets)


def _lone(facts: Facts) -> tuple[str, float]:
    """The program that uses most processor time, and how many processors."""
    programs = facts.seen.grown.programs
    if not programs:
        raise NotReadable("the time of programs was not read: `top -b -n 1`")
    is_other = matcher(OTHERS)
    own = {name: share for name, share in programs.items() if not is_other(name)}
    return max(own.items(), key=lambda item: item[1], default=("no program", 0.0))


def _local_ports(facts: Facts) -> str:
    try:
        return str(facts["present"])
    except NotReadable:
        return DEFAULT_PORTS


FACTS: dict[str, Callable[[Facts], Value]] = {
    "tunnel_text": _tunnels,
    "fragmented_percent": _fragmented,
    "writes_per_read": _writes_per_read,
    "most_written": _most_written,
    "deepest_state": lambda facts: _deepest(facts)[0],
    "deepest_latency_us": lambda facts: _deepest(facts)[1].latency_us,
    "proxy_share": _proxy_share,
    "proxy_percent": lambda facts: 100 * _proxy_share(facts),
    "proxy_name": lambda facts: " and ".join(name for name in _proxies(facts) if name),
    "node": _node,
    "option_line": _option_line,
    "irqbalance_text": _irqbalance,
    "knows_softirq": lambda facts: bool(facts.seen.grown.softirq),
    "datagram_room": _datagram_room,
    "doubled_room": lambda facts: 2 * _datagram_room(facts),
    "hashed_by_addresses": _hashed,
    "has_callers": lambda facts: facts.seen.profile.has_callers,
    "doubled_memory": lambda facts: " ".join(
        str(2 * int(word)) for word in str(facts["present"]).split() if word.isdigit()
    ),
    "local_ports": _local_ports,
    "accept_lock": _accept_lock,
    "accept_lock_percent": lambda facts: 100 * _accept_lock(facts),
    "tracked_per_bucket": _tracked_per_bucket,
    "lone_program": lambda facts: _lone(facts)[0],
    "lone_share": lambda facts: _lone(facts)[1],
    "lone_percent": lambda facts: 100 * _lone(facts)[1],
    "memory_pages": lambda facts: facts.seen.grown.sockets.memory_pages,
}
"""Each fact by name."""
