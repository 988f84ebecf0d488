"""Long time limits for tests, which only end a hang: no test fails because the machine is busy."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

PATIENCE_S = 600
"""Longer than any wait on a busy machine."""

DEADLINES = (
    "perpacket_lab.run.cluster.CONNECT_S",
    "perpacket_lab.run.cluster.MOST_WITHOUT_WORKERS_S",
    "perpacket.measure.live.GRACE_S",
    "perpacket.machine.disciplines.LIMIT_S",
    "perpacket.machine.kernel.PROBE_LIMIT_S",
    "perpacket_lab.measure.web.served_files.QUICK_S",
    "perpacket_lab.measure.media.disk.QUICK_S",
    "perpacket_lab.measure.media.memory.QUICK_S",
    "perpacket_lab.measure.media.media_run.REPORT_S",
    "perpacket_lab.measure.web.peers.FIND_S",
    "perpacket_lab.measure.process_tree.READ_S",
    "perpacket_lab.measure.router.rip.CONVERGED_S",
    "perpacket_lab.measure.router.rip.QUICK_S",
    "perpacket_lab.measure.router.router_runner.CHECK_S",
    "perpacket_lab.measure.router.router_run.PLANE_READY_S",
    "perpacket_lab.measure.web.web_run.READY_S",
    "perpacket_lab.measure.host_files.QUICK_S",
    "perpacket_lab.measure.host_runner.QUICK_S",
    "perpacket_lab.measure.measured_run.GRACE_S",
    "perpacket_lab.measure.measured_run.READY_S",
    "perpacket.measure.hosts.machines.COMMAND_S",
    "perpacket.measure.hosts.machines.CONNECT_S",
    "perpacket.measure.hosts.machines.COPY_S",
    "perpacket_lab.measure.hosts.namespaces.READY_S",
    "perpacket_lab.measure.hosts.namespaces.REPORT_S",
    "perpacket_lab.measure.hosts.routed.STEER_S",
)
"""The time limits of the product, in each module that imports one."""


def be_patient(setattr_of: Callable[[object, str, object], None]) -> None:
    """Raise the time limits, because a program may take seconds to start on a busy machine."""
    for place in DEADLINES:
        module, _, name = place.rpartition(".")
        # Import by name, because `hosts.machines` is a function too.
        setattr_of(importlib.import_module(module), name, PATIENCE_S)


def eventually(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> bool:
    """Whether the condition becomes true within the time limit."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True
