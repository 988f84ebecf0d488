"""What this machine can do: found by trying, never by a kernel's version.

    capability.py   one thing a machine can do or not, and how attempts become such
    files.py        what /proc and /sys say, of this machine or of a folder that stands for one
    kernel.py       what the agent tries: perf, symbols, namespaces, TUN, io_uring, netem
    disciplines.py  netem and tbf, tried out in a namespace
    network.py      segmentation offload, TLS in the kernel
    leftovers.py    namespaces that a killed study left
    bpf.py          XDP programs
    memory.py       huge pages, descriptors
    processors.py   which processors there are, what they share, what is taken from them; the clock
    programs.py     programs of others that studies and tests use

Everything is opened and closed again, and nothing on the machine is changed, but that the kernel
may load a module of its own when asked for what it does. No answer needs root, and none keeps the
others from being given.
"""

from __future__ import annotations

from collections.abc import Sequence

from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.machine import bpf, kernel, leftovers, memory, network, processors, programs
from perpacket.machine.capability import Capability
from perpacket.machine.files import Files
from perpacket.machine.kernel import of_the_kernel

__all__ = ["Capability", "check", "examine", "of_the_kernel"]


def examine(files: Files | None = None) -> list[Capability]:
    """Try everything. `files` is where /proc and /sys are read, this machine's unless given."""
    files = files or Files()
    return [
        *kernel.of_the_agent(),
        *network.capabilities(files),
        leftovers.capability(),
        bpf.capability(),
        *processors.capabilities(files),
        *memory.capabilities(files),
        *programs.capabilities(),
    ]


def check(capabilities: Sequence[Capability], required: Sequence[str]) -> None:
    """Raise `MachineLacks` with all required capabilities that are not there.

    Raises `ConfigurationError` for a name that is no capability.
    """
    by_name = {capability.name: capability for capability in capabilities}
    lacking: list[Capability] = []
    for name in required:
        if name not in by_name and name in kernel.GROUPS:
            name = kernel.AGENT  # noqa: PLW2901 - without the agent nobody has looked
        if name not in by_name:
            raise ConfigurationError(
                f"--require {name}: no such capability",
                parameter="--require",
                value=name,
                allowed=f"there are {', '.join(by_name)}",
            )
        if not by_name[name].available:
            lacking.append(by_name[name])
    if lacking:
        raise MachineLacks(
            "; ".join(f"{one.name} is not there ({one.detail})" for one in lacking),
            hint="; ".join(f"{one.name}: {one.next_step}" for one in lacking if one.next_step),
        )
