"""`perpacket trace`: info, convert and synthesize."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from perpacket.cli import output
from perpacket.cli.options import Format, FormatOption, QuietOption, SeedOption
from perpacket.cli.quantities import per_s, seconds

LISTED_REJECTS = 10
"""Rejected lines that the table lists; the JSON has them all."""

app = typer.Typer(help="Read, rewrite and make access logs.", no_args_is_help=True)


class TraceFormat(StrEnum):
    """Format of a trace."""

    COMMON = "common"
    COMBINED = "combined"
    WORLD_CUP = "world-cup"


class Workload(StrEnum):
    """Workload of a generator."""

    WORLD_CUP = "W"
    IBM = "I"
    SPECWEB99_STATIC = "S"
    SPECWEB99_MIXED = "D"


SourceArgument = Annotated[Path, typer.Argument(help="The trace, plain, .gz or .zst.")]
DestinationArgument = Annotated[
    Path, typer.Argument(help="The file to write; .gz or .zst compresses it.")
]
FromOption = Annotated[
    TraceFormat | None, typer.Option("--from", help="Format to read; recognized unless given.")
]
ToOption = Annotated[TraceFormat, typer.Option("--to", help="Format to write.")]


@app.command("info", epilog="Example: perpacket trace info access.log.gz --format json")
def info(
    file: SourceArgument,
    source_format: FromOption = None,
    window: Annotated[
        float,
        typer.Option(
            parser=seconds,
            metavar="TIME",
            help="Requests of a client within this time of its last share a connection.",
        ),
    ] = 15.0,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Summarize a trace: requests, clients, objects, sessions and rejected lines."""
    from perpacket import traces

    found = traces.info(
        file, format=None if source_format is None else source_format.value, window_s=window
    )
    show(str(file), found, output_format, quiet)


@app.command(
    "convert", epilog="Example: perpacket trace convert access.log day.bin.gz --to world-cup"
)
def convert(
    file: SourceArgument,
    destination: DestinationArgument,
    to: ToOption,
    source_format: FromOption = None,
    object_paths: Annotated[
        Path | None, typer.Option(help="Paths of a World Cup trace's objects: number and path.")
    ] = None,
    mappings: Annotated[
        Path | None, typer.Option(help="Write the paths of the objects a log gets numbers for.")
    ] = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Rewrite a trace in another format, without the lines that are no requests."""
    from perpacket import traces

    done = traces.convert(
        file,
        destination,
        to=to.value,
        format=None if source_format is None else source_format.value,
        object_paths=object_paths,
        mappings=mappings,
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
    ] = Workload.WORLD_CUP,
    requests: Annotated[int, typer.Option(min=1, help="Requests to write at least.")] = 100_000,
    seed: SeedOption = 1,
    sessions_rate: Annotated[
        float,
        typer.Option(parser=per_s, metavar="RATE", help="Sessions that begin in a second."),
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
            min=1, max=2**32 - 1, help="Clients of S and D, and the size of their file set."
        ),
    ] = 2048,
    to: ToOption = TraceFormat.COMMON,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Write a generated workload as a trace whose sessions are those of the generator."""
    from perpacket import traces

    written = traces.synthesize(
        destination,
        workload=workload.value,
        requests=requests,
        seed=seed,
        sessions_per_s=sessions_rate,
        gap_mean_s=gap_mean,
        connections=connections,
        format=to.value,
    )
    show(str(destination), written, output_format, quiet)


def show(name: str, content: Mapping[str, object], form: Format, quiet: bool) -> None:
    """Print a summary of a trace as JSON, or as a table with the first rejected lines."""
    from perpacket.analysis.wording import number_text
    from perpacket.cli import progress
    from perpacket.study.quantities import flatten

    if form is Format.JSON:
        output.write_json(content)
        return
    found = content.get("rejects")
    rejects = found if isinstance(found, list) else []
    rows = [(key, number_text(value)) for key, value in flatten(content) if key != "rejects"]
    output.write_table(name, ("quantity", "value"), rows, right=("value",))
    for reject in rejects[:LISTED_REJECTS]:
        progress.note(f"note: line {reject['line']} was skipped: {reject['reason']}", quiet)
    if len(rejects) > LISTED_REJECTS:
        more = len(rejects) - LISTED_REJECTS
        progress.note(f"note: and {more} more lines; --format json lists them", quiet)
