"""Options that several verbs share, each with one name and one help text."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from perpacket.errors import ConfigurationError


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"


SeedOption = Annotated[int, typer.Option(min=0, max=2**64 - 1, help="Seed of all randomness.")]
FormatOption = Annotated[Format, typer.Option("--format", help="How data is printed.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only errors on standard error.")
]
SvgOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a flame graph of the differences.")
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="FOLDER",
        help="Read a copy of another machine's proc and sys in this folder.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set any parameter, such as nic.lowat=128; may be repeated. "
        "`perpacket simulate CONFIGURATION --show-config` lists them.",
    ),
]
WarmupOption = Annotated[
    int | None, typer.Option("--warmup-packets", help="Packets before measuring.")
]
PacketsOption = Annotated[int | None, typer.Option("--packets", help="Packets to measure.")]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Number of runs at the same time, by default one for each core. Changes no result.",
    ),
]

ChartsOption = Annotated[
    Path | None,
    typer.Option("--charts", help="Folder for every chart as SVG and PNG; made if missing."),
]


def parse_settings(settings: list[str] | None) -> list[tuple[str, str]]:
    """`--set` arguments as (parameter, value).

    Raises `ConfigurationError` on an argument without `=`.
    """
    pairs: list[tuple[str, str]] = []
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(
                f"--set {setting}: expected NAME=VALUE",
                parameter="--set",
                value=setting,
                hint="write it as --set nic.lowat=128",
            )
        pairs.append((name.strip(), value.strip()))
    return pairs


def named_settings(**values: str | float | None) -> list[tuple[str, str]]:
    """The options that are not None, as (parameter, value); `__` in a keyword becomes a dot.

    Whole numbers have no decimal point, because the parameter may be an integer.
    """
    return [
        (
            name.replace("__", "."),
            str(int(value)) if isinstance(value, float) and value.is_integer() else str(value),
        )
        for name, value in values.items()
        if value is not None
    ]


MEASURE, IMPROVE, EXPLORE, REPEAT = "Measure", "Improve", "Explore", "Repeat"
"""Panels of `perpacket --help`."""
