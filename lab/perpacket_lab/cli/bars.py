"""Progress of simulations and studies on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perpacket.cli.progress import task

if TYPE_CHECKING:
    from perpacket_lab.run.progress import Progress


@contextmanager
def of_packets(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar of simulated packets; yields a function to update it: `f(done, total)`."""
    with task(quiet, "simulating", None) as update:
        yield lambda done, total: update(completed=done, total=total or None)


@contextmanager
def of_study(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A bar of observations with the latest result and the remaining time."""
    with task(quiet, "starting", 1.0) as update:
        yield lambda state: update(completed=state.share, description=describe(state))


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
