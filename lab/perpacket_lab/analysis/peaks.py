"""Measured peaks in per cent of the bound that memory sets (Isa 2003, 4.7 and equations 3.9, 3.10).

The bandwidth of this machine's memory is that of the study `memory-surface`. The network of the
studies is in the kernel, so no bus is between memory and the NIC, and the bound has the processor's
read and the two copies alone. A forwarded packet only crosses that bus, so a router has no bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perpacket.analysis.statistics import Interval
from perpacket_lab.analysis.published_comparison import Comparison, compare
from perpacket_lab.models import data_movement
from perpacket_lab.study.published import Published

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis

BANDWIDTH: Final = ("memory-surface", "mbytes_per_s", "load-134217728b-1w")
"""The study, the column and the point of the bandwidth: reads of 128 MiB, in the order of
addresses."""

SERVERS: Final = (
    ("streaming", "media-servers", "throughput_mbps", "57.36 of 3,640 Mb/s"),
    ("web", "web-servers", "content_mbps", "649.43 of 3,640 Mb/s"),
)
"""The server, its study and column, and the published peak and bound."""

MOST_PERCENT: Final = 17.8
"""The highest of the published peaks: 649.43 Mb/s of a web server, of 3,640 Mb/s."""


def of_bounds(analyses: Mapping[str, Analysis]) -> list[Comparison]:
    """The highest throughput of each server in per cent of its bound; empty without the runs."""
    study, column, point = BANDWIDTH
    memory = analyses.get(study)
    bandwidth = memory.estimates.column_means(column).get(point) if memory is not None else None
    if bandwidth is None:
        return []
    bound = bandwidth.map(bound_mbps)
    comparisons = []
    for server, name, measured, note in SERVERS:
        analysis = analyses.get(name)
        peaks = analysis.estimates.column_means(measured) if analysis is not None else {}
        if peaks:
            highest = max(peaks, key=lambda point: peaks[point].value)
            published = Published(
                *(f"isa2003/47-{server}", "4.7", "at most", highest, "", "%"),
                maximum=MOST_PERCENT,
                resolution=0.1,
                note=note,
            )
            title = f"Peak of the {server} server, of its bound"
            share = percent_of(peaks[highest], bound)
            comparisons.append(compare(published, "", share, title=title))
    return comparisons


def bound_mbps(memory_mbytes_per_s: float) -> float:
    """The bound (Mb/s) of a server whose processor reads each byte once and copies it twice."""
    server = data_movement.buses(memory_mbytes_per_s, memory_mbytes_per_s)
    byte_us = data_movement.memory_cpu_us(1, server) + 2 * data_movement.memory_memory_us(1, server)
    return 8 / byte_us


def percent_of(peak: Interval, bound: Interval) -> Interval:
    """A peak in per cent of a bound of other runs: from the least to the most that both allow."""
    return replace(
        peak,
        value=100 * peak.value / bound.value,
        low=100 * peak.low / bound.high,
        high=100 * peak.high / bound.low,
    )
