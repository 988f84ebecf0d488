"""Reads the file of a study: a built-in one, a user's, or the one that a run stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from perpacket.analysis.two_level import Design
from perpacket.errors import ConfigurationError, StudyError
from perpacket_lab.study import file as study_file
from perpacket_lab.study import named_traces
from perpacket_lab.study.designs import TwoLevelDesign
from perpacket_lab.study.figures import contests_of, default_figures, effect_figures, figures_of
from perpacket_lab.study.file import EXAMPLE_HINT, Asked, Content, StudyFile, text_of
from perpacket_lab.study.lengths import LENGTHS, Length, has_lengths
from perpacket_lab.study.parameters import options_of
from perpacket_lab.study.point import Point
from perpacket_lab.study.points import labels_of, points_of, points_of_kind
from perpacket_lab.study.published_file import places_of, rows_about
from perpacket_lab.study.quantities import QUANTITIES, is_column, quantity
from perpacket_lab.study.runner_interfaces import (
    MEASURED_RUNNERS,
    PREPARED,
    SIMULATION,
    Divided,
    MeasuredRunner,
    NamedRunner,
)
from perpacket_lab.study.stopping import Stopping
from perpacket_lab.study.study import Study

SUFFIX = ".toml"
"""The suffix of a study's file. Names of built-in studies have no suffix."""

LIMITS = (
    "An interval describes the spread of these runs. Results on another machine, or with other "
    "parameters of the simulator, may differ by more.",
)
"""The limits of a study whose file has none."""

QUICK_LIMIT = (
    "This is the quick length: few levels and short windows, so intervals are wide. Run the study "
    "without --quick before you rely on a number."
)


def load(
    path: Path,
    length: Length = "default",
    only: tuple[str, ...] = (),
    traces: Mapping[str, str] | None = None,
) -> Study:
    """The study in a user's file, at one length.

    Raises `ConfigurationError` naming the file, the key and what was expected, `OSError` when the
    file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: invalid UTF-8: {error}", hint=EXAMPLE_HINT) from None
    return build(text, path, length, only, traces=traces)


def build(
    text: str,
    where: Path,
    length: Length = "default",
    only: tuple[str, ...] = (),
    *,
    is_built_in: bool = False,
    traces: Mapping[str, str] | None = None,
) -> Study:
    """The study that a text defines, at one length, with all experiments or those in `only`.

    `traces` maps the name of each log to its file; logs replace a synthesized trace.
    Errors name `where`, the path of the file.
    """
    content = study_file.read_content(text, where)
    if length != "default" and not has_lengths(content):
        raise ConfigurationError(
            f"{where}: the study has only one length, so --{length} has no effect",
            parameter=f"--{length}",
            hint="write a value for each length, as { quick = 0.5, default = 1.0, full = 10.0 }",
        )
    file = study_file.check(study_file.resolved(content, length, only), where)
    if traces:
        file = named_traces.with_traces(file, traces)
    if is_built_in:
        asked = Asked(length=length, only=list(only), traces=dict(traces or {}))
        file = file.model_copy(update={"asked": asked})
    try:
        file, points, design = _with_baselines(file, content, length, where)
        known = _names(content, where) if file.published else frozenset()
        return _study(file, points, design, known)
    except StudyError as error:
        raise ConfigurationError(f"{where}: {error}", hint=EXAMPLE_HINT) from None
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{where}: {error}", error.parameter, error.value, error.allowed, error.hint
        ) from None


def _with_baselines(
    file: StudyFile, content: Content, length: Length, where: Path
) -> tuple[StudyFile, tuple[Point, ...], Design | None]:
    """The study with its points, and the baselines that only other experiments define.

    An experiment alone may lack the baselines of its gains.
    """
    points, design = points_of(file)
    names = {point.name for point in points}
    lacking = {point.against for point in points if point.against is not None} - names
    experiments = content.get("experiment")
    if not lacking or not isinstance(experiments, list):
        return file, points, design
    named = tuple(filter(None, (each.get("name", "") for each in experiments)))
    every = study_file.check(study_file.resolved(content, length, named), where)
    others = [each for each in every.experiment if each not in file.experiment]
    defining = [
        each
        for each in others
        if lacking
        & {point.name for point in points_of(every.model_copy(update={"experiment": [each]}))[0]}
    ]
    whole = file.model_copy(update={"experiment": [*file.experiment, *defining]})
    wanted = names | lacking
    return whole, tuple(point for point in points_of(whole)[0] if point.name in wanted), None


def of_text(text: str, where: Path) -> Study:
    """The resolved study that a run directory stores; it is built-in if it has `[asked]`."""
    asked = study_file.check(study_file.read_content(text, where), where).asked
    study = build(text, where)
    if asked is None:
        return study
    return _with_command(study, asked)


def _names(content: Content, where: Path) -> frozenset[str]:
    """The points of every length and experiment. A published row may concern any of them."""
    names: set[str] = set()
    experiments = content.get("experiment")
    named = {each.get("name", "") for each in experiments} if isinstance(experiments, list) else {}
    for length in LENGTHS:
        file = study_file.check(study_file.resolved(content, length, tuple(named)), where)
        names |= {point.name for point in points_of(file)[0]}
    return frozenset(names)


def _study(
    file: StudyFile, points: tuple[Point, ...], design: Design | None, known: frozenset[str]
) -> Study:
    is_measured = file.kind == "measured"
    summary = tuple(file.quantities)
    shows_changes = any(figure.kind == "changes" for figure in file.figure)
    if not (summary or file.published or file.contest or file.function or shows_changes):
        summary = default_quantities(file.kind, points)
    two_level = _two_level(file, points, design)
    figures = figures_of(file)
    if not figures and summary:
        figures = default_figures(file.kind, points, summary)
        figures += effect_figures(summary) if two_level is not None else ()
    count = file.replications_most or file.replications
    labels = labels_of([name for each in file.experiments for name in each.factors])
    published = rows_about(file.published, known, is_measured)
    names = {point.name for point in points}
    own = [
        row.model_copy(update={"among": [name for name in row.among if name in names]})
        for row in file.published
        if {row.configuration, row.against or row.configuration} <= names
    ]
    file = file.model_copy(update={"published": own})
    study = Study(
        name=file.name,
        title=file.title or f"Study {file.name}",
        question=file.question or f"What do {', '.join(labels.values()) or 'the runs'} change?",
        points=points,
        seeds=tuple(range(file.seed, file.seed + count)),
        runner=NamedRunner(SIMULATION),
        measured_runner=_measured_runner(file) if is_measured else None,
        simulated=points_of_kind(file, "simulated"),
        figures=figures,
        published=published,
        places=places_of(file.place, {figure.title for figure in figures}),
        contests=contests_of(file),
        summary=summary,
        design=two_level,
        methods=file.function,
        ranked=tuple(file.ranked),
        source=file.source,
        remarks=two_level.remarks if two_level is not None and summary else (),
        limits=tuple(file.limits) or LIMITS,
        command="perpacket study run study.toml",
        options=options_of(file.runner) if is_measured else {},
        quantities=QUANTITIES | {name: quantity(name) for name in summary},
        confidence=file.confidence,
        order=file.order or "random",
        stopping=_stopping(file, summary),
        definition=study_file.to_toml(file),
    ).limited_to(points)
    return study if file.asked is None else _with_command(study, file.asked)


def _measured_runner(file: StudyFile) -> MeasuredRunner:
    """The runner of the points that are not simulated."""
    measured = NamedRunner(MEASURED_RUNNERS[file.runner])
    emulated = points_of_kind(file, "emulated")
    return Divided(measured, NamedRunner(PREPARED), emulated) if emulated else measured


def _with_command(study: Study, asked: Asked) -> Study:
    """A built-in study with the command that runs it at this length."""
    command = f"perpacket study run {study.name}"
    command += f" --{asked.length}" if asked.length != "default" else ""
    command += f" --only {','.join(asked.only)}" if asked.only else ""
    command += "".join(f" --trace {name}={path}" for name, path in asked.traces.items())
    limits = study.limits
    if asked.length == "quick" and QUICK_LIMIT not in limits:
        limits = (QUICK_LIMIT, *limits)
    return replace(study, command=command, limits=limits, is_built_in=True)


def _two_level(
    file: StudyFile, points: tuple[Point, ...], design: Design | None
) -> TwoLevelDesign | None:
    if design is None:
        return None
    factors = file.experiments[0].factors
    labels = labels_of(list(factors))
    levels = "; ".join(
        f"{labels[name]} {text_of(low)} to {text_of(high)}" for name, (low, high) in factors.items()
    )
    return TwoLevelDesign(design, tuple(point.name for point in points), levels)


def _stopping(file: StudyFile, summary: tuple[str, ...]) -> Stopping | None:
    if file.within is None:
        return None
    name = file.until_quantity or next(each for each in summary if is_column(file.kind, each))
    return Stopping(name, file.within, file.replications, file.confidence)


def default_quantities(kind: str, points: tuple[Point, ...]) -> tuple[str, ...]:
    """The summary of a study whose file names no quantities: throughput and its cost."""
    loads = {point.configuration for point in points}
    if kind == "simulated":
        return ("packets_per_s" if "bulk" in loads else "requests_per_s", "cycles.Stack")
    return ("goodput_mbps" if "stream" in loads else "requests_per_s", "ns.Stack")
