"""Counters of the kernel at a moment: processors, the server's threads, connections and queues."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perpacket.advise import links
from perpacket.advise.links import Queue
from perpacket.advise.network_scope import NetworkScope

PROC = Path("/proc")

IDLE, WAITING, SOFTIRQ = 3, 4, 6
"""The columns of idle time, of waiting for a disk, and of softirqs in /proc/stat; proc_stat(5)."""

COLUMNS = {"bytes_received": 0, "packets_received": 1, "bytes_sent": 8, "packets_sent": 9}
"""The columns of /proc/net/dev; net/core/net-procfs.c."""

ESTABLISHED = "01"
"""TCP_ESTABLISHED of include/net/tcp_states.h, as /proc/net/tcp prints it."""


@dataclass(frozen=True, slots=True)
class Processor:
    """The time of a processor since the start of the machine."""

    softirq_ticks: int
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
    tcp: Mapping[str, int] = field(default_factory=dict)
    """The counters of TCP in the network namespace (RFC 4022), such as `PassiveOpens`."""
    queues: Mapping[str, Queue] = field(default_factory=dict)
    """The root queueing discipline of each interface."""
    connections: int = 0
    unsent: int = 0
    """Connections of the namespace, and those among them with data that is not acknowledged."""


def read(pid: int | None, workers: Sequence[int], scope: NetworkScope) -> Counters:
    """The counters now; those that cannot be read are missing."""
    queues: Mapping[str, Queue] = {}
    with contextlib.suppress(Exception):  # netlink has errors of many types
        queues = scope.inside(links.queues)
    backlogs = list(_unsent(pid))
    return Counters(
        time.monotonic(),
        processors(PROC),
        dict(_threads(workers)),
        tcp(pid),
        queues,
        len(backlogs),
        sum(map(bool, backlogs)),
    )


def processors(proc: Path) -> dict[str, Processor]:
    """The time of each processor."""
    hertz = os.sysconf("SC_CLK_TCK")
    found: dict[str, Processor] = {}
    for line in (proc / "stat").read_text().splitlines():
        name, *words = line.split()
        if re.fullmatch(r"cpu\d+", name):
            ticks = list(map(int, words))
            idle_s = (ticks[IDLE] + ticks[WAITING]) / hertz
            found[name] = Processor(ticks[SOFTIRQ], sum(ticks[:8]), idle_s)
    return found


def tcp(pid: int | None, proc: Path = PROC) -> dict[str, int]:
    """The counters of TCP in a process's network namespace; empty if they cannot be read."""
    try:
        lines = (proc / str(pid or "self") / "net" / "snmp").read_text().splitlines()
        names, values = (line.split()[1:] for line in lines if line.startswith("Tcp:"))
        return dict(zip(names, map(int, values), strict=True))
    except (OSError, ValueError):
        return {}


def carried(pid: int | None) -> dict[str, dict[str, int]]:
    """The packets and bytes of each interface in a process's network namespace."""
    found: dict[str, dict[str, int]] = {}
    text = (PROC / str(pid or "self") / "net" / "dev").read_text(errors="replace")
    for name, counters in re.findall(r"^\s*(\S+):\s*(.*)$", text, re.MULTILINE):
        numbers = counters.split()
        found[name] = {key: int(numbers[column]) for key, column in COLUMNS.items()}
    return found


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
