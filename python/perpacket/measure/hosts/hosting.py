"""What hosts and testbeds have in common, whatever they are made of: how they end.

A host keeps what it started, so that a testbed can stop all of it; a testbed is up once it is made,
and is taken down when it is left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from perpacket.measure.hosts.contract import Completed, Process


class ProcessHost(ABC):
    """A host that keeps what it started; see `perpacket.measure.hosts.contract.Host`."""

    def __init__(self, name: str, address: str, cpus: tuple[int, ...]) -> None:
        """A host on which nothing runs yet."""
        self.name = name
        self.address = address
        self.cpus = cpus
        self._processes: list[Process] = []

    @abstractmethod
    def open(self, command: Sequence[str], cpus: Sequence[int] | None) -> Process:
        """Start a process that nobody keeps."""

    def start(self, command: Sequence[str], *, cpus: Sequence[int] | None = None) -> Process:
        """Start a process on the host's processors, or on those given."""
        process = self.open(command, cpus)
        self._processes = [other for other in self._processes if other.poll() is None]
        self._processes.append(process)
        return process

    def run(
        self, command: Sequence[str], *, timeout_s: float, cpus: Sequence[int] | None = None
    ) -> Completed:
        """Run a process to its end."""
        process = self.start(command, cpus=cpus)
        try:
            return process.result(timeout_s)
        except BaseException:
            process.stop(timeout_s=1)
            raise

    def stop_all(self) -> None:
        """Stop all processes that still run, and what those left that do not."""
        for process in self._processes:
            process.stop()


class HeldTestbed(ABC):
    """A testbed that leaving takes down; see `perpacket.measure.hosts.contract.Testbed`."""

    @abstractmethod
    def take_down(self) -> None:
        """Stop clients, then the server, then remove what was made; a second time does nothing."""

    def __enter__(self) -> Self:
        """The testbed itself: it is up already."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop its processes and take everything down."""
        self.take_down()
