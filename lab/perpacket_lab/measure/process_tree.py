"""The kernel's counts of a server, summed over its process and all descendants: proc(5).

A server may be one process, many processes, or many threads. Processor time is the scheduler's
count for each thread, in nanoseconds. If the kernel does not have this count, `utime` and `stime`
replace it. These count in ticks, which is coarse for many processes.
On loopback, processor time includes the receiver's work up to the socket. Page faults include those
of ended threads. Time and context switches do not, because they are read from each thread. A page
that processes share counts once in each of them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host

READ_S = 30.0
"""Time limit of one read: a loaded machine is slow."""

SCRIPT = r"""
date +%s%N
pids=$1
next=$1
while [ -n "$next" ]; do
    files=
    for pid in $next; do files="$files /proc/$pid/task/*/children"; done
    next=$(cat $files 2>/dev/null)
    pids="$pids $next"
done
files=
for pid in $pids; do
    files="$files /proc/$pid/stat /proc/$pid/statm /proc/$pid/task/*/status"
    files="$files /proc/$pid/task/*/schedstat"
done
grep -s -e '^[0-9]' -e ctxt_switches $files /dev/null
"""
"""Prints the time in ns, then lines with their file names for a process and all its descendants.
The script starts few programs, because they run on the server's processors."""

LINE = re.compile(r"/proc/(\d+)/(stat|statm|task/\d+/(?:status|schedstat)):(.*)")

MINOR_FAULTS, MAJOR_FAULTS, USER_TICKS, SYSTEM_TICKS, THREADS = 7, 9, 11, 12, 17
"""Fields of /proc/PID/stat after the name in parentheses, from 0: proc_pid_stat(5)."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a server's processes until one instant."""

    at_ns: int
    processes: int
    threads: int
    cpu_s: float
    minor_faults: int
    major_faults: int
    context_switches: int
    resident_pages: int


def read(host: Host, pid: int | None) -> Counts | None:
    """The counts of a process and its descendants; `None` if there is no such process."""
    if pid is None:
        return None
    try:
        done = host.run(["sh", "-c", SCRIPT, "perpacket", str(pid)], timeout_s=READ_S)
    except RunFailed:
        return None
    return parse(done.stdout)


def parse(text: str) -> Counts | None:
    """The counts in the output of `SCRIPT`; `None` if the output has no process."""
    first, _, rest = text.partition("\n")
    processes = threads = minor = major = switches = pages = ticks = run_ns = 0
    for line in rest.splitlines():
        if (match := LINE.fullmatch(line)) is None:
            continue
        _, file, content = match.groups()
        if file == "stat":
            fields = content.rpartition(")")[2].split()
            processes += 1
            threads += int(fields[THREADS])
            minor += int(fields[MINOR_FAULTS])
            major += int(fields[MAJOR_FAULTS])
            ticks += int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])
        elif file == "statm":
            pages += int(content.split()[1])
        elif file.endswith("schedstat"):
            run_ns += int(content.split()[0])
        else:
            switches += int(content.split()[1])
    if not first.isdigit() or not processes:
        return None
    cpu_s = run_ns / 1e9 if run_ns else ticks / os.sysconf("SC_CLK_TCK")
    return Counts(int(first), processes, threads, cpu_s, minor, major, switches, pages)


def between(before: Counts | None, after: Counts | None) -> dict[str, object] | None:
    """Rates between two reads, and the amounts of the second; `None` if a read is missing."""
    if before is None or after is None or after.at_ns <= before.at_ns:
        return None
    window_s = (after.at_ns - before.at_ns) / 1e9
    minor = max(0, after.minor_faults - before.minor_faults)
    major = max(0, after.major_faults - before.major_faults)
    return {
        "window_s": window_s,
        "processes": after.processes,
        "threads": after.threads,
        "processors_busy": max(0.0, after.cpu_s - before.cpu_s) / window_s,
        "page_faults_per_s": (minor + major) / window_s,
        "major_faults_per_s": major / window_s,
        # The count of a thread disappears when it ends.
        "context_switches_per_s": max(0, after.context_switches - before.context_switches)
        / window_s,
        "resident_pages": after.resident_pages,
    }
