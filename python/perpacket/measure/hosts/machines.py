"""Hosts as other machines, reached by the system's ssh.

One connection a machine is kept open and shared by all commands. The agent is copied once and known
by its digest. A process on a machine ends when its connection does: its standard input is held open
from here, and a guard beside it waits for the end of that. What lies on a machine is held by a
process there, so that whoever looks there, and only there, can tell what a dead run left.
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
from re import Match

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure import agent
from perpacket.measure.hosts.contract import Completed
from perpacket.measure.hosts.hosting import ClosingTestbed, ProcessHost
from perpacket.measure.hosts.process import LocalProcess
from perpacket.measure.hosts.record import Record, remove_leftovers, start_of

CONNECT_S = 10
"""How long a machine may take to answer."""

COMMAND_S = 60.0
"""How long our own small commands may take."""

COPY_S = 600.0
"""How long copying a file there may take, or removing what a dead run left."""

SILENCE_S, SILENCES = 15, 4
"""A connection is gone when the other side keeps silent so long, so often: a server under full load
may well let it wait for some seconds."""

PLAIN = (
    *("BatchMode=yes", "LogLevel=ERROR"),
    *("ControlPersist=no", "RequestTTY=no", "RemoteCommand=none", "PermitLocalCommand=no"),
    *("ClearAllForwardings=yes", f"ServerAliveInterval={SILENCE_S}"),
    f"ServerAliveCountMax={SILENCES}",
)
"""Options of every ssh: it asks nothing, and what a user's configuration wants of a shell of theirs
is not for our commands. A terminal would mix their outputs, a persistent connection outlive us."""

SSH_FAILED = 255
"""The exit status by which ssh says that it failed itself."""

LIMITS = (
    "The machines' own network joins them: its latency, bandwidth and loss are what they are, and "
    "nothing here sets or watches them.",
    "The machines' clocks are not compared.",
    "The run's own kernel, processor and caches are those of the machine that drove it; the "
    "server's stand with the testbed.",
)
"""What a testbed of machines leaves out."""

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
"""Runs on the machine: tells the process's number, becomes the command, and interrupts it when
nobody holds its standard input any more. What it started goes with it: where sshd began a session
for it, and a login shell became it, its group bears its number. The guard is of that group, so that
nobody else can have the number meanwhile."""

GREETING = """
echo perpacket
sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status
"""
"""Asked of every machine first: a login shell may talk of its own, or run nothing at all. The last
line is the processors that our processes may use there."""

CACHE = 'cd && echo "${XDG_CACHE_HOME:-$(pwd -P)/.cache}"'
"""Where the agent goes there."""

COPY = """
new="$2.new-$$"
trap 'rm -f -- "$new"' EXIT
mkdir -p -- "$1" && cat >"$new" || exit
[ "$(wc -c <"$new")" -eq "$4" ] || { echo "cut short: is the disk full?" >&2; exit 1; }
chmod "$3" "$new" && mv -f -- "$new" "$2"
"""
"""Keeps its input as the file $2 in the folder $1 if it has its $4 bytes: the input also ends when
we are killed."""

MAKE_FOLDER = """
cd -- "${TMPDIR:-/tmp}" || exit
for left in "$1"[0-9]*-[0-9]*-*; do
    [ -d "$left" ] && [ ! -L "$left" ] && [ -O "$left" ] || continue
    holder="${left#"$1"}"
    holder="${holder%-*}"
    started=$(sed -n 's/.*) [^ZX] /- /p' "/proc/${holder%-*}/stat" 2>/dev/null | cut -d ' ' -f 20)
    [ "$started" = "${holder#*-}" ] || rm -rf -- "$left"
done
folder=$(mktemp -d "$(pwd -P)/$1$2-XXXXXX") && chmod 755 "$folder" && echo "$folder"
"""
"""Removes what dead holders left under the prefix $1 and makes a folder for the holder $2: as
`record.remove_folders` and `LocalHost.make_folder`, where there is no Python."""


class Connection:
    """A shared connection to a machine, `user@host[:port]`."""

    def __init__(self, target: str, socket: Path, options: Sequence[str], run: str) -> None:
        """Open it at that socket, whose path has to be short: unix(7)."""
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
        """Where the machine is by the user's ssh configuration, which other machines lack."""
        asked = ["ssh", *self._options, "-G", self._destination]
        try:
            shown = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        except FileNotFoundError:
            return ""
        found = re.search(r"^hostname (\S+)$", shown, re.MULTILINE)
        return found[1] if found else ""

    def _wait_until_open(self) -> None:
        """Until commands can share the connection."""
        check = ["ssh", *self._options, "-O", "check", self._destination]
        end_s = time.monotonic() + 3 * CONNECT_S
        while subprocess.run(check, capture_output=True, check=False).returncode != 0:
            ended = self._shared.poll() is not None
            if ended or time.monotonic() > end_s:
                # Of a host key that has changed, ssh tells in a dozen lines.
                words = self._shared.stderr.strip().rpartition("\n")[2] or "no answer"
                raise MachineLacks(
                    f"machine {self.target}: {words}",
                    f"`{self._by_hand}` must work without a question",
                )
            time.sleep(0.05)

    def command(self, *remote: str) -> list[str]:
        """The local command that runs one there; raises `RunFailed` once the connection is gone.

        Without it each command would try to connect for itself, one after another.
        """
        if self._shared.poll() is not None:
            raise self._gone(self._shared.stderr)
        shared = ["-o", "ControlMaster=no", *self._options]
        return ["ssh", *shared, self._destination, shlex.join(remote)]

    def _gone(self, words: str) -> RunFailed:
        silent = f"nothing came for {SILENCE_S * SILENCES} s, or ssh was ended"
        said = words.strip().rpartition("\n")[2] or silent
        return RunFailed(
            f"machine {self.target}: the connection is gone: {said}",
            f"see whether `{self._by_hand}` works again",
        )

    def run(
        self, *remote: str, given: bytes = b"", limit_s: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a small command there and return its end; it may read what is given."""
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
                "see whether the machine still answers",
            ) from error
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        if done.returncode == SSH_FAILED:
            raise self._gone(err)
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def close(self) -> None:
        """Close it; what still runs there loses its guard's input and ends."""
        self._shared.stop()


class RemoteProcess:
    """A process on a machine; see `perpacket.measure.hosts.contract.Process`."""

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
            return self._local.stop(timeout_s)

    def result(self, timeout_s: float | None = None) -> Completed:
        """Wait for its end; what it wrote."""
        done = self._local.result(timeout_s)
        return Completed(done.returncode, done.stdout, self.stderr)


class Machine(ProcessHost):
    """A machine as a host; see `perpacket.measure.hosts.contract.Host`."""

    def __init__(self, name: str, connection: Connection, run: str) -> None:
        """A host for an open connection."""
        super().__init__(name, connection.host, _greeted(connection))
        self._connection = connection
        self._run = run
        self._agent: str | None = None
        self._holder: str | None = None

    def open(self, command: Sequence[str], cpus: Sequence[int] | None) -> RemoteProcess:
        """Start a process, on those processors if any are given, without recording it."""
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
            self._agent = self._copied_agent()
        return self._agent

    def _copied_agent(self) -> str:
        """Raises `MachineLacks` when it cannot be copied or does not run."""
        target = self._connection.target
        local = agent.find()
        digest = agent.sha256(local)
        asked = self._connection.run("sh", "-c", CACHE)
        if asked.returncode != 0:
            raise MachineLacks(
                f"perpacket-agent on {target}: no home directory: {asked.stderr.strip()}",
                "name a user who has one",
            )
        place = f"{asked.stdout.strip()}/perpacket/agent-{digest[:16]}"
        if self._digest(place) != digest:
            copied = self._copy(local, place)
            if copied.returncode != 0 or self._digest(place) != digest:
                words = copied.stderr.strip() or "not what was copied there"
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
        """Copy a file, folders above it included; it appears whole or not at all."""
        copied = self._copy(local, remote)
        if copied.returncode != 0:
            raise RunFailed(
                f"{remote} on {self._connection.target}: {copied.stderr.strip()}",
                "see whether the place can be written",
            )

    def _copy(self, local: Path, remote: str) -> subprocess.CompletedProcess[str]:
        mode = oct(local.stat().st_mode & 0o777)[2:]
        content = local.read_bytes()
        words = (str(PurePosixPath(remote).parent), remote, mode, str(len(content)))
        command = ("sh", "-c", COPY, "perpacket", *words)
        return self._connection.run(*command, given=content, limit_s=COPY_S)

    def holder(self) -> str:
        """A process there that does nothing, and ends when we or the connection do."""
        if self._holder is None:
            pid = self.start(["tail", "-f", "/dev/null"]).pid
            stat = self._connection.run("cat", f"/proc/{pid}/stat").stdout
            self._holder = f"{pid}-{start_of(stat)}"
        return self._holder

    def make_folder(self, prefix: str) -> str:
        """A new folder that all may read; removes the folders of dead runs first."""
        command = ("sh", "-c", MAKE_FOLDER, "perpacket", prefix, self.holder())
        made = self._connection.run(*command, limit_s=COPY_S)
        if made.returncode != 0:
            raise MachineLacks(
                f"{self._connection.target}: no folder for temporary files: {made.stderr.strip()}",
                "make /tmp writable there, or set TMPDIR there to a folder that is",
            )
        return made.stdout.strip()


def _greeted(connection: Connection) -> tuple[int, ...]:
    """The processors of a machine; checks that its login shell prints nothing of its own."""
    said = connection.run("sh", "-c", GREETING)
    match = re.fullmatch(r"perpacket\n(\d[\d,-]*)\n", said.stdout)
    if match is None:
        lines = f"{said.stdout}\n{said.stderr}".splitlines()
        words = next((line for line in lines if line not in ("", "perpacket")), "nothing")
        raise MachineLacks(
            f"machine {connection.target}: expected a login shell that runs commands and prints "
            f"nothing of its own, on Linux; it said: {words}",
            "let its start files print nothing where there is no terminal, or name another user",
        )
    ranges = [part.partition("-") for part in match[1].split(",")]
    return tuple(
        cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)
    )


class Machines(ClosingTestbed):
    """A server and clients that are machines of their own."""

    network = "machines"
    limits = LIMITS

    def __init__(self, server: str, clients: Sequence[str], ssh_options: Sequence[str]) -> None:
        """Connect to all of them, or to none and raise."""
        if not clients:
            raise ConfigurationError("clients: none given", "clients", "", "name at least one")
        remove_leftovers()
        self._record = Record()
        self._hosts: list[Machine] = []
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
        """The machines' network reports nothing."""
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
