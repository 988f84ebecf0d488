"""SIGTERM, with which supervisors and `timeout` end a program: like Ctrl-C, and then a status.

A measured study holds namespaces, links and files of its own; a process that just dies leaves them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Termination:
    """Whether the program was told to end."""

    is_told: bool = False
    process: int = field(default_factory=os.getpid)

    def tell(self, number: int, frame: object) -> None:
        """End as after Ctrl-C, once: a second signal would break off the taking down."""
        if os.getpid() != self.process:
            # A fork of ours, as pyroute2 makes for a namespace: it holds nothing and just ends.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif not self.is_told:
            self.is_told = True
            raise KeyboardInterrupt


@contextmanager
def heeded() -> Iterator[Termination]:
    """Turn SIGTERM into `KeyboardInterrupt` meanwhile, where signals arrive: in the main thread."""
    told = Termination()
    if threading.current_thread() is not threading.main_thread():
        yield told
        return
    # A handler, not SIG_IGN: that one would be inherited by every program that is started.
    before = signal.signal(signal.SIGTERM, told.tell)
    try:
        yield told
    finally:
        signal.signal(signal.SIGTERM, before)
