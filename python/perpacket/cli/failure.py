"""Exit statuses, and the messages of errors."""

from __future__ import annotations

import errno
import os
import sys
from enum import IntEnum

from perpacket.cli import pipes
from perpacket.errors import (
    ConfigurationError,
    CorruptObservation,
    Interrupted,
    MachineLacks,
    MissingStudy,
    PerpacketError,
    TraceError,
)

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a file system without room."""


class ExitStatus(IntEnum):
    """The meanings of the exit status."""

    DONE = 0
    CHECK_FAILED = 1
    USAGE = 2
    MACHINE_LACKS = 3
    FAILED = 4
    UNDECIDED = 5
    INTERRUPTED = 130
    UNREAD = 141
    TERMINATED = 143


class CheckFailed(PerpacketError):
    """The verb finished its work, and its check failed."""


def status_of(error: Exception) -> ExitStatus:
    """The exit status of an error: the fault of the user, of the machine or of perpacket."""
    match error:
        case CheckFailed():
            return ExitStatus.CHECK_FAILED
        case ConfigurationError() | TraceError() | CorruptObservation() | MissingStudy():
            return ExitStatus.USAGE
        case FileNotFoundError() | PermissionError() | IsADirectoryError() | NotADirectoryError():
            return ExitStatus.USAGE
        case MachineLacks():
            return ExitStatus.MACHINE_LACKS
        case Interrupted():
            return ExitStatus.INTERRUPTED
        case _:
            return ExitStatus.FAILED


def show(message: str, hint: str = "") -> None:
    """Print an error on standard error: one line, a blank line and a hint."""
    pipes.write(sys.stderr, f"error: {message}\n")
    if hint:
        pipes.write(sys.stderr, f"\nhint: {hint}\n")


def show_error(error: Exception) -> None:
    """Show an error of the library or of the operating system."""
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        hint = "check the file and its permissions"
        if error.errno in FULL:
            hint = "free some space and repeat; `perpacket study resume` continues a study"
        # The simulator's core has its own words for a few errors.
        reason = os.strerror(error.errno) if error.errno else error.strerror
        show(f"{name}{reason.lower()}", hint)
    else:
        show(str(error), getattr(error, "hint", ""))
