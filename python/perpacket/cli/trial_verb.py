"""`perpacket trial`: try a change on live traffic, and undo it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import options, output, progress
from perpacket.cli.failure import ExitStatus
from perpacket.cli.options import Format, FormatOption, QuietOption
from perpacket.cli.quantities import cpu_list, refused, seconds_from
from perpacket.errors import ConfigurationError, RunFailed

if TYPE_CHECKING:
    from perpacket.advise.trial import Outcome
    from perpacket.advise.windows import Load

EXAMPLES = (
    "Examples: perpacket trial gro=off --interface eth0 · perpacket trial sendfile=off "
    "--pid $(pidof -s nginx) --url http://127.0.0.1/ · perpacket trial --do 'systemctl start X' "
    "--undo 'systemctl stop X' · perpacket trial --undo"
)

UNDO_LEFT = "--undo-left"
"""The hidden option that replaces an `--undo` without a command."""

SHORTEST_S = 0.3


class Keep(StrEnum):
    """The condition under which a change is not undone."""

    CHEAPER = "cheaper"


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("trial", epilog=EXAMPLES, rich_help_panel=options.IMPROVE)(trial)


def with_plain_undo(given: Sequence[str]) -> list[str]:
    """The command line, with `UNDO_LEFT` in place of an `--undo` without a command.

    `trial --undo` undoes the changes of a killed trial. `--do CMD --undo CMD` has two commands.
    """
    words = list(given)
    if words[:1] == ["trial"] and words.count("--undo") == 1 and "--do" not in words:
        words[words.index("--undo")] = UNDO_LEFT
    return words


def share(text: str) -> float:
    """A share such as `2%` or `0.02`."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*(%?)\s*", str(text))
    try:
        value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise refused(text, "a share such as 2% or 0.02")
    return value


def trial(
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CHANGE...",
            help="Changes of the catalogue, NAME=VALUE, such as gro=on. `nothing` measures noise.",
        ),
    ] = None,
    pid: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Process of the server. Settings are those of its network namespace; the load "
            "runs in yours.",
        ),
    ] = None,
    interface: Annotated[str, typer.Option(metavar="IF", help="Interface to change.")] = "",
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Load this URL. Without --url and --stream, the trial uses existing traffic.",
        ),
    ] = "",
    stream: Annotated[
        str,
        typer.Option(
            metavar="ADDR:PORT",
            help="Send in bulk to a `perpacket load stream --listen` at this address.",
        ),
    ] = "",
    connections: Annotated[int, typer.Option(min=1, help="Connections of the load.")] = 64,
    load_cpus: Annotated[
        str | None,
        typer.Option(parser=cpu_list, metavar="LIST", help="CPUs of the load, as 0 or 0-3,6."),
    ] = None,
    cpus: Annotated[
        str | None,
        typer.Option(
            parser=cpu_list, metavar="LIST", help="CPUs whose time counts, by default all."
        ),
    ] = None,
    requests: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="URL at which the server reports its requests, as in `profile`.",
        ),
    ] = "",
    blocks: Annotated[
        int,
        typer.Option(
            min=3,
            help="Blocks of four windows: two unchanged, two changed; six for server options.",
        ),
    ] = 10,
    window: Annotated[
        float,
        typer.Option(parser=seconds_from(SHORTEST_S), metavar="TIME", help="Length of a window."),
    ] = 1.0,
    settle: Annotated[
        float,
        typer.Option(
            parser=seconds_from(0.0),
            metavar="TIME",
            help="Unmeasured time before each window.",
        ),
    ] = 0.2,
    until: Annotated[
        float | None,
        typer.Option(
            parser=share,
            metavar="SHARE",
            help="Continue until the interval of the ratio is within +- this share, such as 2%.",
        ),
    ] = None,
    most: Annotated[
        float,
        typer.Option(parser=seconds_from(1.0), metavar="TIME", help="Longest time of --until."),
    ] = 600.0,
    keep_if: Annotated[
        Keep | None, typer.Option(help="Do not undo a change that is clearly cheaper.")
    ] = None,
    do: Annotated[
        str, typer.Option(metavar="CMD", help="A command that changes something; needs --undo.")
    ] = "",
    undo: Annotated[
        str,
        typer.Option(
            metavar="[CMD]",
            help="The command that undoes --do. Without a command: undo the changes of a killed "
            "trial.",
        ),
    ] = "",
    undo_left: Annotated[bool, typer.Option(UNDO_LEFT, hidden=True)] = False,
    factorial: Annotated[
        bool,
        typer.Option(
            "--factorial", help="Try all combinations, and print effects and interactions."
        ),
    ] = False,
    slope: Annotated[
        str,
        typer.Option(
            metavar="LAYER",
            help="Add a known cost in ip, ethernet or user, and print the effect of a nanosecond "
            "there.",
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every command, and change nothing.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order of windows.")] = 1,
    no_guards: Annotated[
        bool,
        typer.Option(
            "--no-guards",
            help="Measure to the end also a change after which p99, retransmissions or drops are "
            "five times as high.",
        ),
    ] = False,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Try changes of settings on live traffic, in interleaved windows, and undo them.

    Prints the effect of each change on processor time by layer, on rates and on latency. The trial
    restores every setting at its end. If the trial is killed, a process that outlives it restores
    them. If that process was killed too, use `perpacket trial --undo`.
    """
    from perpacket import api
    from perpacket.advise import trial as trials

    if undo_left:
        print_undone(output_format)
        return
    plan = trials.Plan(
        changes=tuple(changes or ()),
        pid=pid,
        interface=interface,
        load=load_of(url, stream, connections, load_cpus or ""),
        url=url,
        requests=requests,
        cpus=cpus or "",
        blocks=blocks,
        window_s=window,
        settle_s=settle,
        until=until,
        most_s=most,
        factorial=factorial,
        keep_if=keep_if.value if keep_if else "",
        do=do,
        undo=undo,
        seed=seed,
        slope=slope,
        is_guarded=not no_guards,
    )
    if dry_run:
        for line in trials.commands(plan):
            output.write_line(line)
        return
    with progress.of_share(quiet) as report:
        outcome = api.trial(plan=plan, on_progress=report).outcome
    print_outcome(outcome, output_format, quiet)
    end(outcome)


def load_of(url: str, stream: str, connections: int, cpus: str) -> Load | None:
    """The load that the trial makes, if any; raises `ConfigurationError` for two loads."""
    from perpacket.advise.windows import HttpLoad, StreamLoad

    if url and stream:
        raise ConfigurationError("--url and --stream: expected one of them", parameter="--stream")
    if url:
        return HttpLoad(url, connections, cpus)
    return StreamLoad(stream, connections, cpus) if stream else None


def print_outcome(outcome: Outcome, output_format: Format, quiet: bool) -> None:
    """The results on standard output, notes on standard error."""
    from perpacket.advise import trial as trials
    from perpacket.show import trial_tables as shown

    if output_format is Format.JSON:
        output.write_json(shown.document(outcome))
    else:
        columns = max(70, min(100, shutil.get_terminal_size().columns))
        for trial in outcome.trials:
            output.write_rows(shown.table(trial))
            for line in shown.wrapped(shown.headline(trial), columns):
                output.write_line(line)
            if trial.kept:
                output.write_line(
                    f"kept; to have it after each start of the machine, run: {trial.kept}"
                )
        if outcome.combinations:
            allocation, unit = trials.allocation(outcome)
            output.write_rows(shown.factorial_table(allocation, unit))
        if outcome.slope is not None:
            for sentence in shown.slope_lines(outcome.slope):
                for line in shown.wrapped(sentence, columns):
                    output.write_line(line)
    notes = (*outcome.notes, *(note for trial in outcome.trials for note in trial.notes))
    for note in dict.fromkeys(notes):
        progress.note(f"note: {note}", quiet)
    if not shown.all_restored(outcome):
        for line in shown.undone_lines(outcome):
            progress.note(line, quiet=False)


def end(outcome: Outcome) -> None:
    """End with the status of a trial that was interrupted, not restored or not decided."""
    from perpacket.advise import journal
    from perpacket.show import trial_tables as shown

    if not shown.all_restored(outcome):
        left = any(setting.outcome is journal.Restoration.FAILED for setting in outcome.undone)
        hint = journal.left_hint() if left else "see the lines above"
        raise RunFailed("not every setting was restored", hint)
    if outcome.is_interrupted:
        raise typer.Exit(ExitStatus.INTERRUPTED)
    if not all(trial.is_decided for trial in outcome.trials):
        raise typer.Exit(ExitStatus.UNDECIDED)


def print_undone(output_format: Format) -> None:
    """Undo the changes of a killed trial, and print each setting's state."""
    from dataclasses import asdict

    from perpacket.advise import journal

    undone = journal.undo()
    if output_format is Format.JSON:
        output.write_json({"schema": 1, "settings": [asdict(setting) for setting in undone]})
    elif not undone:
        output.write_line(f"nothing to restore: there is no journal {journal.path()}")
    for setting in undone if output_format is Format.TABLE else ():
        detail = f" ({setting.detail})" if setting.detail else ""
        output.write_line(f"{setting.title}: {setting.outcome}{detail}")
    if any(setting.outcome is journal.Restoration.FAILED for setting in undone):
        raise RunFailed("not every setting was restored", journal.left_hint())
