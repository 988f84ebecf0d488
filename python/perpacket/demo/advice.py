"""What would make this machine's packets cheaper: advice on our web server under load.

The server sends the demo's file over loopback. This needs the rights of a profile and no root.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perpacket.advise import glance, observation
from perpacket.advise.advice import Report
from perpacket.errors import RunFailed
from perpacket.measure import agent

FILE = "file.bin"
CONNECTIONS = 32
PROFILE_S = 2.0
LOAD_S = 30
"""Longer than the profile: the load is ended with it."""

END_S = 5.0


def run(file_bytes: int) -> Report | None:
    """Advice on `serve web` under load; None if this machine cannot be profiled."""
    with tempfile.TemporaryDirectory(prefix="perpacket-demo-site-") as folder:
        Path(folder).chmod(0o755)  # the server becomes another user
        (Path(folder) / FILE).write_bytes(bytes(file_bytes))
        try:
            with server(folder) as (pid, url), load(url):
                return glance.quietly(lambda: observation.observe(PROFILE_S, pid, ""))
        except (RunFailed, OSError):
            return None


@contextmanager
def server(root: str) -> Iterator[tuple[int, str]]:
    """`serve web` on a free port: its process and its address."""
    command = [str(agent.find()), "serve", "web", "--root", root, "--listen", "127.0.0.1:0"]
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
    options = ["--connections", str(CONNECTIONS), "--duration", str(LOAD_S)]
    command = [str(agent.find()), "load", "http", f"{url}/{FILE}", *options]
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
