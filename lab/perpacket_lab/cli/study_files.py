"""`perpacket study new` and `study export`: the file of a study, and the table of a run."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import typer

from perpacket.cli import output, progress
from perpacket.cli.destination import check_destination
from perpacket.cli.options import Format, FormatOption, QuietOption
from perpacket_lab.cli.study_options import DirectoryArgument

NEW_EPILOG = "Example: perpacket study new --kind simulated > my.toml"
EXPORT_EPILOG = "Example: perpacket study export osdi06-run --output observations.parquet"


def new(
    kind: Annotated[
        Literal["measured", "simulated"],
        typer.Option(help="The kind of its runs: a real server, or the simulator."),
    ] = "measured",
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Print an example of a study's file, with every key explained."""
    from perpacket_lab.study import library

    text = library.example(kind)
    if output_format is Format.JSON:
        output.write_json(tomllib.loads(text))
        return
    output.write_text(text)
    progress.note("Write it to a file that ends in .toml, then `perpacket study run FILE`.", quiet)


def export(
    directory: DirectoryArgument,
    destination: Annotated[Path, typer.Option("--output", help="The Parquet file to write.")],
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Write the observations of a run, finished or not, as one Parquet table."""
    from perpacket_lab.run import table_file
    from perpacket_lab.run.directory import RunDirectory

    check_destination("--output", destination)
    run = RunDirectory.open(directory)
    table = table_file.write(run, destination)
    if output_format is Format.JSON:
        output.write_json(
            {
                "schema": table_file.SCHEMA,
                "file": str(destination),
                "rows": table.height,
                "columns": table.columns,
            }
        )
    else:
        output.write_line(f"{destination}: {table.height} rows of {table.width} columns")
    missing = len(run.missing())
    if missing:
        progress.note(f"note: {missing} observations are missing: the run is not complete", quiet)
