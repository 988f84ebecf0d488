"""What this machine can do: found by trying, never by what is listed.

The agent tries what needs the kernel (perf, TUN, namespaces, io_uring); programs that studies may
use are looked for here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.testbed import agent

PROBE_LIMIT_S = 30
"""Probing opens and closes a few descriptors: longer means that something hangs."""

PROGRAMS = {
    "nginx": ("a reference to compare our server with", "install nginx"),
    "wrk": ("a reference to compare our load generator with", "install wrk"),
    "ssh": ("studies over several machines", "install an OpenSSH client"),
}
"""Programs of others: what is not possible without, and how to come by them."""


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing a machine can do or not."""

    name: str
    available: bool
    detail: str
    """What was found: a version, a setting, an error."""
    cost_of_lack: str
    """What is not possible, or less exact, without it."""
    next_step: str
    """How to come by it; empty where that is out of reach."""

    def as_dict(self) -> dict[str, object]:
        """The fields by name."""
        return asdict(self)


def examine() -> list[Capability]:
    """Try everything; raises `MachineLacks` when even the agent does not run."""
    return [*of_the_kernel(), *of_programs()]


def of_the_kernel() -> list[Capability]:
    """What the agent could and could not open."""
    command = [str(agent.find()), "probe", "--format", "json"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineLacks(f"the agent does not run here: {error}") from None
    if done.returncode != 0:
        raise RunFailed(f"the agent could not probe this machine: {done.stderr.strip()}")
    return [Capability(**item) for item in json.loads(done.stdout)["capabilities"]]


def of_programs() -> list[Capability]:
    """Which programs of others are there."""
    found = {name: shutil.which(name) for name in PROGRAMS}
    return [
        Capability(name, found[name] is not None, found[name] or "not found", *PROGRAMS[name])
        for name in PROGRAMS
    ]


def check(capabilities: Sequence[Capability], required: Sequence[str]) -> None:
    """Raise `MachineLacks` for the first required capability that is not there.

    Raises `ConfigurationError` for a name that is no capability.
    """
    by_name = {capability.name: capability for capability in capabilities}
    for name in required:
        capability = by_name.get(name)
        if capability is None:
            raise ConfigurationError(
                f"--require {name}: no such capability",
                parameter="--require",
                value=name,
                allowed=f"there are {', '.join(by_name)}",
            )
        if not capability.available:
            raise MachineLacks(
                f"{name} is not there ({capability.detail}): {capability.cost_of_lack}",
                hint=capability.next_step,
            )
