"""The interfaces of every testbed: hosts that start processes, and a network between them.

Studies use these interfaces for this machine, network namespaces and other machines alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from re import Match
from typing import Protocol


@dataclass(frozen=True)
class Completed:
    """An ended process and its output."""

    returncode: int
    """The exit status, or -N if signal N ended the process."""
    stdout: str
    stderr: str


class Process(Protocol):
    """A process on a host."""

    @property
    def pid(self) -> int:
        """The process id on the host."""

    @property
    def stdout(self) -> str:
        """The standard output until now."""

    @property
    def stderr(self) -> str:
        """The standard error until now."""

    def poll(self) -> int | None:
        """The exit status; `None` while the process runs."""

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end and return the exit status. Raises `RunFailed` after the time limit."""

    def wait_for_line(self, pattern: str, timeout_s: float) -> Match[str]:
        """Wait for the first line of either output that matches.

        Raises `RunFailed` when the process ends without one, or after the time limit.
        """

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""

    def stop(self, timeout_s: float = 5) -> int:
        """End the process and its children: SIGINT, then SIGTERM, then SIGKILL.

        Returns the exit status.
        """

    def result(self, timeout_s: float | None = None) -> Completed:
        """Wait for the end and return the output. Raises `RunFailed` after the time limit."""


class Host(Protocol):
    """A machine or namespace on which processes run."""

    @property
    def name(self) -> str:
        """The host's name in reports."""

    @property
    def address(self) -> str:
        """The address at which the other hosts reach this one."""

    @property
    def cpus(self) -> tuple[int, ...]:
        """The processors on which the host's processes run."""

    def start(self, command: Sequence[str], *, cpus: Sequence[int] | None = None) -> Process:
        """Start a process on the host's processors, or on those given.

        The testbed stops the process when the testbed closes. Raises `MachineLacks` if there is no
        such program.
        """

    def run(
        self, command: Sequence[str], *, timeout_s: float, cpus: Sequence[int] | None = None
    ) -> Completed:
        """Run a process to its end. Raises `RunFailed` after the time limit."""

    def agent(self) -> str:
        """Path of perpacket-agent on this host."""

    def put(self, local: Path, remote: str) -> None:
        """Copy a file to the host, and make its parent folders."""

    def owner(self) -> str:
        """The `own_name` of the process that owns this run's temporary files on the host.

        That process runs on the host and ends when this process ends. A later run may then remove
        the files.
        """

    def make_folder(self, prefix: str) -> str:
        """Make a folder for temporary files, readable by all users, named by `prefix` and owner.

        First removes the folders with that prefix whose owner has ended. The caller removes the new
        folder.
        """


class Testbed(AbstractContextManager["Testbed"], Protocol):
    """A server, its clients and the network between them; leaving the context removes them."""

    @property
    def server(self) -> Host:
        """The host under test."""

    @property
    def clients(self) -> tuple[Host, ...]:
        """The hosts of the load."""

    @property
    def network(self) -> str:
        """The kind of network: `loopback`, `veth`, `netem`, `link` or `machines`."""

    @property
    def limits(self) -> tuple[str, ...]:
        """The limits of measurements here, as sentences for the report."""

    def set_latency(self, one_way_us: float) -> None:
        """Set the delay between server and clients, the same in both directions.

        Open connections may break. Raises `MachineLacks` if the testbed cannot add latency.
        """

    def set_quickack(self, is_on: bool) -> None:
        """Make clients acknowledge each frame at once, or let Linux delay acknowledgments.

        Raises `MachineLacks` if the testbed cannot do that.
        """

    def network_report(self) -> dict[str, object] | None:
        """The network's frames and missed deadlines since the latency was last set.

        `None` for a network without a report.
        """
