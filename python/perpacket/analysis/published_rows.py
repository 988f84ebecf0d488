"""Computes the rows published / simulated, or published / measured, of a study from a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perpacket.analysis.published import Comparison, Published, judge
from perpacket.analysis.statistics import outlier, trend, unranked
from perpacket.run.directory import RunDirectory
from perpacket.run.observation_file import to_row
from perpacket.study.quantities import QUANTITIES, Row, estimate
from perpacket.study.study import Study

Rows = dict[str, dict[int, Row]]
"""Observations by point and seed."""


def rows_of(directory: RunDirectory) -> Rows:
    """The observations of a run as flat rows, by point and seed."""
    points = {point.name: point for point in directory.configuration.points}
    rows: Rows = {}
    for observation in directory.read_observations():
        row = to_row(points[observation.point], observation)
        rows.setdefault(observation.point, {})[observation.seed] = row
    return rows


# Shares that differ by less, in percentage points, are one and the same to every reader.
NEGLIGIBLE_PERCENT = 0.01
MOST_NAMED = 6


def compare(study: Study, directory: RunDirectory) -> list[Comparison]:
    """Every published figure of the study beside the run, in the document's order."""
    rows = rows_of(directory)
    return [compare_figure(study, published, rows) for published in study.published]


def compare_figure(study: Study, published: Published, rows: Rows) -> Comparison:
    """One published figure beside the observations of its point."""
    own = rows.get(published.point, {})
    against = rows.get(published.against, {}) if published.against else None
    quantity = QUANTITIES[published.quantity]
    interval, values = estimate(quantity, own, against)
    warnings = [
        *replication_warnings(values, published.unit),
        *balance_warnings(own),
        *doubt_warnings(own),
    ]
    configuration = study.point(published.point).configuration
    return judge(published, configuration, interval, tuple(warnings), quantity.title)


def replication_warnings(values: list[float], unit: str) -> Iterable[str]:
    """What is suspicious about replications that differ by enough to matter."""
    negligible = NEGLIGIBLE_PERCENT if unit == "%" else 0.0
    if values and max(values) - min(values) > negligible:
        yield from filter(None, (trend(values), outlier(values)))


def balance_warnings(rows: Mapping[int, Row]) -> Iterable[str]:
    """Runs whose packets do not balance: nothing they say can be trusted."""
    lost = [str(seed) for seed, row in rows.items() if row.get("conserved") is False]
    if lost:
        yield f"packets do not balance with seed {', '.join(lost)}"


DOUBTS = {
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
"""What a flag of a measured run says."""


def doubt_warnings(rows: Mapping[int, Row]) -> Iterable[str]:
    """What casts doubt on measured runs, each with the blocks that it was seen in."""
    for name, text in DOUBTS.items():
        blocks = [str(seed) for seed, row in rows.items() if row.get(f"doubts.{name}") is True]
        if blocks:
            yield f"{text} in block {', '.join(blocks)}"


def rankings(study: Study, directory: RunDirectory) -> list[str]:
    """Points whose intervals overlap in a quantity the study ranks by: none is the better one.

    Only points with one baseline are ranked against each other, and against it.
    """
    rows = rows_of(directory)
    baselines = dict.fromkeys(point.against or point.name for point in study.points)
    warnings: list[str] = []
    for name in study.ranked:
        quantity = QUANTITIES[name]
        for baseline in baselines:
            intervals = {
                point.name: interval
                for point in study.points
                if baseline == (point.against or point.name)
                and (interval := estimate(quantity, rows.get(point.name, {}))[0]) is not None
                and interval.is_bounded
            }
            warnings += [
                f"{quantity.title.lower()}: not distinguishable, each from its neighbour: "
                f"{listed(group)}"
                for group in chains(unranked(intervals))
            ]
    return warnings


def listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - MOST_NAMED
    text = ", ".join(names[:MOST_NAMED])
    return f"{text} and {rest} more" if rest > 0 else text


def chains(pairs: list[tuple[str, str]]) -> list[list[str]]:
    """Pairs that follow each other joined: (a, b), (b, c), (d, e) as [a, b, c], [d, e]."""
    joined: list[list[str]] = []
    for lower, higher in pairs:
        if joined and joined[-1][-1] == lower:
            joined[-1].append(higher)
        else:
            joined.append([lower, higher])
    return joined
