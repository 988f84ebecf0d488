"""Whether the machine was quiet enough to judge a number, and how often it has to be wrong."""

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

from perpacket.run.directory import RunDirectory
from requirements import DISTURBED, skip

OTHERS_MOST = 0.2
"""Processors that programs of others may take."""

STEAL_MOST = 0.01
"""Share of the processors' time that the machine below may give to others."""

TRIES = 3
"""How often a number is measured before it is called wrong.

Chance and a busy machine may spoil one time, a mistake in the program spoils each.
"""

KERNEL_THREADS = 2
"""Number of the process that is the parent of the kernel's own."""

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """One process as /proc/PID/stat tells of it."""

    parent: int
    cpu_s: float
    began_ticks: int


def processor_ticks() -> list[int]:
    """User, nice, system, idle, iowait, irq, softirq, steal and guests' ticks, see proc_stat(5)."""
    return [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]


def all_processes() -> dict[int, Process]:
    """Every process there is now."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name in parentheses may hold anything; the state is the first field after it.
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            fields = text.rpartition(")")[2].split()
            cpu_s = (int(fields[11]) + int(fields[12])) * TICK_S
            found[int(folder.name)] = Process(int(fields[1]), cpu_s, int(fields[19]))
    return found


@dataclass(frozen=True)
class Look:
    """What the kernel has counted up to a moment."""

    at_s: float = field(default_factory=time.monotonic)
    processors: list[int] = field(default_factory=processor_ticks)
    processes: dict[int, Process] = field(default_factory=all_processes)

    def disturbance(self) -> str:
        """What disturbed the time since this look; empty where nothing did."""
        now = Look()
        passed = [end - begin for begin, end in zip(self.processors, now.processors, strict=True)]
        steal = passed[7] / max(sum(passed[:8]), 1)
        if steal > STEAL_MOST:
            return f"the machine below took {steal:.0%} of the processors' time"
        others = sum(
            process.cpu_s - (known.cpu_s if known else 0)
            for pid, process in now.processes.items()
            if not is_ours(pid, now.processes)
            for known in [self.processes.get(pid)]
            if known is None or known.began_ticks == process.began_ticks
        )
        others /= now.at_s - self.at_s
        if others > OTHERS_MOST:
            return f"other programs took {others:.2f} processors"
        return ""


def is_ours(pid: int, processes: dict[int, Process]) -> bool:
    """Whether a process is this one, descends from it, or is the kernel's."""
    seen = set()
    while pid in processes and pid not in seen:
        if pid in (os.getpid(), KERNEL_THREADS):
            return True
        seen.add(pid)
        pid = processes[pid].parent
    return False


def judge(measure: Callable[[], str]) -> None:
    """Measure until a number is right: until nothing is told of it.

    Skips where something disturbed the machine meanwhile; `measure` skips where it saw too little.
    """
    wrong = []
    for _ in range(TRIES):
        before = Look()
        told = measure()
        if not told:
            return
        if disturbance := before.disturbance():
            skip(DISTURBED, f"{told}: {disturbance}")
        print(f"wrong: {told}")
        wrong.append(told)
    pytest.fail(f"wrong each time: {'; '.join(wrong)}")


STARVED = "|".join(
    (
        "nothing while it was profiled",
        "sent nothing within",
        "no time passed",
        "no packet crossed",
        "no client received anything",
    )
)
"""Why a run can fail on a machine whose processors are given to others for seconds."""

began: list[Look] = []
"""What the kernel had counted when the running test began; `conftest.py` sets it for live tests."""


def skip_or_fail(problem: str) -> NoReturn:
    """Skip the test where something disturbed the machine since it began; fail it elsewhere."""
    disturbance = began[-1].disturbance() if began else ""
    if disturbance:
        skip(DISTURBED, f"{problem}: {disturbance}")
    pytest.fail(problem)


def skip_if_disturbed(directory: RunDirectory) -> None:
    """Skip the test where its runs starved and something disturbed the machine meanwhile."""
    reasons = [failure.reason for failure in directory.failures()]
    if reasons and all(re.search(STARVED, reason) for reason in reasons):
        skip_or_fail(reasons[0])
