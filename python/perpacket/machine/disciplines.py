"""Queueing disciplines, tried on the loopback interface of a new network namespace.

The agent reports whether the kernel has the disciplines or their modules. Only an attempt shows
whether they work. If no namespace can be made, the agent's report is the result.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace

from perpacket.executables import find as found
from perpacket.machine.capability import Capability

OPTIONS = {
    "netem": ("delay", "1ms"),
    "tbf": ("rate", "1mbit", "burst", "10kb", "latency", "10ms"),
}
"""The options of each discipline."""

LIMIT_S = 10
UNKNOWN = "unknown"
"""A word in the error of tc for a discipline that the kernel lacks."""


def tried(
    capability: Capability, attempt: Callable[[str], tuple[int, str]] | None = None
) -> Capability:
    """The capability after an attempt, or unchanged if it is no discipline or cannot be tried."""
    if capability.name not in OPTIONS:
        return capability
    try:
        status, error = (attempt or put_on_loopback)(capability.name)
    except (OSError, subprocess.TimeoutExpired):
        return capability
    if status == 0:
        detail = "was put on an interface of a namespace"
        return replace(capability, available=True, detail=detail, cost_of_lack="", next_step="")
    if UNKNOWN in error and not capability.available:
        return replace(capability, detail=f"{capability.detail}: tc reports {error!r}")
    return capability


def put_on_loopback(name: str) -> tuple[int, str]:
    """The exit status of tc and its last line; raises `OSError` if tc cannot be run."""
    unshare, tc = found("unshare"), found("tc")
    if unshare is None or tc is None:
        raise FileNotFoundError("unshare and tc are needed")
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = [unshare, *as_root, "--net", tc, "qdisc", "add", "dev", "lo", "root", name]
    done = subprocess.run(
        [*command, *OPTIONS[name]], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]
