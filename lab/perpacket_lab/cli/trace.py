"""`perpacket trace`: info, convert and synthesize."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from perpacket.cli import output
from perpacket.cli.options import Format, FormatOption, QuietOption, SeedOption
from perpacket.cli.quantities import per_s, seconds
from perpacket_lab.traces import TraceFormat, Workload, WrittenFormat

TENTH = 10
"""The curve of sessions has a point for each hundredth; the table shows every tenth point."""

LISTED_REJECTS = 10
"""Rejected lines that the table lists. The JSON has all of them."""

app = typer.Typer(help="Read, convert and generate access logs.", no_args_is_help=True)


SourceArgument = Annotated[Path, typer.Argument(help="The trace, plain, .gz or .zst.")]
DestinationArgument = Annotated[
    Path, typer.Argument(help="The file to write; .gz or .zst compresses it.")
]
FromOption = Annotated[
    TraceFormat | None,
    typer.Option("--from", help="Format to read, by default recognized by content."),
]
ToOption = Annotated[WrittenFormat, typer.Option("--to", help="Format to write.")]

FieldsOption = Annotated[
    str | None,
    typer.Option(
        metavar="PART=FIELD,...",
        help="Fields of a JSON log, such as time=when,uri=req.path; those of Caddy, Traefik and "
        "nginx are known.",
    ),
]


@app.command("info", epilog="Example: perpacket trace info access.log.gz --curve")
def info(
    file: SourceArgument,
    source_format: FromOption = None,
    log_fields: FieldsOption = None,
    window: Annotated[
        float,
        typer.Option(
            parser=seconds,
            metavar="TIME",
            help="A client's next request within this time uses the same connection.",
        ),
    ] = 15.0,
    curve: Annotated[
        bool,
        typer.Option(
            "--curve",
            help="Also print the curve: what share of the packets and bytes each share of the "
            "sessions has.",
        ),
    ] = False,
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw that curve as SVG.")
    ] = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Summarize a trace: requests, clients, objects, sessions and rejected lines."""
    from perpacket_lab import traces

    document = traces.info(
        file,
        format=source_format,
        window_s=window,
        curve=curve or chart is not None,
        log_fields=log_fields,
    )
    if chart is not None:
        from perpacket_lab.show.charts import session_curve

        chart.write_text(session_curve.svg(file.name, document["session_curve"]))
    show(str(file), document, output_format, quiet)


@app.command(
    "convert", epilog="Example: perpacket trace convert access.log day.bin.gz --to world-cup"
)
def convert(
    file: SourceArgument,
    destination: DestinationArgument,
    to: ToOption,
    source_format: FromOption = None,
    log_fields: FieldsOption = None,
    object_paths: Annotated[
        Path | None,
        typer.Option(
            help="File with the paths of a World Cup trace's objects, in lines of a number and a "
            "path."
        ),
    ] = None,
    mappings: Annotated[
        Path | None, typer.Option(help="Write the paths of the objects and their numbers.")
    ] = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Convert a trace to another format, without lines that are not requests."""
    from perpacket_lab import traces

    done = traces.convert(
        file,
        destination,
        to=to,
        format=source_format,
        object_paths=object_paths,
        mappings=mappings,
        log_fields=log_fields,
    )
    show(str(destination), done, output_format, quiet)


@app.command(
    "synthesize",
    epilog="Example: perpacket trace synthesize w.log.zst --workload W --requests 100000",
)
def synthesize(
    destination: DestinationArgument,
    workload: Annotated[
        Workload, typer.Option(help="World Cup, IBM, SPECweb99 static or mixed.")
    ] = "W",
    requests: Annotated[int, typer.Option(min=1, help="Least number of requests.")] = 100_000,
    seed: SeedOption = 1,
    sessions_rate: Annotated[
        float,
        typer.Option(parser=per_s, metavar="RATE", help="Sessions that begin per second."),
    ] = 10.0,
    gap_mean: Annotated[
        float,
        typer.Option(
            parser=seconds, metavar="TIME", help="Mean gap between two requests of a session."
        ),
    ] = 1.0,
    connections: Annotated[
        int,
        typer.Option(
            min=1,
            max=2**32 - 1,
            help="Number of clients of workloads S and D. The size of their file set depends on "
            "it.",
        ),
    ] = 2048,
    to: ToOption = "common",
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Generate a workload and write it as a trace with the same sessions."""
    from perpacket_lab import traces

    written = traces.synthesize(
        destination,
        workload=workload,
        requests=requests,
        seed=seed,
        sessions_per_s=sessions_rate,
        gap_mean_s=gap_mean,
        connections=connections,
        format=to,
    )
    show(str(destination), written, output_format, quiet)


def show(name: str, content: Mapping[str, object], form: Format, quiet: bool) -> None:
    """Print a summary of a trace as JSON, or as a table with the first rejected lines."""
    from perpacket.analysis.statistics import number_text
    from perpacket.cli import progress
    from perpacket_lab.study.quantities import flatten

    if form is Format.JSON:
        output.write_json(content)
        return
    listed = content.get("rejects")
    rejects = listed if isinstance(listed, list) else []
    lists = ("rejects", "session_curve")
    rows = [(key, number_text(value)) for key, value in flatten(content) if key not in lists]
    output.write_table(name, ("quantity", "value"), rows, right=("value",))
    points = content.get("session_curve")
    if isinstance(points, list):
        columns = ("sessions", "packets", "bytes")
        tenths = [[f"{point[key]:.1%}" for key in columns] for point in points[::TENTH]]
        title = "shares: sessions with the fewest packets first"
        output.write_table(title, columns, tenths, right=columns)
    for reject in rejects[:LISTED_REJECTS]:
        progress.note(f"note: line {reject['line']} was skipped: {reject['reason']}", quiet)
    if len(rejects) > LISTED_REJECTS:
        more = len(rejects) - LISTED_REJECTS
        progress.note(f"note: and {more} more lines; --format json lists them", quiet)
