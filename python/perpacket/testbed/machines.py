"""Hosts as other machines, reached by the system's ssh.

One connection a machine is kept open and shared by all commands. The agent is copied once and known
by its digest. A process on a machine ends when its connection does: its standard input is held open
from here, and a guard beside it waits for the end of that.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from re import Match

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.testbed import agent
from perpacket.testbed.contract import Completed
from perpacket.testbed.hosting import HeldTestbed, ProcessHost
from perpacket.testbed.process import LocalProcess
from perpacket.testbed.record import Record, remove_leftovers

CONNECT_S = 10
"""How long a machine may take to answer."""

COMMAND_S = 60.0
"""How long our own small commands may take."""

SSH_FAILED = 255
"""The exit status by which ssh says that it failed itself."""

LIMITS = (
    "The machines' own network joins them: its latency, bandwidth and loss are what they are, and "
    "nothing here sets or watches them.",
    "The machines' clocks are not compared.",
)
"""What a testbed of machines leaves out."""

WATCHED = """
exec 3<&0
process=$$
{ cat <&3 >/dev/null
  kill -INT $process && sleep 3 && kill -KILL $process
} >/dev/null 2>&1 &
echo "perpacket-process $process" >&2
exec "$@" </dev/null 3<&-
"""
"""Runs on the machine: tells the process's number, becomes the command, and interrupts it when
nobody holds its standard input any more."""


class Connection:
    """A shared connection to a machine, `user@host[:port]`."""

    def __init__(self, target: str, folder: Path, options: Sequence[str], run: str) -> None:
        """Open it; its socket stands in that folder."""
        match = re.fullmatch(r"(?:[^@\s]+@)?(\[[^\]\s]+\]|[^:@\s-][^:@\s]*)(?::(\d+))?", target)
        if match is None:
            raise ConfigurationError(
                f"machine {target!r}", "machine", target, "expected [user@]host[:port]"
            )
        self.target = target
        self.host = match[1].strip("[]")
        port = ["-p", match[2]] if match[2] else []
        destination = target.rpartition(f":{match[2]}")[0] if match[2] else target
        self._options = [
            *("-o", f"ControlPath={folder}/%C", "-o", "BatchMode=yes"),
            *("-o", f"ConnectTimeout={CONNECT_S}", "-o", "LogLevel=ERROR"),
            *port,
            *options,
        ]
        self._destination = destination.replace("[", "").replace("]", "")
        self._shared = LocalProcess(["ssh", *self._options, "-M", "-N", self._destination], run=run)
        try:
            self._wait_until_open()
        except BaseException:
            self.close()
            raise

    def _wait_until_open(self) -> None:
        """Until commands can share the connection."""
        check = ["ssh", *self._options, "-O", "check", self._destination]
        end_s = time.monotonic() + 3 * CONNECT_S
        while subprocess.run(check, capture_output=True, check=False).returncode != 0:
            ended = self._shared.poll() is not None
            if ended or time.monotonic() > end_s:
                words = self._shared.stderr.strip() or "no answer"
                raise MachineLacks(
                    f"machine {self.target}: {words}",
                    f"`ssh {self._destination}` must work without a question",
                )
            time.sleep(0.05)

    def command(self, *remote: str) -> list[str]:
        """The local command that runs one there."""
        return ["ssh", *self._options, self._destination, shlex.join(remote)]

    def run(self, *remote: str, given: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """Run a small command there and return its end; it may read what is given."""
        try:
            done = subprocess.run(
                self.command(*remote),
                input=given if given is not None else b"",
                capture_output=True,
                timeout=COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RunFailed(
                f"machine {self.target}: {remote[0]} did not end within {COMMAND_S:g} s",
                "see whether the machine still answers",
            ) from error
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        if done.returncode == SSH_FAILED:
            raise RunFailed(f"machine {self.target}: {err.strip()}", "the connection is gone")
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def close(self) -> None:
        """Close it; what still runs there loses its guard's input and ends."""
        self._shared.stop()


class RemoteProcess:
    """A process on a machine; see `perpacket.testbed.contract.Process`."""

    def __init__(self, connection: Connection, run: str, command: Sequence[str]) -> None:
        """Start it and wait until it says its number."""
        self._connection = connection
        remote = ["sh", "-c", WATCHED, "perpacket", *command]
        self._local = LocalProcess(connection.command(*remote), run=run, hold_input=True)
        self._stopping = threading.Lock()
        started = self._local.wait_for_line(r"^perpacket-process (\d+)$", CONNECT_S)
        self.pid = int(started[1])

    @property
    def stdout(self) -> str:
        """What it has written to standard output until now."""
        return self._local.stdout

    @property
    def stderr(self) -> str:
        """What it has written to standard error until now."""
        return re.sub(r"^perpacket-process \d+\n", "", self._local.stderr)

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._local.poll()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end; its exit status."""
        return self._local.wait(timeout_s)

    def wait_for_line(self, pattern: str, timeout_s: float) -> Match[str]:
        """The first line of either output that matches, once it is there."""
        return self._local.wait_for_line(pattern, timeout_s)

    def send_signal(self, number: int) -> None:
        """Send a signal there; nothing happens if it has ended."""
        if self.poll() is None:
            self._connection.run("kill", f"-{int(number)}", str(self.pid))

    def stop(self, timeout_s: float = 5) -> int:
        """End it: SIGINT, then SIGTERM, then SIGKILL."""
        with self._stopping:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                with suppress(RunFailed):
                    self.send_signal(number)
                end_s = time.monotonic() + timeout_s
                while self.poll() is None and time.monotonic() < end_s:
                    time.sleep(0.01)
                if self.poll() is not None:
                    break
            # The connection itself may hang.
            return self._local.stop(timeout_s)

    def result(self, timeout_s: float | None = None) -> Completed:
        """Wait for its end; what it wrote."""
        done = self._local.result(timeout_s)
        return Completed(done.returncode, done.stdout, self.stderr)


class Machine(ProcessHost):
    """A machine as a host; see `perpacket.testbed.contract.Host`."""

    def __init__(self, name: str, connection: Connection, run: str) -> None:
        """A host for an open connection."""
        counted = connection.run("getconf", "_NPROCESSORS_ONLN").stdout.strip()
        cpus = tuple(range(int(counted) if counted.isdigit() else 1))
        super().__init__(name, connection.host, cpus)
        self._connection = connection
        self._run = run
        self._agent: str | None = None

    def open(self, command: Sequence[str], cpus: Sequence[int] | None) -> RemoteProcess:
        """Start a process, on those processors if any are given, that nobody keeps."""
        words = [str(word) for word in command]
        if self._connection.run("sh", "-c", 'command -v "$0"', words[0]).returncode != 0:
            raise MachineLacks(
                f"{words[0]} on {self._connection.target}: no such program",
                "install it there, or give the path of the program",
            )
        if cpus:
            words = ["taskset", "-c", ",".join(map(str, cpus)), *words]
        return RemoteProcess(self._connection, self._run, words)

    def agent(self) -> str:
        """Path of the agent there, which has the digest of ours; copied if it is not there yet."""
        if self._agent is None:
            local = agent.find()
            digest = agent.sha256(local)
            home = self._connection.run("sh", "-c", "cd && pwd -P").stdout.strip()
            place = f"{home}/.cache/perpacket/agent-{digest[:16]}"
            if self._digest(place) != digest:
                self.put(local, place)
            if self._digest(place) != digest:
                raise RunFailed(
                    f"{place} on {self._connection.target}: not what was copied there",
                    "see whether the disk is full",
                )
            started = self._connection.run(place, "--version")
            if started.returncode != 0:
                raise MachineLacks(
                    f"perpacket-agent on {self._connection.target}: {started.stderr.strip()}",
                    "the machine needs the same architecture and C library as this one",
                )
            self._agent = place
        return self._agent

    def _digest(self, place: str) -> str:
        return self._connection.run("sha256sum", place).stdout.partition(" ")[0]

    def put(self, local: Path, remote: str) -> None:
        """Copy a file, folders above it included; it appears whole or not at all."""
        mode = oct(local.stat().st_mode & 0o777)[2:]
        script = (
            'mkdir -p -- "$1" && cat >"$2.new" && chmod "$3" "$2.new" && mv -f -- "$2.new" "$2"'
        )
        parent = str(PurePosixPath(remote).parent)
        copied = self._connection.run(
            "sh", "-c", script, "perpacket", parent, remote, mode, given=local.read_bytes()
        )
        if copied.returncode != 0:
            raise RunFailed(
                f"{remote} on {self._connection.target}: {copied.stderr.strip()}",
                "see whether the place can be written",
            )


class Machines(HeldTestbed):
    """A server and clients that are machines of their own."""

    network = "machines"
    limits = LIMITS

    def __init__(self, server: str, clients: Sequence[str], ssh_options: Sequence[str]) -> None:
        """Connect to all of them, or to none and raise."""
        if not clients:
            raise ConfigurationError("clients: none given", "clients", "", "name at least one")
        remove_leftovers()
        self._record = Record()
        self._folder = tempfile.TemporaryDirectory(prefix="perpacket-")
        self._hosts: list[Machine] = []
        self._connections: dict[str, Connection] = {}
        try:
            self._record.write()
            run = self._record.run
            for number, target in enumerate((server, *clients)):
                name = f"client{number}" if number else "server"
                if target not in self._connections:
                    folder = Path(self._folder.name)
                    self._connections[target] = Connection(target, folder, ssh_options, run)
                self._hosts.append(Machine(name, self._connections[target], run))
        except BaseException:
            self.take_down()
            raise
        self.server = self._hosts[0]
        self.clients = tuple(self._hosts[1:])

    def set_latency(self, one_way_us: float) -> None:
        """The machines' network is what it is: zero, for nothing added, alone is possible."""
        if one_way_us:
            raise MachineLacks(
                f"a latency of {one_way_us:g} us between machines: their network is not ours",
                "set it on the machines with netem, or use network namespaces",
            )

    def network_report(self) -> dict[str, object] | None:
        """The machines' network tells nothing."""
        return None

    def take_down(self) -> None:
        """Stop clients, then the server; a second time does nothing."""
        try:
            for host in reversed(self._hosts):
                host.stop_all()
        finally:
            for connection in self._connections.values():
                connection.close()
            self._record.take_down()
            self._folder.cleanup()
