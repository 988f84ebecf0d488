"""The guardian of a trial: `python -m perpacket.advise.guardian JOURNAL`.

It waits on a pipe whose other end only the trial's process has. The end of the pipe means that the
process has ended, also by SIGKILL. Unless the process wrote that it has restored everything, the
guardian restores it. It runs in a session of its own and ignores the signals of terminals, so that
closing a terminal ends the trial and not the guardian.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from perpacket.advise import journal
from perpacket.advise.settings import Gone, Setting

IGNORED = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),
    *(signal.SIGTSTP, signal.SIGPIPE),
)
"""Signals of terminals, and of sessions that end: they come exactly when undoing is due."""


def main() -> int:
    """Wait for the end of the trial, and restore the settings that it left changed."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    file = Path(sys.argv[1])
    found = journal.read(file)
    if found is None:
        return 1
    os.chdir("/")  # No file system stays busy because of the guardian.
    opened: dict[str, Setting] = {}
    for step in found.steps:
        try:
            setting = step.open()
        except Gone:
            return 1
        # The descriptors keep the namespaces alive, and the modules are imported now.
        setting.place = setting.place.pinned()
        setting.read()
        opened[name_of(step)] = setting
    os.write(1, journal.READY)
    if wait_for_end(0) == journal.FINISHED:
        return 0
    with journal.locked(file):
        left = journal.read(file)
        if left is None or (left.pid, left.started) != (found.pid, found.started):
            return 0
        numbered = {n: opened[name_of(step)] for n, step in enumerate(left.steps)}
        undone = journal.undo_all(file, left, numbered)
    return int(any(one.outcome is journal.Outcome.FAILED for one in undone))


def name_of(step: journal.Step) -> str:
    """The setting of a step: the trial may remove other steps from the journal."""
    return f"{step.record} {step.namespace} {step.interface}"


def wait_for_end(descriptor: int) -> bytes:
    """Everything the trial wrote until it closed the pipe or finished."""
    words = b""
    while part := os.read(descriptor, 4096):
        words += part
        if words.endswith(journal.FINISHED):
            break
    return words


if __name__ == "__main__":
    sys.exit(main())
