"""Memory bandwidth of this machine, measured, for `perpacket.models.bounds`.

This module copies an array, or reads the report of `perpacket bench memory`, which is more precise.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from perpacket.analysis.statistics import Interval, median
from perpacket.errors import ConfigurationError

COPY_BYTES = 256 * 2**20
"""Larger than last-level caches, so that the copy measures memory."""

REPETITIONS = 11

COPY = ("copy", 1)
"""Operation and stride (in words) of the row of a report of `bench memory` that is used."""

PAST_CACHES = 2
"""From this multiple of the last cache on, a set measures memory: at most half is in the cache."""

BENCH_CONFIDENCE = 0.95
"""What the intervals of `bench memory` aim at."""


def copy_mbytes_per_s() -> Interval:
    """MB/s (10^6 bytes) that memory moves while one core copies: bytes read and bytes written.

    The median of eleven copies of 256 MiB with its interval. One core does not fill the memory bus
    of a large server: this is what one server process can have, and a lower bound on the bus.
    """
    import numpy as np

    source = np.ones(COPY_BYTES // 8)
    target = np.empty_like(source)
    np.copyto(target, source)  # the first touch allocates the pages, which is no part of copying
    rates = []
    for _ in range(REPETITIONS):
        begin = time.perf_counter()
        np.copyto(target, source)
        rates.append(2 * COPY_BYTES / (time.perf_counter() - begin) / 1e6)
    return median(rates)


def of_bench(report: Mapping[str, object], name: str) -> Interval:
    """The same from the report of `bench memory`: copying at stride 1, the largest working set.

    `name` is what messages call the report. Raises `ConfigurationError` where it has no such row,
    or none past the last cache: a cache's bandwidth is no bus's.
    """
    surface = report.get("surface")
    rows = [
        row
        for row in (surface if isinstance(surface, list) else [])
        if isinstance(row, Mapping) and (row.get("operation"), row.get("stride_words")) == COPY
    ]
    if not rows:
        raise ConfigurationError(
            f"{name}: no copy at stride 1: expected the report of `bench memory`",
            parameter="--bench",
            value=name,
            hint="make it with `perpacket bench memory --format json`",
        )
    row = max(rows, key=lambda row: _number(row, "working_set_bytes", name))
    last_cache_bytes = max(
        (_number(cache, "size_bytes", name) for cache in _caches(report)), default=0
    )
    if _number(row, "working_set_bytes", name) < PAST_CACHES * last_cache_bytes:
        raise ConfigurationError(
            f"{name}: its largest working set is no {PAST_CACHES} times the last cache: what was "
            "measured is the cache",
            parameter="--bench",
            value=name,
            hint="leave out --largest, or use a larger one",
        )
    value, low, high = (_number(row, key, name) for key in ("mbytes_per_s", "low", "high"))
    return Interval(value, low, high, int(_number(row, "n", name)), BENCH_CONFIDENCE)


def _caches(report: Mapping[str, object]) -> list[Mapping[str, object]]:
    machine = report.get("machine")
    caches = machine.get("caches") if isinstance(machine, Mapping) else None
    return [cache for cache in caches if isinstance(cache, Mapping)] if caches else []


def _number(row: Mapping[str, object], key: str, name: str) -> float:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(
            f"{name}: {key} is {value!r}, expected a number", parameter="--bench", value=name
        )
    return float(value)
