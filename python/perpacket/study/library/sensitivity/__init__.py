"""Which factor moves a media server most: a 2^3 r design, Isa 2003, section 4.4.1.

Clients, encoding rate and distribution, each at two levels, all eight combinations in every block.
How much of the variation of a response each factor explains is its share of the total sum of
squares (`perpacket.analysis.factorial`; Jain 1991, chapter 18). The document does not say of which
response its shares are, so they stand beside those of four.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from math import inf

from perpacket.analysis.doubts import DOUBTS
from perpacket.analysis.estimates import Rows, rows_of
from perpacket.analysis.factorial import Design, allocate
from perpacket.analysis.factorial import full as full_design
from perpacket.analysis.published import Comparison, Published, judge
from perpacket.analysis.statistics import Interval, mean
from perpacket.run.directory import RunDirectory
from perpacket.study.library import media
from perpacket.study.quantities import QUANTITIES
from perpacket.study.study import Figure, Point, Study

CLIENTS = (1, 1000)
RATES_KBPS = tuple(media.RATES_BPS)
"""The lower and the upper level of each factor: section 4.4.1; the third is the distribution."""

FACTORS = ("clients", "encoding", "distribution")
PARTS = (*FACTORS, "interactions", "error")
"""What the variation is divided into."""

RESPONSES = ("throughput", "server_cpu", "page_faults", "context_switches")

LEAST_BLOCKS = 3
"""Replications below which shares have no interval."""

EXPERIMENTS = ("factorial",)


def design() -> Design:
    """All combinations of the three factors."""
    return full_design(FACTORS)


def point(signs: tuple[int, ...], full: bool) -> Point:
    """The point of one run of the design."""
    clients, rate, distribution = ((sign + 1) // 2 for sign in signs)
    return media.point(CLIENTS[clients], RATES_KBPS[rate], media.DISTRIBUTIONS[distribution], full)


def points(full: bool, experiments: tuple[str, ...] = EXPERIMENTS) -> tuple[Point, ...]:
    """The points in the order of the design's runs; its levels are published in both scopes."""
    return tuple(point(signs, full) for signs in design().runs)


def figures() -> tuple[Figure, ...]:
    """The shares of the variation of each response beside the published ones."""
    return tuple(
        Figure(
            "comparisons-beside",
            f"What explains the variation: {QUANTITIES[f'stream.{response}'].title.lower()}",
            "part",
            ",".join(quantity(part, response) for part in PARTS),
            x_title="share of the variation (%)",
        )
        for response in RESPONSES
    )


def quantity(part: str, response: str) -> str:
    """The name of a part of the variation of one response."""
    return f"variation.{part}.{response}"


def compare(study: Study, directory: RunDirectory) -> list[Comparison]:
    """Each published share beside that of every response, response by response."""
    rows = rows_of(directory)
    warnings = doubts(rows)
    return [
        compare_share(study, row, response, parts.get(part), warnings)
        for response in RESPONSES
        for parts in [shares(rows, response)]
        for row in study.published
        for part in [row.quantity.partition(".")[2]]
    ]


def doubts(rows: Rows) -> tuple[str, ...]:
    """What casts doubt on runs of the design, each doubt once: all runs are in every share."""
    found = []
    for name, text in DOUBTS.items():
        about = [
            point
            for point, own in rows.items()
            if any(row.get(f"doubts.{name}") is True for row in own.values())
        ]
        if about:
            found.append(f"{text} in {len(about)} of the design's {len(rows)} points")
    return tuple(found)


def compare_share(
    study: Study,
    row: Published,
    response: str,
    share: Interval | None,
    warnings: tuple[str, ...],
) -> Comparison:
    """One published share beside that of one response."""
    part = row.quantity.partition(".")[2]
    title = f"Variation by {part}: {QUANTITIES[f'stream.{response}'].title.lower()}"
    own = replace(row, figure=f"{row.figure}/{response}", quantity=quantity(part, response))
    return judge(own, study.point(row.point).configuration, share, warnings, title)


def shares(rows: Rows, response: str) -> dict[str, Interval]:
    """The parts of the variation of a response, in per cent; empty where the design is not whole.

    Blocks in which a run is missing are left out; so is all where a run did not count the response.
    """
    names = [point(signs, full=False).name for signs in design().runs]
    blocks = sorted(set.intersection(*(set(rows.get(name, {})) for name in names)))
    value = QUANTITIES[f"stream.{response}"].value
    found = [[value(rows[name][block]) for block in blocks] for name in names]
    whole = [[number for number in run if number is not None] for run in found]
    if not blocks or any(len(run) < len(blocks) for run in whole):
        return {}
    return divided(whole)


def divided(responses: Sequence[Sequence[float]]) -> dict[str, Interval]:
    """What each part explains of the variation, in per cent; a row of responses a run.

    Intervals are those of the jackknife over blocks (Efron and Stein, The Jackknife Estimate of
    Variance, Annals of Statistics 9, 1981), within 0 and 100. Under three blocks there are none: a
    design without one of two has no error to divide.
    """
    shares = _parts(responses)
    blocks = len(responses[0])
    if blocks < LEAST_BLOCKS:
        return {part: Interval(share, -inf, inf, blocks, 0.0) for part, share in shares.items()}
    without = [
        _parts([[*run[:left_out], *run[left_out + 1 :]] for run in responses])
        for left_out in range(blocks)
    ]
    found = {}
    for part, share in shares.items():
        spread = mean([blocks * share - (blocks - 1) * other[part] for other in without])
        half = (spread.high - spread.low) / 2
        low, high = max(0.0, share - half), min(100.0, share + half)
        found[part] = Interval(share, low, high, blocks, spread.confidence)
    return found


def _parts(responses: Sequence[Sequence[float]]) -> dict[str, float]:
    """The shares of the factors, of all interactions together and of the error, in per cent."""
    found = allocate(design(), responses)
    shares = {name: found.shares[(name,)] for name in FACTORS}
    shares["interactions"] = sum(found.shares.values()) - sum(shares.values())
    shares["error"] = found.error_share
    return {part: 100 * share for part, share in shares.items()}


STUDY = media.MediaStudy(
    name="sensitivity",
    title="Which factor moves a media server most",
    question="Which of clients, encoding rate and distribution explains how much of the "
    "variation of throughput, processor time, page faults and context switches?",
    experiments=EXPERIMENTS,
    points=points,
    figures=figures,
    published=files(__package__) / "published.toml",
    limits=(
        "Of which response the published shares are is not stated: they stand beside those of "
        "each, and agreement with one is no proof that it was meant.",
        "Throughput is the product of clients and encoding rate wherever a server keeps up: "
        "then their interaction explains part of it, and replications hardly differ.",
    ),
    compare=compare,
)


def study(full: bool = False, only: tuple[str, ...] = ()) -> Study:
    """The study with short or published times; its levels are the published ones in both."""
    return STUDY.study(full, only)
