"""`perpacket doctor`: what this machine can and cannot do, and what each lack costs."""

from __future__ import annotations

from typing import Annotated

import typer

from perpacket.cli import output
from perpacket.cli.options import Format, FormatOption

EXAMPLE = "Example: perpacket doctor --require perf --require tun"

SCHEMA = 1
"""Version of the JSON this verb prints."""


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("doctor", epilog=EXAMPLE)(doctor)


def doctor(
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="End with status 3 when this is not there."),
    ] = None,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Say what this machine can and cannot do, what each lack costs, and what to do about it.

    Looks only: opens what it asks for and closes it again, and changes nothing.
    """
    from perpacket import machine

    found = machine.examine()
    if output_format is Format.JSON:
        output.write_json({"schema": SCHEMA, "capabilities": [item.as_dict() for item in found]})
    else:
        rows = [
            (item.name, "yes" if item.available else "no", item.detail, item.cost_of_lack)
            for item in found
        ]
        title = "What this machine can do, and what its lacks cost"
        output.write_table(title, ("capability", "here", "detail", "without it"), rows)
        for item in found:
            if not item.available and item.next_step:
                output.write_line(f"{item.name}: {item.next_step}")
    machine.check(found, require or [])
