"""Base classes of all hosts and testbeds, which stop processes.

A host records the processes that it started, so that a testbed can stop all of them. A testbed is
ready after its construction. Leaving its context takes it down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from perpacket.errors import MachineLacks
from perpacket.measure.hosts.contract import Completed, Process


class ProcessHost(ABC):
    """A host that records its processes; see `perpacket.measure.hosts.contract.Host`."""

    def __init__(self, name: str, address: str, cpus: tuple[int, ...]) -> None:
        """A host without processes."""
        self.name = name
        self.address = address
        self.cpus = cpus
        self._processes: list[Process] = []

    @abstractmethod
    def open(self, command: Sequence[str], cpus: Sequence[int] | None) -> Process:
        """Start a process without recording it."""

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
        """Stop all running processes, and the remaining children of ended ones."""
        for process in self._processes:
            process.stop()


class ClosingTestbed(ABC):
    """A testbed that is taken down at the end of its context; see `contract.Testbed`."""

    no_latency = ("", "")
    """The reason why this testbed cannot add latency, and the hint of the error."""

    def set_latency(self, one_way_us: float) -> None:
        """Accept only 0; a testbed that can add latency overrides this method."""
        if one_way_us:
            reason, hint = self.no_latency
            raise MachineLacks(f"a latency of {one_way_us:g} us {reason}", hint)

    def set_quickack(self, is_on: bool) -> None:
        """Accept only false; a testbed that sets the clients' routes overrides this method."""
        if is_on:
            raise MachineLacks(
                "an acknowledgment for each frame needs a route attribute at the clients",
                "set it there with `ip route change ... quickack 1`, or use network namespaces",
            )

    def network_report(self) -> dict[str, object] | None:
        """`None`, because most networks report nothing."""
        return None

    @abstractmethod
    def take_down(self) -> None:
        """Stop the clients, then the server, and remove the network; a second call does nothing."""

    def __enter__(self) -> Self:
        """The testbed, which is already set up."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop all processes and remove the network."""
        self.take_down()
