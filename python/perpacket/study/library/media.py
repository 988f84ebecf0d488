"""What the studies of stored media share: points, what is drawn, what none of them can tell."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from perpacket.measure.media.rig import MediaRig
from perpacket.study.library import measured
from perpacket.study.study import Figure, Level, Point

CONFIGURATION = "media"

RATES_BPS = {56: 56_000, 300: 300_000}
"""Encoding rates in kb/s (Isa 2003, section 4.4.1), and in bits a second."""

DISTRIBUTIONS = ("unique", "multiple")

SLOW_DISK_MS = 20
"""What a read of multiple media takes longer where the machine's disk is fast."""

DURATION_S = {False: 3.0, True: 20.0}
WARMUP_S = {False: 1.0, True: 5.0}

OPTIONS = {
    name: option
    for name, option in measured.OPTIONS.items()
    if not name.startswith(("server.", "load."))
}
"""Parameters of a run that have an option of their own."""

LIMITS = (
    "The published machine was about twenty years older, ran other servers and had a disk of its "
    "day: only changes, shares and counts are compared, never times. Where a rate is compared it "
    "is the one that the clients ask for.",
    "A change is judged by its direction; whether it is weaker or stronger compares the values "
    "alone.",
    "Throughput is payload: RTP, UDP, IP and Ethernet headers are not counted. Mb/s is 10^6 bits a "
    "second.",
    "Processor time, page faults and context switches are the server process's own. Where server "
    "and clients share a kernel, sending holds part of the receivers' work too.",
    "Cache misses are counted where the machine has performance counters. Where it has none they "
    "are left out: time alone does not tell them. The last level is counted, which on the "
    "published machine was the second.",
    "Multiple media are dropped from the page cache before each run, and the server may use little "
    "memory for them; one medium for all stays in memory. The emulated disk serves as many reads "
    "at once as the server asks for, which a real one does not.",
)


def point(
    clients: int,
    rate_kbps: int,
    distribution: str,
    full: bool,
    buffering: str | None = None,
) -> Point:
    """One point; without `buffering` the server's default is used, and is no factor."""
    factors: dict[str, Level] = {
        **({} if buffering is None else {"buffering": buffering}),
        "clients": clients,
        "rate_kbps": rate_kbps,
        "distribution": distribution,
    }
    parameters: dict[str, object] = {
        "media.clients": clients,
        "media.rate_bps": RATES_BPS[rate_kbps],
        "media.distribution": distribution,
        "server.buffering": buffering or "shared",
        "disk.read_ms": SLOW_DISK_MS if distribution == "multiple" else 0,
        "run.duration_s": DURATION_S[full],
        "run.warmup_s": WARMUP_S[full],
    }
    begin = "" if buffering is None else f"{buffering}-"
    return Point(
        name=f"{begin}{distribution}-{rate_kbps}kbps-{clients}c",
        configuration=CONFIGURATION,
        factors=factors,
        overrides=tuple((name, str(value)) for name, value in parameters.items()),
    )


CURVES = (
    ("Throughput", "throughput_mbps", "payload received (Mb/s)"),
    ("Processor time of the server", "server_cpu_percent", "of one core (%)"),
    ("Page faults of the server", "page_faults_per_s", "page faults per second"),
    ("Context switches of the server", "context_switches_per_s", "context switches per second"),
    ("Clients that do not play", "not_playing_share", "timed out, refused or failed (0 to 1)"),
    ("Lateness", "lateness_us.p99", "p99 of lateness (us)"),
    ("Jitter", "mean_gap_difference_us.mean", "mean difference of inter-arrival times (us)"),
    ("Packets lost", "loss_share", "share of packets (0 to 1)"),
)
"""What is drawn over clients: title, column and unit."""


def curves(
    titles: tuple[str, ...], where: Mapping[str, Level], series: str, about: str
) -> tuple[Figure, ...]:
    """Some of the curves over clients, a line for each level of `series`."""
    return tuple(
        Figure(
            "curve",
            f"{title}: {about}",
            "clients",
            column,
            series=series,
            where=where,
            x_title="clients",
            y_title=unit,
        )
        for title, column, unit in CURVES
        if title in titles
    )


MediaStudy = partial(measured.MeasuredStudy, rig=MediaRig, shared_limits=LIMITS, options=OPTIONS)
"""A measured study of media servers."""
