"""Decides whether the machine was quiet enough to judge a measured number."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest

from perpacket_lab.run.directory import RunDirectory
from requirements import DISTURBED, skip

OTHERS_MOST = 0.2
"""The number of processors that other programs may use."""

STEAL_MOST = 0.01
"""The share of processor time that the hypervisor may give to other machines."""

TRIES = 3
"""The number of measurements before a number counts as wrong.

Chance or a busy machine may affect one measurement. A mistake in the program affects all.
"""

KERNEL_THREADS = 2
"""The process id of the parent of all kernel threads."""

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """The values of /proc/PID/stat that this module uses."""

    parent: int
    cpu_s: float
    began_ticks: int


def processor_ticks() -> list[int]:
    """User, nice, system, idle, iowait, irq, softirq, steal and guests' ticks, see proc_stat(5)."""
    return [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]


def all_processes() -> dict[int, Process]:
    """Every process that exists now."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name in parentheses may contain any character; the state follows it.
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            fields = text.rpartition(")")[2].split()
            cpu_s = (int(fields[11]) + int(fields[12])) * TICK_S
            found[int(folder.name)] = Process(int(fields[1]), cpu_s, int(fields[19]))
    return found


@dataclass(frozen=True)
class Snapshot:
    """The kernel's counts at a moment."""

    at_s: float = field(default_factory=time.monotonic)
    processors: list[int] = field(default_factory=processor_ticks)
    processes: dict[int, Process] = field(default_factory=all_processes)

    def disturbance(self) -> str:
        """The cause of a disturbance since this snapshot; empty without one."""
        now = Snapshot()
        passed = [end - begin for begin, end in zip(self.processors, now.processors, strict=True)]
        steal = passed[7] / max(sum(passed[:8]), 1)
        if steal > STEAL_MOST:
            return f"the hypervisor gave {steal:.0%} of the processor time to others"
        others = sum(
            process.cpu_s - (known.cpu_s if known else 0)
            for pid, process in now.processes.items()
            if not is_ours(pid, now.processes)
            for known in [self.processes.get(pid)]
            if known is None or known.began_ticks == process.began_ticks
        )
        others /= now.at_s - self.at_s
        if others > OTHERS_MOST:
            return f"other programs used {others:.2f} processors"
        return ""


def is_ours(pid: int, processes: dict[int, Process]) -> bool:
    """Whether a process is this one, its descendant, or a kernel thread."""
    seen = set()
    while pid in processes and pid not in seen:
        if pid in (os.getpid(), KERNEL_THREADS):
            return True
        seen.add(pid)
        pid = processes[pid].parent
    return False


def judge(measure: Callable[[], str]) -> None:
    """Measure until `measure` returns no problem, at most `TRIES` times.

    Skips the test if something disturbed the machine during the tries.
    """
    problems = []
    for _ in range(TRIES):
        before = Snapshot()
        problem = measure()
        if not problem:
            return
        if disturbance := before.disturbance():
            skip(DISTURBED, f"{problem}: {disturbance}")
        print(f"wrong: {problem}")
        problems.append(problem)
    pytest.fail(f"wrong each time: {'; '.join(problems)}")


STARVED = "|".join(
    (
        "nothing while it was profiled",
        "sent nothing within",
        "no time passed",
        "no packet crossed",
        "no client received anything",
    )
)
"""The errors of a run on a machine that loses its processors for seconds."""

began: list[Snapshot] = []
"""A snapshot at the start of the running test; `conftest.py` sets it for live tests."""


def skip_or_fail(problem: str) -> NoReturn:
    """Skip the test if something disturbed the machine since it began, else fail it."""
    disturbance = began[-1].disturbance() if began else ""
    if disturbance:
        skip(DISTURBED, f"{problem}: {disturbance}")
    pytest.fail(problem)


def skip_if_disturbed(directory: RunDirectory) -> None:
    """Skip the test if its runs got no processor and something disturbed the machine."""
    reasons = [failure.reason for failure in directory.failures()]
    if reasons and all(re.search(STARVED, reason) for reason in reasons):
        skip_or_fail(reasons[0])
