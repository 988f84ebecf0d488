"""What a run cannot tell: found in its data, and what its study says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from perpacket.analysis import means
from perpacket.analysis.findings import GAIN_COLUMN, GAIN_NOUN, PUBLISHED_RATE
from perpacket.analysis.statistics import DEFAULT_CONFIDENCE, unranked
from perpacket.show.terms import voice_of
from perpacket.show.wording import listed, plural, sentence_case

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from perpacket.analysis.effects import Results
    from perpacket.analysis.published import Comparison
    from perpacket.analysis.statistics import Interval
    from perpacket.run.directory import RunDirectory
    from perpacket.study.study import Study

# Below this, Student's t widens an interval so much that most differences vanish in it.
FEW_SEEDS: Final = 5
MOST_NAMED: Final = 6


def limits(
    study: Study,
    run_directory: RunDirectory,
    observations: pl.DataFrame,
    comparisons: Sequence[Comparison],
    results: Results | None = None,
) -> list[str]:
    """Sentences, those that may overturn a result first."""
    configuration = run_directory.configuration
    planned = run_directory.planned()
    found = _unbalanced(observations)
    if observations.height < planned:
        found.append(
            f"The run is not complete: {observations.height} of {planned} runs are here. "
            "`perpacket study resume` runs the others."
        )
    found += _warnings(comparisons) + _unranked(study, observations)
    if results is not None:
        found += [f"{remark}." for remark in results.remarks] + _rule(run_directory)
    found += _failures(run_directory) + _testbed(run_directory)
    voice = voice_of(study)
    seeds = len(configuration.seeds)
    if seeds == 1:
        found.append(f"One {voice.replication} says nothing about spread: there are no intervals.")
    elif seeds < FEW_SEEDS:
        found.append(
            f"Intervals rest on {seeds} {voice.replications}: they are wide. "
            f"More {voice.replications} narrow them."
        )
    found.append(voice.interval)
    missing = [row for row in comparisons if row.simulated is None]
    if missing:
        found.append(f"{plural(len(missing), 'published value')} could not be computed here.")
    return found + [text for text in study.limits if text not in found]


def _rule(run_directory: RunDirectory) -> list[str]:
    """What a rule for stopping does to intervals, and that charts keep to one confidence."""
    rule, found = run_directory.configuration.stopping, []
    if rule is not None:
        found.append(
            f"Points were repeated until {rule.quantity} was known to {100 * rule.within:g} %: "
            "stopping at a narrow interval favours those that are narrow by chance, so they hold "
            "the true value a little more seldom than they say."
        )
    if run_directory.configuration.confidence != DEFAULT_CONFIDENCE:
        found.append(
            f"Charts and the table of configurations have {100 * DEFAULT_CONFIDENCE:g} % intervals."
        )
    return found


def _failures(run_directory: RunDirectory) -> list[str]:
    """Measured runs that gave no observation, each with its reason."""
    return [
        f"Failed: {failure.point}, block {failure.seed}: {failure.reason}."
        for failure in run_directory.failures()
    ]


def _testbed(run_directory: RunDirectory) -> list[str]:
    """What the testbed left out and what its machines could not do."""
    testbed = run_directory.environment().get("testbed")
    if not isinstance(testbed, Mapping):
        return []
    found = []
    for name, text in (("left_out", "Left out: {}"), ("limits", "{}"), ("could_not", "{}")):
        reasons = testbed.get(name)
        for reason in reasons if isinstance(reasons, list) else []:
            sentence = text.format(str(reason).rstrip("."))
            found.append(f"{sentence_case(sentence)}.")
    return found


def _unbalanced(observations: pl.DataFrame) -> list[str]:
    """Runs in which packets were lost track of: nothing they say can be trusted."""
    import polars as pl

    if observations.schema.get("conserved") != pl.Boolean:
        return []
    broken = observations.filter(~pl.col("conserved"))
    if not broken.height:
        return []
    names = [f"{point} with seed {seed}" for point, seed in broken["point", "seed"].iter_rows()]
    return [f"Packets do not balance, so do not use: {listed(names, MOST_NAMED)}."]


def _unranked(study: Study, observations: pl.DataFrame) -> list[str]:
    """Neighbours among the points of one baseline whose order the intervals do not settle."""
    if PUBLISHED_RATE not in study.ranked:
        return []
    rates = means.per_point(observations, GAIN_COLUMN)
    groups: dict[str, dict[str, Interval]] = {}
    for point in study.points:
        if point.name in rates and rates[point.name].is_bounded:
            groups.setdefault(point.against or point.name, {})[point.name] = rates[point.name]
    pairs = [f"{low} and {high}" for group in groups.values() for low, high in unranked(group)]
    if not pairs:
        return []
    return [f"Intervals of {GAIN_NOUN} overlap, so no order is claimed: {'; '.join(pairs)}."]


def _warnings(comparisons: Sequence[Comparison]) -> list[str]:
    """Each warning once, with the points it is about."""
    about: dict[str, list[str]] = {}
    for row in comparisons:
        for warning in row.warnings:
            about.setdefault(warning, []).append(row.published.point)
    return [
        f"{listed(list(dict.fromkeys(points)), MOST_NAMED)}: {warning}."
        for warning, points in about.items()
    ]
