"""SIGTERM interrupts a verb as Ctrl-C does; supervisors and `timeout` send it.

A measured study has namespaces, links and files, which it must remove before it ends.
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
    """A request to terminate the program, by SIGTERM."""

    is_requested: bool = False

    def handle(self, number: int, frame: object) -> None:
        """Raise `KeyboardInterrupt` once: a second signal must not interrupt the clean-up."""
        if not self.is_requested:
            self.is_requested = True
            raise KeyboardInterrupt

    def install(self) -> None:
        """Handle SIGTERM from now on; only the main thread can."""
        if is_main_thread():
            signal.signal(signal.SIGTERM, self.handle)


_handlers: list[Termination] = []
"""The active handlers; the last one handles SIGTERM."""


def is_main_thread() -> bool:
    """Whether this thread may set signal handlers."""
    return threading.current_thread() is threading.main_thread()


def _before_fork() -> None:
    """Reset SIGTERM, so that it ends a forked process from its first instruction on.

    pyroute2 forks for each namespace and ends the child by SIGTERM. A child with a handler would
    lose a signal that arrives before its interpreter is ready, and would never end.
    """
    if _handlers and is_main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _after_fork() -> None:
    if _handlers:
        _handlers[-1].install()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)


@contextmanager
def interrupt_on_sigterm() -> Iterator[Termination]:
    """Turn SIGTERM into `KeyboardInterrupt` inside the context; only in the main thread."""
    request = Termination()
    if not is_main_thread():
        yield request
        return
    # Use a handler and not SIG_IGN, which the programs that this process starts would inherit.
    before = signal.getsignal(signal.SIGTERM)
    request.install()
    _handlers.append(request)
    try:
        yield request
    finally:
        _handlers.pop()
        signal.signal(signal.SIGTERM, before)
