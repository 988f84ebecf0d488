"""A twin: a second server like the first, with some options changed and an address of its own.

A server reads its options when it starts. A trial must not restart a server that others use.
Therefore it starts two twins beside that server, one with the options and one without a change, and
loads the three in turn. A twin runs as the same user, on the same processors, with the same
priority, and in the same network namespace, folder and control group.

Without a control group of processor time, the kernel's scheduler groups processes by session
(autogroup, sched(7)). No process can join the session of another one. Therefore each twin has a
session of its own, as a server that runs as a daemon has.
"""

from __future__ import annotations

import os
import pwd
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from perpacket.advise import links, servers
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.servers import Directive, Server
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure import agent
from perpacket.measure.hosts.local import free_ports
from perpacket.measure.hosts.record import temporary_folder

BLOCKS = {"worker_processes": "", "multi_accept": "events", "accept_mutex": "events"}
"""The nginx block that contains each directive; all other directives belong in `http`."""

READY_S = 20.0
"""Time limit for a server to listen."""

GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Twin:
    """A second server that runs."""

    pid: int
    url: str
    """The URL of the trial with the twin's address."""


AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")

WAITING = 'read -r _ && exec "$@"'
"""A shell command that waits for a line before the server starts, so that the server and all its
workers begin on the right processors and in the right group."""


@contextmanager
def running(
    server: Server, options: Sequence[str], url: str, scope: NetworkScope
) -> Iterator[Twin]:
    """Start the twin of a server with these options; yields it once it listens.

    Raises `MachineLacks` for servers whose options perpacket does not know or if `lo` is down, and
    `RunFailed` if the twin does not listen.
    """
    parts = urlsplit(url)
    if not parts.hostname:
        raise ConfigurationError(f"--url {url}: expected http://HOST:PORT/PATH", parameter="--url")
    check_loopback(server.pid, scope)
    (port,) = scope.inside(lambda: free_ports(1))
    with temporary_folder("twin") as folder:
        os.chmod(folder, 0o755)
        command = command_of(server, options, parts.hostname, port, folder)
        process = start(command, server, scope)
        try:
            wait_until_it_listens(process, command, (parts.hostname, port), scope)
            address = parts._replace(netloc=f"{parts.hostname}:{port}").geturl()
            yield Twin(process.pid, address)
        finally:
            stop(process)


def check_loopback(pid: int, scope: NetworkScope) -> None:
    """Raise `MachineLacks` if `lo` is down: then a namespace does not reach its own addresses."""
    loopback = links.links(scope).get("lo")
    if loopback is not None and not loopback.is_up:
        raise MachineLacks(
            f"`lo` is down in the network namespace of process {pid}, so a second server there "
            "cannot be tested: its own address is reached over `lo`",
            f"as root: `{scope.shell('ip link set lo up')}`",
        )


def command_of(
    server: Server, options: Sequence[str], host: str, port: int, folder: Path
) -> list[str]:
    """The command line of the twin; raises `MachineLacks` unless it is nginx or `serve web`."""
    if server.kind == servers.SERVE_WEB:
        own = servers.given_options(server.command) or {}
        words = shlex.split(" ".join(options))
        new = agent.options_of(servers.SERVE_WEB, words, "--do") if words else {}
        program = os.readlink(f"/proc/{server.pid}/exe")
        listen = {"listen": f"{host}:{port}"}
        return [program, *agent.run(servers.SERVE_WEB, own | new | listen)]
    if server.kind == servers.NGINX:
        return nginx_command(server, options, f"{host}:{port}", folder)
    raise MachineLacks(
        f"process {server.pid} is {server.kind}: perpacket starts twins of nginx and `serve web`",
        "try the option with --do, --undo and commands of your own",
    )


def nginx_command(server: Server, options: Sequence[str], address: str, folder: Path) -> list[str]:
    """The command of nginx with a changed configuration: options, address and pid file."""
    line = [word for part in server.command for word in part.split()]
    prefix = line[line.index("-p") + 1] if "-p" in line[:-1] else ""
    file = folder / "nginx.conf"
    file.write_text("".join(one.text for one in twin_directives(server, options, address, folder)))
    program = os.readlink(f"/proc/{server.pid}/exe")
    return [
        *(program, "-c", str(file), "-e", "stderr", "-g", "daemon off;"),
        *(("-p", prefix) if prefix else ()),
    ]


def twin_directives(
    server: Server, options: Sequence[str], address: str, folder: Path
) -> list[Directive]:
    """The configuration of an nginx with some directives replaced, wherever they are."""
    words = [shlex.split(option.rstrip(";")) for option in options]
    new = {name: Directive(name, tuple(arguments)) for name, *arguments in words}

    def rewritten(directives: Sequence[Directive], block: str) -> Iterator[Directive]:
        listens = [one for one in directives if one.name == "listen"]
        if listens:
            secure = ["ssl"] if any("ssl" in one.arguments for one in listens) else []
            yield Directive("listen", (address, *secure))
        for one in directives:
            if one.name in (*new, "pid", "daemon", "listen"):
                continue
            inner = None if one.block is None else tuple(rewritten(one.block, one.name))
            yield Directive(one.name, one.arguments, inner)
        yield from (one for name, one in new.items() if BLOCKS.get(name, "http") == block)

    pid = Directive("pid", (str(folder / "nginx.pid"),))
    return [pid, *rewritten(server.configuration, "")]


def start(command: Sequence[str], server: Server, scope: NetworkScope) -> subprocess.Popen[bytes]:
    """Start a command beside a server, as the same user, where and with what it runs."""
    user, group = identity(server)

    def begin() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["sh", "-c", WAITING, "sh", *command],
            cwd=f"/proc/{server.pid}/cwd",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            user=user,
            group=group,
        )
        schedule_like(server.pid, process.pid)
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
        return process

    return scope.inside(begin)


def schedule_like(pid: int, twin: int) -> None:
    """Give a twin the processors, priority and control group of a process, as far as permitted."""
    os.sched_setaffinity(twin, os.sched_getaffinity(pid))
    with suppress(PermissionError):
        os.sched_setscheduler(twin, os.sched_getscheduler(pid), os.sched_getparam(pid))
        os.setpriority(os.PRIO_PROCESS, twin, os.getpriority(os.PRIO_PROCESS, pid))
    for mount, place in cpu_groups(pid):
        with suppress(OSError):
            (mount / place.lstrip("/") / "cgroup.procs").write_text(f"{twin}\n")


def cpu_groups(pid: int, proc: Path = Path("/proc")) -> Iterator[tuple[Path, str]]:
    """The mounted hierarchies that share processor time, and the group of a process; cgroups(7)."""
    mounts = [line.split() for line in (proc / "mounts").read_text().splitlines()]
    for line in (proc / str(pid) / "cgroup").read_text().splitlines():
        _, controllers, place = line.split(":", 2)
        for _, mount, kind, options, *_ in mounts:
            if (kind == "cgroup2" and not controllers) or (
                kind == "cgroup"
                and "cpu" in controllers.split(",")
                and set(controllers.split(",")) <= set(options.split(","))
            ):
                yield Path(mount), place


def group_note(pid: int, load: int, proc: Path = Path("/proc")) -> str:
    """A sentence if a server shares its scheduling group with the load; empty if not."""
    groups = []
    for one in (pid, load):
        try:
            name, *_ = (proc / str(one) / "autogroup").read_text().split()
        except (OSError, ValueError):
            return ""
        groups.append((name, list(cpu_groups(one, proc))))
    if groups[0] != groups[1] or AUTOGROUP.read_text().strip() != "1":
        return ""
    return (
        f"process {pid} and the load are in one scheduling group ({groups[0][0].lstrip('/')}), and "
        "the second servers are not; the verdict compares the two second servers. Start the server "
        "by `setsid` to make them alike"
    )


def identity(server: Server) -> tuple[int | None, int | None]:
    """The user and group with which the twin starts; None for those of this process.

    If root starts `serve web`, it changes to the user `nobody`. The twin of such a server also
    starts as root and then changes to `nobody`.
    """
    if os.geteuid() != 0:
        return None, None
    owner = os.stat(f"/proc/{server.pid}")
    nobody = pwd.getpwnam("nobody").pw_uid
    if server.kind == servers.SERVE_WEB and owner.st_uid in (0, nobody):
        return None, None
    return owner.st_uid, owner.st_gid


def wait_until_it_listens(
    process: subprocess.Popen[bytes],
    command: Sequence[str],
    address: tuple[str, int],
    scope: NetworkScope,
) -> None:
    """Return once the twin accepts a connection in the server's network namespace.

    Raises `RunFailed` if the twin ends, or does not listen within `READY_S`.
    """
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            assert process.stderr is not None
            words = process.stderr.read().decode(errors="replace").strip()
            raise RunFailed(
                f"the twin `{' '.join(command)}` ended: {words or 'it printed nothing'}"
            )
        try:
            scope.inside(lambda: socket.create_connection(address, timeout=1).close())
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RunFailed(f"the twin `{' '.join(command)}` does not listen on {address[0]}:{address[1]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the twin and its workers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                continue
    if process.stderr is not None:
        process.stderr.close()
