"""Files of `perpacket capture`: `case show`, and what `profile` prints of one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import options, output
from perpacket.cli.options import Format
from perpacket.errors import ConfigurationError

if TYPE_CHECKING:
    from perpacket.advise.observation import Observation

SHOW_EXAMPLE = "Example: perpacket case show web7.case"


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    case = typer.Typer(help="Read a file of `perpacket capture`.", no_args_is_help=True)
    case.callback()(lambda: None)
    case.command("show", epilog=SHOW_EXAMPLE)(show)
    app.add_typer(case, name="case", rich_help_panel=options.IMPROVE)


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `perpacket capture`.")],
) -> None:
    """Print every file of a case, whole."""
    from perpacket.advise import case
    from perpacket.measure.hosts.record import temporary_folder

    case.require_archive(file, "`perpacket advise` also reads folders and single files")
    with temporary_folder("case") as folder:
        case.unpack(file, folder)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            size = path.stat().st_size
            output.write_line(f"==> {path.relative_to(folder)} ({size:,} bytes) <==")
            sys.stdout.flush()
            with path.open(encoding="utf-8", errors="replace") as text:
                shutil.copyfileobj(text, sys.stdout)


def profile(file: Path, given: Sequence[str]) -> int:
    """Print the profile of a case, as `perpacket profile FILE`; `given` are further options."""
    from perpacket.advise import case
    from perpacket.profile_document import ProfileDocument
    from perpacket.results import MeasuredProfile

    output_format = _format(given)
    read = case.read([file])
    document = read.stacks(file).document
    if output_format is Format.JSON:
        output.write_json(document)
        return 0
    for table in MeasuredProfile(ProfileDocument.parse(document, str(file)), file.name).tables():
        output.write_line(str(table))
    print_next(read.observation())
    return 0


def _format(given: Sequence[str]) -> Format:
    """The format of the options of `profile FILE`, which has no others."""
    words = [part for word in given for part in word.split("=", 1)]
    if not words:
        return Format.TABLE
    if len(words) == 2 and words[0] == "--format" and words[1] in list(Format):
        return Format(words[1])
    raise ConfigurationError(
        f"profile of a case: {' '.join(given)}: expected no option but --format",
        parameter="FILE",
        value=" ".join(given),
        allowed="--format table or --format json",
        hint="the other options are about a measurement, and the case has one",
    )


def print_next(seen: Observation) -> None:
    """Print what limits a machine, and the change that is most worth trying there."""
    from perpacket.advise.advice import advise
    from perpacket.show import advice_tables

    report = advise(seen)
    if report.limit is not None:
        output.write_line(advice_tables.limit_line(report.limit))
    line = advice_tables.next_line(report)
    if line:
        output.write_line(line)
