"""Advice on `perpacket serve web` on this machine, and a trial of the best change.

The server sends the demo's file over loopback. Advice needs the right to profile, but not root. If
the change most worth trying is an option of the server, a short trial tries it on a second server.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perpacket.advise import glance, observation, trial
from perpacket.advise.advice import Report
from perpacket.advise.servers import SERVE_WEB
from perpacket.advise.trial import Plan, Trial
from perpacket.advise.windows import HttpLoad
from perpacket.errors import PerpacketError, RunFailed
from perpacket.measure import agent

FILE = "file.bin"
CONNECTIONS = 32
PROFILE_S = 2.0
LOAD_S = 30
"""Time limit of the load, longer than the profile. The load is stopped after the profile."""

END_S = 5.0
"""The time in which a program ends after SIGTERM, before it is killed."""

BLOCKS, WINDOW_S, SETTLE_S = 5, 0.4, 0.1
"""A short trial, which only finds large effects."""


@dataclass(frozen=True, slots=True)
class Advised:
    """Advice, and the trial of the change most worth trying."""

    report: Report
    trial: Trial | None
    """None if the change is not an option of the server, or if the trial failed."""


def run(file_bytes: int) -> Advised | None:
    """Advice on `serve web` under load; None if this machine cannot be profiled."""
    with tempfile.TemporaryDirectory(prefix="perpacket-demo-site-") as folder:
        Path(folder).chmod(0o755)  # the server may run as another user
        (Path(folder) / FILE).write_bytes(bytes(file_bytes))
        try:
            with server(folder) as (pid, address):
                url = f"{address}/{FILE}"
                with load(url):
                    report = glance.quietly(lambda: observation.observe(PROFILE_S, pid, ""))
                return None if report is None else Advised(report, tried(report, pid, url))
        except (RunFailed, OSError):
            return None


def tried(report: Report, pid: int, url: str) -> Trial | None:
    """The result of trying the report's first change on a second server."""
    first = report.to_try
    if first is None or SERVE_WEB not in first.change.server:
        return None
    plan = Plan(
        changes=(f"{first.change.name}={first.value}",),
        pid=pid,
        load=HttpLoad(url, CONNECTIONS, ""),
        url=url,
        blocks=BLOCKS,
        window_s=WINDOW_S,
        settle_s=SETTLE_S,
    )
    try:
        outcome = trial.run(plan)
    except (PerpacketError, OSError):
        return None
    if outcome.is_interrupted:
        raise KeyboardInterrupt  # the demo stores no part of its results
    return outcome.trials[0]


@contextmanager
def server(root: str) -> Iterator[tuple[int, str]]:
    """`serve web` on a free port: its process id and its address, as `http://127.0.0.1:8080`."""
    words = agent.words("serve web", root=root, listen="127.0.0.1:0")
    command = [str(agent.find()), *words]
    with running(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        address = re.search(r"http://\S+", line)
        if address is None:
            raise RunFailed(f"serve web: {line.strip() or 'it did not start'}")
        yield process.pid, address[0]


@contextmanager
def load(url: str) -> Iterator[None]:
    """Requests for the file until the context ends."""
    words = agent.words("load http", url=url, connections=CONNECTIONS, duration=LOAD_S)
    command = [str(agent.find()), *words]
    with running(command, stderr=subprocess.DEVNULL):
        yield


@contextmanager
def running(command: list[str], stderr: int) -> Iterator[subprocess.Popen[str]]:
    """A program that ends with the context."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, text=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()
