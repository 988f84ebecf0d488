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


def is_shown(quiet: bool) -> bool:
    """Whether to show progress."""
    return not quiet and sys.stderr.isatty()


def note(text: str, quiet: bool) -> None:
    """Print a remark on standard error."""
    if not quiet:
        pipes.write(sys.stderr, f"{text}\n")


@contextmanager
def of_share(quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """A bar of the finished share of the work, with a text on the results so far."""
    with task(quiet, "starting", 1.0) as update:
        yield lambda text, share: update(completed=share, description=text)


@contextmanager
def task(quiet: bool, text: str, total: float | None) -> Iterator[Callable[..., None]]:
    """A bar; yields the function that updates it, which has no effect if no bar is shown."""
    if not is_shown(quiet):
        yield lambda **values: None
        return
    with _bar() as bar:
        yield partial(bar.update, bar.add_task(text, total=total))


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
