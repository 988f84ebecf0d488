"""Lists of processors as the kernel writes them: `0,2-3`."""

from __future__ import annotations

import re
from collections.abc import Sequence

CPU_COUNT_LIMIT = 1024
"""The number of CPUs in the kernel's sets of fixed size."""


def numbers(text: str) -> list[int]:
    """The numbers in a list, in ascending order; none for an empty text.

    Raises `ValueError` with the expected form.
    """
    cpus: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        ends = re.fullmatch(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if not first <= last < CPU_COUNT_LIMIT:
            raise ValueError(f"numbers and ranges below {CPU_COUNT_LIMIT}, such as 0,2-3")
        cpus.update(range(first, last + 1))
    return sorted(cpus)


def ranges(values: Sequence[int]) -> str:
    """Numbers as a list with ranges: `0,2-3`."""
    parts: list[list[int]] = []
    for value in sorted(values):
        if parts and value == parts[-1][-1] + 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)
