"""What the kernel counts of the server's processes: proc(5), over all that the server started.

A server may be one process, many, or many threads: what it costs is the sum. Processor time is what
the scheduler gave its threads, in nanoseconds (where the kernel does not tell, `utime` and `stime`
in ticks, which is coarse for many processes); on loopback it holds the receiver's work up to the
socket too. Page faults are of all threads; time and switches are read from each thread and lose
those of threads that ended meanwhile. Pages that processes share count in each of them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host

READ_S = 30.0
"""How long reading may take: on a loaded machine everything does."""

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
"""Prints the time in ns, then lines of the files of a process and of all below it, named: few
programs are started, because they run on the server's processors."""

LINE = re.compile(r"/proc/(\d+)/(stat|statm|task/\d+/(?:status|schedstat)):(.*)")

MINOR_FAULTS, MAJOR_FAULTS, USER_TICKS, SYSTEM_TICKS, THREADS = 7, 9, 11, 12, 17
"""Fields of /proc/PID/stat after the name in parentheses, from 0: proc_pid_stat(5)."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a server's processes did until one instant."""

    at_ns: int
    processes: int
    threads: int
    cpu_s: float
    minor_faults: int
    major_faults: int
    context_switches: int
    resident_pages: int


def read(host: Host, pid: int) -> Counts | None:
    """The counts of a process and of all below it; None where the host does not tell them."""
    try:
        done = host.run(["sh", "-c", SCRIPT, "perpacket", str(pid)], timeout_s=READ_S)
    except RunFailed:
        return None
    return parse(done.stdout)


def parse(text: str) -> Counts | None:
    """The counts in what `SCRIPT` printed; None where it holds no process."""
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
    """Rates between two readings, and what was there at the second; None where one is missing."""
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
        # A thread that ended took its count along.
        "context_switches_per_s": max(0, after.context_switches - before.context_switches)
        / window_s,
        "resident_pages": after.resident_pages,
    }
