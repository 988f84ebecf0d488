"""The guardian of a trial: `python -m perpacket.advise.guardian JOURNAL`.

The guardian reads a pipe whose write end only the trial's process has. The pipe ends when that
process ends, even by SIGKILL. If the process has not written that it restored everything, the
guardian restores the settings. It runs in a session of its own and ignores the signals of
terminals, so that closing a terminal ends the trial but not the guardian.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from perpacket import private
from perpacket.advise import journal
from perpacket.advise.settings import Gone, Setting

IGNORED = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),
    *(signal.SIGTSTP, signal.SIGPIPE),
)
"""Signals of terminals and of ending sessions, which arrive just when the guardian must undo."""


def main() -> int:
    """Wait for the end of the trial, and restore the settings that it left changed."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    file = Path(sys.argv[1])
    private.checked(file.parent)
    found = journal.read(file)
    if found is None:
        return 1
    os.chdir("/")  # The guardian must not keep a file system busy.
    opened: dict[str, Setting] = {}
    for step in found.steps:
        try:
            setting = step.open()
        except Gone:
            return 1
        # Descriptors keep the namespaces alive. Each setting is opened before the trial begins, so
        # its module is imported already when the guardian must undo.
        setting.scope = setting.scope.pinned()
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
    return int(any(one.outcome is journal.Restoration.FAILED for one in undone))


def name_of(step: journal.Step) -> str:
    """The key of a step's setting. Its index is no key: the trial may remove other steps."""
    return f"{step.record} {step.namespace} {step.interface}"


def wait_for_end(descriptor: int) -> bytes:
    """Everything that the trial wrote until it finished or the pipe closed."""
    words = b""
    while part := os.read(descriptor, 4096):
        words += part
        if words.endswith(journal.FINISHED):
            break
    return words


if __name__ == "__main__":
    sys.exit(main())
