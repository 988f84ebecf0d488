"""The analysis of a run. `analyze` computes an `Analysis` once, and every output renders it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perpacket.analysis.claim import Verdict
from perpacket.analysis.statistics import Interval
from perpacket_lab.analysis import published_rows, published_score
from perpacket_lab.analysis.conclusions import Conclusion, conclusions_of
from perpacket_lab.analysis.contests import ContestResult, results_of
from perpacket_lab.analysis.doubts import by_point, counted_doubts, disturbance, unbalanced
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.factor_effects import Summary
from perpacket_lab.analysis.findings import Findings, RunEvidence, findings_of
from perpacket_lab.analysis.kernel_steps import KernelStep, StudiedKernel, kernels_of, steps_of
from perpacket_lab.analysis.limits import limits_of
from perpacket_lab.analysis.methods import MethodComparison, headline, with_confidence
from perpacket_lab.analysis.offload import network_shares
from perpacket_lab.analysis.point_summary import summarize
from perpacket_lab.analysis.published_comparison import Comparison
from perpacket_lab.analysis.published_score import Score
from perpacket_lab.analysis.terms import Terms, terms_of
from perpacket_lab.analysis.tried_changes import ChangeSet, change_sets
from perpacket_lab.analysis.turns import turn_limits
from perpacket_lab.analysis.wording import plural, sentence_case
from perpacket_lab.run.configuration_file import RunConfiguration
from perpacket_lab.run.directory import CONFIGURATION, REPORT, Failure, RunDirectory
from perpacket_lab.run.observation_file import rows_from, to_table

if TYPE_CHECKING:
    import polars as pl

    from perpacket_lab.study.point import Point
    from perpacket_lab.study.study import Study

NAMED_OPTIONS: Final = {"run.packets": "--packets", "run.warmup_packets": "--warmup-packets"}
"""Parameters that have an option of their own on the command line."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The identity of a run, and how many of its observations exist."""

    path: Path
    configuration: RunConfiguration
    configuration_text: str
    environment: Mapping[str, object]
    observed: int
    planned: int
    failures: tuple[Failure, ...]
    commands: tuple[str, ...]
    """The command lines that repeat the run."""
    began: datetime
    """The time (UTC) at which the directory of the run was made."""
    took: timedelta
    """The time from then to the last observation, pauses included."""

    @property
    def report_path(self) -> Path:
        """The default file of the report."""
        return self.path / REPORT

    @property
    def missing(self) -> int:
        """The number of observations that do not exist yet."""
        return self.planned - self.observed


@dataclass(frozen=True, slots=True)
class Analysis:
    """A run of a study, with all data that the outputs show."""

    study: Study
    run: RunFacts
    observations: pl.DataFrame
    """One row for each run: see `RunDirectory.observations`."""
    timelines: Mapping[tuple[str, int], pl.DataFrame]
    """The state over time, by point and seed, where it was recorded."""
    estimates: Estimates
    comparisons: tuple[Comparison, ...]
    """The published values beside the run, in the document's order."""
    conclusions: tuple[Conclusion, ...]
    """The document's conclusions, where its figures name them."""
    headline: str
    """A sentence on the agreement of the run with published values, or between methods."""
    scores: tuple[Score, ...]
    disagreements: tuple[Comparison, ...]
    contests: tuple[ContestResult, ...]
    methods: tuple[MethodComparison, ...]
    summary: Summary | None
    """The summary of the run; None if the study compares with a document."""
    network_shares: Mapping[str, Interval]
    """The network layers' share of the busy processor, by point."""
    findings: Findings
    rankings: tuple[str, ...]
    """Sentences on points whose intervals of a ranked quantity overlap."""
    limits: tuple[str, ...]
    notes: tuple[str, ...]
    """The doubts that the command line prints beside the results."""
    changes: tuple[ChangeSet, ...] = ()
    """The changes that were tried, by figure."""
    steps: tuple[KernelStep, ...] = ()
    """The steps of the cost between kernels, in a study of kernels."""
    kernels: tuple[StudiedKernel, ...] = ()
    """The kernels of such a study."""

    @property
    def terms(self) -> Terms:
        """The terms for this kind of run."""
        return terms_of(self.study)

    @property
    def confidence(self) -> float:
        """The confidence of the intervals."""
        return self.estimates.confidence

    @property
    def unbalanced(self) -> list[tuple[str, int]]:
        """The points and seeds of runs whose packets do not balance."""
        return unbalanced(self.estimates.rows)


def analyze(study: Study, directory: RunDirectory) -> Analysis:
    """Analyze a run, finished or not.

    Raises `CorruptObservation` when a file of the run is damaged.
    """
    configuration, terms = directory.configuration, terms_of(study)
    observations = directory.read_observations()
    estimates = Estimates(
        rows_from(configuration.points, observations),
        configuration.confidence,
        lambda point: study.is_measured and point not in study.simulated,
    )
    run = facts_of(study, directory, len(observations))
    changed = changed_parameters(study, configuration)
    if changed:
        study = replace(
            study, title=f"{study.title}, with {changed}", points=tuple(configuration.points)
        )
    comparisons = tuple(published_rows.compare_all(study, estimates))
    if changed:
        comparisons = tuple(
            row if row.value is None else replace(row, verdict=Verdict.NOT_JUDGED)
            for row in comparisons
        )
    contests = tuple(results_of(study.contests, study.points, estimates))
    methods = methods_of(study, estimates)
    summary = summarize(study, directory, estimates) if study.summary else None
    rankings = tuple(published_rows.rankings(study, estimates))
    turns = list(turn_limits(study, estimates))
    changes = change_sets(study, estimates)
    doubts = counted_doubts(estimates.rows) if changes else []
    return Analysis(
        study=study,
        run=run,
        observations=to_table(configuration.points, observations),
        timelines={pair: directory.timeline(*pair) for pair in directory.timelines()},
        estimates=estimates,
        comparisons=comparisons,
        conclusions=tuple(conclusions_of(comparisons)),
        headline=(
            f"This run has other parameters, {changed}, so no published value is judged."
            if changed
            else headline_of(terms, comparisons, methods, changes)
        ),
        scores=(*published_score.scores(comparisons, terms), runs_score(terms, run)),
        disagreements=tuple(published_score.disagreements(comparisons)),
        contests=contests,
        methods=methods,
        summary=summary,
        network_shares=network_shares(estimates),
        findings=findings_of(
            RunEvidence(study, estimates, comparisons, contests, methods, summary, changes)
        ),
        rankings=rankings,
        limits=(
            *(f"{sentence_case(doubt)}." for doubt in doubts),
            *limits_of(
                study,
                estimates,
                terms,
                seeds=len(configuration.seeds),
                planned=run.planned,
                comparisons=comparisons,
                methods=methods,
                rankings=(*turns, *rankings),
                summary=summary,
                stopping=configuration.stopping,
                failures=run.failures,
                environment=run.environment,
            ),
        ),
        notes=(
            *filter(None, (disturbance(estimates.rows),)),
            *notes_of(study, run, comparisons, methods, summary, rankings),
            *doubts,
            *turns,
        ),
        changes=changes,
        steps=steps_of(study, estimates, observations),
        kernels=tuple(kernels_of(study, run.environment)),
    )


def headline_of(
    terms: Terms,
    comparisons: Sequence[Comparison],
    methods: Sequence[MethodComparison],
    changes: Sequence[ChangeSet],
) -> str:
    """A sentence on the agreement with published values or between methods; else empty."""
    if methods:
        return headline(methods)
    if changes and not comparisons:
        return ""
    return published_score.headline(comparisons, terms)


def methods_of(study: Study, estimates: Estimates) -> tuple[MethodComparison, ...]:
    """The comparisons from the function that the study's file names."""
    if not study.methods:
        return ()
    module, _, function = study.methods.partition(":")
    compare = getattr(import_module(module), function)
    comparisons: tuple[MethodComparison, ...] = tuple(compare(study.points, estimates.rows))
    return tuple(with_confidence(row, estimates.confidence) for row in comparisons)


def facts_of(study: Study, directory: RunDirectory, observed: int) -> RunFacts:
    """The facts of the run in a directory."""
    began, last = directory.times()
    return RunFacts(
        path=directory.path,
        configuration=directory.configuration,
        configuration_text=(directory.path / CONFIGURATION).read_text(encoding="utf-8"),
        environment=directory.environment(),
        observed=observed,
        planned=observed + len(directory.missing()),
        failures=tuple(directory.failures()),
        commands=tuple(commands(study, directory.configuration)),
        began=began,
        took=last - began,
    )


def runs_score(terms: Terms, run: RunFacts) -> Score:
    """The number of runs that exist, in the form of a score."""
    configuration = run.configuration
    points, seeds = len(configuration.points), len(configuration.seeds)
    remark = f"{run.missing} of {run.planned} missing" if run.missing else ""
    most = "at most " if configuration.stopping is not None else ""
    replications = plural(seeds, terms.replication)
    label = f"runs: {plural(points, 'configuration')}, {most}{replications} each"
    return Score(f"{run.observed:,}", label, remark)


def notes_of(
    study: Study,
    run: RunFacts,
    comparisons: Sequence[Comparison],
    methods: Sequence[MethodComparison],
    summary: Summary | None,
    rankings: Sequence[str],
) -> list[str]:
    """The remarks, rankings and doubts that the command line prints."""
    notes = [*(summary.remarks if summary is not None else ()), *rankings]
    if study.is_measured:
        testbed = run.environment.get("testbed")
        facts = testbed if isinstance(testbed, Mapping) else {}
        warnings = [
            *published_rows.warnings_of(comparisons),
            *((row.subject, text) for row in methods for text in row.detail.warnings),
        ]
        if network := facts.get("network"):
            notes.append(f"measured over {network}")
        notes += [f"left out: {reason}" for reason in facts.get("left_out", ())]
        notes += [f"{', '.join(points)}: {text}" for text, points in by_point(warnings).items()]
        if len(run.configuration.seeds) == 1:
            notes.append("one run of each point: no interval")
    if run.missing:
        notes.append(f"the run is not complete: {run.missing} observations are missing")
    return notes


def commands(study: Study, configuration: RunConfiguration) -> list[str]:
    """The command lines that repeat a run."""
    words = shlex.split(study.command or f"perpacket study run {study.name}")
    seeds = configuration.seeds
    first = seeds[0]
    counted = seeds == tuple(range(first, first + len(seeds)))
    if first != study.seeds[0]:
        words += ["--seed", str(first)]
    if len(seeds) != len(study.seeds) and counted:
        words += ["--replications", str(len(seeds))]
    named = NAMED_OPTIONS | dict(study.options)
    for name, value in _added_overrides(study.points, configuration.points):
        option = named.get(name)
        words += [option, value] if option else ["--set", f"{name}={value}"]
    lines = [shlex.join(words)]
    if seeds != study.seeds and not counted:
        lines.append(f"# with the seeds {', '.join(map(str, seeds))}, by the Python library")
    return lines


def changed_parameters(study: Study, configuration: RunConfiguration) -> str:
    """The parameters of a simulation that the command line changed, as `nic.mips=1000`; or empty.

    The number of packets and other parameters of the run change no machine. A measured study is
    compared only by shares and changes, which hold on any machine.
    """
    if study.is_measured:
        return ""
    added = _added_overrides(study.points, configuration.points)
    return ", ".join(f"{name}={value}" for name, value in added if not name.startswith("run."))


def _added_overrides(planned: tuple[Point, ...], ran: tuple[Point, ...]) -> list[tuple[str, str]]:
    """The overrides that the command line added to the points."""
    own = {point.name: len(point.overrides) for point in planned}
    added: dict[str, str] = {}
    for point in ran:
        for name, value in point.overrides[own.get(point.name, 0) :]:
            # Some points do not accept a parameter, but all others have one value for it.
            if added.setdefault(name, value) != value:
                return []
    return list(added.items())
