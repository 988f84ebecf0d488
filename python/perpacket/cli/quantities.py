"""Values of options: times, sizes, rates and CPU lists, in the same grammar as the agent's.

A bare number counts seconds, bytes, bits per second or events per second. `tests/quantities.toml`
lists texts that this module and the agent both accept, and texts that both reject.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from perpacket.measure import cpu_lists
from perpacket.units import BIT_RATES, RATES, SIZES, TIMES, quantity

TIME_LIMIT_S = 1e9
"""The longest time, over thirty years."""

EXACT_LIMIT = 2**53
"""Above this, a float does not represent every whole number."""


def seconds(text: str) -> float:
    """A time such as `10`, `10s` or `500ms`."""
    value = quantity(text, TIMES)
    if value is None or value >= TIME_LIMIT_S:
        raise refused(text, "seconds or a time such as 500ms, 10s or 2min")
    return value


def seconds_from(least_s: float) -> Callable[[str], float]:
    """A parser of times that are at least `least_s`."""

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
        raise refused(text, "bits per second or a rate such as 300kb/s or 1Gb/s")
    return int(value)


def per_s(text: str) -> float:
    """A number of events per second such as `2.5`, `1000` or `10k`."""
    value = quantity(text, RATES)
    if value is None:
        raise refused(text, "a number per second, such as 2.5, 1000 or 10k")
    return value


def cpu_list(text: str) -> str:
    """A CPU list such as `0` or `0,2-3`, unchanged."""
    try:
        cpus = cpu_lists.numbers(text)
    except ValueError as error:
        raise refused(text, str(error)) from None
    if not cpus:
        raise refused(text, "a CPU list such as 0,2-3")
    return text


def refused(text: str, expected: str) -> typer.BadParameter:
    """The error for a value that does not have the expected form."""
    return typer.BadParameter(f"{text!r}: expected {expected}")
