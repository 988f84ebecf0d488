"""A remote machine for tests: an ssh server in a network namespace, and hosts that reach it.

The machine has the files of this machine and a network of its own. Its keys and its home are in the
test's folder. Programs of the test find an `ssh` that reads only the test's configuration.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patience import PATIENCE_S
from perpacket.measure import agent
from perpacket.measure.hosts import contract
from perpacket_lab.measure import hosts
from probes import need
from requirements import skip

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
PORT = 2222
ALIAS = "the-far-one"
"""The machine's name, which only the test's configuration has."""

CONFIGURATION = """\
Host {address} {ALIAS}
    HostName {address}
    User root
Host {ALIAS}
    Port {PORT}
Host {address} {ALIAS}
    IdentityFile {folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known
# Options of users that must not affect the commands of perpacket.
Host *
    ControlMaster auto
    ControlPersist 600
    RequestTTY force
    RemoteCommand echo not this
"""


@dataclass(frozen=True)
class Far:
    """The remote machine, and a host that reaches it."""

    target: str
    """The machine's address for `ssh`."""
    folder: Path
    """The folder with `home` and `temporary`, and the keys `key`, `known` and `authorized`."""
    near: contract.Host
    environment: Mapping[str, str]
    servers: Mapping[int, contract.Process]
    """The ssh server of each port."""

    @property
    def temporary(self) -> Path:
        """The folder of the machine's temporary files."""
        return self.folder / "temporary"

    def python(self, script: str, *words: str) -> contract.Completed:
        """Run a script on the near host; it can import perpacket and these tests."""
        given = [f"{name}={value}" for name, value in self.environment.items()]
        command = ["env", *given, sys.executable, "-c", script, *words]
        return self.near.run(command, timeout_s=PATIENCE_S)


@contextmanager
def far_machine(
    folder: Path, settings: Sequence[str] = (), ports: Sequence[int] = (PORT,)
) -> Iterator[Far]:
    """A machine with these settings of sshd_config(5), and an ssh server on each port.

    Skips the test if it cannot be made.
    """
    if not Path(SSHD).exists() or shutil.which("ssh-keygen") is None:
        skip("sshd", "OpenSSH's server is not installed")
    need("netns")
    with hosts.namespaces() as bed:
        address = bed.server.address
        _make_files(folder, address, ports)
        Path("/run/sshd").mkdir(exist_ok=True)
        options = [
            *("-o", f"ListenAddress={address}", "-o", "PidFile=none"),
            *("-o", f"HostKey={folder}/host", "-o", f"AuthorizedKeysFile={folder}/authorized"),
            *("-o", "PasswordAuthentication=no", "-o", "StrictModes=no", "-o", "UsePAM=no"),
            *("-o", "PermitRootLogin=yes"),
            # Files on the remote machine are in the test's folder.
            *("-o", f"SetEnv=HOME={folder}/home TMPDIR={folder}/temporary"),
            *(word for setting in settings for word in ("-o", setting)),
        ]
        servers = {}
        for port in ports:
            command = [SSHD, "-D", "-e", "-f", "/dev/null", "-o", f"Port={port}", *options]
            servers[port] = bed.server.start(command)
            servers[port].wait_for_line("listening on", PATIENCE_S)
        environment = {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PERPACKET_AGENT": str(agent.find()),
            "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}",
        }
        target = f"root@{address}:{ports[0]}"
        yield Far(target, folder, bed.clients[0], environment, servers)


def _make_files(folder: Path, address: str, ports: Sequence[int]) -> None:
    for name in ("home", "temporary", "bin"):
        (folder / name).mkdir()
    for name in ("host", "key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    (folder / "authorized").write_text((folder / "key.pub").read_text())
    known = [f"[{address}]:{port} {(folder / 'host.pub').read_text()}" for port in ports]
    (folder / "known").write_text("".join(known))
    (folder / "config").write_text(
        CONFIGURATION.format(address=address, folder=folder, ALIAS=ALIAS, PORT=PORT)
    )
    ssh = folder / "bin/ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
    ssh.chmod(0o755)
