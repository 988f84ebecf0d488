"""Gathers all that the page of a run shows."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from perpacket import __version__
from perpacket.analysis import findings, published_score
from perpacket.analysis.limits import limits
from perpacket.analysis.published_score import Score
from perpacket.show import contests, method_comparisons, summary_tables, tables
from perpacket.show.charts import figures
from perpacket.show.html import data
from perpacket.show.html.page import Page
from perpacket.show.terms import Voice, voice_of
from perpacket.show.wording import NOTATION, SHORTHAND, plural

if TYPE_CHECKING:
    import polars as pl

    from perpacket.run.directory import RunDirectory
    from perpacket.study.study import Point, Study

CONFIGURATION: Final = "config.toml"
# Parameters that have an option of their own on the command line.
NAMED_OPTIONS: Final = {"run.packets": "--packets", "run.warmup_packets": "--warmup-packets"}


def assemble(study: Study, run_directory: RunDirectory, prefix: str = "") -> Page:
    """The page of a run; raises `CorruptObservation` when a file of it is damaged.

    Identifiers in the page begin with `prefix`.
    """
    material = figures.material_of(study, run_directory)
    observations, comparisons = material.observations, material.comparisons
    results = study.results(run_directory)
    contested = study.contests(run_directory)
    ways = material.contrasts
    found = (
        contests.findings(contested)
        or method_comparisons.findings(ways)
        or findings.findings(study, observations, comparisons)
    )
    note = findings.findings_note(study, observations, found)
    if contested or ways:
        note = contests.NOTE if contested else method_comparisons.NOTE
    voice = voice_of(study)
    payload, left_out = data.embedded(run_directory, observations, comparisons)
    shorthand = any(SHORTHAND.fullmatch(point.configuration) for point in study.points)
    return Page(
        version=__version__,
        name=study.name,
        title=study.title,
        question=study.question,
        source=study.source,
        lead=findings.lead(study, observations) or summary_tables.lead(results, voice),
        voice=voice,
        headline=method_comparisons.headline(ways)
        if ways
        else published_score.headline(comparisons, voice),
        findings=found,
        findings_note=note,
        scores=[
            *published_score.scores(comparisons, voice),
            _runs(run_directory, observations, voice),
        ],
        disagreements=published_score.disagreements(comparisons),
        drawings=figures.draw(material, prefix),
        comparison=tables.comparison_table(comparisons, voice) if comparisons else None,
        contrasts=method_comparisons.table(ways) if ways else None,
        means=tables.means_table(study, observations),
        limits=[
            *method_comparisons.warnings(ways),
            *limits(study, run_directory, observations, comparisons, results),
            *left_out,
        ],
        commands=commands(study, run_directory),
        configuration=(run_directory.path / CONFIGURATION).read_text(encoding="utf-8"),
        environment=tables.environment_table(run_directory.environment()),
        raw=tables.raw_table(observations, voice),
        told=summary_tables.told_tables(results, voice),
        data=payload,
        notation=list(NOTATION) if shorthand else [],
        contests=contests.tables(contested),
        prefix=prefix,
    )


def _runs(run_directory: RunDirectory, observations: pl.DataFrame, voice: Voice) -> Score:
    """How much ran."""
    configuration = run_directory.configuration
    points, seeds = len(configuration.points), len(configuration.seeds)
    planned = run_directory.planned()
    missing = planned - observations.height
    remark = f"{missing} of {planned} missing" if missing else ""
    most = "at most " if configuration.stopping is not None else ""
    label = (
        f"runs: {plural(points, 'configuration')}, {most}{plural(seeds, voice.replication)} each"
    )
    return Score(f"{observations.height:,}", label, remark)


def commands(study: Study, run_directory: RunDirectory) -> list[str]:
    """What to type to get the same run again."""
    configuration = run_directory.configuration
    words = shlex.split(study.command or f"perpacket study run {study.name}")
    seeds = configuration.seeds
    first = study.seeds[0] if not study.is_measured else seeds[0]
    counted = seeds == tuple(range(first, first + len(seeds)))
    if first != study.seeds[0]:
        words += ["--seed", str(first)]
    if len(seeds) != len(study.seeds) and counted:
        words += ["--replications" if study.is_measured else "--seeds", str(len(seeds))]
    named = NAMED_OPTIONS | dict(study.options)
    for name, value in _added_overrides(study.points, configuration.points):
        option = named.get(name)
        words += [option, value] if option else ["--set", f"{name}={value}"]
    lines = [shlex.join(words)]
    if seeds != study.seeds and not counted:
        lines.append(f"# with the seeds {', '.join(map(str, seeds))}, by the Python library")
    return lines


def _added_overrides(planned: tuple[Point, ...], ran: tuple[Point, ...]) -> list[tuple[str, str]]:
    """The overrides that were put on top of every point that takes them."""
    own = {point.name: len(point.overrides) for point in planned}
    added: dict[str, str] = {}
    for point in ran:
        for name, value in point.overrides[own.get(point.name, 0) :]:
            # Parts of a study differ in what they take, never in what they were given.
            if added.setdefault(name, value) != value:
                return []
    return list(added.items())
