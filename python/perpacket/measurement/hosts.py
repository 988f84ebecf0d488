"""What a run needs of a testbed: the part of `perpacket.testbed` that is used here.

Named as protocols, so that a run can be tested on hosts that are none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class Completed(Protocol):
    """A command that ended."""

    @property
    def returncode(self) -> int:
        """Its exit status; negative for a signal."""
        ...

    @property
    def stdout(self) -> str:
        """All it wrote to standard output."""
        ...

    @property
    def stderr(self) -> str:
        """All it wrote to standard error."""
        ...


class Process(Protocol):
    """A command that was started."""

    @property
    def pid(self) -> int:
        """Its process id on its host."""
        ...

    def poll(self) -> int | None:
        """Its exit status once it ended, else None."""
        ...

    def stop(self, timeout_s: float = 5) -> int:
        """End it, by force if it must be, and return the exit status."""
        ...

    def result(self, timeout_s: float | None = None) -> Completed:
        """Wait for its end; what it said. Raises `RunFailed` when the time is over."""
        ...

    def wait_for_line(self, pattern: str, timeout_s: float) -> re.Match[str]:
        """Wait for a line of its output that matches."""
        ...


class Host(Protocol):
    """One machine of a testbed, or what stands for it."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    @property
    def address(self) -> str:
        """The address the others reach it at."""
        ...

    @property
    def cpus(self) -> tuple[int, ...]:
        """The processors that are its own."""
        ...

    def start(self, command: Sequence[str], *, cpus: Sequence[int] | None = None) -> Process:
        """Start a command."""
        ...

    def run(
        self, command: Sequence[str], *, timeout_s: float, cpus: Sequence[int] | None = None
    ) -> Completed:
        """Run a command to its end."""
        ...

    def put(self, local: Path, remote: str) -> None:
        """Copy a file there."""
        ...

    def agent(self) -> str:
        """Where the agent's executable is there."""
        ...


class Testbed(Protocol):
    """A server and its clients on a network."""

    @property
    def server(self) -> Host:
        """The machine under test."""
        ...

    @property
    def clients(self) -> Sequence[Host]:
        """The machines that put load on it."""
        ...

    @property
    def network(self) -> str:
        """What joins them: `loopback`, `veth`, `netem`, `link` or `machines`."""
        ...

    @property
    def limits(self) -> Sequence[str]:
        """What this testbed leaves out, in sentences."""
        ...

    def set_latency(self, one_way_us: float) -> None:
        """Add latency each way; raises `MachineLacks` where it cannot."""
        ...

    def network_report(self) -> Mapping[str, object] | None:
        """What it could not keep since the latency was set, None where nothing watches it."""
        ...
