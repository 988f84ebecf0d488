"""CPU time per request of `serve web` over nginx's, on one core each, in alternation.

    .venv/bin/python benches/serve_against_nginx.py
    .venv/bin/python benches/serve_against_nginx.py --rounds 200 --sizes 10240 --architecture uring
    .venv/bin/python benches/serve_against_nginx.py --client wrk --coalesce-us 100

Both servers are pinned to one CPU and the client to another. Each round runs both on the same file,
one directly after the other; the first one alternates. Many short rounds give narrower intervals
than few long ones, because a machine that shares its caches with others changes within seconds. The
CPU time is the scheduler's count for the server's threads (`/proc/PID/task/*/schedstat`,
nanoseconds), with the kernel's work for them. The client counts the responses. nginx has its
fastest settings: one worker, sendfile off, files and their descriptors cached, no log.

`busy` is the share of its core that a server used. If it is far below 1, the client is the
bottleneck, and the server also pays for waits and wakeups. The client is `load http`, because one
core of wrk is slower than one of `serve web` (`--client wrk` shows it).

A bar is met if the whole interval of the ratio is within it, and missed if none of it is. Otherwise
it is undecided: use more rounds, or a quieter machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from perpacket.analysis.statistics import Interval, paired_ratio
from perpacket.measure.agent import find as installed_agent

BARS = {612: 0.75, 10_240: 0.70, 1_048_576: 1.0}
"""Bar: the largest ratio, by file size in bytes."""

NGINX = """
worker_processes 1;
worker_cpu_affinity {mask:b};
worker_rlimit_nofile 65536;
daemon off;
user root;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log crit;
events {{ worker_connections 4096; use epoll; }}
http {{
    access_log off;
    sendfile off;
    tcp_nodelay on;
    open_file_cache max=1000 inactive=600s;
    open_file_cache_valid 600s;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    output_buffers 1 2m;
    default_type application/octet-stream;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; root {folder}/site; }}
}}
"""

CLIENTS = {
    "load": lambda output: faultless(json.loads(output)),
    "wrk": lambda output: found(r"(\d+) requests in", output),
    "ab": lambda output: found(r"Complete requests:\s+(\d+)", output),
}
"""Each client's count of responses."""


def faultless(output: dict[str, Any]) -> int:
    """Return the requests of a run without errors."""
    if output["errors"]:
        sys.exit(f"the client printed: {output['errors']}")
    return int(output["requests"])


def found(pattern: str, output: str) -> int:
    """Return the number of requests that the client printed; all must have succeeded."""
    match = re.search(pattern, output)
    if match is None or "Non-2xx" in output:
        sys.exit(f"the client printed:\n{output}")
    return int(match.group(1))


def options() -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", help="default: the installed agent")
    parser.add_argument("--architecture", default="events")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(BARS), metavar="BYTES")
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument(
        "--seconds", type=float, help="of each window: 0.25; wrk and ab take 1, 2, ..."
    )
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--client", choices=CLIENTS, default="load")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--client-cpu", type=int, default=1)
    parser.add_argument(
        "--coalesce-us", type=int, help="the value of `serve web --coalesce`, in microseconds"
    )
    arguments = parser.parse_args()
    arguments.agent = arguments.agent or str(installed_agent())
    if arguments.seconds is None:
        arguments.seconds = 0.25 if arguments.client == "load" else 1.0
    if arguments.client != "load" and not arguments.seconds.is_integer():
        parser.error(f"--seconds {arguments.seconds}: {arguments.client} takes whole seconds")
    return arguments


def run_time_ns(processes: list[int]) -> int:
    """Return the run time of all threads of some processes, in nanoseconds."""
    total = 0
    for process in processes:
        for task in Path(f"/proc/{process}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total


def children(process: int) -> list[int]:
    """Return the children of a process."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in text.split()]


def free_port() -> int:
    """Return a port without a listener."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str) -> None:
    """Wait until a server responds."""
    for _ in range(200):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as response:
            response.read()
            return
        time.sleep(0.05)
    sys.exit(f"{url} does not respond")


@contextlib.contextmanager
def started(command: list[str], **more: object) -> Iterator[subprocess.Popen[str]]:
    """Run a server and stop it at the end."""
    process = subprocess.Popen(command, text=True, **more)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)


def responses(arguments: argparse.Namespace, url: str) -> int:
    """Load a server; return the number of responses."""
    connections, seconds = str(arguments.connections), f"{arguments.seconds:g}"
    load = ["load", "http", url, "--format", "json", "--quiet"]
    commands = {
        "load": [arguments.agent, *load, "--connections", connections, "--duration", seconds],
        "wrk": ["wrk", "-t1", "-c", connections, "-d", f"{seconds}s", url],
        "ab": ["ab", "-q", "-k", "-c", connections, "-t", seconds, "-n", "100000000", url],
    }
    command = ["taskset", "-c", str(arguments.client_cpu), *commands[arguments.client]]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return CLIENTS[arguments.client](output)


@dataclass(frozen=True, slots=True)
class Spent:
    """A server's cost in a round: its processor time a request, and its share of a core."""

    us: float
    busy: float


def spent(arguments: argparse.Namespace, url: str, processes: list[int]) -> Spent:
    """Load a server and return its cost."""
    before_ns = run_time_ns(processes)
    requests = responses(arguments, url)
    used_ns = run_time_ns(processes) - before_ns
    return Spent(us=used_ns / requests / 1000, busy=used_ns / 1e9 / arguments.seconds)


def verdict(ratio: Interval, bar: float | None) -> str:
    """Judge a ratio against its bar, if it has one."""
    if bar is None:
        return ""
    if ratio.low > bar:
        return "missed"
    return "met" if ratio.high <= bar else "undecided"


def line(size: int, rounds: list[tuple[Spent, Spent]]) -> str:
    """Return one row of the table."""
    bar = BARS.get(size)
    ours, theirs = zip(*rounds, strict=True)
    ratio = paired_ratio([one.us for one in ours], [one.us for one in theirs])
    columns = [f"{size:>9}"]
    for side in (ours, theirs):
        columns.append(f"{median([one.us for one in side]):>10.2f}")
        columns.append(f"{median([one.busy for one in side]):>5.2f}")
    columns.append(f"{ratio.value:>7.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")
    columns.append(f"{bar if bar is not None else '-':>6} {verdict(ratio, bar)}")
    return " ".join(columns)


def main() -> None:
    """Measure and print."""
    arguments = options()
    tools = ["nginx", "taskset", *([] if arguments.client == "load" else [arguments.client])]
    for tool in tools:
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not here")
            return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "site").mkdir()
        for size in arguments.sizes:
            (folder / "site" / f"f{size}").write_bytes(os.urandom(size))
        port = free_port()
        configuration = folder / "nginx.conf"
        mask = 1 << arguments.server_cpu
        configuration.write_text(NGINX.format(folder=folder, port=port, mask=mask))
        ours = [arguments.agent, "serve", "web", "--root", str(folder / "site")]
        ours += ["--listen", "127.0.0.1:0", "--cpus", str(arguments.server_cpu), "--quiet"]
        ours += ["--architecture", arguments.architecture]
        if arguments.coalesce_us is not None:
            ours += ["--coalesce", f"{arguments.coalesce_us}us"]
        with (
            started(ours, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as server,
            started(["nginx", "-c", str(configuration), "-p", name]) as nginx,
        ):
            assert server.stderr is not None
            urls = [server.stderr.readline().split()[-1], f"http://127.0.0.1:{port}"]
            for url in urls:
                wait_for(f"{url}/f{arguments.sizes[0]}")
            processes = [[server.pid, *children(server.pid)], children(nginx.pid)]
            measure(arguments, urls, processes)


def measure(arguments: argparse.Namespace, urls: list[str], processes: list[list[int]]) -> None:
    """Measure all sizes in all rounds."""
    version = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True).stderr
    print(f"# {platform.platform()}, {os.cpu_count()} CPUs, {processor()}")
    coalescing = "" if arguments.coalesce_us is None else f" --coalesce-us {arguments.coalesce_us}"
    print(f"# {version.strip()}; serve web --architecture {arguments.architecture}{coalescing}")
    print(
        f"# {arguments.client}, {arguments.connections} connections kept alive, "
        f"{arguments.rounds} rounds"
    )
    print(
        f"{'bytes':>9} {'ours us':>10} {'busy':>5} {'nginx us':>10} {'busy':>5} {'ratio':>7} "
        f"{'95 %':<14} {'bar':>8}"
    )
    for size in arguments.sizes:
        rounds = []
        for number in range(arguments.rounds):
            sides: dict[int, Spent] = {}
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                sides[side] = spent(arguments, f"{urls[side]}/f{size}", processes[side])
            rounds.append((sides[0], sides[1]))
        print(line(size, rounds), flush=True)


def processor() -> str:
    """Return the processor's name."""
    for text in Path("/proc/cpuinfo").read_text().splitlines():
        if text.startswith("model name"):
            return text.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
