"""Counters of the kernel at a moment: of processors, threads, protocols, queues and drivers."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perpacket.advise import kernel_texts, links, socket_texts
from perpacket.advise.kernel_texts import NO_SENDERS, Backlog, Senders
from perpacket.advise.links import Queue
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.settings import iproute
from perpacket.advise.socket_texts import Sockets
from perpacket.errors import PerpacketError
from perpacket.machine.files import Files

PROC = Path("/proc")

IDLE, WAITING, SOFTIRQ, STOLEN = 3, 4, 6, 7
"""The columns of time in /proc/stat: idle, waiting for a disk, softirqs, steal; proc_stat(5)."""

ESTABLISHED = "01"
"""TCP_ESTABLISHED of include/net/tcp_states.h, as /proc/net/tcp prints it."""


@dataclass(frozen=True, slots=True)
class Processor:
    """The time of a processor since the start of the machine."""

    softirq_ticks: int
    stolen_ticks: int
    all_ticks: int
    idle_s: float
    """Idle time, and time in which the processor waited for a disk."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of the kernel at a moment."""

    time_s: float
    processors: Mapping[str, Processor]
    threads: Mapping[int, float] = field(default_factory=dict)
    """The processor time of each thread of the server, in seconds."""
    protocols: Mapping[str, int] = field(default_factory=dict)
    """The counters of the network namespace by their names in nstat, such as `TcpPassiveOpens`."""
    queues: Mapping[str, Queue] = field(default_factory=dict)
    """The root queueing discipline of each interface."""
    connections: int = 0
    unsent: int = 0
    """Connections of the namespace, and those among them with data that is not acknowledged."""
    backlogs: Mapping[str, Backlog] = field(default_factory=dict)
    interrupts: Mapping[str, list[int]] = field(default_factory=dict)
    """The interrupts of each name, by processor."""
    drivers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The driver's counters of each interface."""
    devices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The packets and bytes of each interface of the namespace."""
    senders: Senders = NO_SENDERS
    sockets: Sockets = field(default_factory=Sockets)


def read(pid: int | None, workers: Sequence[int], scope: NetworkScope) -> Counters:
    """The counters now; those that cannot be read are missing."""
    queues: Mapping[str, Queue] = {}
    with contextlib.suppress(Exception):  # netlink has errors of many types
        queues = scope.inside(links.queues)
    unsent = list(_unsent(pid))
    files = Files()
    return Counters(
        time.monotonic(),
        processors((PROC / "stat").read_text()),
        dict(_threads(workers)),
        protocols(files, f"/proc/{pid or 'self'}/net"),
        queues,
        len(unsent),
        sum(map(bool, unsent)),
        kernel_texts.backlogs(files.text("/proc/net/softnet_stat")),
        kernel_texts.interrupts(files.text("/proc/interrupts")),
        scope.inside(links.drivers),
        kernel_texts.devices(files.text(f"/proc/{pid or 'self'}/net/dev")),
        _senders(scope),
        _sockets(files, f"/proc/{pid or 'self'}/net", scope),
    )


def processors(stat: str) -> dict[str, Processor]:
    """The time of each processor, from the text of /proc/stat."""
    hertz = os.sysconf("SC_CLK_TCK")
    found: dict[str, Processor] = {}
    for line in stat.splitlines():
        name, *words = line.split() or [""]
        if re.fullmatch(r"cpu\d+", name):
            ticks = list(map(int, words))
            idle_s = (ticks[IDLE] + ticks[WAITING]) / hertz
            found[name] = Processor(ticks[SOFTIRQ], ticks[STOLEN], sum(ticks[:8]), idle_s)
    return found


FILES = ("snmp", "netstat", "stat/nf_conntrack", "stat/arp_cache", "stat/ndisc_cache")
"""The files of a namespace with counters of protocols."""


def protocols(files: Files, folder: str) -> dict[str, int]:
    """The counters of a network namespace; empty if they cannot be read."""
    texts = (files.text(f"{folder}/{name}") for name in FILES)
    return kernel_texts.protocols("\n".join(texts))


def _sockets(files: Files, folder: str, scope: NetworkScope) -> Sockets:
    """The listening sockets of the namespace, its closed connections and the memory of TCP."""
    found = socket_texts.sockets(files.text(f"{folder}/sockstat"))
    try:
        listening = iproute.run(scope, ["ss", "-ltn"], "listening sockets")
    except (PerpacketError, subprocess.TimeoutExpired):
        return found
    return found.with_(socket_texts.sockets(listening))


def _senders(scope: NetworkScope) -> Senders:
    """The connections of the namespace; none if `ss` cannot list them."""
    try:
        return kernel_texts.senders(iproute.run(scope, ["ss", "-tinH"], "connections"))
    except (PerpacketError, subprocess.TimeoutExpired):
        return Senders()


def _threads(pids: Sequence[int]) -> Iterator[tuple[int, float]]:
    """The processor time of each thread of processes; sched-stats of the kernel's documents."""
    for pid in pids:
        for task in (PROC / str(pid) / "task").glob("*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                yield int(task.name), int((task / "schedstat").read_text().split()[0]) / 1e9


def _unsent(pid: int | None) -> Iterator[int]:
    """The bytes that each connection of a namespace has not got acknowledged; proc_pid_net(5)."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / str(pid or "self") / "net" / name).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == ESTABLISHED:
                    yield int(words[4].partition(":")[0], 16)
