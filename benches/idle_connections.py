"""The cost of 10,000 idle kept-alive connections to `serve web`: memory and CPU time.

    .venv/bin/python benches/idle_connections.py
    .venv/bin/python benches/idle_connections.py --connections 5000 --architecture events

Each connection requests one file and is then idle. The memory of the process is the growth of its
proportional set size (`/proc/PID/smaps_rollup`). The kernel's memory is the growth of all slabs
(`Slab` of `/proc/meminfo`). It is an upper bound: it includes both ends of each connection, because
the client runs on the same machine, and other work of the machine. CPU time is the scheduler's
count for the server's threads during the wait (`/proc/PID/task/*/schedstat`).
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from perpacket.measure.agent import find as installed_agent

BAR_BYTES = 10_000
"""The most memory of the process for each connection."""

BAR_CPU = 0.001
"""The most CPU time per wall time while all connections are idle: a thousandth of a core."""

REQUEST = b"GET /f HTTP/1.1\r\nHost: h\r\n\r\n"


def options() -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", help="default: the installed agent")
    parser.add_argument("--architecture", default="events")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    arguments.agent = arguments.agent or str(installed_agent())
    return arguments


def kilobytes(file: str, name: str) -> int:
    """Return the bytes of a line such as `Slab:  123 kB` in a file of procfs."""
    for line in Path(file).read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    sys.exit(f"{file} has no {name}")


def run_time_ns(process: int) -> int:
    """Return the run time of a process's threads, in nanoseconds."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def connect(port: int, count: int) -> list[socket.socket]:
    """Open connections, each after one request and its response."""
    connections: list[socket.socket] = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(REQUEST)
        response = b""
        while not response.endswith(b"idle"):
            part = connection.recv(4096)
            if not part:
                sys.exit(f"connection {len(connections)} was closed: {response!r}")
            response += part
        connections.append(connection)
    return connections


def main() -> None:
    """Measure and print."""
    arguments = options()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < arguments.connections + 200:
        print(f"skipped: {hard} descriptors allowed for {arguments.connections} connections")
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "f").write_bytes(b"idle")
        command = [arguments.agent, "serve", "web", "--root", folder, "--listen", "127.0.0.1:0"]
        command += ["--architecture", arguments.architecture, "--idle-timeout", "1h", "--quiet"]
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as server:
            try:
                assert server.stderr is not None
                port = int(server.stderr.readline().rpartition(":")[2])
                measure(arguments, server.pid, port)
            finally:
                server.terminate()


def measure(arguments: argparse.Namespace, process: int, port: int) -> None:
    """Connect, wait, and measure."""
    warm = connect(port, 100)
    smaps = f"/proc/{process}/smaps_rollup"
    before = kilobytes(smaps, "Pss"), kilobytes("/proc/meminfo", "Slab")
    connections = connect(port, arguments.connections)
    after = kilobytes(smaps, "Pss"), kilobytes("/proc/meminfo", "Slab")
    time.sleep(1)
    before_ns, start = run_time_ns(process), time.monotonic()
    time.sleep(arguments.seconds)
    used = (run_time_ns(process) - before_ns) / 1e9 / (time.monotonic() - start)
    own, slab = (
        (late - early) / arguments.connections for early, late in zip(before, after, strict=True)
    )
    print(
        f"# {platform.platform()}, {os.cpu_count()} CPUs; --architecture {arguments.architecture}"
    )
    print(f"# {arguments.connections} idle connections, {arguments.seconds:g} s")
    verdict = "met" if own < BAR_BYTES else "missed"
    print(f"process   {own:9.0f} bytes each   (bar {BAR_BYTES}: {verdict})")
    print(f"slabs     {slab:9.0f} bytes each   (both ends, the whole machine)")
    both = "met" if own + slab < BAR_BYTES else "not met"
    print(f"together  {own + slab:9.0f} bytes each   (below {BAR_BYTES}: {both})")
    at_rest = "met" if used < BAR_CPU else "missed"
    print(f"CPU       {used:9.6f} cores        (bar {BAR_CPU}: {at_rest})")
    for connection in [*warm, *connections]:
        connection.close()


if __name__ == "__main__":
    main()
