"""The agent's probes of the kernel: perf, symbols, namespaces, TUN, io_uring."""

from __future__ import annotations

import json
import subprocess

from perpacket.errors import MachineLacks, PerpacketError, RunFailed
from perpacket.machine import disciplines
from perpacket.machine.capability import Capability, Check, Group
from perpacket.measure import agent

PROBE_LIMIT_S = 30
"""Time limit: a probe opens and closes a few descriptors."""

AGENT = "agent"
"""The capability that all others of this file need."""

GROUPS = {
    "perf_cpu_wide": Group.PROFILING,
    "pmu": Group.PROFILING,
    "kernel_symbols": Group.PROFILING,
    "btf": Group.PROFILING,
    "network_namespaces": Group.NETWORK,
    "tun": Group.NETWORK,
    "io_uring": Group.NETWORK,
    "netem": Group.NETWORK,
    "tbf": Group.NETWORK,
}
"""The groups of the agent's capabilities; others are under profiling."""

CHECK = Check(
    AGENT,
    Group.PROFILING,
    "nothing can be served, loaded or profiled here, and the rights in this kernel are unknown",
    "install it with `pip install ./crates/agent`, or name one in PERPACKET_AGENT",
)


def of_the_agent() -> list[Capability]:
    """Whether the agent runs here and, if so, the results of its probes."""
    try:
        found = of_the_kernel()
    except PerpacketError as error:
        return [CHECK.result(False, str(error))]
    return [CHECK.result(True, "runs"), *map(disciplines.tried, found)]


def of_the_kernel() -> list[Capability]:
    """The results of the agent's probes.

    Raises `MachineLacks` when no agent runs, `RunFailed` when it fails.
    """
    found = json.loads(probe(format="json"))
    return [
        Capability(**item, group=GROUPS.get(item["name"], Group.PROFILING))
        for item in found["capabilities"]
    ]


def probe(**options: object) -> str:
    """What the agent's `probe` prints; raises as `of_the_kernel`."""
    command = [str(agent.find()), *agent.words("probe", **options)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineLacks(f"the agent does not run here: {error}") from None
    if done.returncode != 0:
        raise RunFailed(f"the agent could not probe this machine: {done.stderr.strip()}")
    return done.stdout
