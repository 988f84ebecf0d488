"""Units of times, sizes and rates, and the numbers that have them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

TIMES = {"": 1, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}
SIZES = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 1e3, "MB": 1e6, "GB": 1e9}
BIT_RATES = {
    **{"": 1, "k": 1e3, "M": 1e6, "G": 1e9},
    **{"b/s": 1, "kb/s": 1e3, "Mb/s": 1e6, "Gb/s": 1e9},
}
RATES = {"": 1, "k": 1e3, "M": 1e6, "/s": 1, "k/s": 1e3, "M/s": 1e6}


def quantity(text: str, units: Mapping[str, float]) -> float | None:
    """A number with one of these units, in the base unit; None if the text is no such number."""
    parts = re.fullmatch(r"([0-9][0-9.e+-]*)([A-Za-z/]*)", str(text))
    if parts is None or parts[2] not in units:
        return None
    try:
        value = float(parts[1]) * units[parts[2]]
    except ValueError:
        return None
    return value if math.isfinite(value) else None
