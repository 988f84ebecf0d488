"""SIGTERM, with which supervisors and `timeout` end a program: like Ctrl-C, and then a status.

A measured study holds namespaces, links and files of its own; a process that just dies leaves them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Termination:
    """Whether the program was told to end."""

    is_told: bool = False

    def tell(self, number: int, frame: object) -> None:
        """End as after Ctrl-C, once: a second signal would break off the taking down."""
        if not self.is_told:
            self.is_told = True
            raise KeyboardInterrupt

    def heed(self) -> None:
        """Take SIGTERM from now on, where signals arrive: in the main thread."""
        if is_main_thread():
            signal.signal(signal.SIGTERM, self.tell)


_heeding: list[Termination] = []
"""Who takes SIGTERM now, the last one first."""


def is_main_thread() -> bool:
    """Whether this thread is the one that may say what signals do."""
    return threading.current_thread() is threading.main_thread()


def _before_fork() -> None:
    """A fork of ours holds nothing: SIGTERM just ends it, from its first instruction on.

    pyroute2 forks for each namespace and ends its forks so; the interpreter of a fork forgets
    signals that came before it was up, and one with a handler would then live for ever.
    """
    if _heeding and is_main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _after_fork() -> None:
    if _heeding:
        _heeding[-1].heed()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)


@contextmanager
def heeded() -> Iterator[Termination]:
    """Turn SIGTERM into `KeyboardInterrupt` meanwhile, in the main thread alone."""
    told = Termination()
    if not is_main_thread():
        yield told
        return
    # A handler, not SIG_IGN: that one would be inherited by every program that is started.
    before = signal.getsignal(signal.SIGTERM)
    told.heed()
    _heeding.append(told)
    try:
        yield told
    finally:
        _heeding.pop()
        signal.signal(signal.SIGTERM, before)
