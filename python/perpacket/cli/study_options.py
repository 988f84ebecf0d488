"""Options of `study run`; the help lists those of measured and simulated studies apart."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from perpacket.cli.quantities import seconds, seconds_from

SIMULATED_SEEDS = 5
"""The default replications of a simulated study."""

SIMULATED = "Simulated studies"
MEASURED = "Measured studies"
"""Panels of the help."""


class PlaneChoice(StrEnum):
    """Who forwards in a router study."""

    KERNEL = "kernel"
    XDP = "xdp"


class TestbedChoice(StrEnum):
    """Where a measured study runs."""

    AUTO = "auto"
    LOOPBACK = "loopback"
    NAMESPACES = "namespaces"
    SSH = "ssh"


NameArgument = Annotated[
    str,
    typer.Argument(help="A study: see `perpacket study list`; or a file that ends in .toml."),
]
DirectoryArgument = Annotated[Path, typer.Argument(help="The directory of a run.")]


class ExecutorChoice(StrEnum):
    """How simulated runs execute on this machine."""

    THREADS = "threads"
    PROCESSES = "processes"


ExecutorOption = Annotated[
    ExecutorChoice | None,
    typer.Option(
        "--executor",
        help="Runs in threads, or in processes, where one that dies is done again; threads unless "
        "given. Changes no result.",
        rich_help_panel=SIMULATED,
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Runs on the workers of this Dask scheduler, as tcp://127.0.0.1:8786. Changes no "
        "result.",
        rich_help_panel=SIMULATED,
    ),
]
SeedsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Replications, from the first seed on; what the study's file says unless given.",
        rich_help_panel=SIMULATED,
    ),
]
QuickOption = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Few levels and short windows: under two minutes, with wide intervals.",
        rich_help_panel=MEASURED,
    ),
]
FullOption = Annotated[
    bool,
    typer.Option(
        "--full",
        help="All levels, published where a document states them, and longer runs.",
        rich_help_panel=MEASURED,
    ),
]
OnlyOption = Annotated[
    str | None,
    typer.Option(
        metavar="EXPERIMENTS",
        help="Some experiments by commas; an unknown name lists those of a study.",
        rich_help_panel=MEASURED,
    ),
]
PlaneOption = Annotated[
    PlaneChoice | None,
    typer.Option(
        "--plane",
        help="Study router: the experiments over the kernel or over XDP alone.",
        rich_help_panel=MEASURED,
    ),
]
ReplicationsOption = Annotated[
    int | None,
    typer.Option(min=1, help="Blocks: each runs all points once.", rich_help_panel=MEASURED),
]
FirstSeedOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=2**32,
        help="Seed of the first block; the next blocks have the next seeds.",
        rich_help_panel=MEASURED,
    ),
]
DurationOption = Annotated[
    float | None,
    typer.Option(
        "--duration",
        parser=seconds_from(0.1),
        metavar="TIME",
        help="Time that each run measures.",
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
    TestbedChoice, typer.Option(help="Where the hosts are.", rich_help_panel=MEASURED)
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
        help="A machine that sends requests to it; may be repeated.",
        rich_help_panel=MEASURED,
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="Another web server than `serve web`, in the foreground; {root}, {address} and {cpus} "
        "are filled in.",
        rich_help_panel=MEASURED,
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        help="Where that server serves {root}, as http://{address}:8080.",
        rich_help_panel=MEASURED,
    ),
]
TraceOption = Annotated[
    Path | None,
    typer.Option(
        help="The trace to replay; a synthesized World Cup unless given.",
        rich_help_panel=MEASURED,
    ),
]
