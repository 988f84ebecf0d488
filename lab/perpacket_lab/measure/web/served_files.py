"""The files that the server under test serves, and the traces that the clients replay."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from perpacket.measure.hosts.contract import Host, Testbed
from perpacket.measure.hosts.record import own_name, remove_folders
from perpacket_lab.measure.host_files import PREFIX, QUICK_S, SLOW_S, made_folder, output_of
from perpacket_lab.measure.programs import command as agent_command
from perpacket_lab.measure.web import web_programs
from perpacket_lab.measure.web.web_plan import WebPlan

TRACE_NAME = "requests.log"
TRACE_SEED = 1
"""Seed of a synthesized trace: every run of a study replays the same requests."""

NO_FILES = "none"
"""The file set of a load without files."""


class ServedFiles:
    """The folders of the file sets and the traces, by host."""

    def __init__(self, folders: dict[str, str], traces: frozenset[str]) -> None:
        """Use `file_sets` instead."""
        self._folders = folders
        self._traces = traces

    def folder(self, host: Host) -> str:
        """The study's folder on a host."""
        return self._folders[host.name]

    def root(self, host: Host, plan: WebPlan) -> str:
        """The folder that the server serves for this plan."""
        return f"{self._folders[host.name]}/{set_name(plan)}"

    def certificate(self, host: Host, plan: WebPlan) -> tuple[str, str]:
        """The files of the certificate and the key of a plan with TLS."""
        stem = f"{self._folders[host.name]}/{plan.tls_key}"
        return f"{stem}.crt", f"{stem}.key"

    def trace(self, host: Host, plan: WebPlan) -> str:
        """The trace that a client replays; empty for a plan without one."""
        name = trace_name(plan)
        return f"{self._folders[host.name]}/{name}" if name in self._traces else ""


def set_name(plan: WebPlan) -> str:
    """The name of a plan's file set; plans with the same name share the files."""
    match plan.kind:
        case "specweb99":
            return f"specweb99-{plan.file_set_connections or plan.connections}"
        case "trace":
            return f"{trace_name(plan)}-files"
        case "stream" | "application":
            return NO_FILES
        case kind:
            return kind


def trace_name(plan: WebPlan) -> str:
    """The file name of a plan's trace; plans with the same name replay the same trace."""
    if not plan.trace:
        return f"{plan.trace_requests}-{TRACE_NAME}"
    # Traces in two folders may have the same file name.
    return f"own-{hashlib.sha256(os.fsencode(plan.trace)).hexdigest()[:16]}-{TRACE_NAME}"


@contextmanager
def file_sets(testbed: Testbed, plans: Sequence[WebPlan]) -> Iterator[ServedFiles]:
    """The files of the plans on the server and its clients, removed afterwards.

    They are made before the first run, because writing half a gigabyte takes longer than a run.
    Raises `RunFailed` for a command that fails.
    """
    hosts = [testbed.server, *testbed.clients]
    with ExitStack() as stack:
        # Hosts with the same name are one machine.
        named = {host.name: host for host in hosts}
        folders = {name: stack.enter_context(made_folder(host)) for name, host in named.items()}
        traces = _make_traces(hosts, folders, plans)
        for name in dict.fromkeys(set_name(plan) for plan in plans):
            of_set = [plan for plan in plans if set_name(plan) == name]
            _make_set(testbed.server, folders[testbed.server.name], name, of_set)
        for key in sorted({plan.tls_key for plan in plans if plan.tls_key}):
            _make_certificate(testbed.server, f"{folders[testbed.server.name]}/{key}", key)
        yield ServedFiles(folders, traces)


def _make_traces(
    hosts: Sequence[Host], folders: dict[str, str], plans: Sequence[WebPlan]
) -> frozenset[str]:
    """Put each trace on every host; returns the names of the traces."""
    wanted = {trace_name(plan): plan for plan in plans if plan.kind == "trace"}
    remove_folders(PREFIX)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{own_name()}-") as scratch:
        for name, plan in wanted.items():
            local = Path(plan.trace) if plan.trace else Path(scratch) / name
            if not plan.trace:
                from perpacket_lab import traces

                # The clients send as fast as they can: they ignore the pauses of the 1998 World
                # Cup logs.
                traces.synthesize(
                    local, workload="W", requests=plan.trace_requests, seed=TRACE_SEED
                )
            for host in hosts:
                host.put(local, f"{folders[host.name]}/{name}")
    return frozenset(wanted)


def _make_set(server: Host, folder: str, name: str, plans: Sequence[WebPlan]) -> None:
    """Make one file set on the server's host."""
    plan, into = plans[0], f"{folder}/{name}"
    output_of(server, ["mkdir", "-p", into], QUICK_S)
    match plan.kind:
        case "file":
            for size_bytes in sorted({each.size_bytes for each in plans}):
                _put_file(server, size_bytes, f"{into}/{web_programs.file_name(size_bytes)}")
        case "specweb99":
            connections = str(plan.file_set_connections or plan.connections)
            _load_files(server, "specweb99", into, connections=connections)
        case "trace":
            _load_files(server, "trace", into, trace=f"{folder}/{trace_name(plan)}")
        case "surge" | "webstone":
            _load_files(server, plan.kind, into)
        case "stream" | "application":
            pass


def _make_certificate(server: Host, stem: str, key: str) -> None:
    """Make a self-signed certificate and its key."""
    kind = {"rsa": ["rsa:2048"], "ecdsa": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]}[key]
    request = ["openssl", "req", "-x509", "-newkey", *kind, "-nodes", "-subj", "/CN=localhost"]
    files = ["-keyout", f"{stem}.key", "-out", f"{stem}.crt"]
    output_of(server, [*request, *files], QUICK_S)


def _put_file(server: Host, size_bytes: int, remote: str) -> None:
    with tempfile.NamedTemporaryFile(prefix=PREFIX) as local:
        local.write((b"perpacket" * (size_bytes // 9 + 1))[:size_bytes])
        local.flush()
        server.put(Path(local.name), remote)
    output_of(server, ["chmod", "644", remote], QUICK_S)


def _load_files(server: Host, workload: str, into: str, **options: object) -> None:
    command = agent_command(server, "load files", workload=workload, into=into, **options)
    output_of(server, command, SLOW_S)
