"""Progress on standard error; none with `--quiet` or without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from perpacket.cli import pipes

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from perpacket.run.progress import Progress


def is_shown(quiet: bool) -> bool:
    """Whether to show progress."""
    return not quiet and sys.stderr.isatty()


def note(text: str, quiet: bool) -> None:
    """Print a remark on standard error."""
    if not quiet:
        pipes.write(sys.stderr, f"{text}\n")


@contextmanager
def of_packets(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar of simulated packets; yields a function to update it: `f(done, total)`."""
    with _task(quiet, "simulating", None) as update:
        yield lambda done, total: update(completed=done, total=total or None)


@contextmanager
def of_study(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A bar of observations with the latest result and the remaining time."""
    with _task(quiet, "starting", 1.0) as update:
        yield lambda state: update(completed=state.share, description=describe(state))


@contextmanager
def of_share(quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """A bar of the finished share of the work, with a text on the results so far."""
    with _task(quiet, "starting", 1.0) as update:
        yield lambda text, share: update(completed=share, description=text)


@contextmanager
def _task(quiet: bool, text: str, total: float | None) -> Iterator[Callable[..., None]]:
    """A bar; yields the function that updates it, which has no effect if no bar is shown."""
    if not is_shown(quiet):
        yield lambda **values: None
        return
    with _bar() as bar:
        yield partial(bar.update, bar.add_task(text, total=total))


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
    """A bar with the finished share, the elapsed and the remaining time."""
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
