"""Double buffering for stored media, Isa 2003, chapter 5: whether reading ahead pays.

The published design, two buffers and two threads a stream, beside its baseline of one thread that
reads and sends in turn, and beside two servers that share an event loop and what was read.
"""

from __future__ import annotations

from importlib.resources import files

from perpacket.study.library import media
from perpacket.study.study import Figure, Point, Study

BUFFERINGS = ("single", "double", "shared", "mapped")
RATE_KBPS = 300
"""Section 5.4.1."""

CLIENTS = {False: (100, 400), True: (1, 50, 100, 200, 400, 600, 800, 1000)}

EXPERIMENTS = media.DISTRIBUTIONS

DRAWN = (
    "Throughput",
    "Processor time of the server",
    "Jitter",
    "Lateness",
    "Packets lost",
    "Context switches of the server",
)


def points(full: bool, experiments: tuple[str, ...] = EXPERIMENTS) -> tuple[Point, ...]:
    """The points of some distributions."""
    return tuple(
        media.point(clients, RATE_KBPS, distribution, full, buffering)
        for distribution in EXPERIMENTS
        if distribution in experiments
        for buffering in BUFFERINGS
        for clients in CLIENTS[full]
    )


def figures() -> tuple[Figure, ...]:
    """What the document draws against clients, for each distribution."""
    about = {"unique": "one medium for all", "multiple": "a medium each, slow disk"}
    return tuple(
        figure
        for distribution, text in about.items()
        for figure in media.curves(DRAWN, {"distribution": distribution}, "buffering", text)
    )


STUDY = media.MediaStudy(
    name="double-buffer",
    title="Double buffering for stored media",
    question="Does a server that reads ahead into a second buffer carry more streams, with "
    "less jitter, than one that reads and sends in turn, and what does it cost?",
    experiments=EXPERIMENTS,
    points=points,
    figures=figures,
    published=files(__package__) / "published.toml",
    limits=(
        "The published prototype could not have more threads than its kernel allowed, which "
        "capped its clients; the thread servers here are not so capped.",
        "`single` reads ten packets at a time, as `double` does: at 300 kb/s a read then falls "
        "between two packets that are 35 ms apart, and delays one packet in ten.",
    ),
)


def study(full: bool = False, only: tuple[str, ...] = ()) -> Study:
    """The study with cut or published levels, of both distributions or `only` one of them."""
    return STUDY.study(full, only)
