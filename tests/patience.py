"""How long a test waits for what must happen: longer than any busy machine needs.

A deadline in a test is there so that a hang ends, not to judge how fast a program is.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

PATIENCE_S = 600
"""What nothing on a busy machine takes."""

DEADLINES = (
    "run.cluster.CONNECT_S",
    "run.cluster.MOST_WITHOUT_WORKERS_S",
    "measure.live.GRACE_S",
    "machine.disciplines.LIMIT_S",
    "machine.kernel.PROBE_LIMIT_S",
    "measure.web.files.QUICK_S",
    "measure.media.disk.QUICK_S",
    "measure.media.memory.QUICK_S",
    "measure.media.runs.QUICK_S",
    "measure.media.runs.REPORT_S",
    "measure.web.peers.FIND_S",
    "measure.process_tree.READ_S",
    "measure.web.runner.QUICK_S",
    "measure.router.runner.CHECK_S",
    "measure.router.runs.GRACE_S",
    "measure.router.runs.PLANE_READY_S",
    "measure.web.runs.GRACE_S",
    "measure.web.runs.READY_S",
    "measure.hosts.machines.COMMAND_S",
    "measure.hosts.machines.CONNECT_S",
    "measure.hosts.machines.COPY_S",
    "measure.hosts.namespaces.READY_S",
    "measure.hosts.namespaces.REPORT_S",
)
"""Ours, each under every name by which a module knows it."""


def be_patient(setattr_of: Callable[[object, str, object], None]) -> None:
    """Let programs take as long as they need: on a busy machine one starts in seconds."""
    for place in DEADLINES:
        module, _, name = place.rpartition(".")
        # By the module's name: `testbed.machines` is a function too.
        setattr_of(importlib.import_module(f"perpacket.{module}"), name, PATIENCE_S)


def eventually(what: Callable[[], bool], timeout_s: float = PATIENCE_S) -> bool:
    """Whether it happens before patience ends."""
    end_s = time.monotonic() + timeout_s
    while not what():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True
