"""CPU time per request of `serve web` over nginx's, on one core each, in alternation.

    .venv/bin/python benches/serve_against_nginx.py
    .venv/bin/python benches/serve_against_nginx.py --rounds 15 --sizes 10240 --architecture uring
    .venv/bin/python benches/serve_against_nginx.py --coalesce-us 100

Both servers are pinned to one CPU and the client to another. Each round runs both on the same file
right after each other, the first one in turn. What a round's server used is the run time that the
scheduler counted for its threads (`/proc/PID/task/*/schedstat`, nanoseconds), the kernel's work on
its behalf included; what it answered is what the client counted. nginx runs as it is best here:
one worker, sendfile off, files and their descriptors cached, nothing logged.
"""

from __future__ import annotations

import argparse
import contextlib
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
from pathlib import Path

from perpacket.statistics import Interval, paired_ratio

BARS = {612: 0.75, 10_240: 0.70, 1_048_576: 1.0}
"""Largest ratio wanted, by file size in bytes."""

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

REQUESTS = {
    "wrk": re.compile(r"(\d+) requests in"),
    "ab": re.compile(r"Complete requests:\s+(\d+)"),
}


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default=os.environ.get("PERPACKET_AGENT", "perpacket-agent"))
    parser.add_argument("--architecture", default="events")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(BARS), metavar="BYTES")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--client", choices=REQUESTS, default="wrk")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--client-cpu", type=int, default=1)
    parser.add_argument("--coalesce-us", type=int, help="as serve web has it")
    return parser.parse_args()


def run_time_ns(processes: list[int]) -> int:
    """Run time of all threads of some processes, in nanoseconds."""
    total = 0
    for process in processes:
        for task in Path(f"/proc/{process}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total


def children(process: int) -> list[int]:
    """The processes that a process started."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in text.split()]


def free_port() -> int:
    """A port that nobody listens on now."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str) -> None:
    """Wait until a server answers."""
    for _ in range(200):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            answer.read()
            return
        time.sleep(0.05)
    sys.exit(f"{url} does not answer")


@contextlib.contextmanager
def started(command: list[str], **more: object) -> Iterator[subprocess.Popen[str]]:
    """A server that is stopped at the end."""
    process = subprocess.Popen(command, text=True, **more)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)


def load(asked: argparse.Namespace, url: str) -> int:
    """Put load on a server; requests answered."""
    pinned = ["taskset", "-c", str(asked.client_cpu)]
    connections = str(asked.connections)
    if asked.client == "wrk":
        command = ["wrk", "-t1", "-c", connections, "-d", f"{asked.seconds}s", url]
    else:
        limit = str(asked.seconds)
        command = ["ab", "-q", "-k", "-c", connections, "-t", limit, "-n", "100000000", url]
    output = subprocess.run([*pinned, *command], capture_output=True, text=True, check=True).stdout
    found = REQUESTS[asked.client].search(output)
    if found is None or "Non-2xx" in output:
        sys.exit(f"{asked.client} says:\n{output}")
    return int(found.group(1))


def cpu_us(asked: argparse.Namespace, url: str, processes: list[int]) -> float:
    """CPU time of a server per request, in microseconds."""
    before_ns = run_time_ns(processes)
    requests = load(asked, url)
    return (run_time_ns(processes) - before_ns) / requests / 1000


def line(size: int, ours: list[float], theirs: list[float], ratio: Interval) -> str:
    """One row of the table."""
    bar = BARS.get(size)
    verdict = "" if bar is None else ("met" if ratio.value <= bar else "missed")
    middle = [sorted(values)[len(values) // 2] for values in (ours, theirs)]
    return (
        f"{size:>9} {middle[0]:>10.2f} {middle[1]:>10.2f} {ratio.value:>7.3f} "
        f"[{ratio.low:.3f}, {ratio.high:.3f}] {bar if bar is not None else '-':>6} {verdict}"
    )


def main() -> None:
    """Measure and print."""
    asked = options()
    for tool in (asked.client, "nginx", "taskset", asked.agent):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not here")
            return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "site").mkdir()
        for size in asked.sizes:
            (folder / "site" / f"f{size}").write_bytes(os.urandom(size))
        port = free_port()
        configuration = folder / "nginx.conf"
        mask = 1 << asked.server_cpu
        configuration.write_text(NGINX.format(folder=folder, port=port, mask=mask))
        ours = [asked.agent, "serve", "web", "--root", str(folder / "site")]
        ours += ["--listen", "127.0.0.1:0", "--cores", str(asked.server_cpu), "--quiet"]
        ours += ["--architecture", asked.architecture]
        if asked.coalesce_us is not None:
            ours += ["--coalesce-us", str(asked.coalesce_us)]
        with (
            started(ours, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as agent,
            started(["nginx", "-c", str(configuration), "-p", name]) as nginx,
        ):
            assert agent.stderr is not None
            urls = [agent.stderr.readline().split()[-1], f"http://127.0.0.1:{port}"]
            for url in urls:
                wait_for(f"{url}/f{asked.sizes[0]}")
            processes = [[agent.pid, *children(agent.pid)], children(nginx.pid)]
            measure(asked, urls, processes)


def measure(asked: argparse.Namespace, urls: list[str], processes: list[list[int]]) -> None:
    """All sizes, all rounds."""
    version = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True).stderr
    print(f"# {platform.platform()}, {os.cpu_count()} CPUs, {processor()}")
    coalescing = "" if asked.coalesce_us is None else f" --coalesce-us {asked.coalesce_us}"
    print(f"# {version.strip()}; serve web --architecture {asked.architecture}{coalescing}")
    print(f"# {asked.client}, {asked.connections} connections kept alive, {asked.rounds} rounds")
    print(f"{'bytes':>9} {'ours us':>10} {'nginx us':>10} {'ratio':>7} {'95 %':<14} {'bar':>8}")
    for size in asked.sizes:
        times: list[list[float]] = [[], []]
        for number in range(asked.rounds):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            for side in order:
                times[side].append(cpu_us(asked, f"{urls[side]}/f{size}", processes[side]))
        print(line(size, times[0], times[1], paired_ratio(times[0], times[1])), flush=True)


def processor() -> str:
    """The processor's name."""
    for text in Path("/proc/cpuinfo").read_text().splitlines():
        if text.startswith("model name"):
            return text.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
