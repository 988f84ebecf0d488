"""`perpacket study`: list, show, run, resume and report.

Simulated and measured studies are run by one verb, with options for the one kind, for the other and
for both: an option that a study cannot have is refused, not ignored.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import output, progress
from perpacket.cli.contests import describe_contest, print_contests
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
from perpacket.cli.study_options import (
    SIMULATED_SEEDS,
    ClientHostsOption,
    DurationOption,
    FirstSeedOption,
    FullOption,
    OnlyOption,
    ReplicationsOption,
    SeedsOption,
    ServerHostOption,
    ServerOption,
    TestbedChoice,
    TestbedOption,
    TraceOption,
    UrlOption,
    WarmupSecondsOption,
)
from perpacket.errors import ConfigurationError, RunFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perpacket.experiment.comparison import Comparison
    from perpacket.experiment.run_directory import RunDirectory
    from perpacket.experiment.study import Point, Study

SCHEMA = 1
"""Version of the JSON these verbs print."""

SHORT_S = 90.0
"""Times to go are told in seconds below this, in minutes above."""

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


@app.command(
    "run",
    epilog="Example: perpacket study run osdi06 --seeds 5 --output osdi06-run, or "
    "perpacket study run tr05-450 --only connections --replications 5",
)
def run(
    name: NameArgument,
    directory: Annotated[
        Path | None,
        typer.Option("--output", help="Directory of the run; runs/STUDY-TIME unless given."),
    ] = None,
    seeds: SeedsOption = None,
    workers: WorkersOption = None,
    warmup_packets: WarmupOption = None,
    packets: PacketsOption = None,
    full: FullOption = False,
    only: OnlyOption = None,
    replications: ReplicationsOption = None,
    seed: FirstSeedOption = None,
    duration_s: DurationOption = None,
    warmup_s: WarmupSecondsOption = None,
    testbed: TestbedOption = TestbedChoice.AUTO,
    server_host: ServerHostOption = None,
    client_hosts: ClientHostsOption = None,
    server: ServerOption = None,
    url: UrlOption = None,
    trace: TraceOption = None,
    settings: SetOption = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Run a study, write its report and print it beside the published figures."""
    from perpacket import studies
    from perpacket.experiment import session

    of_simulation = named_settings(run__warmup_packets=warmup_packets, run__packets=packets)
    of_measurement = named_settings(
        run__duration_s=duration_s,
        run__warmup_s=warmup_s,
        testbed__kind=None if testbed is TestbedChoice.AUTO else testbed.value,
        testbed__server_host=server_host,
        testbed__client_hosts=",".join(client_hosts) if client_hosts else None,
        server__command=server,
        server__url=url,
        load__trace=None if trace is None else existing(trace),
    )
    if name in studies.MEASURED:
        refuse(name, "simulated", {"--seeds": seeds, "--workers": workers}, of_simulation)
        study = studies.find_measured(name, full=full, only=tuple(only.split(",")) if only else ())
        blocks = blocks_of(study, replications, seed)
    else:
        study = studies.find(name)
        wrong = {"--full": full or None, "--only": only, "--replications": replications}
        refuse(name, "measured", wrong | {"--seed": seed}, of_measurement)
        blocks = tuple(range(1, (seeds or SIMULATED_SEEDS) + 1))
    path = directory or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    overrides = tuple(of_simulation + of_measurement + parse_settings(settings))
    progress.note(f"run directory: {path}", quiet)
    if study.is_measured:
        progress.note(time_to_go(study, blocks, overrides), quiet)
    with progress.of_study(quiet) as on_progress:
        made = session.run(
            study, path, seeds=blocks, overrides=overrides, workers=workers, on_progress=on_progress
        )
    conclude(studies.of_run(made.configuration), made, made.report_path, output_format, quiet)


def refuse(
    name: str, kind: str, options: Mapping[str, object], settings: list[tuple[str, str]]
) -> None:
    """Raise `ConfigurationError` when an option of the other kind of study was given."""
    from perpacket.report.assembly import NAMED_OPTIONS
    from perpacket.studies import measured

    names = NAMED_OPTIONS | measured.OPTIONS
    given = [option for option, value in options.items() if value is not None]
    given += [names.get(parameter, parameter) for parameter, _ in settings]
    if given:
        raise ConfigurationError(
            f"study {name} has no {given[0]}: that is for {kind} studies",
            parameter=given[0],
            hint="`perpacket study run --help` lists the options of either kind apart",
        )


def existing(trace: Path) -> str:
    """The trace's whole path; raises `OSError` naming it when it cannot be read."""
    with trace.open("rb"):
        return str(trace.resolve())


def blocks_of(study: Study, replications: int | None, seed: int | None) -> tuple[int, ...]:
    """The seeds of the blocks: from the first one on, as many as asked for."""
    first = study.seeds[0] if seed is None else seed
    return tuple(range(first, first + (replications or len(study.seeds))))


def time_to_go(
    study: Study, blocks: tuple[int, ...], overrides: tuple[tuple[str, str], ...]
) -> str:
    """How long a measured study takes, about, and how much it runs."""
    expected_ms = 0
    for point in study.points:
        planned = replace(point, overrides=point.overrides + overrides)
        expected_ms += study.runner.prepare(planned, blocks[0], timeline=False).progress()[1]
    seconds = expected_ms * len(blocks) / 1000
    about = f"{seconds:.0f} s" if seconds < SHORT_S else f"{seconds / 60:.0f} min"
    times = "once each" if len(blocks) == 1 else f"{len(blocks)} times each"
    return f"about {about} to go: {len(study.points)} points, {times}, and what setting up takes"


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
    complete = f"{found.path} was complete: nothing was run"
    progress.note(f"{count} observations were missing" if count else complete, quiet)
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
    return directory, studies.of_run(directory.configuration)


def conclude(
    study: Study, directory: RunDirectory, destination: Path, form: Format, quiet: bool
) -> None:
    """Write the report, print the comparisons and remark on what they cannot say."""
    from perpacket import report as reports
    from perpacket.simulation import REPORT_HINT
    from perpacket.studies.comparison import rankings

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
    comparisons = study.comparisons(directory)
    contests = study.contests(directory)
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
                **({"failures": [asdict(one) for one in failures]} if study.is_measured else {}),
                "comparisons": [describe_comparison(row, study) for row in comparisons],
                **({"contests": [describe_contest(one) for one in contests]} if contests else {}),
            }
        )
    else:
        print_comparisons(study, comparisons)
        if contests:
            print_contests(contests)
    for warning in rankings(study, directory):
        progress.note(f"note: {warning}", quiet)
    if study.is_measured:
        for warning in doubts(directory, comparisons):
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


def conserved(result: Mapping[str, object]) -> bool:
    """Whether a run's packets balance, as far as it says."""
    return result.get("conserved") is not False


def doubts(directory: RunDirectory, comparisons: list[Comparison]) -> list[str]:
    """The network that was measured over, and what casts doubt on measured rows."""
    about: dict[str, list[str]] = {}
    for row in comparisons:
        for warning in row.warnings:
            about.setdefault(warning, []).append(row.published.point)
    testbed = directory.environment().get("testbed")
    network = testbed.get("network") if isinstance(testbed, dict) else None
    return [
        *([f"measured over {network}"] if network else []),
        *(f"{', '.join(dict.fromkeys(points))}: {text}" for text, points in about.items()),
        *(
            ["one run of each point: no interval"]
            if len(directory.configuration.seeds) == 1
            else []
        ),
    ]


def print_comparisons(study: Study, comparisons: list[Comparison]) -> None:
    """Published beside the runs' own; `c` marks figures the simulator may be calibrated on."""
    from perpacket.experiment.comparison import Verdict

    own = "measured" if study.is_measured else "simulated"
    nothing = "cannot be told" if study.is_measured else str(Verdict.NOT_SIMULATED)
    rows = [
        (
            row.configuration if row.configuration in shorthands(study) else row.published.point,
            row.title,
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
