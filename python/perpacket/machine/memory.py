"""Large pages, and how many descriptors a process may have."""

from __future__ import annotations

import mmap
import re
import resource

from perpacket.machine.capability import Capability, Group, Question
from perpacket.machine.files import Files

TRIED_BYTES = 8 << 20
"""Enough to hold a huge page of 2 MiB wherever the mapping begins."""

WANTED_DESCRIPTORS = 16_384
"""Server and load generator of the largest published sweeps hold some ten thousand connections."""

HUGE_PAGES = Question(
    "huge_pages",
    Group.MEMORY,
    "`bench memory` pays for address translation in its latencies, and says so",
    "as root: `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`",
)
DESCRIPTORS = Question(
    "descriptors",
    Group.MEMORY,
    f"one process cannot hold {WANTED_DESCRIPTORS:,} connections",
    f"`ulimit -Hn {WANTED_DESCRIPTORS}` as root, or LimitNOFILE in the service's unit",
)


def capabilities(files: Files) -> list[Capability]:
    """What was found."""
    return [huge_pages(files), descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[1])]


def huge_pages(files: Files) -> Capability:
    """Ask for large pages, write to them, and see what the kernel gave."""
    setting = files.text("/sys/kernel/mm/transparent_hugepage/enabled") or "no setting"
    try:
        given_kib = huge_kib_of_a_mapping(files)
    except OSError as error:
        return HUGE_PAGES.answer(False, f"refused: {error.strerror} ({setting})")
    if given_kib:
        return HUGE_PAGES.answer(True, f"given when asked for ({setting})")
    return HUGE_PAGES.answer(False, f"asked for and not given ({setting})")


def huge_kib_of_a_mapping(files: Files) -> int:
    """KiB of huge pages that this process has while it holds memory that should be in them."""
    with mmap.mmap(-1, TRIED_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, TRIED_BYTES, mmap.PAGESIZE):
            memory[at] = 1
        text = files.text("/proc/self/smaps_rollup")
    found = re.search(r"^AnonHugePages: +(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def descriptors(limit: int) -> Capability:
    """Whether a process may raise its limit to what large sweeps need."""
    said = "no limit" if limit == resource.RLIM_INFINITY else f"{limit:,} a process at most"
    return DESCRIPTORS.answer(limit == resource.RLIM_INFINITY or limit >= WANTED_DESCRIPTORS, said)
