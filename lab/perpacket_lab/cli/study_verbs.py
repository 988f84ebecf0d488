"""`perpacket study`: list, show, run, resume, rerun and report.

`study_files` and `study_compare` have the other verbs. One verb runs simulated and measured
studies. Options for one kind of study are errors for the other kind.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from perpacket.cli import output, progress
from perpacket.cli.destination import check_destination, check_folder
from perpacket.cli.options import (
    ChartsOption,
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
from perpacket_lab.cli import bars, study_compare, study_files
from perpacket_lab.cli.executors import executor_of
from perpacket_lab.cli.study_options import (
    ClientHostsOption,
    ClusterOption,
    DirectoryArgument,
    DurationOption,
    ExecutorOption,
    FirstSeedOption,
    FullOption,
    NameArgument,
    OnlyOption,
    PlaneOption,
    QuickOption,
    ReplicationsOption,
    ServerHostOption,
    ServerOption,
    TestbedOption,
    TraceOption,
    UrlOption,
    WarmupSecondsOption,
)
from perpacket_lab.cli.study_output import conclude

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perpacket_lab.run.directory import RunDirectory
    from perpacket_lab.run.start import PlannedRun
    from perpacket_lab.study.lengths import Length
    from perpacket_lab.study.study import Study

SHORT_S = 90.0
"""Below this, the remaining time is printed in seconds, above it in minutes."""

app = typer.Typer(
    help="Run whole studies and compare them with published values.", no_args_is_help=True
)

app.command("new", epilog=study_files.NEW_EPILOG)(study_files.new)
app.command("compare", epilog=study_compare.EPILOG)(study_compare.compare)
app.command("export", epilog=study_files.EXPORT_EPILOG)(study_files.export)

OutputOption = Annotated[
    Path | None,
    typer.Option("--output", help="Directory of the run, by default runs/STUDY-TIME."),
]


@app.command("list", epilog="Example: perpacket study list")
def list_studies(output_format: FormatOption = Format.TABLE, quiet: QuietOption = False) -> None:
    """List the studies that come with perpacket."""
    from perpacket_lab.show import json
    from perpacket_lab.study import library

    progress.note("Run one with `perpacket study run STUDY`.", quiet)
    studies = [library.find(name) for name in library.names()]
    if output_format is Format.JSON:
        output.write_json([json.study_summary(study) for study in studies])
        return
    rows = [
        (study.name, study.title, str(len(study.points)), str(len(study.published)))
        for study in studies
    ]
    headings = ("study", "title", "points", "published figures")
    output.write_table("Studies", headings, rows, headings[2:])


@app.command("show", epilog="Example: perpacket study show osdi06")
def show(
    name: NameArgument, output_format: FormatOption = Format.TABLE, quiet: QuietOption = False
) -> None:
    """Show a study's question, points, confounded effects and source of published values."""
    from perpacket_lab.run import parameter_check
    from perpacket_lab.show import json

    study = parameter_check.study_of(name)
    if output_format is Format.JSON:
        points = [json.point(point) for point in study.points]
        output.write_json(json.study_summary(study) | {"points": points})
        return
    source = f"\ncompared with: {study.source}" if study.source else ""
    progress.note(f"{study.title}: {study.question}{source}", quiet)
    for remark in study.remarks:
        progress.note(f"note: {remark}", quiet)
    factors = list(study.points[0].factors)
    rows = [
        (point.name, *(str(point.factors[factor]) for factor in factors)) for point in study.points
    ]
    output.write_table(f"{study.name}: {len(rows)} points", ("point", *factors), rows)


@app.command(
    "run",
    epilog="Example: perpacket study run osdi06 --replications 5 --output osdi06-run, or "
    "perpacket study run tr05-450 --only connections --replications 5, or "
    "perpacket study run my.toml",
)
def run(
    name: NameArgument,
    directory: OutputOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = None,
    cluster: ClusterOption = None,
    warmup_packets: WarmupOption = None,
    packets: PacketsOption = None,
    quick: QuickOption = False,
    full: FullOption = False,
    only: OnlyOption = None,
    plane: PlaneOption = None,
    replications: ReplicationsOption = None,
    seed: FirstSeedOption = None,
    duration_s: DurationOption = None,
    warmup_s: WarmupSecondsOption = None,
    testbed: TestbedOption = "auto",
    server_host: ServerHostOption = None,
    client_hosts: ClientHostsOption = None,
    server: ServerOption = None,
    url: UrlOption = None,
    trace: TraceOption = None,
    settings: SetOption = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Run a study, write its report and print its results, with published figures if any.

    A study is a name from `perpacket study list`, or a file of yours that ends in .toml: `perpacket
    study new` prints an example.
    """
    from perpacket_lab import api

    unnamed, traces = logs_of(trace or [])
    of_simulation = named_settings(run__warmup_packets=warmup_packets, run__packets=packets)
    of_measurement = named_settings(
        run__duration_s=duration_s,
        run__warmup_s=warmup_s,
        testbed__kind=None if testbed == "auto" else testbed,
        testbed__server_host=server_host,
        testbed__client_hosts=",".join(client_hosts) if client_hosts else None,
        server__command=server,
        server__url=url,
        load__trace=unnamed,
    )
    where = executor_of(executor, cluster, workers, quiet)
    study = chosen(name, length_of(quick, full), only, plane, traces)
    if study.is_measured:
        parallel = {"--workers": workers, "--executor": executor, "--cluster": cluster}
        refuse_simulated(study, name, parallel, of_simulation)
    else:
        refuse(name, "measured", {}, of_measurement)
    overrides = of_simulation + of_measurement + parse_settings(settings)
    path = directory or api.fresh_path(study)
    planned = api.plan_study(study, path, replications, seed, overrides, where)
    progress.note(f"run directory: {path}", quiet)
    if study.is_measured:
        progress.note(remaining_time(planned), quiet)
    with bars.of_study(quiet) as on_progress:
        made = planned.run(on_progress)
    finish(study, made, output_format, quiet)


def length_of(quick: bool, full: bool) -> Length:
    """The length by the options; raises `ConfigurationError` when both are given."""
    if quick and full:
        raise ConfigurationError(
            "--quick and --full exclude each other", parameter="--quick", hint="use one of them"
        )
    return "quick" if quick else "full" if full else "default"


def chosen(
    name: str,
    length: Length,
    only: str | None,
    plane: str | None,
    traces: Mapping[str, str] | None = None,
) -> Study:
    """The study of that name or file, at that length, with those experiments and logs.

    Raises `ConfigurationError` for a length or an experiment that the study does not have.
    """
    from perpacket_lab.run import parameter_check
    from perpacket_lab.study import library

    experiments = tuple(only.split(",")) if only else ()
    if plane is not None and library.is_file(name):
        refuse(name, "built-in measured", {"--plane": plane}, [])
    elif plane is not None:
        experiments = over_plane(name, library.experiments(name), experiments, plane)
    return parameter_check.study_of(name, length, experiments, traces)


def over_plane(
    name: str, experiments: tuple[str, ...], only: tuple[str, ...], plane: str
) -> tuple[str, ...]:
    """The experiments of one forwarding plane of a router: their names end with the plane.

    With `--plane xdp`, `--only tcp` is `tcp-xdp`. Raises `ConfigurationError` when there are none.
    """
    selected = tuple(experiment for experiment in experiments if experiment.endswith(f"-{plane}"))
    if not selected:
        raise ConfigurationError(
            f"study {name} has no --plane {plane}: only router studies have planes",
            parameter="--plane",
            value=plane,
            hint="leave it out, or run study router",
        )
    wanted = {f"{name.removesuffix(f'-{plane}')}-{plane}" for name in only}
    if wanted - set(selected):
        raise ConfigurationError(
            f"--only {','.join(only)} with --plane {plane}: no such experiment",
            parameter="--only",
            value=",".join(only),
            hint=f"study {name} has {', '.join(experiments)}",
        )
    return tuple(name for name in selected if not only or name in wanted)


def finish(study: Study, directory: RunDirectory, form: Format, quiet: bool) -> None:
    """Write the table of a run, then the report."""
    from perpacket_lab import api

    analysis = api.concluded(study, directory).analysis
    conclude(analysis, analysis.run.report_path, form, quiet)


def refuse(
    name: str, kind: str, options: Mapping[str, object], settings: list[tuple[str, str]]
) -> None:
    """Raise `ConfigurationError` when an option of the other kind of study was given."""
    from perpacket_lab.analysis.analysis import NAMED_OPTIONS
    from perpacket_lab.study.parameters import OPTIONS

    names = NAMED_OPTIONS | OPTIONS
    given = [option for option, value in options.items() if value is not None]
    given += [names.get(parameter, parameter) for parameter, _ in settings]
    if given:
        raise ConfigurationError(
            f"study {name} has no {given[0]}: it is an option of {kind} studies",
            parameter=given[0],
            hint="`perpacket study run --help` lists the options of each kind",
        )


def refuse_simulated(
    study: Study,
    name: str,
    parallel: Mapping[str, object],
    settings: list[tuple[str, str]],
) -> None:
    """Raise `ConfigurationError` on options that a measured study does not accept.

    A measured study that also simulates accepts `parallel` and `settings` for its simulations.
    """
    wrong = {} if study.is_simulated else parallel
    refuse(name, "simulated", wrong, [] if study.is_simulated else settings)


def logs_of(texts: list[str]) -> tuple[str | None, dict[str, str]]:
    """The log without a name, if one is given, or the logs by name; both with absolute paths.

    Raises `ConfigurationError` for several logs without names, `OSError` for a log that cannot be
    read.
    """
    from perpacket_lab.study import named_traces

    if not texts or (len(texts) == 1 and ("=" not in texts[0] or Path(texts[0]).exists())):
        return (existing(texts[0]) if texts else None), {}
    logs = named_traces.parse(texts)
    return None, {name: existing(path) for name, path in logs.items()}


def existing(trace: str) -> str:
    """The trace's absolute path; raises `OSError` naming it when it cannot be read."""
    with Path(trace).open("rb"):
        return str(Path(trace).resolve())


def remaining_time(planned: PlannedRun) -> str:
    """The expected time of a measured study, with its numbers of points and blocks."""
    study, blocks = planned.study, len(planned.configuration.seeds)
    seconds = planned.block_ms * blocks / 1000
    about = f"{seconds:.0f} s" if seconds < SHORT_S else f"{seconds / 60:.0f} min"
    most = "at most " if study.stopping is not None else ""
    times = "once each" if blocks == 1 else f"{most}{blocks} times each"
    expected = f"{most or 'about '}{about} of measurement: " if seconds >= 1 else ""
    return (
        f"{expected}{planned.measured} points, {times}, "
        f"plus set-up{' and simulation' if study.is_simulated else ''}"
    )


@app.command("resume", epilog="Example: perpacket study resume osdi06-run")
def resume(
    directory: DirectoryArgument,
    workers: WorkersOption = None,
    executor: ExecutorOption = None,
    cluster: ClusterOption = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Run the missing points of an interrupted run, then report as `study run` does."""
    from perpacket_lab.analysis.wording import plural
    from perpacket_lab.run import start

    where = executor_of(executor, cluster, workers, quiet)
    run, study = reopen(directory)
    with bars.of_study(quiet) as on_progress:
        count = start.resume(study, run, executor=where, on_progress=on_progress)
    complete = f"{run.path} was complete: nothing was left to run"
    progress.note(plural(count, "new observation") if count else complete, quiet)
    finish(study, run, output_format, quiet)


@app.command("rerun", epilog="Example: perpacket study rerun before --output after")
def rerun(
    directory: DirectoryArgument,
    destination: OutputOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = None,
    cluster: ClusterOption = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Repeat a run with the same points and seeds in a new directory, then report.

    `perpacket study compare` then compares the two runs.
    """
    from perpacket_lab import api
    from perpacket_lab.run import start

    where = executor_of(executor, cluster, workers, quiet)
    before, study = reopen(directory)
    if study.is_measured:
        parallel = {"--workers": workers, "--executor": executor, "--cluster": cluster}
        refuse_simulated(study, study.name, parallel, [])
    path = destination or api.fresh_path(study)
    planned = start.plan(study, path, executor=where, again=before.configuration)
    progress.note(f"run directory: {path}", quiet)
    with bars.of_study(quiet) as on_progress:
        made = planned.run(on_progress)
    finish(study, made, output_format, quiet)


@app.command("report", epilog="Example: perpacket study report osdi06-run --charts figures")
def report(
    directory: DirectoryArgument,
    destination: Annotated[
        Path | None,
        typer.Option("--output", help="The HTML file, by default report.html in the run."),
    ] = None,
    charts: ChartsOption = None,
    theme: Annotated[Literal["light", "dark"], typer.Option(help="Theme of these charts.")] = (
        "light"
    ),
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.md",
            help="Write a Markdown page too, with charts in the folder of the same name.",
        ),
    ] = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Write the report of a run, finished or not, and print its comparisons."""
    from perpacket_lab.analysis.analysis import analyze
    from perpacket_lab.show import html
    from perpacket_lab.show.markdown import write as write_page

    if destination is not None:
        check_destination("--output", destination)
    if charts is not None:
        check_folder("--charts", charts)
    run, study = reopen(directory)
    analysis = analyze(study, run)
    if markdown is not None:
        check_destination("--markdown", markdown)
    if charts is not None:
        files = html.write_charts(analysis, charts, dark=theme == "dark")
        progress.note(f"charts: {len(files)} files in {charts}", quiet)
    if markdown is not None:
        files = write_page(analysis, markdown)
        progress.note(f"page: {markdown}, with {len(files) - 1} charts", quiet)
    conclude(analysis, destination or run.report_path, output_format, quiet)


def reopen(path: Path) -> tuple[RunDirectory, Study]:
    """A run directory and its study."""
    from perpacket_lab.run.directory import RunDirectory

    directory = RunDirectory.open(path)
    return directory, directory.study()
