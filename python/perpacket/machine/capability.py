"""One thing a machine can do or not, and how attempts become such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum


class Group(StrEnum):
    """What a capability is for; tables are in this order."""

    PROFILING = "profiling"
    NETWORK = "network"
    PROCESSORS = "processors"
    MEMORY = "memory"
    PROGRAMS = "programs"


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing a machine can do or not."""

    name: str
    available: bool
    detail: str
    """What was found: a version, a setting, an error."""
    cost_of_lack: str
    """What is not possible, or less exact, without it; empty where it is there."""
    next_step: str
    """How to come by it; empty where it is there or out of reach."""
    group: Group = Group.PROFILING

    def as_dict(self) -> dict[str, object]:
        """The fields by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a machine, with what its lack costs and how to mend it."""

    name: str
    group: Group
    cost_of_lack: str
    next_step: str

    def answer(self, available: bool, detail: str) -> Capability:
        """The answer: advice goes with a lack only."""
        advice = ("", "") if available else (self.cost_of_lack, self.next_step)
        return Capability(self.name, available, detail, *advice, self.group)

    def attempt(self, attempt: Callable[[], str]) -> Capability:
        """Yes with what `attempt` returns, no with what the system said when it raised."""
        try:
            return self.answer(True, attempt())
        except OSError as error:
            return self.answer(False, (error.strerror or str(error)).lower())
