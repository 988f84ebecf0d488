"""The shapes of caches, as options write them: `512K:16` is 512 KiB with 16 ways."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perpacket.errors import ConfigurationError
from perpacket.units import SIZES, quantity

LINE_BYTES = 64
"""The line size of every modelled cache."""

KIB = 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """A cache's size in KiB and its ways."""

    kib: int
    ways: int

    def __str__(self) -> str:
        """`512K:16`, or `2M:16`."""
        size = f"{self.kib // KIB}M" if self.kib % KIB == 0 else f"{self.kib}K"
        return f"{size}:{self.ways}"


def shapes(option: str, text: str) -> tuple[Shape, ...]:
    """Shapes separated by commas; raises `ConfigurationError` that names `option`."""
    found = tuple(shape(option, part) for part in text.split(","))
    for one in found:
        if found.count(one) > 1:
            raise _refused(option, text, f"{one} is there twice")
    return found


def shape(option: str, text: str) -> Shape:
    """One shape; the number of its sets must be a power of two."""
    size, _, ways_text = text.strip().partition(":")
    size_bytes = quantity(size, SIZES | {"K": KIB, "M": KIB**2})
    ways = int(ways_text) if re.fullmatch("[0-9]{1,4}", ways_text) else 0
    if size_bytes is None or size_bytes % KIB or not ways:
        raise _refused(option, text, "expected SIZE:WAYS, such as 64K:2 or 1MiB:16")
    kib = int(size_bytes) // KIB
    sets, rest = divmod(kib * KIB, LINE_BYTES * ways)
    if rest or sets < 1 or sets & (sets - 1):
        raise _refused(option, text, "expected a number of sets that is a power of two")
    return Shape(kib, ways)


def _refused(option: str, text: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{option} {text}: {why}",
        parameter=option,
        value=text,
        hint=f"a cache has SIZE / (WAYS x {LINE_BYTES} bytes) sets: write it as 512K:16",
    )
