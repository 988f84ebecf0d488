"""`perpacket doctor`: the capabilities of this machine, and the effect of each missing one."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import options, output
from perpacket.cli.options import Format, FormatOption

if TYPE_CHECKING:
    from perpacket.machine import Capability

EXAMPLE = "Examples: perpacket doctor --require perf_cpu_wide,tun; perpacket doctor web7.case"

SCHEMA = 2
"""Version of the JSON this verb prints. Version 2 put capabilities into groups."""

WIDEST = 100
"""The greatest width, in columns: longer lines are hard to read."""

NARROWEST = 60
"""The least width, in columns."""

DETAIL_AT = 29
"""The column at which details begin: after 2 of margin, 5 for yes or no, and 22 for the name."""


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("doctor", epilog=EXAMPLE, rich_help_panel=options.MEASURE)(doctor)


def doctor(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="A file of `perpacket capture`: processors, nodes and queues of that machine.",
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help="End with status 3 unless all are available; repeatable.",
        ),
    ] = None,
    root: options.RootOption = None,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Report the capabilities of this machine, the effect of each missing one, and how to get it.

    Changes nothing and needs no root. `--root` shows processors, nodes and queues of a copy.
    """
    from perpacket.advise import case
    from perpacket.errors import ConfigurationError
    from perpacket.machine import processors
    from perpacket.machine.files import Files
    from perpacket.measure.hosts.record import temporary_folder

    with temporary_folder("case") as folder:
        if file is not None:
            case.require_archive(file, "`--root FOLDER` reads a copy of /proc and /sys")
            case.unpack(file, folder)
            root = next(iter(sorted(folder.iterdir())), folder)
            if not processors.online(Files(root)):
                raise ConfigurationError(
                    f"{file}: the case has no file of processors, {processors.CPUS}/online",
                    hint="capture it again with `perpacket capture`",
                )
        report(require, root, output_format)


def report(require: list[str] | None, root: Path | None, output_format: Format) -> None:
    """Report the capabilities of this machine, or those of a copy of another one."""
    import json

    from perpacket import machine
    from perpacket.advise import crashed
    from perpacket.machine.files import Files
    from perpacket.machine.kernel import probe

    if root is None:
        found = [*machine.examine(), crashed.capability()]
    else:
        found = machine.examine_copy(Files(root))
    names = [name.strip() for part in require or [] for name in part.split(",")]
    required = [name for name in names if name]
    if output_format is Format.JSON:
        document = {"schema": SCHEMA, "capabilities": [item.as_dict() for item in found]}
        if root is not None:
            document["since_start"] = json.loads(probe(root=str(root), format="json"))
        output.write_json(document)
    elif required:
        by_name = {item.name: item for item in found}
        if all(name in by_name and by_name[name].available for name in required):
            output.write_line(f"available: {', '.join(required)}")
    else:
        columns = shutil.get_terminal_size().columns
        which = "of this machine" if root is None else "that the copy shows"
        for line in lines(found, max(NARROWEST, min(WIDEST, columns)), which):
            output.write_line(line)
        if root is not None:
            output.write_line(f"\n{probe(root=str(root)).rstrip()}")
    machine.check(found, required)


def lines(found: Sequence[Capability], columns: int, which: str) -> Iterator[str]:
    """The lines of the table by group: each capability, and how to get it if it is missing."""
    available = sum(item.available for item in found)
    yield f"Capabilities {which}: {available} of {len(found)}"
    for group in dict.fromkeys(item.group for item in sorted(found, key=group_position)):
        yield ""
        yield group.capitalize()
        for item in found:
            if item.group is group:
                yield from entry(item, columns)


def group_position(item: Capability) -> int:
    """The position of a capability's group in the table."""
    return list(type(item.group)).index(item.group)


def entry(item: Capability, columns: int) -> Iterator[str]:
    """A capability's lines."""
    mark = "yes" if item.available else "no"
    yield from wrapped(f"  {mark:<5}{item.name:<22}", item.detail, columns)
    if not item.available:
        yield from wrapped(f"{'without it: ':>{DETAIL_AT}}", item.cost_of_lack, columns)
        if item.next_step:
            yield from wrapped(f"{'to get it: ':>{DETAIL_AT}}", item.next_step, columns)


def wrapped(label: str, text: str, columns: int) -> list[str]:
    """A label and a wrapped text beside it."""
    return textwrap.wrap(
        text,
        columns,
        initial_indent=label,
        subsequent_indent=" " * DETAIL_AT,
        break_on_hyphens=False,
    ) or [label.rstrip()]
