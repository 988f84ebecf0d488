"""Hosts of this machine, and loopback, the testbed that needs no rights."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from perpacket.measure import agent
from perpacket.measure.hosts.hosting import ClosingTestbed, ProcessHost
from perpacket.measure.hosts.process import LocalProcess
from perpacket.measure.hosts.processor_division import Division
from perpacket.measure.hosts.record import Record, own_name, remove_folders, remove_leftovers

LOOPBACK_LIMITS = (
    "Everything runs on loopback: packets pass no device driver, segments of up to 64 KiB pass "
    "whole, and the sender's processor does the receiver's work up to the socket.",
    "Server and clients share one network stack, its counters and its limits.",
    "There is no latency, bandwidth limit or loss between the hosts.",
)
"""The limits of loopback."""


class LocalHost(ProcessHost):
    """A host of this machine; see `perpacket.measure.hosts.contract.Host`."""

    def __init__(
        self,
        name: str,
        address: str,
        cpus: tuple[int, ...],
        run: str,
        namespace: int | None = None,
    ) -> None:
        """A host of a run; `namespace` is an open descriptor of its network namespace."""
        super().__init__(name, address, cpus)
        self._run = run
        self.namespace = namespace
        """An open descriptor of the host's network namespace; None for that of this process."""

    def open(self, command: Sequence[str], cpus: Sequence[int] | None) -> LocalProcess:
        """Start a process without recording it."""
        return LocalProcess(
            command, run=self._run, cpus=cpus or self.cpus, namespace=self.namespace
        )

    def agent(self) -> str:
        """Path of perpacket-agent."""
        return str(agent.find())

    def put(self, local: Path, remote: str) -> None:
        """Copy a file, and make its parent folders."""
        place = Path(remote)
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(shutil.SameFileError):
            shutil.copy(local, place)

    def owner(self) -> str:
        """The name of this process."""
        return own_name()

    def make_folder(self, prefix: str) -> str:
        """A new folder that all users may read; removes the folders of dead runs first."""
        remove_folders(prefix)
        folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{own_name()}-"))
        folder.chmod(0o755)
        return str(folder)


class LocalTestbed(ClosingTestbed):
    """A testbed on this machine: hosts, and a record for a later run."""

    network = ""

    def __init__(self, division: Division) -> None:
        """Remove the leftovers of dead runs and make a record; subclasses add the hosts."""
        remove_leftovers()
        self._record = Record()
        self._division = division
        self.server: LocalHost
        self.clients: tuple[LocalHost, ...] = ()

    def stop_network(self) -> None:
        """Stop the agent's link, if there is one. The hosts' processes have already stopped."""

    def take_down(self) -> None:
        """Stop the clients, then the server, and remove the network; a second call does nothing."""
        try:
            for host in (*self.clients, *([self.server] if hasattr(self, "server") else [])):
                host.stop_all()
            self.stop_network()
        finally:
            self._record.take_down()


class Loopback(LocalTestbed):
    """Server and one client on this machine's loopback."""

    network = "loopback"
    no_latency = (
        "on loopback: there is no network to delay",
        "use network namespaces, which need root",
    )

    def __init__(
        self, division: Division, limits: tuple[str, ...] = (), address: str = "127.0.0.1"
    ) -> None:
        """Make a host for each side. `limits` may have the reason why there are no namespaces."""
        super().__init__(division)
        self._record.write()
        self.limits = (*limits, *LOOPBACK_LIMITS, *division.limits)
        self.server = LocalHost("server", address, division.server, self._record.run)
        self.clients = (LocalHost("client", address, division.clients, self._record.run),)


def free_ports(count: int) -> list[int]:
    """Different TCP ports that are free on this machine, and probably on others.

    Another program may use a port before the caller does; then the caller's server fails.
    """
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
