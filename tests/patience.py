"""Long time limits for tests, which only end a hang: no test fails because the machine is busy."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

PATIENCE_S = 600
"""Longer than any wait on a busy machine."""

DEADLINES = (
    "run.cluster.CONNECT_S",
    "run.cluster.MOST_WITHOUT_WORKERS_S",
    "measure.live.GRACE_S",
    "machine.disciplines.LIMIT_S",
    "machine.kernel.PROBE_LIMIT_S",
    "measure.web.files.QUICK_S",
    "measure.media.disk.QUICK_S",
    "measure.media.memory.QUICK_S",
    "measure.media.runs.REPORT_S",
    "measure.web.peers.FIND_S",
    "measure.process_tree.READ_S",
    "measure.router.rip.CONVERGED_S",
    "measure.router.rip.QUICK_S",
    "measure.router.runner.CHECK_S",
    "measure.router.runs.PLANE_READY_S",
    "measure.web.runs.READY_S",
    "measure.host_files.QUICK_S",
    "measure.runner.QUICK_S",
    "measure.runs.GRACE_S",
    "measure.runs.READY_S",
    "measure.hosts.machines.COMMAND_S",
    "measure.hosts.machines.CONNECT_S",
    "measure.hosts.machines.COPY_S",
    "measure.hosts.namespaces.READY_S",
    "measure.hosts.namespaces.REPORT_S",
    "measure.hosts.routed.STEER_S",
)
"""The time limits of the product, in each module that imports one."""


def be_patient(setattr_of: Callable[[object, str, object], None]) -> None:
    """Raise the time limits, because a program may take seconds to start on a busy machine."""
    for place in DEADLINES:
        module, _, name = place.rpartition(".")
        # Import by name, because `hosts.machines` is a function too.
        setattr_of(importlib.import_module(f"perpacket.{module}"), name, PATIENCE_S)


def eventually(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> bool:
    """Whether the condition becomes true within the time limit."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True
