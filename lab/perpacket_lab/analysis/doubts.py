"""Doubts about runs: their flags, drifts, outliers, and packets that do not balance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Final

from perpacket.analysis.statistics import outlier, trend
from perpacket_lab.analysis.wording import plural
from perpacket_lab.study.other_programs import share_of_processors
from perpacket_lab.study.quantities import Row, Rows

NEGLIGIBLE_PERCENT: Final = 0.01
"""Differences of percentages below this, in percentage points, are ignored."""

OTHERS_MOST_PERCENT: Final = 5.0
"""The most of the server's processors that other programs may have in a run that is kept."""

DOUBTS: Final = {
    "client_limited": "the clients were nearly busy and may have been the limit",
    "generator_limited": "the generator may have been the limit, not the router,",
    "rate_missed": "the sender fell short of its rate",
    "many_errors": "over 1 % of the requests failed",
    "not_conforming": "not every connection got its bandwidth",
    "samples_lost": "the profiler lost samples",
    "network_late": "the link between the hosts could not keep its latency",
    "others_ran": "other programs took over 5 % of the server's busy time",
    "content_wrong": "clients received bytes that were not those of the media",
    "closure_broken": "the profile and the kernel differ by over 2 % of the processor time",
}
"""The meaning of each flag of a measured run."""


def replication_warnings(values: Sequence[float], unit: str) -> Iterator[str]:
    """A drift or an outlier among replications that differ by enough to matter."""
    negligible = NEGLIGIBLE_PERCENT if unit == "%" else 0.0
    if values and max(values) - min(values) > negligible:
        yield from filter(None, (trend(values), outlier(values)))


def balance_warnings(rows: Mapping[int, Row]) -> Iterator[str]:
    """Runs whose packets do not balance: none of their numbers can be trusted.

    Packets balance if those sent equal those delivered, dropped and in flight.
    """
    lost = [str(seed) for seed, row in rows.items() if row.get("conserved") is False]
    if lost:
        yield f"packets do not balance with seed {', '.join(lost)}"


def doubt_warnings(rows: Mapping[int, Row]) -> Iterator[str]:
    """The flags of measured runs, each with its blocks."""
    for name, text in DOUBTS.items():
        blocks = [str(seed) for seed, row in rows.items() if row.get(f"doubts.{name}") is True]
        if blocks:
            yield f"{text} in block {', '.join(blocks)}"


def disturbed(rows: Rows) -> dict[str, float]:
    """The points where other programs had over 5 % of the server's processors, with the per cent.

    It is the mean over the runs of a point, of all processor time: an idle server's busy time is
    mostly that of the profiler.
    """
    disturbed = {}
    for point, own in rows.items():
        shares = [share for row in own.values() if (share := share_of_processors(row)) is not None]
        if shares and (average := fmean(shares)) > OTHERS_MOST_PERCENT:
            disturbed[point] = average
    return disturbed


def disturbance(rows: Rows) -> str:
    """A sentence on the points of `disturbed`; empty if there are none."""
    shares = disturbed(rows)
    if not shares:
        return ""
    least, most = (f"{end(shares.values()):.0f}" for end in (min, max))
    span = least if least == most else f"{least} to {most}"
    return (
        f"Other programs used {span} % of the server's processors at {len(shares)} of "
        f"{plural(len(rows), 'point')}, over the {OTHERS_MOST_PERCENT:g} % of a quiet machine: "
        "the kernel's work for them is in these results"
    )


def doubts_of(rows: Mapping[int, Row]) -> tuple[str, ...]:
    """The flags of any run of a point."""
    return tuple(
        text
        for name, text in DOUBTS.items()
        if any(row.get(f"doubts.{name}") is True for row in rows.values())
    )


def counted_doubts(rows: Rows) -> list[str]:
    """Each flag, and the number of runs that have it."""
    flat = [row for own in rows.values() for row in own.values()]
    counts = {
        text: sum(row.get(f"doubts.{name}") is True for row in flat)
        for name, text in DOUBTS.items()
    }
    return [
        f"in {count} of {plural(len(flat), 'run')} {text.rstrip(',')}"
        for text, count in counts.items()
        if count
    ]


def by_point(warnings: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The points of each warning, without duplicates, from pairs of a point and a warning."""
    doubts: dict[str, list[str]] = {}
    for point, warning in warnings:
        points = doubts.setdefault(warning, [])
        if point not in points:
            points.append(point)
    return doubts


def unbalanced(rows: Rows) -> list[tuple[str, int]]:
    """The points and seeds of runs whose packets do not balance."""
    return [
        (point, seed)
        for point, own in rows.items()
        for seed, row in own.items()
        if row.get("conserved") is False
    ]


def chains(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Joins pairs that follow each other: (a, b), (b, c), (d, e) as [a, b, c], [d, e]."""
    joined: list[list[str]] = []
    for lower, higher in pairs:
        if joined and joined[-1][-1] == lower:
            joined[-1].append(higher)
        else:
            joined.append([lower, higher])
    return joined
