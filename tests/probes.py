"""Whether the machine has a capability, by evidence that perpacket did not produce.

A test calls `need` and then counts a refusal by perpacket as a failure.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

from requirements import skip

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
"""The numbers of the system call (unistd.h)."""

SOFTWARE_CPU_CLOCK = struct.pack("IIQ48x", 1, 64, 0)
"""The first version of `struct perf_event_attr`: an event that counts user and kernel code."""

OLDEST_QEMU = 10
KERNEL_PACKAGE = "linux-image-amd64"


def need(*capabilities: str) -> None:
    """Skip the running test if the machine lacks one of them."""
    for name in capabilities:
        if lack := LACKS[name]():
            skip(name, lack)


def program(name: str) -> str:
    """The path of a program of another project; skips the running test without it."""
    found = executable(name)
    if not found:
        skip("peers", f"{name} is not installed")
    return found


@cache
def perf() -> str:
    """The reason why this process cannot sample a whole processor with its kernel's symbols."""
    libc = ctypes.CDLL(None, use_errno=True)
    cpu = min(os.sched_getaffinity(0))
    number = PERF_EVENT_OPEN[platform.machine()]
    event = libc.syscall(number, SOFTWARE_CPU_CLOCK, -1, cpu, -1, 0)
    if event < 0:
        return f"perf_event_open: {os.strerror(ctypes.get_errno())}"
    os.close(event)
    with Path("/proc/kallsyms").open() as symbols:
        is_hidden = int(symbols.readline().split()[0], 16) == 0
    return "/proc/kallsyms hides the addresses" if is_hidden else ""


@cache
def netns() -> str:
    """The reason why this process cannot make network namespaces."""
    if os.geteuid() != 0:
        return "only root makes namespaces with names"
    return problem_of("unshare", "--net", "--mount", "true") or problem_of("ip", "-V")


@cache
def qemu() -> str:
    """The reason why this machine has no QEMU of the oldest version, or no kernel for it."""
    version = printed("qemu-system-x86_64", "--version")
    found = re.search(r"version (\d+)", version)
    if found is None or int(found[1]) < OLDEST_QEMU:
        return f"QEMU {OLDEST_QEMU} or newer: {version or 'not found'}"
    if "Depends: linux-image" not in printed("apt-cache", "depends", KERNEL_PACKAGE):
        return f"the package lists have no {KERNEL_PACKAGE}"
    return ""


def problem_of(*command: str) -> str:
    """What a command prints when it fails; empty if it succeeds."""
    if not executable(command[0]):
        return f"{command[0]} is not installed"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() or f"{command}: {done.returncode}" if done.returncode else ""


def printed(*command: str) -> str:
    """The output of a command; empty if there is no such program."""
    if not executable(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def executable(name: str) -> str:
    """The path of a program, in the search path or the administrators' folders; empty without."""
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin") or ""


LACKS: dict[str, Callable[[], str]] = {"perf": perf, "netns": netns, "qemu": qemu}
"""For each capability, the function that returns what is missing, or an empty text."""
