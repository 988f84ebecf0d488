"""Huge pages, and the limit of descriptors."""

from __future__ import annotations

import mmap
import re
import resource

from perpacket.machine.capability import Capability, Check, Group
from perpacket.machine.files import Files

TRIED_BYTES = 8 << 20
"""The size of a mapping that has an aligned huge page of 2 MiB wherever it starts."""

WANTED_DESCRIPTORS = 16_384
"""The largest published sweeps have about ten thousand connections."""

HUGE_PAGES = Check(
    "huge_pages",
    Group.MEMORY,
    "the latencies of `bench memory` include address translation, and its report notes that",
    "as root: `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`",
)
DESCRIPTORS = Check(
    "descriptors",
    Group.MEMORY,
    f"one process cannot have {WANTED_DESCRIPTORS:,} connections",
    f"`ulimit -Hn {WANTED_DESCRIPTORS}` as root, or LimitNOFILE in the service's unit",
)


def capabilities(files: Files) -> list[Capability]:
    """The capabilities of memory and descriptors."""
    return [huge_pages(files), descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[1])]


def huge_pages(files: Files) -> Capability:
    """Whether the kernel uses huge pages for memory with `MADV_HUGEPAGE`."""
    setting = files.text("/sys/kernel/mm/transparent_hugepage/enabled") or "no setting"
    try:
        huge_kib = huge_kib_of_a_mapping(files)
    except OSError as error:
        return HUGE_PAGES.result(False, f"the kernel returned: {error.strerror} ({setting})")
    if huge_kib:
        return HUGE_PAGES.result(True, f"the kernel uses them on request ({setting})")
    return HUGE_PAGES.result(False, f"the kernel does not use them on request ({setting})")


def huge_kib_of_a_mapping(files: Files) -> int:
    """KiB of huge pages of this process while it has a mapping with `MADV_HUGEPAGE`."""
    with mmap.mmap(-1, TRIED_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, TRIED_BYTES, mmap.PAGESIZE):
            memory[at] = 1
        text = files.text("/proc/self/smaps_rollup")
    found = re.search(r"^AnonHugePages: +(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def descriptors(limit: int) -> Capability:
    """Whether a process may open enough descriptors for large sweeps."""
    detail = "no limit" if limit == resource.RLIM_INFINITY else f"at most {limit:,} per process"
    return DESCRIPTORS.result(
        limit == resource.RLIM_INFINITY or limit >= WANTED_DESCRIPTORS, detail
    )
