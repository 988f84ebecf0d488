"""What a testbed is, whatever it is made of: hosts that start processes, and a network between.

A study is written against these and does not know whether its hosts are this machine, network
namespaces or other machines.
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
    """A process that has ended and what it wrote."""

    returncode: int
    """Its exit status; negative is the signal that ended it."""
    stdout: str
    stderr: str


class Process(Protocol):
    """A process on a host."""

    @property
    def pid(self) -> int:
        """Its number on its host."""

    @property
    def stdout(self) -> str:
        """What it has written to standard output until now."""

    @property
    def stderr(self) -> str:
        """What it has written to standard error until now."""

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end; its exit status. Raises `RunFailed` when the time is over."""

    def wait_for_line(self, pattern: str, timeout_s: float) -> Match[str]:
        """The first line of either output that matches, once it is there.

        Raises `RunFailed` when the process ends or the time is over without one.
        """

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens if it has ended."""

    def stop(self, timeout_s: float = 5) -> int:
        """End it and all it started: SIGINT, then SIGTERM, then SIGKILL; its exit status."""

    def result(self, timeout_s: float | None = None) -> Completed:
        """Wait for its end; what it wrote. Raises `RunFailed` when the time is over."""


class Host(Protocol):
    """Where processes run."""

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def address(self) -> str:
        """Where the other hosts reach it."""

    @property
    def cpus(self) -> tuple[int, ...]:
        """The processors its processes run on."""

    def start(self, command: Sequence[str], *, cpus: Sequence[int] | None = None) -> Process:
        """Start a process on the host's processors, or on those given.

        It is stopped with the testbed. Raises `MachineLacks` if there is no such program.
        """

    def run(
        self, command: Sequence[str], *, timeout_s: float, cpus: Sequence[int] | None = None
    ) -> Completed:
        """Run a process to its end. Raises `RunFailed` when the time is over."""

    def agent(self) -> str:
        """Path of perpacket-agent on this host."""

    def put(self, local: Path, remote: str) -> None:
        """Copy a file to the host, folders above it included."""

    def holder(self) -> str:
        """Who holds what we leave on this host: `own_name` of a process there that lives as we do.

        A run that finds a name with a holder that is dead, looking on that host, may remove it.
        """

    def make_folder(self, prefix: str) -> str:
        """A new folder for temporary files that all may read; its name is `prefix` and the holder.

        What dead holders left under that prefix goes first. Whoever asked removes the folder.
        """


class Testbed(AbstractContextManager["Testbed"], Protocol):
    """A server, its clients and the network between them. Leaving it takes everything down."""

    @property
    def server(self) -> Host:
        """The host under test."""

    @property
    def clients(self) -> tuple[Host, ...]:
        """The hosts that ask."""

    @property
    def network(self) -> str:
        """What joins them: `loopback`, `veth`, `netem`, `link` or `machines`."""

    @property
    def limits(self) -> tuple[str, ...]:
        """What this testbed leaves out, in sentences for the report."""

    def set_latency(self, one_way_us: float) -> None:
        """Set the delay between server and clients, the same in both directions.

        Connections that are open may break. Raises `MachineLacks` where it cannot be done.
        """

    def network_report(self) -> dict[str, object] | None:
        """What the network carried and could not keep since the latency was last set.

        None where the network tells nothing.
        """
