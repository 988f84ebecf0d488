"""`perpacket study`: list, show, run, resume and report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import output, progress
from perpacket.cli.destination import check_destination
from perpacket.cli.failure import CheckFailed
from perpacket.cli.options import (
    Format,
    FormatOption,
    PacketsOption,
    QuietOption,
    SetOption,
    WarmupOption,
    WorkersOption,
    named_settings,
    parse_settings,
)
from perpacket.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perpacket.experiment.comparison import Comparison
    from perpacket.experiment.run_directory import RunDirectory
    from perpacket.experiment.study import Point, Study

SCHEMA = 1
"""Version of the JSON these verbs print."""

app = typer.Typer(
    help="Run whole studies and compare them with what was published.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(help="A study: see `perpacket study list`.")]
DirectoryArgument = Annotated[Path, typer.Argument(help="The directory of a run.")]


@app.command("list", epilog="Example: perpacket study list")
def list_studies(output_format: FormatOption = Format.TABLE, quiet: QuietOption = False) -> None:
    """List the studies there are."""
    from perpacket import studies

    progress.note("Run one with `perpacket study run STUDY`.", quiet)
    found = [studies.find(name) for name in studies.names()]
    if output_format is Format.JSON:
        output.write_json([summary(study) for study in found])
        return
    rows = [
        (study.name, study.title, str(len(study.points)), str(len(study.published)))
        for study in found
    ]
    headings = ("study", "title", "points", "published figures")
    output.write_table("Studies", headings, rows, right=headings[2:])


@app.command("show", epilog="Example: perpacket study show osdi06")
def show(
    name: NameArgument, output_format: FormatOption = Format.TABLE, quiet: QuietOption = False
) -> None:
    """Show what a study asks, its points and what it is compared with."""
    from perpacket import studies

    study = studies.find(name)
    if output_format is Format.JSON:
        output.write_json(summary(study) | {"points": [describe_point(p) for p in study.points]})
        return
    progress.note(f"{study.title}: {study.question}\ncompared with: {study.source}", quiet)
    factors = list(study.points[0].factors)
    rows = [
        (point.name, *(str(point.factors[factor]) for factor in factors)) for point in study.points
    ]
    output.write_table(f"{study.name}: {len(rows)} points", ("point", *factors), rows)


@app.command("run", epilog="Example: perpacket study run osdi06 --seeds 5 --output osdi06-run")
def run(
    name: NameArgument,
    directory: Annotated[
        Path | None,
        typer.Option("--output", help="Directory of the run; runs/STUDY-TIME unless given."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Replications: seeds 1 to this.")] = 5,
    workers: WorkersOption = None,
    warmup_packets: WarmupOption = None,
    packets: PacketsOption = None,
    settings: SetOption = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Run a study, write its report and print it beside the published figures."""
    from perpacket import studies
    from perpacket.experiment import session

    study = studies.find(name)
    path = directory or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    overrides = named_settings(run__warmup_packets=warmup_packets, run__packets=packets)
    progress.note(f"run directory: {path}", quiet)
    with progress.of_study(quiet) as on_progress:
        made = session.run(
            study,
            path,
            seeds=tuple(range(1, seeds + 1)),
            overrides=tuple(overrides + parse_settings(settings)),
            workers=workers,
            on_progress=on_progress,
        )
    conclude(study, made, made.report_path, output_format, quiet)


@app.command("resume", epilog="Example: perpacket study resume osdi06-run")
def resume(
    directory: DirectoryArgument,
    workers: WorkersOption = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Run what an interrupted run is missing, then report as `study run` does."""
    from perpacket.experiment import session

    found, study = reopen(directory)
    with progress.of_study(quiet) as on_progress:
        count = session.resume(study, found, workers=workers, on_progress=on_progress)
    progress.note(f"{count} observations were missing", quiet)
    conclude(study, found, found.report_path, output_format, quiet)


@app.command("report", epilog="Example: perpacket study report osdi06-run")
def report(
    directory: DirectoryArgument,
    destination: Annotated[
        Path | None,
        typer.Option("--output", help="The HTML file; report.html in the run unless given."),
    ] = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Write the report of a run, finished or not, and print its comparisons."""
    if destination is not None:
        check_destination("--output", destination)
    found, study = reopen(directory)
    conclude(study, found, destination or found.report_path, output_format, quiet)


def reopen(path: Path) -> tuple[RunDirectory, Study]:
    """A run directory and its study."""
    from perpacket import studies
    from perpacket.experiment.run_directory import RunDirectory

    directory = RunDirectory.open(path)
    return directory, studies.find(directory.configuration.study)


def conclude(
    study: Study, directory: RunDirectory, destination: Path, form: Format, quiet: bool
) -> None:
    """Write the report, print the comparisons and remark on what they cannot say."""
    from perpacket import report as reports
    from perpacket.simulation import REPORT_HINT
    from perpacket.studies.comparison import rankings

    observations = directory.read_observations()
    if not observations:
        raise ConfigurationError(
            f"{directory.path} holds no observation yet",
            parameter="directory",
            value=str(directory.path),
            hint=f"run it with `perpacket study resume {directory.path}`",
        )
    comparisons = study.comparisons(directory)
    written = reports.write_study(study, directory, destination)
    if form is Format.JSON:
        output.write_json(
            {
                "schema": SCHEMA,
                "study": study.name,
                "run_directory": str(directory.path),
                "report": str(written),
                "observations": len(observations),
                "missing": len(directory.missing()),
                "comparisons": [describe_comparison(row) for row in comparisons],
            }
        )
    else:
        print_comparisons(study, comparisons)
    for warning in rankings(study, directory):
        progress.note(f"note: {warning}", quiet)
    missing = len(directory.missing())
    if missing:
        progress.note(f"note: {missing} observations are missing: this is a part", quiet)
    progress.note(f"report: {written}", quiet)
    lost = [f"{row.point} seed {row.seed}" for row in observations if not conserved(row.result)]
    if lost:
        raise CheckFailed(
            f"packets do not balance in {', '.join(lost)}",
            hint=REPORT_HINT,
        )


def conserved(result: Mapping[str, object]) -> bool:
    """Whether a run's packets balance, as far as it says."""
    return result.get("conserved") is not False


def print_comparisons(study: Study, comparisons: list[Comparison]) -> None:
    """Published beside simulated; `c` marks figures the simulator may be calibrated on."""
    rows = [
        (
            row.configuration if row.configuration != "bulk" else row.published.point,
            row.title,
            row.published.unit,
            row.published.text + (" c" if row.published.calibration else ""),
            row.simulated_text,
            row.verdict_text,
        )
        for row in comparisons
    ]
    headings = ("configuration", "quantity", "unit", "published", "simulated", "verdict")
    title = f"{study.title}: published and simulated [95 % interval]; c: used to calibrate"
    output.write_table(title, headings, rows, right=("published", "simulated"))


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


def describe_comparison(row: Comparison) -> dict[str, object]:
    """One row published / simulated for JSON."""
    published = row.published
    return {
        "figure": published.figure,
        "where": published.where,
        "configuration": row.configuration,
        "point": published.point,
        "against": published.against,
        "quantity": published.quantity,
        "unit": published.unit,
        "published": {"value": published.value, "min": published.minimum, "max": published.maximum},
        "simulated": None if row.simulated is None else row.simulated.as_dict(),
        "calibration": published.calibration,
        "verdict": str(row.verdict),
        "difference": row.difference,
        "difference_unit": row.difference_unit,
        "warnings": list(row.warnings),
    }
