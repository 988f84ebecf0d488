"""Progress on standard error; none with `--quiet` or without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perpacket.cli import pipes

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from perpacket.run.simulated_runs import Progress


def is_shown(quiet: bool) -> bool:
    """Whether to show progress."""
    return not quiet and sys.stderr.isatty()


def note(text: str, quiet: bool) -> None:
    """A remark on standard error."""
    if not quiet:
        pipes.write(sys.stderr, f"{text}\n")


@contextmanager
def of_packets(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar of packets simulated; yields the function to report packets done and in all to."""
    if not is_shown(quiet):
        yield lambda done, total: None
        return
    with _bar() as bar:
        task = bar.add_task("simulating", total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        yield report


@contextmanager
def of_study(quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """A bar of observations with the latest result and the time to go."""
    if not is_shown(quiet):
        yield None
        return
    with _bar() as bar:
        task = bar.add_task("starting", total=1.0)

        def report(state: Progress) -> None:
            bar.update(task, completed=state.share, description=describe(state))

        yield report


@contextmanager
def of_share(quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """A bar of a share done, with a sentence on what is known so far."""
    if not is_shown(quiet):
        yield lambda text, share: None
        return
    with _bar() as bar:
        task = bar.add_task("starting", total=1.0)

        def report(text: str, share: float) -> None:
            bar.update(task, completed=share, description=text)

        yield report


def describe(state: Progress) -> str:
    """`12 of 175 runs · W-1024-P-N-FCFS-400 seed 1: 26,410 requests/s`."""
    text = f"{state.finished} of {state.total} runs"
    if state.latest is None:
        return text
    point, seed, outcome = state.latest
    text += f" · {point.name} seed {seed}"
    for key, unit in (("requests_per_s", "requests/s"), ("packets_per_s", "packets/s")):
        value = outcome.result.get(key)
        if isinstance(value, int | float):
            return f"{text}: {value:,.0f} {unit}"
    return text


def _bar() -> Bar:
    """A bar with the share done, the time taken and the time to go."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("to go"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=Console(stderr=True),
        transient=True,
    )
