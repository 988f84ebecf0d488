"""Everything perpacket raises on purpose.

A user's mistake (`ConfigurationError`, `TraceError`, `CorruptObservation`, `MissingStudy`) and a
run that failed (`RunFailed`) are different types, because the user acts on them differently. Every
error has a `hint`: the next step as a sentence, or an empty string.
"""

from __future__ import annotations


class PerpacketError(Exception):
    """Base of all errors of this package; its text is one line and names the thing."""

    def __init__(self, message: str, hint: str = "") -> None:
        """Keep the message as the text of the error and the hint beside it."""
        super().__init__(message)
        self.hint = hint


class ConfigurationError(PerpacketError, ValueError):
    """A parameter has a value that is not allowed."""

    def __init__(
        self, message: str, parameter: str = "", value: str = "", allowed: str = "", hint: str = ""
    ) -> None:
        """Name the parameter and its value; `allowed` is a phrase that states what is allowed."""
        super().__init__(message, hint or allowed)
        self.parameter = parameter
        self.value = value
        self.allowed = allowed


class TraceError(PerpacketError, ValueError):
    """A trace cannot be read or has no usable request."""


class CorruptObservation(PerpacketError, ValueError):
    """A file of a run directory is damaged or was changed."""


class MissingStudy(PerpacketError, LookupError):
    """No study or run directory of that name."""


class MachineLacks(PerpacketError):
    """The machine or the installation lacks something that the user or the run needs."""


class RunFailed(PerpacketError):
    """A run began and could not be finished."""


class Interrupted(PerpacketError):
    """A run was cancelled."""
