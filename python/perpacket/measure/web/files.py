"""What the server under test serves, on the server's host, and the traces the clients replay.

The files are made before the first run, because half a gigabyte takes longer than a run, and
removed after the last. A folder's name has the process id and the start of its owner: the next
study on the same machine removes what a killed study left.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from perpacket.errors import RunFailed
from perpacket.measure import programs
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket.measure.hosts.record import own_name, remove_folders
from perpacket.measure.web.plan import Plan

PREFIX = "perpacket-study-"
"""How the name of a folder begins; then comes its owner, as `own_name` has it."""

TRACE_NAME = "requests.log"
TRACE_SEED = 1
"""Seed of a synthesized trace: every run of a study replays the same requests."""

QUICK_S = 30.0
SLOW_S = 600.0
"""How long commands may take: those that do little, and those that write whole file sets."""

NO_FILES = "none"
"""The set of a load that asks for no file."""


class Files:
    """Where the file sets and the trace are, by host."""

    def __init__(self, folders: dict[str, str], traces: frozenset[str]) -> None:
        """Not for direct use: see `file_sets`."""
        self._folders = folders
        self._traces = traces

    def folder(self, host: Host) -> str:
        """The folder of all that this study put on a host."""
        return self._folders[host.name]

    def root(self, host: Host, plan: Plan) -> str:
        """The folder that the server serves for this plan."""
        return f"{self._folders[host.name]}/{set_name(plan)}"

    def trace(self, host: Host, plan: Plan) -> str:
        """The trace that a client replays; empty where the plan has none."""
        name = trace_name(plan)
        return f"{self._folders[host.name]}/{name}" if name in self._traces else ""


def set_name(plan: Plan) -> str:
    """The name of the file set a plan asks from; plans with one name share the files."""
    match plan.kind:
        case "specweb99":
            return f"specweb99-{plan.file_set_connections or plan.connections}"
        case "trace":
            return f"{trace_name(plan)}-files"
        case "stream":
            return NO_FILES
        case kind:
            return kind


def trace_name(plan: Plan) -> str:
    """The name of a plan's trace among the files; plans with one name replay one trace."""
    if not plan.trace:
        return f"{plan.trace_requests}-{TRACE_NAME}"
    # Two traces may have one file name: the whole path tells them apart.
    return f"own-{hashlib.sha256(os.fsencode(plan.trace)).hexdigest()[:16]}-{TRACE_NAME}"


@contextmanager
def file_sets(testbed: Testbed, plans: Sequence[Plan]) -> Iterator[Files]:
    """Make what the plans ask for on the server and its clients; remove it afterwards.

    Raises `RunFailed` naming what could not be made.
    """
    hosts = [testbed.server, *testbed.clients]
    with ExitStack() as stack:
        # Hosts may share a name, and then they are one machine.
        named = {host.name: host for host in hosts}
        folders = {name: stack.enter_context(made_folder(host)) for name, host in named.items()}
        traces = _make_traces(hosts, folders, plans)
        for name in dict.fromkeys(set_name(plan) for plan in plans):
            of_set = [plan for plan in plans if set_name(plan) == name]
            _make_set(testbed.server, folders[testbed.server.name], name, of_set)
        yield Files(folders, traces)


@contextmanager
def made_folder(host: Host) -> Iterator[str]:
    """A folder of our own that the server may read after it gave up its rights; removed later."""
    folder = host.make_folder(PREFIX)
    try:
        yield folder
    finally:
        # Report the error that ended the run, not this one; the next run removes the folder.
        with suppress(RunFailed):
            host.run(["rm", "-rf", folder], timeout_s=SLOW_S)


def _make_traces(
    hosts: Sequence[Host], folders: dict[str, str], plans: Sequence[Plan]
) -> frozenset[str]:
    """Put each trace that is replayed on every host; the names of those there are."""
    wanted = {trace_name(plan): plan for plan in plans if plan.kind == "trace"}
    remove_folders(PREFIX)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{own_name()}-") as scratch:
        for name, plan in wanted.items():
            local = Path(plan.trace) if plan.trace else Path(scratch) / name
            if not plan.trace:
                from perpacket import traces

                # A World Cup day without its pauses: the clients ask as fast as they can anyway.
                traces.synthesize(
                    local, workload="W", requests=plan.trace_requests, seed=TRACE_SEED
                )
            for host in hosts:
                host.put(local, f"{folders[host.name]}/{name}")
    return frozenset(wanted)


def _make_set(server: Host, folder: str, name: str, plans: Sequence[Plan]) -> None:
    """Make one file set on the server's host."""
    plan, into = plans[0], f"{folder}/{name}"
    done(server, ["mkdir", "-p", into], QUICK_S)
    match plan.kind:
        case "file":
            for size_bytes in sorted({each.size_bytes for each in plans}):
                _put_file(server, size_bytes, f"{into}/{programs.file_name(size_bytes)}")
        case "specweb99":
            connections = str(plan.file_set_connections or plan.connections)
            _load_files(server, "specweb99", into, "--connections", connections)
        case "trace":
            _load_files(server, "trace", into, "--trace", f"{folder}/{trace_name(plan)}")
        case "surge":
            _load_files(server, "surge", into)
        case "stream":
            pass


def _put_file(server: Host, size_bytes: int, remote: str) -> None:
    with tempfile.NamedTemporaryFile(prefix=PREFIX) as local:
        local.write((b"perpacket" * (size_bytes // 9 + 1))[:size_bytes])
        local.flush()
        server.put(Path(local.name), remote)
    done(server, ["chmod", "644", remote], QUICK_S)


def _load_files(server: Host, workload: str, into: str, *options: str) -> None:
    done(server, [server.agent(), "load", "files", workload, "--into", into, *options], SLOW_S)


def done(host: Host, command: Sequence[str], timeout_s: float) -> str:
    """Run a command that must succeed; its standard output. Raises `RunFailed`."""
    ended = host.run(command, timeout_s=timeout_s)
    if ended.returncode:
        raise RunFailed(
            f"{' '.join(command[:3])} on {host.name} ended with status {ended.returncode}: "
            f"{programs.last_error(ended)}"
        )
    return ended.stdout
