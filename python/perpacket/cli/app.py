"""All verbs, and the handling of errors."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from perpacket.cli import (
    advise,
    agent_verbs,
    application,
    demo,
    doctor,
    emulate,
    model,
    pipes,
    renamed,
    simulate,
    study,
    termination,
    top,
    trace,
    trial,
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
    epilog="Example: perpacket simulate W-1024-P-N-FCFS-400 --seed 1",
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


demo.add_to(app)
doctor.add_to(app)
agent_verbs.add_to(app)
top.add_to(app)
advise.add_to(app)
trial.add_to(app)
simulate.add_to(app)
app.add_typer(emulate.app, name="emulate")
app.add_typer(model.app, name="model")
app.add_typer(study.app, name="study")
app.add_typer(trace.app, name="trace")
app.add_typer(application.app, name="application")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line, by default `sys.argv`, and return its exit status."""
    if sys.stderr is None:  # the caller closed it and reads only the exit status
        sys.stderr = io.StringIO()
    if sys.stdout is None:  # the caller closed it
        show("standard output is closed", "send it to a file, or to /dev/null")
        return ExitStatus.FAILED
    given = renamed.replace(sys.argv[1:] if arguments is None else arguments)
    given = trial.with_plain_undo(given)
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
