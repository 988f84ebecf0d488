"""`perpacket capture` and `perpacket case show`: a machine's question as a file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from perpacket.cli import options, output
from perpacket.cli.destination import check_destination
from perpacket.cli.quantities import seconds_from
from perpacket.errors import ConfigurationError, RunFailed

SCRIPT = "capture.sh"

CAPTURE_EXAMPLE = (
    "Examples: perpacket capture --output web7.case, and where nothing may be installed: "
    "perpacket capture --script > capture.sh, then sh capture.sh 30 > web7.case"
)

SHOW_EXAMPLE = "Example: perpacket case show web7.case"


def add_to(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command("capture", epilog=CAPTURE_EXAMPLE, rich_help_panel=options.IMPROVE)(capture)
    case = typer.Typer(help="Read a file of `perpacket capture`.", no_args_is_help=True)
    case.callback()(lambda: None)
    case.command("show", epilog=SHOW_EXAMPLE)(show)
    app.add_typer(case, name="case", rich_help_panel=options.IMPROVE)


def capture(
    duration: Annotated[
        float, typer.Option(parser=seconds_from(1), metavar="TIME", help="Length of the window.")
    ] = 10.0,
    file: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="The file to write.")
    ] = None,
    script: Annotated[
        bool,
        typer.Option(
            "--script",
            help="Print a shell script that makes the file on a machine without perpacket.",
        ),
    ] = False,
) -> None:
    """Collect what `advise` reads into one file: counters, settings, and stacks by perf.

    The file has no addresses, names of hosts or users, or arguments. `case show` prints all of it.
    """
    text = (resources.files("perpacket.advise") / SCRIPT).read_text(encoding="utf-8")
    if script:
        for line in text.splitlines():
            output.write_line(line)
        return
    if file is None:
        raise ConfigurationError(
            "capture needs a file to write",
            parameter="--output",
            value="",
            hint="--output web7.case, or --script for a script that writes to standard output",
        )
    check_destination("--output", file)
    with file.open("wb") as out:
        command = ["sh", "-s", f"{duration:g}"]
        done = subprocess.run(command, input=text.encode(), stdout=out, check=False)
    if done.returncode:
        raise RunFailed(f"--output {file}: the script ended with status {done.returncode}")


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `perpacket capture`.")],
) -> None:
    """Print every file of a case, whole."""
    from perpacket.advise import case
    from perpacket.measure.hosts.record import temporary_folder

    if not case.is_archive(file):
        raise ConfigurationError(
            f"{file}: it is no file of `perpacket capture`",
            parameter="FILE",
            value=str(file),
            hint="`perpacket advise` also reads folders and single files",
        )
    with temporary_folder("case") as folder:
        case.unpack(file, folder)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            size = path.stat().st_size
            output.write_line(f"==> {path.relative_to(folder)} ({size:,} bytes) <==")
            sys.stdout.flush()
            with path.open(encoding="utf-8", errors="replace") as text:
                shutil.copyfileobj(text, sys.stdout)
