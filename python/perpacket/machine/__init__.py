"""The capabilities of this machine, found by attempts and never by the kernel's version.

    capability.py   one capability, and the attempt that finds it
    files.py        reads /proc and /sys, of this machine or of copied files
    kernel.py       the agent's probes: perf, symbols, namespaces, TUN, io_uring, netem
    disciplines.py  netem and tbf, tried in a namespace
    network.py      segmentation offload, TLS in the kernel
    leftovers.py    namespaces of killed studies
    bpf.py          XDP programs
    memory.py       huge pages, descriptors
    nodes.py        memory nodes, and the interrupts of cards at them
    processors.py   processors, their shared resources, quota and stolen time; the clock
    programs.py     other programs that studies and tests use

The lab adds QEMU with its plugin, and real web applications.

Every attempt closes what it opens and changes nothing on the machine, except that the kernel may
load one of its modules. No attempt needs root, and a failed attempt does not stop the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from perpacket import lab
from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.machine import bpf, kernel, leftovers, memory, network, nodes, processors, programs
from perpacket.machine.capability import Capability, Check, Group
from perpacket.machine.files import Files
from perpacket.machine.kernel import of_the_kernel

__all__ = ["Capability", "check", "examine", "examine_copy", "of_the_kernel"]


def examine(files: Files | None = None) -> list[Capability]:
    """Check all capabilities; `files` reads /proc and /sys, by default this machine's."""
    files = files or Files()
    return [
        *kernel.of_the_agent(),
        *network.capabilities(files),
        leftovers.capability(),
        bpf.capability(),
        *processors.capabilities(files),
        *nodes.capabilities(files),
        *memory.capabilities(files),
        *programs.capabilities(),
        *of_the_lab(),
    ]


def examine_copy(files: Files) -> list[Capability]:
    """The capabilities that a copy of another machine's /proc and /sys shows."""
    check_copy(files)
    online = processors.online(files)
    return [*processors.capabilities(files, online), *nodes.capabilities(files)]


def check_copy(files: Files) -> None:
    """Raise `ConfigurationError` unless a folder is a copy of /proc and /sys."""
    if not processors.online(files):
        raise ConfigurationError(
            f"--root {files.root}: {processors.CPUS.lstrip('/')}/online is missing",
            parameter="--root",
            value=str(files.root),
            hint="copy /proc and /sys of a machine into the folder, or name / for this machine",
        )


LAB = Check(
    "lab",
    Group.PROGRAMS,
    "no studies, simulator, emulator, models and charts",
    f"`{lab.INSTALL}`",
)


def of_the_lab() -> list[Capability]:
    """What studies and the emulator use, or that the lab is missing."""
    if not lab.is_installed():
        return [LAB.result(False, "not installed")]
    found: list[Capability] = lab.load("machine", "doctor").capabilities()
    return [LAB.result(True, "installed"), *found]


def check(capabilities: Sequence[Capability], required: Sequence[str]) -> None:
    """Raise `MachineLacks` with all missing required capabilities.

    Raises `ConfigurationError` for an unknown capability.
    """
    by_name = {capability.name: capability for capability in capabilities}
    lacking: list[Capability] = []
    for name in required:
        if name not in by_name and name in kernel.GROUPS:
            name = kernel.AGENT  # noqa: PLW2901 - without the agent, its probes do not run
        if name not in by_name:
            raise ConfigurationError(
                f"--require {name}: no such capability",
                parameter="--require",
                value=name,
                allowed=f"expected one of {', '.join(by_name)}",
            )
        if not by_name[name].available:
            lacking.append(by_name[name])
    if lacking:
        raise MachineLacks(
            "; ".join(f"{one.name} is missing ({one.detail})" for one in lacking),
            hint="; ".join(f"{one.name}: {one.next_step}" for one in lacking if one.next_step),
        )
