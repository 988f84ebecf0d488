"""Lists of processors as the kernel writes them: `0,2-3`."""

from __future__ import annotations

from collections.abc import Sequence


def numbers(text: str) -> list[int]:
    """The numbers in a list, without the parts that are no numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (last or first).isdigit():
            found += range(int(first), int(last or first) + 1)
    return found


def ranges(values: Sequence[int]) -> str:
    """Numbers as a list with ranges: `0,2-3`."""
    parts: list[list[int]] = []
    for value in sorted(values):
        if parts and value == parts[-1][-1] + 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)
