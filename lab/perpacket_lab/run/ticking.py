"""Calls a function regularly during other work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ticking(period_s: float, tick: Callable[[], None]) -> Iterator[None]:
    """Call `tick` every `period_s` inside the context, from a second thread."""
    ended = threading.Event()

    def ticks() -> None:
        while not ended.wait(period_s):
            tick()

    thread = threading.Thread(target=ticks, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
