"""Streaming media servers, Isa 2003, section 4.4: what 1 to 1000 clients take of a server.

Clients of stored media at 56 and 300 kb/s, all playing one medium or each its own. The published
servers ended at a thousand clients; today's carry that in a tenth of a core, so `full` goes on to
10,000.
"""

from __future__ import annotations

from importlib.resources import files

from perpacket.study.library import media
from perpacket.study.study import Figure, Point, Study

CLIENTS = {
    False: (1, 100, 400, 1000),
    True: (1, 10, 50, 100, 200, 400, 600, 800, 1000, 2000, 5000, 10_000),
}

EXPERIMENTS = media.DISTRIBUTIONS

DRAWN = (
    "Throughput",
    "Processor time of the server",
    "Page faults of the server",
    "Context switches of the server",
    "Clients that do not play",
    "Lateness",
)


def points(full: bool, experiments: tuple[str, ...] = EXPERIMENTS) -> tuple[Point, ...]:
    """The points of some distributions."""
    return tuple(
        media.point(clients, rate_kbps, distribution, full)
        for distribution in EXPERIMENTS
        if distribution in experiments
        for rate_kbps in media.RATES_BPS
        for clients in CLIENTS[full]
    )


def figures() -> tuple[Figure, ...]:
    """What the document draws against clients, for each encoding rate."""
    return tuple(
        figure
        for rate_kbps in media.RATES_BPS
        for figure in media.curves(
            DRAWN, {"rate_kbps": rate_kbps}, "distribution", f"{rate_kbps} kb/s"
        )
    )


STUDY = media.MediaStudy(
    name="media-servers",
    title="What clients of stored media take of a server",
    question="How do throughput, processor time, page faults and context switches grow with "
    "clients and encoding rate, and what does it change whether all play one medium?",
    experiments=EXPERIMENTS,
    points=points,
    figures=figures,
    published=files(__package__) / "published.toml",
    limits=(
        "The published servers were Darwin Streaming Server and Windows Media Server; this one "
        "has an event loop and shared read-ahead.",
    ),
)


def study(full: bool = False, only: tuple[str, ...] = ()) -> Study:
    """The study with cut or published levels, of both distributions or `only` one of them."""
    return STUDY.study(full, only)
