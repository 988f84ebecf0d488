"""Memory bandwidth of this machine, measured, for `perpacket.models.bounds`."""

from __future__ import annotations

import time

from perpacket.statistics import Interval, median

COPY_BYTES = 256 * 2**20
"""Larger than last-level caches, so that it is memory that is measured."""

REPETITIONS = 11


def copy_mbytes_per_s() -> Interval:
    """MB/s (10^6 bytes) that memory moves while one core copies: bytes read and bytes written.

    The median of eleven copies of 256 MiB with its interval. One core does not fill the memory bus
    of a large server: this is what one server process can have, and a lower bound on the bus.
    """
    import numpy as np

    source = np.ones(COPY_BYTES // 8)
    target = np.empty_like(source)
    np.copyto(target, source)  # the first touch makes the pages, which is no copying
    rates = []
    for _ in range(REPETITIONS):
        begin = time.perf_counter()
        np.copyto(target, source)
        rates.append(2 * COPY_BYTES / (time.perf_counter() - begin) / 1e6)
    return median(rates)
