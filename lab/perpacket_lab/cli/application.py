"""`perpacket application`: prepare, start, check and stop real web applications."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import output, progress
from perpacket.cli.options import Format, FormatOption, QuietOption, SeedOption
from perpacket.errors import MachineLacks, RunFailed

if TYPE_CHECKING:
    from perpacket_lab.measure.applications.application_file import Definition
    from perpacket_lab.measure.applications.running import Description
    from perpacket_lab.measure.applications.sessions import Checked

SCHEMA = 1
"""Version of the JSON these verbs print."""

READY = "ready "
"""Prefix of the line that `start --foreground` prints once the application answers requests."""

app = typer.Typer(
    help="Prepare, start, check and stop real web applications.",
    no_args_is_help=True,
    epilog="Example: perpacket application prepare public-inbox",
)

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="An application, or the path of its folder. NAME+OPTION runs it with an option.",
    ),
]


@app.command("list", epilog="Example: perpacket application list --format json")
def list_applications(output_format: FormatOption = Format.TABLE) -> None:
    """List the applications with their options, and whether each is prepared or running."""
    from perpacket_lab.measure.applications import application_file

    rows = [row_of(application_file.load(name)) for name in application_file.names()]
    if output_format is Format.JSON:
        output.write_json({"schema": SCHEMA, "applications": rows})
        return
    headings = ("name", "application", "in place of", "options", "state")
    shown = [
        (
            str(row["name"]),
            str(row["title"]),
            str(row["stands_for"]),
            ", ".join(row["options"]) if isinstance(row["options"], dict) else "",
            state_of(row),
        )
        for row in rows
    ]
    output.write_table("Applications", headings, shown)


def row_of(definition: Definition) -> dict[str, object]:
    """An application as an object for JSON."""
    from perpacket_lab.measure.applications import packages, preparation, running

    description = running.find(definition.name)
    return {
        "name": definition.name,
        "title": definition.application.title,
        "stands_for": definition.application.stands_for,
        "options": {name: choice.title for name, choice in definition.application.option.items()},
        "missing_packages": packages.missing(definition.debian),
        "prepared": preparation.place_of(definition).is_dir(),
        "url": description.url if description else None,
    }


def state_of(row: dict[str, object]) -> str:
    """`runs at URL`, `prepared` or what is missing."""
    if row["url"]:
        return f"runs at {row['url']}"
    if row["prepared"]:
        return "prepared"
    missing = row["missing_packages"]
    count = len(missing) if isinstance(missing, list) else 0
    return f"not prepared, {count} packages missing" if count else "not prepared"


@app.command(epilog="Example: perpacket application prepare public-inbox --yes")
def prepare(
    name: NameArgument,
    yes: Annotated[
        bool, typer.Option("--yes", help="Install missing packages without confirmation.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Install an application's packages and build its folder, once.

    Packages come from Debian and Maven. Services in these packages are not started. The folder is
    cached, so that a later start takes seconds.
    """
    from perpacket_lab.measure.applications import application_file, packages, preparation

    definition = application_file.load(name)
    missing = packages.missing(definition.debian)
    if missing:
        packages.require_installer(missing)
        size = packages.size(missing)
        progress.note(f"{definition.name} needs packages: {' '.join(missing)}. {size}", quiet)
        if not yes and not (sys.stdin.isatty() and typer.confirm("Install them?", err=True)):
            raise MachineLacks(
                f"{definition.name}: packages are missing: {' '.join(missing)}",
                f"run `perpacket application prepare {definition.name} --yes`",
            )
        packages.install(missing)
    place = preparation.prepare(definition, lambda text: progress.note(text, quiet))
    progress.note(f"{definition.name} is prepared in {place}", quiet)


@app.command(epilog="Example: perpacket application start public-inbox --port 8080")
def start(
    name: NameArgument,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the application, by default a free one."),
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Run until Ctrl-C instead of in the background.")
    ] = False,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Start a prepared application on loopback, as an unprivileged user, in a folder of its own.

    It runs until `perpacket application stop`. Its programs end with the process that started them.
    """
    from perpacket_lab.measure.applications import application_file, preparation, running

    definition = application_file.load(name)
    preparation.require(definition)
    if present := running.find(definition.name):
        raise RunFailed(
            f"{definition.name} runs already, at {present.url}",
            f"stop it: perpacket application stop {definition.name}",
        )
    if foreground:
        run_until_stopped(definition, port, output_format)
        return
    progress.note(f"starting {definition.name}", quiet)
    start_in_background(name, port)
    description = running.find(definition.name)
    if description is None:
        raise RunFailed(f"{definition.name} ended at once")
    write(description, output_format)


def run_until_stopped(definition: Definition, port: int | None, output_format: Format) -> None:
    """Run an application until a signal or the end of one of its programs."""
    from perpacket_lab.measure import hosts
    from perpacket_lab.measure.applications import running

    with (
        hosts.loopback() as bed,
        running.started(definition, bed.server, port) as folder,
        running.published(running.describe(folder)),
    ):
        description = running.describe(folder)
        write(description, output_format)
        sys.stderr.write(f"{READY}{description.url}\n")
        sys.stderr.flush()
        running.wait_for_end(folder)


def start_in_background(name: str, port: int | None) -> None:
    """Run `application start --foreground` in a session of its own; returns when it is ready."""
    command = [sys.executable, "-m", "perpacket.cli", "application", "start", name, "--foreground"]
    if port is not None:
        command += ["--port", str(port)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    words = []
    for line in process.stderr:
        if line.startswith(READY):
            return
        words.append(line)
    message, _, hint = "".join(words).strip().removeprefix("error: ").partition("\n")
    raise RunFailed(message, hint.strip().removeprefix("hint: "))


def write(description: Description, output_format: Format) -> None:
    """Print a running application: its address and its processes."""
    if output_format is Format.JSON:
        output.write_json(
            {
                "schema": SCHEMA,
                "name": description.name,
                "url": description.url,
                "programs": description.programs,
            }
        )
        return
    rows = [
        (str(program["name"]), str(program["part"]), str(program["pid"]))
        for program in description.programs
    ]
    output.write_table(
        f"{description.name} runs at {description.url}", ("program", "part", "pid"), rows, ("pid",)
    )


@app.command(epilog="Example: perpacket application check public-inbox --each 10")
def check(
    name: NameArgument,
    each: Annotated[int, typer.Option(min=1, help="Least number of requests for each page.")] = 5,
    most: Annotated[int, typer.Option(min=1, help="Greatest number of requests.")] = 10_000,
    seed: SeedOption = 1,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Request an application's pages as a client does, and check every answer.

    Checks the running application, or starts it for the check. Ends with status 1 if more than one
    answer in a thousand is wrong.
    """
    from perpacket_lab.measure.applications import application_file, running, sessions

    definition = application_file.load(name)
    with running.present_or_started(definition) as url:
        checked, status = sessions.check(definition, url, seed, each, most)
    write_checked(definition.name, checked, output_format)
    if status:
        raise typer.Exit(1)


def write_checked(name: str, checked: Checked, output_format: Format) -> None:
    """Print the answers by page."""
    pages = [{key: row[key] for key in ("page", "requests", "wrong")} for row in checked["pages"]]
    problems = [text for texts in checked["error_examples"].values() for text in texts]
    if output_format is Format.JSON:
        output.write_json({"schema": SCHEMA, "name": name, "pages": pages, "problems": problems})
        return
    requests = sum(row["requests"] for row in checked["pages"])
    right = requests - sum(row["wrong"] for row in checked["pages"])
    output.write_table(
        f"{name}: {right} of {requests} answers are right",
        ("page", "requests", "wrong"),
        [(str(row["page"]), str(row["requests"]), str(row["wrong"])) for row in pages],
        ("requests", "wrong"),
    )
    for problem in problems:
        output.write_line(f"  wrong: {problem}")


@app.command(epilog="Example: perpacket application stop public-inbox")
def stop(name: NameArgument, quiet: QuietOption = False) -> None:
    """Stop a running application and remove its folder."""
    from perpacket_lab.measure.applications import application_file, running

    stopped = running.stop(application_file.load(name).name)
    progress.note(f"stopped {stopped.name}", quiet)
    if Path(stopped.folder).exists():
        raise RunFailed(f"{stopped.folder}: is still there", "remove it")
