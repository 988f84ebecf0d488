"""One capability of a machine, and the attempt that finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum


class Group(StrEnum):
    """The use of a capability. Tables list the groups in this order."""

    PROFILING = "profiling"
    NETWORK = "network"
    PROCESSORS = "processors"
    MEMORY = "memory"
    PROGRAMS = "programs"


@dataclass(frozen=True, slots=True)
class Capability:
    """A capability that a machine has or lacks."""

    name: str
    available: bool
    detail: str
    """The finding: a version, a setting, an error."""
    cost_of_lack: str
    """The effect of its absence; empty if it is available."""
    next_step: str
    """The command or change that adds it; empty if it is available or cannot be added."""
    group: Group = Group.PROFILING

    def as_dict(self) -> dict[str, object]:
        """The fields by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Check:
    """The check for a capability, with the effect of its absence and the remedy."""

    name: str
    group: Group
    cost_of_lack: str
    next_step: str

    def result(self, available: bool, detail: str) -> Capability:
        """The capability. Only a missing capability has a cost and a next step."""
        advice = ("", "") if available else (self.cost_of_lack, self.next_step)
        return Capability(self.name, available, detail, *advice, self.group)

    def attempt(self, attempt: Callable[[], str]) -> Capability:
        """The capability: available if `attempt` returns a text, missing if it raises an error."""
        try:
            return self.result(True, attempt())
        except OSError as error:
            return self.result(False, (error.strerror or str(error)).lower())
