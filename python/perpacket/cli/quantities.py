"""Values of options: times, sizes, rates and CPU lists, in the grammar that the agent reads too.

A bare number counts seconds, bytes, bits a second or events a second. `tests/quantities.toml` lists
what both read and refuse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

import typer

CPU_COUNT_LIMIT = 1024
"""CPUs that the kernel's fixed-size sets can name."""

TIME_LIMIT_S = 1e9
"""Longest time: thirty years and more."""

EXACT_LIMIT = 2**53
"""Highest value that a number with a fraction reads exactly."""

TIMES = {"": 1, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}
SIZES = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 1e3, "MB": 1e6, "GB": 1e9}
BIT_RATES = {
    **{"": 1, "k": 1e3, "M": 1e6, "G": 1e9},
    **{"b/s": 1, "kb/s": 1e3, "Mb/s": 1e6, "Gb/s": 1e9},
}
RATES = {"": 1, "k": 1e3, "M": 1e6, "/s": 1, "k/s": 1e3, "M/s": 1e6}


def seconds(text: str) -> float:
    """A time such as `10`, `10s` or `500ms`."""
    value = quantity(text, TIMES)
    if value is None or value >= TIME_LIMIT_S:
        raise refused(text, "seconds or a time such as 500ms, 10s or 2min")
    return value


def seconds_from(least_s: float) -> Callable[[str], float]:
    """The parser of a time that is at least this."""

    def time(text: str) -> float:
        value = seconds(text)
        if value < least_s:
            raise refused(text, f"at least {least_s:g} seconds")
        return value

    return time


def size_bytes(text: str) -> int:
    """A size such as `512`, `32KiB` or `10MB`."""
    value = quantity(text, SIZES)
    if value is None or not value.is_integer() or value >= EXACT_LIMIT:
        raise refused(text, "bytes or a size such as 32KiB, 1MiB or 10MB")
    return int(value)


def bits_per_s(text: str) -> int:
    """A bit rate such as `300000`, `300kb/s` or `1Gb/s`."""
    value = quantity(text, BIT_RATES)
    if value is None or not value.is_integer() or value >= EXACT_LIMIT:
        raise refused(text, "bits a second or a rate such as 300kb/s or 1Gb/s")
    return int(value)


def per_s(text: str) -> float:
    """A number of events a second such as `2.5`, `1000` or `10k`."""
    value = quantity(text, RATES)
    if value is None:
        raise refused(text, "a number a second, such as 2.5, 1000 or 10k")
    return value


def cpus(text: str) -> tuple[int, ...]:
    """A CPU list such as `0` or `0,2-3`, in ascending order."""
    found: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if not first <= last < CPU_COUNT_LIMIT:
            raise refused(text, f"numbers and ranges below {CPU_COUNT_LIMIT}, such as 0,2-3")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def cpu_list(text: str) -> str:
    """A CPU list as it was given, once it is known to be one."""
    cpus(text)
    return text


def quantity(text: str, units: Mapping[str, float]) -> float | None:
    """A number with one of these units in their base unit; None if it is no such number."""
    parts = re.fullmatch(r"([0-9][0-9.e+-]*)([A-Za-z/]*)", str(text))
    if parts is None or parts[2] not in units:
        return None
    try:
        value = float(parts[1]) * units[parts[2]]
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def refused(text: str, expected: str) -> typer.BadParameter:
    """The error that a value is none of what was expected."""
    return typer.BadParameter(f"{text!r}: expected {expected}")
