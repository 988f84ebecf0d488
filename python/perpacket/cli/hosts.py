"""`top --hosts` and `profile --hosts`: several machines in one table."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perpacket.cli import output, progress
from perpacket.cli.options import Format
from perpacket.errors import ConfigurationError, RunFailed
from perpacket.show.table import rich_table

if TYPE_CHECKING:
    from perpacket.measure.agent import Options
    from perpacket.measure.hosts.watch import State, Watch

POLL_S = 0.1

SAME_CLOCK_S = 0.1
"""A clock that differs by more is reported, because the times in the machines' logs then differ."""


def names(text: str) -> list[str]:
    """The machines in a list such as `web1,root@web2:2222`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigurationError(
            "--hosts: expected machines, such as web1,web2", parameter="--hosts"
        )
    return names


def profile(hosts: str, options: Options, output_format: Format, quiet: bool) -> None:
    """Print one profile of each machine; raises `RunFailed` if no machine has a profile."""
    from perpacket.measure.hosts.watch import Watch

    with Watch(names(hosts), options) as watch:
        while not watch.is_over:
            time.sleep(POLL_S)
        states = watch.states()
    write(states, output_format)
    write_notes(states, [], quiet)
    require_profile(states)


def require_profile(states: Sequence[State]) -> None:
    """Raise `RunFailed` if no machine has a profile."""
    if not any(state.window for state in states):
        raise RunFailed("no machine has a profile", "the notes name the error of each")


def top(
    hosts: str,
    options: Options,
    every_s: float,
    duration_s: float | None,
    output_format: Format,
) -> None:
    """Print the machines' profiles after each window, for `duration_s` or until Ctrl-C."""
    from perpacket.measure.hosts.watch import Watch

    with Watch(names(hosts), {**options, "every": every_s}) as watch:
        rounds = until_over(watch, every_s, duration_s)
        if output_format is Format.TABLE and sys.stdout.isatty():
            refresh(rounds)
            write_notes(watch.states(), [], quiet=False)
        else:
            written: list[str] = []
            for states in rounds:
                write(states, output_format)
                write_notes(states, written, quiet=False)
        require_profile(watch.states())


def until_over(watch: Watch, every_s: float, duration_s: float | None) -> Iterator[list[State]]:
    """The states of the machines after each window, at least once."""
    end_s = None if duration_s is None else time.monotonic() + duration_s
    while not watch.is_over and (end_s is None or time.monotonic() < end_s):
        time.sleep(every_s)
        yield watch.states()
    if watch.is_over:
        yield watch.states()


def refresh(rounds: Iterator[list[State]]) -> None:
    """Show each table in place of the last one."""
    from rich.console import Console
    from rich.live import Live

    from perpacket.show import host_table as shown

    with Live("connecting ...", console=Console(), screen=True, auto_refresh=False) as screen:
        for states in rounds:
            hosts = shown.table(states)
            table = rich_table(hosts.columns, hosts.texts(), hosts.right)
            screen.update(table, refresh=True)


def write_notes(states: Sequence[State], written: list[str], quiet: bool) -> None:
    """Write notes on standard error, except those in `written`."""
    for note in notes(states):
        if note not in written:
            progress.note(f"note: {note}", quiet)
            written.append(note)


def write(states: Sequence[State], output_format: Format) -> None:
    """Print the table of the machines, or a JSON document."""
    if output_format is Format.JSON:
        output.write_json({"schema": 1, "hosts": [state.as_dict() for state in states]})
    else:
        from perpacket.show import host_table as shown

        output.write_rows(shown.table(states))


def notes(states: Sequence[State]) -> list[str]:
    """The errors of machines, and the clocks that certainly differ from this machine's."""
    errors = [f"{state.target}: {state.error}" for state in states if state.error]
    return errors + [
        f"{state.target}: its clock differs from this machine's by {state.clock.ahead_s:+.2f} s"
        for state in states
        if state.clock is not None and abs(state.clock.ahead_s) > SAME_CLOCK_S + state.clock.error_s
    ]
