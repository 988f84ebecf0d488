"""The data of advice: a profile, the machine's counters before and after it, and the server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from perpacket.advise import (
    counters,
    growth,
    links,
    listening,
    profile,
    server_processes,
    settings,
)
from perpacket.advise.counters import Counters
from perpacket.advise.expression import NotReadable
from perpacket.advise.growth import Growth
from perpacket.advise.links import Link
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.profile import Profile
from perpacket.advise.servers import Server
from perpacket.errors import ConfigurationError, MachineLacks, PerpacketError

SettingReader = Callable[[Mapping[str, str], str], str]
"""A function that reads the present value of a setting from its table and an interface.

Raises `NotReadable` with the reason.
"""


@dataclass(frozen=True, slots=True)
class Observation:
    """The measurements and settings from which advice is computed."""

    profile: Profile
    scope: NetworkScope
    links: Mapping[str, Link]
    read_setting: SettingReader
    server: Server | None = None
    pid: int | None = None
    growth: Growth | None = None
    """How much the kernel's counters grew during the profile; None if they were not read."""
    interfaces: tuple[str, ...] = ()
    """The interfaces that carried packets, the busiest first; or the one that was named."""
    workers: tuple[int, ...] = field(default=())
    """The server's process and its children."""
    cpus: int = field(default_factory=lambda: os.cpu_count() or 1)
    """The number of processors; 0 if it is not known."""
    is_case: bool = False
    """Whether the facts are those of files. Then nothing is read from this machine."""
    url: str = ""
    """The URL at which the server listens; empty if it is not known."""
    files: tuple[tuple[str, str], ...] = ()
    """The files of a case, with what was recognized in each."""
    unknown: tuple[str, ...] = ()
    """The files of a case that were not recognized."""

    @property
    def grown(self) -> Growth:
        """The growth of counters; raises `NotReadable` without it."""
        if self.growth is None:
            raise NotReadable("a stored profile has no counters of processors and connections")
        return self.growth


def observe(duration_s: float, pid: int | None, interface: str, requests: str = "") -> Observation:
    """Profile the machine now, and read its counters and settings."""
    check(pid, interface)
    before = read_counters(pid)
    scope = scope_of(pid) if requests else NetworkScope()
    measured = scope.inside(lambda: profile.measure(duration_s, pid, requests))
    return of_profile(measured, pid, interface, before, read_counters(pid))


def read_counters(pid: int | None) -> Counters:
    """The counters of the machine, and of a server with its network namespace."""
    return counters.read(pid, workers_of(pid), scope_of(pid))


def of_profile(
    measured: Profile,
    pid: int | None,
    interface: str,
    before: Counters | None = None,
    after: Counters | None = None,
) -> Observation:
    """A profile with the settings of this machine, or of the namespace of a process."""
    check(pid, interface)
    scope = scope_of(pid)
    found = links.links(scope)
    names = (interface,) if interface else busy_interfaces(measured, found)
    server = None if pid is None else server_processes.find(pid)
    workers = workers_of(pid)
    link = found.get(names[0]) if names else None
    return Observation(
        measured,
        scope,
        found,
        setting_reader(scope),
        server,
        pid,
        None if before is None or after is None else growth.between(before, after),
        names,
        workers,
        url="" if server is None else listening.url(server, workers, link, scope.namespace is None),
    )


def check(pid: int | None, interface: str) -> None:
    """Raise `ConfigurationError` unless the process and the interface exist."""
    if pid is not None and not Path(f"/proc/{pid}").exists():
        raise ConfigurationError(
            f"--pid {pid}: there is no such process",
            parameter="--pid",
            value=str(pid),
            hint="`pidof -s nginx` prints the number of a process",
        )
    present = links.links(scope_of(pid)) if interface else ()
    if interface and interface not in present:
        raise ConfigurationError(
            f"--interface {interface}: there is no such interface",
            parameter="--interface",
            value=interface,
            allowed=f"there are {', '.join(present)}",
        )


def busy_interfaces(measured: Profile, found: Mapping[str, Link]) -> tuple[str, ...]:
    """The interfaces that carried packets, the busiest first."""

    def packets(name: str) -> float:
        keys = ("packets_sent", "packets_received")
        return sum(measured.number("interfaces", name, key) for key in keys)

    names = [name for name in measured.table("interfaces") if name in found and packets(name) > 0]
    return tuple(sorted(names, key=packets, reverse=True))


def scope_of(pid: int | None) -> NetworkScope:
    """The network namespace of a process; without the right to read it, that of this process."""
    try:
        return NetworkScope.of(pid)
    except MachineLacks:
        return NetworkScope()


def setting_reader(scope: NetworkScope) -> SettingReader:
    """A function that reads settings in a network namespace."""

    def read(table: Mapping[str, str], interface: str) -> str:
        try:
            return settings.open(table, replace(scope, interface=interface)).read()
        except (PerpacketError, settings.Gone) as error:
            raise NotReadable(str(error)) from None
        except OSError as error:
            raise NotReadable((error.strerror or str(error)).lower()) from None

    return read


def workers_of(pid: int | None) -> tuple[int, ...]:
    """A process and its children; empty without a process."""
    if pid is None:
        return ()
    path = Path(f"/proc/{pid}/task/{pid}/children")
    with contextlib.suppress(OSError):
        return (pid, *map(int, path.read_text().split()))
    return (pid,)


def sockets(pids: tuple[int, ...]) -> int:
    """The open sockets of processes; raises `NotReadable` for those of another user."""
    found = 0
    for pid in pids:
        try:
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(FileNotFoundError):
                    found += os.readlink(entry.path).startswith("socket:")
        except PermissionError:
            raise NotReadable(f"the connections of process {pid}: another user owns it") from None
        except FileNotFoundError:
            continue
    return found
