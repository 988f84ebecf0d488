"""What the agent tries, because it will use it: perf, symbols, namespaces, TUN, io_uring."""

from __future__ import annotations

import json
import subprocess

from perpacket.errors import MachineLacks, PerpacketError, RunFailed
from perpacket.machine import disciplines
from perpacket.machine.capability import Capability, Group, Question
from perpacket.measure import agent

PROBE_LIMIT_S = 30
"""Probing opens and closes a few descriptors: longer means that something hangs."""

AGENT = "agent"
"""The capability that all others of this file hang on."""

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
"""Where the agent's answers stand; those it learns to give are under profiling until named here."""

QUESTION = Question(
    AGENT,
    Group.PROFILING,
    "nothing can be served, loaded or profiled here, and what the kernel allows is not known",
    "install it with `pip install ./crates/agent`, or name one in PERPACKET_AGENT",
)


def of_the_agent() -> list[Capability]:
    """Whether the agent runs here and, if so, what it could and could not open."""
    try:
        found = of_the_kernel()
    except PerpacketError as error:
        return [QUESTION.answer(False, str(error))]
    return [QUESTION.answer(True, "runs"), *map(disciplines.tried, found)]


def of_the_kernel() -> list[Capability]:
    """What the agent could and could not open.

    Raises `MachineLacks` when there is no agent that runs, `RunFailed` when it fails.
    """
    command = [str(agent.find()), "probe", "--format", "json"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineLacks(f"the agent does not run here: {error}") from None
    if done.returncode != 0:
        raise RunFailed(f"the agent could not probe this machine: {done.stderr.strip()}")
    return [
        Capability(**item, group=GROUPS.get(item["name"], Group.PROFILING))
        for item in json.loads(done.stdout)["capabilities"]
    ]
