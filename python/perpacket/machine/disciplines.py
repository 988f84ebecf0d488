"""Queueing disciplines, put on the loopback interface of a network namespace that nobody else has.

The agent says whether the kernel has them or a module of them; whether they can be used is known
only when one is. Where no namespace can be made, what the agent says stands.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace

from perpacket.machine.capability import Capability
from perpacket.machine.programs import found

OPTIONS = {
    "netem": ("delay", "1ms"),
    "tbf": ("rate", "1mbit", "burst", "10kb", "latency", "10ms"),
}
"""What each discipline is asked to do."""

LIMIT_S = 10
UNKNOWN = "unknown"
"""What tc says, among other words, of a discipline that the kernel neither has nor finds."""


def tried(
    capability: Capability, attempt: Callable[[str], tuple[int, str]] | None = None
) -> Capability:
    """The capability by trying, where it is a discipline and can be tried."""
    if capability.name not in OPTIONS:
        return capability
    try:
        status, said = (attempt or put_on_loopback)(capability.name)
    except (OSError, subprocess.TimeoutExpired):
        return capability
    if status == 0:
        detail = "was put on an interface of a namespace"
        return replace(capability, available=True, detail=detail, cost_of_lack="", next_step="")
    if UNKNOWN in said and not capability.available:
        return replace(capability, detail=f"{capability.detail}: tc says {said!r}")
    return capability


def put_on_loopback(name: str) -> tuple[int, str]:
    """The status of tc, and the last line it wrote; raises `OSError` where it cannot be run."""
    unshare, tc = found("unshare"), found("tc")
    if unshare is None or tc is None:
        raise FileNotFoundError("unshare and tc are needed")
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = [unshare, *as_root, "--net", tc, "qdisc", "add", "dev", "lo", "root", name]
    done = subprocess.run(
        [*command, *OPTIONS[name]], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]
