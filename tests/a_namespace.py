"""A network namespace with a pair of devices, for tests of settings."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest

from patience import eventually
from perpacket.advise import settings
from perpacket.advise.network_scope import NetworkScope
from probes import need

DEVICE = "trial0"


@dataclass
class Network:
    """A namespace with the joined devices `trial0`, which has an address, and `trial1`."""

    name: str
    holder: subprocess.Popen[bytes]

    def scope(self, interface: str = DEVICE) -> NetworkScope:
        """The scope in the namespace, found by its process."""
        return NetworkScope.of(pid=self.holder.pid, interface=interface)

    def open(self, table: Mapping[str, str], interface: str = DEVICE) -> settings.Setting:
        """A setting in the namespace."""
        return settings.open(table, self.scope(interface))

    def run(self, *command: str) -> str:
        """The output of a command in the namespace."""
        return subprocess.run(
            ["ip", "netns", "exec", self.name, *command], check=True, capture_output=True, text=True
        ).stdout

    def remove(self) -> None:
        """Remove the namespace."""
        self.holder.kill()
        self.holder.wait()
        with suppress(FileNotFoundError):
            subprocess.run(["ip", "netns", "delete", self.name], check=False, capture_output=True)


@contextmanager
def network(queues: int = 2) -> Iterator[Network]:
    """Make a namespace, and remove it at the end of the context."""
    need("netns")
    name = f"perpacket-test-{secrets.token_hex(4)}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    # `NetworkScope.of` finds the namespace by a process that runs in it.
    holder = subprocess.Popen(
        ["ip", "netns", "exec", name, "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE
    )
    found = Network(name, holder)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        many = ("numrxqueues", str(queues), "numtxqueues", str(queues))
        found.run("ip", "link", "add", DEVICE, *many, "type", "veth", "peer", "name", "trial1")
        for device in ("lo", DEVICE, "trial1"):
            found.run("ip", "link", "set", device, "up")
        found.run("ip", "address", "add", "198.18.0.1/24", "dev", DEVICE)
        # The kernel changes the flags of the devices after `ip` has returned.
        assert eventually(lambda: found.run("ip", "-oneline", "link").count("state UP") == 2)
        yield found
    finally:
        holder.stdout.close() if holder.stdout else None
        found.remove()


@pytest.fixture(name="net")
def net_fixture(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """A namespace, with a folder of its own for the journal."""
    monkeypatch.setenv("PERPACKET_JOURNAL", f"{tmp_path}/journal")
    with network() as found:
        yield found
