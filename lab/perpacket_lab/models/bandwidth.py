"""The measured memory bandwidth of a machine, for `perpacket_lab.models.bounds`.

This module copies an array, or reads a report of `perpacket bench memory`, which is more precise.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from perpacket.analysis.statistics import Interval, median
from perpacket.errors import ConfigurationError

COPY_BYTES = 256 * 2**20
"""Larger than last-level caches, so that copying measures memory."""

REPETITIONS = 11

COPY = ("copy", 1)
"""Operation and stride (in words) of the rows that this module uses."""

PAST_CACHES = 2
"""A working set measures memory if it has at least this multiple of the last cache's size: at most
half of it is then in the cache."""

BENCH_CONFIDENCE = 0.95
"""The confidence of the intervals of `bench memory`."""


def copy_mbytes_per_s() -> Interval:
    """MB/s (10^6 bytes) of memory while one core copies: bytes read plus bytes written.

    Returns the median of eleven copies of 256 MiB with its interval. One core does not fill the
    memory bus of a large server, so the value is a lower bound for the bus.
    """
    import numpy as np

    source = np.ones(COPY_BYTES // 8)
    target = np.empty_like(source)
    np.copyto(target, source)  # the first access allocates the pages, which takes time too
    rates = []
    for _ in range(REPETITIONS):
        begin = time.perf_counter()
        np.copyto(target, source)
        rates.append(2 * COPY_BYTES / (time.perf_counter() - begin) / 1e6)
    return median(rates)


def of_bench(report: Mapping[str, object], name: str) -> Interval:
    """The bandwidth in a report of `bench memory`: a copy at stride 1 of the largest working set.

    `name` names the report in errors. Raises `ConfigurationError` if it has no such row, or if the
    working set fits in a cache.
    """
    surface = report.get("surface")
    rows = [
        row
        for row in (surface if isinstance(surface, list) else [])
        if isinstance(row, Mapping) and (row.get("operation"), row.get("stride_words")) == COPY
    ]
    if not rows:
        raise ConfigurationError(
            f"{name}: no copy at stride 1, expected a report of `bench memory`",
            parameter="--bench",
            value=name,
            hint="make one with `perpacket bench memory --format json`",
        )
    row = max(rows, key=lambda row: _number(row, "working_set_bytes", name))
    last_cache_bytes = max(
        (_number(cache, "size_bytes", name) for cache in _caches(report)), default=0
    )
    if _number(row, "working_set_bytes", name) < PAST_CACHES * last_cache_bytes:
        raise ConfigurationError(
            f"{name}: its largest working set is under {PAST_CACHES} times the last cache, so it "
            "measures the cache",
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
