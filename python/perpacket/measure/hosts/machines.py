"""Other machines as hosts, over the system's ssh.

All commands on a machine share one open connection. The agent is copied once and recognized by its
digest. A process on a machine ends when the connection ends: this machine keeps the process's
standard input open, and a guard process waits for the end of that input. An idle process on each
machine owns the run's temporary files. A later run removes the files whose owner has ended.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure import agent
from perpacket.measure.cpu_lists import numbers
from perpacket.measure.hosts.hosting import ClosingTestbed, ProcessHost
from perpacket.measure.hosts.process import LocalProcess
from perpacket.measure.hosts.record import Record, remove_leftovers, start_of

CONNECT_S = 10
"""Time limit for a machine to respond."""

COMMAND_S = 60.0
"""Time limit of small commands, such as to make a folder."""

COPY_S = 600.0
"""Time limit to copy a file to a machine, or to remove the files of dead runs."""

SILENCE_S, SILENCES = 15, 4
"""A connection is lost after `SILENCES` intervals of `SILENCE_S` seconds without a response. A
server under full load may need some seconds to respond."""

PLAIN = (
    *("BatchMode=yes", "LogLevel=ERROR"),
    *("ControlPersist=no", "RequestTTY=no", "RemoteCommand=none", "PermitLocalCommand=no"),
    *("ClearAllForwardings=yes", f"ServerAliveInterval={SILENCE_S}"),
    f"ServerAliveCountMax={SILENCES}",
)
"""Options of every ssh: no prompts, and none of the user's settings for interactive shells. A
terminal would merge standard output and standard error. A persistent connection would outlive this
process."""

SSH_FAILED = 255
"""The exit status of ssh for its own errors."""

LIMITS = (
    "The machines' own network connects them: nothing here sets or monitors its latency, bandwidth "
    "and loss.",
    "The machines' clocks are not compared.",
    "The run records the kernel, processor and caches of the machine that controlled it; those of "
    "the server are recorded with the testbed.",
)
"""The limits of a testbed of machines."""

WATCHED = """
exec 3<&0
process=$$
{ cat <&3 >/dev/null
  kill -INT $process && sleep 3
  kill -s KILL -- -$process || kill -s KILL $process
} >/dev/null 2>&1 &
echo "perpacket-process $process" >&2
exec "$@" </dev/null 3<&-
"""
"""This script runs on the machine. It prints its process id and then becomes the command. A guard
process waits for the end of the script's standard input, then interrupts the command and kills its
process group. sshd starts a session for the login shell, which becomes the script, so the script's
process id is that of the group. The guard belongs to the group; while it runs, no other process can
get that id."""

GREETING = """
echo perpacket
sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status
"""
"""The first command on every machine. It finds login shells that print text of their own or run no
commands. The last line lists the processors that processes may use on the machine."""

CACHE = 'cd && echo "${XDG_CACHE_HOME:-$(pwd -P)/.cache}"'
"""Prints the cache folder, in which the agent is stored."""

COPY = """
new="$2.new-$$"
trap 'rm -f -- "$new"' EXIT
mkdir -p -- "$1" && cat >"$new" || exit
[ "$(wc -c <"$new")" -eq "$4" ] || { echo "cut short: is the disk full?" >&2; exit 1; }
chmod "$3" "$new" && mv -f -- "$new" "$2"
"""
"""Writes standard input to the file $2 in the folder $1 with mode $3, if the input has $4 bytes.
The input is shorter if the sending process was killed."""

MAKE_FOLDER = """
cd -- "${TMPDIR:-/tmp}" || exit
for left in "$1"[0-9]*-[0-9]*-*; do
    [ -d "$left" ] && [ ! -L "$left" ] && [ -O "$left" ] || continue
    owner="${left#"$1"}"
    owner="${owner%-*}"
    started=$(sed -n 's/.*) [^ZX] /- /p' "/proc/${owner%-*}/stat" 2>/dev/null | cut -d ' ' -f 20)
    [ "$started" = "${owner#*-}" ] || rm -rf -- "$left"
done
folder=$(mktemp -d "$(pwd -P)/$1$2-XXXXXX") && chmod 755 "$folder" && echo "$folder"
"""
"""Removes the folders with prefix $1 whose owner has ended, and makes a folder for the owner $2. It
does the same as `record.remove_folders` and `LocalHost.make_folder`, but without Python."""


class Connection:
    """A shared connection to a machine, `user@host[:port]`."""

    def __init__(self, target: str, socket: Path, options: Sequence[str], run: str) -> None:
        """Open the connection. The path of its socket must be short: unix(7)."""
        match = re.fullmatch(r"(?:[^@\s]+@)?(\[[^\]\s]+\]|[^:@\s-][^:@\s]*)(?::(\d+))?", target)
        if match is None:
            raise ConfigurationError(
                f"machine {target!r}", "machine", target, "expected [user@]host[:port]"
            )
        self.target = target
        port = ["-p", match[2]] if match[2] else []
        destination = target.rpartition(f":{match[2]}")[0] if match[2] else target
        self._options = [
            *("-o", f"ControlPath={socket}", "-o", f"ConnectTimeout={CONNECT_S}"),
            *(word for option in PLAIN for word in ("-o", option)),
            *port,
            *options,
        ]
        self._destination = destination.replace("[", "").replace("]", "")
        self._by_hand = " ".join(["ssh", *port, self._destination, "true"])
        self.host = self._host_name() or match[1].strip("[]")
        master = ["-o", "ControlMaster=yes", *self._options, "-N", self._destination]
        self._shared = LocalProcess(["ssh", *master], run=run)
        try:
            self._wait_until_open()
        except BaseException:
            self.close()
            raise

    def _host_name(self) -> str:
        """The host name in the user's ssh configuration, a file that other machines lack."""
        command = ["ssh", *self._options, "-G", self._destination]
        try:
            shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except FileNotFoundError:
            return ""
        match = re.search(r"^hostname (\S+)$", shown, re.MULTILINE)
        return match[1] if match else ""

    def _wait_until_open(self) -> None:
        """Wait until commands can share the connection."""
        check = ["ssh", *self._options, "-O", "check", self._destination]
        end_s = time.monotonic() + 3 * CONNECT_S
        while subprocess.run(check, capture_output=True, check=False).returncode != 0:
            ended = self._shared.poll() is not None
            if ended or time.monotonic() > end_s:
                # For a changed host key ssh prints a dozen lines.
                words = self._shared.stderr.strip().rpartition("\n")[2] or "no response"
                raise MachineLacks(
                    f"machine {self.target}: {words}",
                    f"`{self._by_hand}` must work without a prompt",
                )
            time.sleep(0.05)

    def command(self, *remote: str) -> list[str]:
        """The local command that runs `remote` on the machine.

        Raises `RunFailed` if the connection is lost. Without this check, each command would try to
        connect by itself, one after another.
        """
        if self._shared.poll() is not None:
            raise self._gone(self._shared.stderr)
        shared = ["-o", "ControlMaster=no", *self._options]
        return ["ssh", *shared, self._destination, shlex.join(remote)]

    def _gone(self, words: str) -> RunFailed:
        silent = f"no response for {SILENCE_S * SILENCES} s, or ssh was stopped"
        reason = words.strip().rpartition("\n")[2] or silent
        return RunFailed(
            f"machine {self.target}: the connection is lost: {reason}",
            f"check whether `{self._by_hand}` works again",
        )

    def run(
        self, *remote: str, given: bytes = b"", limit_s: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a small command on the machine, with `given` as its standard input."""
        limit_s = COMMAND_S if limit_s is None else limit_s
        try:
            done = subprocess.run(
                self.command(*remote),
                input=given,
                capture_output=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RunFailed(
                f"machine {self.target}: {remote[0]} did not end within {limit_s:g} s",
                "check whether the machine still responds",
            ) from error
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        if done.returncode == SSH_FAILED:
            raise self._gone(err)
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def close(self) -> None:
        """Close the connection; processes on the machine then lose their input and end."""
        self._shared.stop()


class RemoteProcess(LocalProcess):
    """A process on a machine, controlled by the local ssh process that runs it."""

    def __init__(self, connection: Connection, run: str, command: Sequence[str]) -> None:
        """Start the process and wait for its process id."""
        self._connection = connection
        self._stopping = threading.Lock()
        remote = ["sh", "-c", WATCHED, "perpacket", *command]
        super().__init__(connection.command(*remote), run=run, open_input=True)
        started = self.wait_for_line(r"^perpacket-process (\d+)$", CONNECT_S)
        self._pid = int(started[1])

    @property
    def pid(self) -> int:
        """The process id on the machine."""
        return self._pid

    @property
    def stderr(self) -> str:
        """The standard error until now."""
        return re.sub(r"^perpacket-process \d+\n", "", super().stderr)

    def send_signal(self, number: int) -> None:
        """Send a signal to the process on the machine, unless it has ended."""
        if self.poll() is None:
            self._connection.run("kill", f"-{int(number)}", str(self.pid))

    def stop(self, timeout_s: float = 5) -> int:
        """End the process: SIGINT, then SIGTERM, then SIGKILL. Then end the local ssh."""
        with self._stopping:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                try:
                    self.send_signal(number)
                except RunFailed:
                    break
                end_s = time.monotonic() + timeout_s
                while self.poll() is None and time.monotonic() < end_s:
                    time.sleep(0.01)
                if self.poll() is not None:
                    break
            # The connection itself may hang.
            return super().stop(timeout_s)


class RemoteMachine(ProcessHost):
    """A machine as a host; see `perpacket.measure.hosts.contract.Host`."""

    def __init__(self, name: str, connection: Connection, run: str) -> None:
        """A host for an open connection."""
        super().__init__(name, connection.host, _greeted(connection))
        self._connection = connection
        self._run = run
        self._agent: str | None = None
        self._owner: str | None = None

    def open(self, command: Sequence[str], cpus: Sequence[int] | None) -> RemoteProcess:
        """Start a process without recording it, on `cpus` if they are given."""
        words = [str(word) for word in command]
        if self._connection.run("sh", "-c", 'command -v "$0"', words[0]).returncode != 0:
            raise MachineLacks(
                f"{words[0]} on {self._connection.target}: no such program",
                "install it there, or name the program by its path",
            )
        if cpus:
            words = ["taskset", "-c", ",".join(map(str, cpus)), *words]
        return RemoteProcess(self._connection, self._run, words)

    def agent(self) -> str:
        """Path of the agent on the machine, with the local agent's digest; copied if missing."""
        if self._agent is None:
            self._agent = self._copied_agent()
        return self._agent

    def _copied_agent(self) -> str:
        """Copy the agent if needed; raises `MachineLacks` if that fails or it does not run."""
        target = self._connection.target
        local = agent.find()
        digest = agent.sha256(local)
        printed = self._connection.run("sh", "-c", CACHE)
        if printed.returncode != 0:
            raise MachineLacks(
                f"perpacket-agent on {target}: no home directory: {printed.stderr.strip()}",
                "name a user who has one",
            )
        place = f"{printed.stdout.strip()}/perpacket/agent-{digest[:16]}"
        if self._digest(place) != digest:
            copied = self._copy(local, place)
            if copied.returncode != 0 or self._digest(place) != digest:
                words = copied.stderr.strip() or "the copy has another digest"
                raise MachineLacks(
                    f"perpacket-agent on {target}: cannot be copied to {place}: {words}",
                    "make that place writable, or set XDG_CACHE_HOME there to one that is",
                )
        started = self._connection.run(place, "--version")
        if started.returncode != 0:
            raise MachineLacks(
                f"perpacket-agent on {target}: {place} does not run: {started.stderr.strip()}",
                "the machine needs the same architecture and C library as this one, and a file "
                "system there from which programs may run",
            )
        return place

    def _digest(self, place: str) -> str:
        return self._connection.run("sha256sum", place).stdout.partition(" ")[0]

    def put(self, local: Path, remote: str) -> None:
        """Copy a file and make its parent folders; a partial copy is discarded."""
        copied = self._copy(local, remote)
        if copied.returncode != 0:
            raise RunFailed(
                f"{remote} on {self._connection.target}: {copied.stderr.strip()}",
                "make the place writable",
            )

    def _copy(self, local: Path, remote: str) -> subprocess.CompletedProcess[str]:
        mode = oct(local.stat().st_mode & 0o777)[2:]
        content = local.read_bytes()
        words = (str(PurePosixPath(remote).parent), remote, mode, str(len(content)))
        command = ("sh", "-c", COPY, "perpacket", *words)
        return self._connection.run(*command, given=content, limit_s=COPY_S)

    def owner(self) -> str:
        """An idle process on the machine, which ends with this process or the connection."""
        if self._owner is None:
            pid = self.start(["tail", "-f", "/dev/null"]).pid
            stat = self._connection.run("cat", f"/proc/{pid}/stat").stdout
            self._owner = f"{pid}-{start_of(stat)}"
        return self._owner

    def make_folder(self, prefix: str) -> str:
        """A new folder that all users may read; removes the folders of dead runs first."""
        command = ("sh", "-c", MAKE_FOLDER, "perpacket", prefix, self.owner())
        made = self._connection.run(*command, limit_s=COPY_S)
        if made.returncode != 0:
            raise MachineLacks(
                f"{self._connection.target}: no folder for temporary files: {made.stderr.strip()}",
                "make /tmp writable there, or set TMPDIR there to a folder that is",
            )
        return made.stdout.strip()


def _greeted(connection: Connection) -> tuple[int, ...]:
    """The processors of a machine; checks that its login shell prints nothing of its own."""
    greeting = connection.run("sh", "-c", GREETING)
    match = re.fullmatch(r"perpacket\n(\d[\d,-]*)\n", greeting.stdout)
    if match is None:
        lines = f"{greeting.stdout}\n{greeting.stderr}".splitlines()
        words = next((line for line in lines if line not in ("", "perpacket")), "nothing")
        raise MachineLacks(
            f"machine {connection.target}: expected a login shell that runs commands and prints "
            f"nothing of its own, on Linux; it printed: {words}",
            "let its start files print nothing without a terminal, or name another user",
        )
    return tuple(numbers(match[1]))


class Machines(ClosingTestbed):
    """A server and clients, each on a machine of its own."""

    network = "machines"
    limits: tuple[str, ...] = LIMITS
    no_latency = (
        "between machines: perpacket does not control their network",
        "set it on the machines with netem, or use network namespaces",
    )

    def __init__(self, server: str, clients: Sequence[str], ssh_options: Sequence[str]) -> None:
        """Connect to all machines; after an error close all connections and raise it."""
        if not clients:
            raise ConfigurationError("clients: none given", "clients", "", "name at least one")
        remove_leftovers()
        self._record = Record()
        self._hosts: list[RemoteMachine] = []
        self._connections: dict[str, Connection] = {}
        try:
            self._record.write()
            run, folder = self._record.run, self._record.sockets
            folder.mkdir(mode=0o700)
            for number, target in enumerate((server, *clients)):
                name = f"client{number}" if number else "server"
                if target not in self._connections:
                    socket = folder / str(number)
                    self._connections[target] = Connection(target, socket, ssh_options, run)
                self._hosts.append(RemoteMachine(name, self._connections[target], run))
        except BaseException:
            self.take_down()
            raise
        self.server = self._hosts[0]
        self.clients = tuple(self._hosts[1:])

    def take_down(self) -> None:
        """Stop the clients, then the server; a second call does nothing."""
        try:
            for host in reversed(self._hosts):
                host.stop_all()
        finally:
            for connection in self._connections.values():
                connection.close()
            self._record.take_down()
