"""Options of `study run`, in a panel of the help for each kind of study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from perpacket.cli.quantities import seconds, seconds_from

PARTS = "Length and parts"
SIMULATED = "Simulated studies"
MEASURED = "Measured studies"
"""Panels of the help."""


ExecutorChoice = Literal["threads", "processes"]
"""How simulated runs execute on this machine."""

NameArgument = Annotated[
    str,
    typer.Argument(help="A study: see `perpacket study list`; or a file that ends in .toml."),
]
DirectoryArgument = Annotated[Path, typer.Argument(help="The directory of a run.")]


ExecutorOption = Annotated[
    ExecutorChoice | None,
    typer.Option(
        "--executor",
        help="Run in threads (the default), or in processes: if one dies, its run is repeated. "
        "Changes no result.",
        rich_help_panel=SIMULATED,
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Run on the workers of this Dask scheduler, as tcp://127.0.0.1:8786. Changes no "
        "result.",
        rich_help_panel=SIMULATED,
    ),
]
QuickOption = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Few levels, runs or short windows, with wide intervals.",
        rich_help_panel=PARTS,
    ),
]
FullOption = Annotated[
    bool,
    typer.Option(
        "--full",
        help="All levels of the factors (the published ones, if there are any) and longer runs.",
        rich_help_panel=PARTS,
    ),
]
OnlyOption = Annotated[
    str | None,
    typer.Option(
        metavar="EXPERIMENTS",
        help="Run only these experiments, separated by commas. The error for an unknown name "
        "lists all.",
        rich_help_panel=PARTS,
    ),
]
PlaneOption = Annotated[
    Literal["kernel", "xdp"] | None,
    typer.Option(
        "--plane",
        help="Run only the experiments of study router with this forwarding plane.",
        rich_help_panel=MEASURED,
    ),
]
ReplicationsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of runs of each point; measured points run in blocks with every point once.",
        rich_help_panel=PARTS,
    ),
]
FirstSeedOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=2**32,
        help="Seed of the first replication; the next ones have the next seeds.",
        rich_help_panel=PARTS,
    ),
]
DurationOption = Annotated[
    float | None,
    typer.Option(
        "--duration",
        parser=seconds_from(0.1),
        metavar="TIME",
        help="Measured time of each run.",
        rich_help_panel=MEASURED,
    ),
]
WarmupSecondsOption = Annotated[
    float | None,
    typer.Option(
        "--warmup",
        parser=seconds,
        metavar="TIME",
        help="Time before each measurement.",
        rich_help_panel=MEASURED,
    ),
]
TestbedOption = Annotated[
    Literal["auto", "loopback", "namespaces", "ssh"],
    typer.Option(help="The hosts of the server and its clients.", rich_help_panel=MEASURED),
]
ServerHostOption = Annotated[
    str | None,
    typer.Option(
        metavar="USER@HOST",
        help="The machine under test, with --testbed ssh.",
        rich_help_panel=MEASURED,
    ),
]
ClientHostsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--client-host",
        metavar="USER@HOST",
        help="A machine that sends the requests; may be repeated.",
        rich_help_panel=MEASURED,
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="A server to run in the foreground instead of `serve web` or `serve media`; {root}, "
        "{address} and {cpus} are replaced.",
        rich_help_panel=MEASURED,
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        help="The URL at which that server serves {root}, as http://{address}:8080 or "
        "rtsp://{address}:8554. Loads of one file request /file-SIZE.bin below it, or the URL "
        "itself if its path names a file, as http://{address}:8080/index.html.",
        rich_help_panel=MEASURED,
    ),
]
TraceOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]FILE",
        help="The log to replay, by default a synthesized World Cup. With names, several logs.",
        rich_help_panel=MEASURED,
    ),
]
