"""What `perpacket study` prints of a run: comparisons or results, and remarks on both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from perpacket.cli import output, progress, study_results
from perpacket.cli.contests import describe_contest, print_contests
from perpacket.cli.contrasts import describe_contrast, print_contrasts
from perpacket.cli.failure import CheckFailed
from perpacket.cli.options import Format
from perpacket.errors import ConfigurationError, RunFailed

if TYPE_CHECKING:
    from perpacket.analysis.methods import Contrast
    from perpacket.analysis.published import Comparison
    from perpacket.run.directory import RunDirectory
    from perpacket.run.observation_file import Observation
    from perpacket.study.study import Point, Study

SCHEMA = 1
"""Version of the JSON these verbs print."""


def conclude(
    study: Study, directory: RunDirectory, destination: Path, form: Format, quiet: bool
) -> None:
    """Write the report, print the comparisons and remark on what they cannot say."""
    from perpacket.analysis.published_rows import rankings
    from perpacket.show import html
    from perpacket.simulation import REPORT_HINT

    observations = observed(directory)
    failures = directory.failures()
    comparisons = study.comparisons(directory)
    contests = study.contests(directory)
    contrasts = study.contrasts(directory)
    results = study.results(directory)
    written = html.write_study(study, directory, destination)
    if form is Format.JSON:
        output.write_json(
            {
                "schema": SCHEMA,
                "study": study.name,
                "run_directory": str(directory.path),
                "report": str(written),
                "observations": len(observations),
                "missing": len(directory.missing()),
                **({"failures": [asdict(one) for one in failures]} if study.is_measured else {}),
                **(
                    {"comparisons": [describe_comparison(row, study) for row in comparisons]}
                    if results is None
                    else study_results.describe(results)
                ),
                **({"contrasts": [describe_contrast(r) for r in contrasts]} if contrasts else {}),
                **({"contests": [describe_contest(one) for one in contests]} if contests else {}),
            }
        )
    elif results is not None:
        study_results.write(study, results)
    elif contrasts:
        print_contrasts(contrasts)
    else:
        if not comparisons and not contests:
            progress.note("note: nothing published is compared with these points", quiet)
        print_comparisons(study, comparisons)
        print_contests(contests)
    for remark in results.remarks if results is not None else ():
        progress.note(f"note: {remark}", quiet)
    for warning in rankings(study, directory):
        progress.note(f"note: {warning}", quiet)
    if study.is_measured:
        for warning in doubts(directory, comparisons, contrasts):
            progress.note(f"note: {warning}", quiet)
    missing = len(directory.missing())
    if missing:
        progress.note(f"note: {missing} observations are missing: this is a part", quiet)
    progress.note(f"report: {written}", quiet)
    if failures:
        named = ", ".join(f"{one.point} block {one.seed}" for one in failures)
        raise RunFailed(
            f"{len(failures)} of {len(observations) + missing} runs failed: {named}; "
            f"the first one: {failures[0].reason}",
            hint=f"`perpacket study resume {directory.path}` tries them again",
        )
    lost = [f"{row.point} seed {row.seed}" for row in observations if not conserved(row.result)]
    if lost:
        raise CheckFailed(
            f"packets do not balance in {', '.join(lost)}",
            hint=REPORT_HINT,
        )


def observed(directory: RunDirectory) -> list[Observation]:
    """The observations of a run; raises an error saying why there are none."""
    observations = directory.read_observations()
    failures = directory.failures()
    if not observations and failures:
        raise RunFailed(
            f"every run failed, the first one: {failures[0].reason}",
            hint=f"mend that, then `perpacket study resume {directory.path}`",
        )
    if not observations:
        raise ConfigurationError(
            f"{directory.path} holds no observation yet",
            parameter="directory",
            value=str(directory.path),
            hint=f"run it with `perpacket study resume {directory.path}`",
        )
    return observations


def conserved(result: Mapping[str, object]) -> bool:
    """Whether a run's packets balance, as far as it says."""
    return result.get("conserved") is not False


def doubts(
    directory: RunDirectory, comparisons: list[Comparison], contrasts: list[Contrast]
) -> list[str]:
    """The network that was measured over, what was left out, and what casts doubt on rows."""
    about: dict[str, list[str]] = {}
    for place, warnings in (
        *((row.published.point, row.warnings) for row in comparisons),
        *((row.scenario, row.warnings) for row in contrasts),
    ):
        for warning in warnings:
            about.setdefault(warning, []).append(place)
    found = directory.environment().get("testbed")
    testbed = found if isinstance(found, dict) else {}
    network = testbed.get("network")
    return [
        *([f"measured over {network}"] if network else []),
        *(f"left out: {reason}" for reason in testbed.get("left_out", ())),
        *(f"{', '.join(dict.fromkeys(points))}: {text}" for text, points in about.items()),
        *(
            ["one run of each point: no interval"]
            if len(directory.configuration.seeds) == 1
            else []
        ),
    ]


def print_comparisons(study: Study, comparisons: list[Comparison]) -> None:
    """Published beside the runs' own; `c` marks figures the simulator may be calibrated on.

    Nothing is printed where nothing is compared.
    """
    from perpacket.analysis.published import Verdict

    if not comparisons:
        return
    own = "measured" if study.is_measured else "simulated"
    nothing = "cannot be told" if study.is_measured else str(Verdict.NOT_SIMULATED)
    rows = [
        (
            row.configuration if row.configuration in shorthands(study) else row.published.point,
            told(row),
            row.published.unit,
            row.published.text + (" c" if row.published.calibration else ""),
            row.simulated_text,
            row.verdict_text if row.simulated is not None else nothing,
        )
        for row in comparisons
    ]
    headings = ("configuration", "quantity", "unit", "published", own, "verdict")
    marks = "" if study.is_measured else "; c: used to calibrate"
    title = f"{study.title}: published and {own} [95 % interval]{marks}"
    output.write_table(title, headings, rows, right=("published", own))


def told(row: Comparison) -> str:
    """A row's quantity; a change is from somewhere, and several may be of one quantity."""
    published = row.published
    return f"{row.title} from {published.against}" if published.judged == "direction" else row.title


def shorthands(study: Study) -> set[str]:
    """Configurations that name a point by themselves; others stand for many points."""
    names = [point.configuration for point in study.points]
    return {name for name in names if names.count(name) == 1}


def summary(study: Study) -> dict[str, object]:
    """A study in short, for JSON."""
    return {
        "schema": SCHEMA,
        "name": study.name,
        "title": study.title,
        "question": study.question,
        "source": study.source,
        "seeds": list(study.seeds),
        "points": len(study.points),
        "published_figures": len(study.published),
    }


def describe_point(point: Point) -> dict[str, object]:
    """A point for JSON."""
    return {
        "name": point.name,
        "configuration": point.configuration,
        "factors": dict(point.factors),
        "overrides": dict(point.overrides),
        "against": point.against,
    }


def describe_comparison(row: Comparison, study: Study) -> dict[str, object]:
    """One row published / simulated, or published / measured, for JSON."""
    published = row.published
    own = "measured" if study.is_measured else "simulated"
    return {
        "figure": published.figure,
        "where": published.where,
        "configuration": row.configuration,
        "point": published.point,
        "against": published.against,
        "quantity": published.quantity,
        "unit": published.unit,
        "published": {"value": published.value, "min": published.minimum, "max": published.maximum},
        own: None if row.simulated is None else row.simulated.as_dict(),
        "calibration": published.calibration,
        "verdict": str(row.verdict),
        "difference": row.difference,
        "difference_unit": row.difference_unit,
        "warnings": list(row.warnings),
    }
