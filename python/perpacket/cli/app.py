"""All verbs, and the handling of errors."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from perpacket import lab
from perpacket.cli import (
    advise,
    agent_verbs,
    case_verb,
    doctor,
    pipes,
    termination,
    top,
    trial_verb,
)
from perpacket.cli.failure import ExitStatus, show, show_error, status_of
from perpacket.errors import PerpacketError

app = typer.Typer(
    name="perpacket",
    help="Measures the cost of every packet, layer by layer, and finds changes that reduce it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: perpacket profile --duration 5s",
)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        import perpacket

        sys.stdout.write(f"perpacket {perpacket.__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True),
    ] = False,
) -> None:
    """Declare the options that need no verb; typer calls their callbacks."""


doctor.add_to(app)
agent_verbs.add_to(app)
top.add_to(app)
advise.add_to(app)
case_verb.add_to(app)
trial_verb.add_to(app)


LAB_VERBS = {
    "demo": "Measure this machine under three loads, and simulate.",
    "simulate": "Simulate a server with an offload NIC.",
    "emulate": "Run an unmodified kernel and server, and count by layer.",
    "model": "Compute the limits of a server by formulas.",
    "study": "Repeat the studies of documents, or run one of your own.",
    "trace": "Read, convert and generate access logs.",
    "application": "Prepare and run real web applications.",
}
"""The verbs of the lab, with their lines of help where the lab is missing."""


def add_missing(verb: str, summary: str) -> None:
    """Add a verb of the lab that says how to install the lab."""

    @app.command(
        verb,
        help=f"{summary} Needs `{lab.INSTALL}`.",
        rich_help_panel="The lab",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def _missing(_context: typer.Context) -> None:
        lab.require(f"perpacket {verb}")


if lab.is_installed():
    lab.load("cli", "perpacket").add_to(app)
else:
    for _verb, _summary in LAB_VERBS.items():
        add_missing(_verb, _summary)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line, by default `sys.argv`, and return its exit status."""
    if sys.stderr is None:  # the caller closed it and reads only the exit status
        sys.stderr = io.StringIO()
    if sys.stdout is None:  # the caller closed it
        show("standard output is closed", "send it to a file, or to /dev/null")
        return ExitStatus.FAILED
    given = trial_verb.with_plain_undo(sys.argv[1:] if arguments is None else arguments)
    with termination.interrupt_on_sigterm() as request:
        status = run_verb(given)
    return ExitStatus.TERMINATED if request.is_requested else status


def run_verb(given: Sequence[str]) -> int:
    """Run one command line, print its error if any, and return its exit status."""
    try:
        if given and given[0] in agent_verbs.VERBS:
            status = agent_verbs.run(given)
        else:
            status = app(args=list(given), prog_name="perpacket", standalone_mode=False)
    except typer.TyperException as error:
        if not error.format_message():  # no verb was given, and the help was printed
            return ExitStatus.USAGE
        show(error.format_message(), "`--help` after a verb lists its options with an example")
        return ExitStatus.USAGE
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        pipes.discard(sys.stdout)  # otherwise Python fails when it flushes the buffer
        return ExitStatus.UNREAD
    except (PerpacketError, OSError) as error:
        show_error(error)
        return status_of(error)
    except Exception as error:  # a fault of perpacket: print the traceback for the report
        traceback.print_exc()
        show(f"perpacket failed: {type(error).__name__}: {error}", "please report the lines above")
        return ExitStatus.FAILED
    # After Ctrl-C the agent prints a message, but typer does not.
    if status == ExitStatus.INTERRUPTED and given[0] not in agent_verbs.VERBS:
        show("interrupted")
    return status if isinstance(status, int) else ExitStatus.DONE
