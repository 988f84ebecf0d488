"""The errors of perpacket.

A user's mistake (`ConfigurationError`, `TraceError`, `CorruptObservation`, `MissingStudy`) and a
failed run (`RunFailed`) are different types, because the user's next step differs. Every error has
a `hint`: the next step as a sentence, or an empty string.
"""

from __future__ import annotations


class PerpacketError(Exception):
    """The base of all errors of this package. Its text is one line."""

    def __init__(self, message: str, hint: str = "") -> None:
        """An error with a message and a hint."""
        super().__init__(message)
        self.hint = hint


class ConfigurationError(PerpacketError, ValueError):
    """A parameter has a value that is not allowed."""

    def __init__(
        self, message: str, parameter: str = "", value: str = "", allowed: str = "", hint: str = ""
    ) -> None:
        """Name the parameter and its value; `allowed` states the accepted values."""
        super().__init__(message, hint or allowed)
        self.parameter = parameter
        self.value = value
        self.allowed = allowed


class StudyError(ValueError):
    """The parts of a study contradict each other."""


class TraceError(PerpacketError, ValueError):
    """A trace cannot be read or has no valid request."""


class CorruptObservation(PerpacketError, ValueError):
    """A file of a run directory is damaged or was changed."""


class MissingStudy(PerpacketError, LookupError):
    """There is no study or run directory of that name."""


class MachineLacks(PerpacketError):
    """The machine or the installation lacks something that a run needs."""


class RunFailed(PerpacketError):
    """A run began and could not be finished."""


class Interrupted(PerpacketError):
    """A run was cancelled."""
