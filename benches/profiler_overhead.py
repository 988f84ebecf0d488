"""Throughput of a web server with the profiler at its default rate over that without.

    .venv/bin/python benches/profiler_overhead.py --agent target/release/perpacket-agent

nginx serves a file of 10 KB to wrk over loopback, 32 connections. Windows of one second with and
without `perpacket-agent profile` take turns in the order A B B A, so that whatever else the machine
does falls on both. Two ratios are printed, each with its interval: requests a second, and requests
a second of the server's own processor time, which others on the machine disturb less. Wanted: 0.99
or more. The bar is confirmed where the whole interval reaches it, refuted where none of it does,
else undecided; exit status 1 if it is refuted.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from perpacket.statistics import Interval, paired_ratio

WANTED = 0.99
"""Least throughput with the profiler, as a share of that without."""

FILE_BYTES = 10_240
"""Size of the file served: a small page."""

SETTLE_S = 0.3
"""Time for a server to listen and for a profiler to have opened its events."""


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_server(place: Path, port: int) -> subprocess.Popen[bytes]:
    """Nginx in the foreground as one process, everything it writes under `place`."""
    (place / "page").write_bytes(os.urandom(FILE_BYTES))
    configuration = place / "nginx.conf"
    configuration.write_text(
        f"""master_process off; daemon off; pid {place}/pid; error_log {place}/error.log;
        events {{ worker_connections 1024; }}
        http {{
          access_log off; sendfile off; open_file_cache max=10; keepalive_requests 100000000;
          client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;
          fastcgi_temp_path {place}/fastcgi; uwsgi_temp_path {place}/uwsgi;
          scgi_temp_path {place}/scgi;
          server {{ listen 127.0.0.1:{port}; root {place}; }}
        }}"""
    )
    place.chmod(0o755)
    command = ["nginx", "-c", str(configuration), "-e", str(place / "error.log")]
    return subprocess.Popen(command)


@dataclass(frozen=True)
class Window:
    """What a server did in one window."""

    requests_per_s: float
    requests_per_cpu_s: float


def cpu_s(pid: int) -> float:
    """Processor time of a process; the kernel gives it in nanoseconds (sched-stats.rst)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def measured(port: int, server: int) -> Window:
    """One window of a second."""
    before_s = cpu_s(server)
    command = ["wrk", "-t1", "-c32", "-d1s", f"http://127.0.0.1:{port}/page"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used_s = cpu_s(server) - before_s
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    requests = re.search(r"(\d+) requests in", text)
    if rate is None or requests is None:
        raise SystemExit(f"wrk said no rate:\n{text}")
    return Window(float(rate[1]), int(requests[1]) / used_s)


def profiled(agent: str, frequency: str | None, port: int, server: int) -> Window:
    """The same with a profiler beside it, which is ended afterwards."""
    command = [agent, "profile", "--duration", "60", "--format", "json", "--quiet"]
    command += ["--frequency", frequency] if frequency else []
    profiler = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(2 * SETTLE_S)
        if profiler.poll() is not None:
            raise SystemExit(f"skipped: the profiler ended with status {profiler.returncode}")
        return measured(port, server)
    finally:
        profiler.send_signal(signal.SIGINT)
        profiler.wait()


def verdict(ratio: Interval) -> str:
    """Whether the bar is reached, as far as the interval says."""
    if ratio.low >= WANTED:
        return "confirmed"
    return "refuted" if ratio.high < WANTED else "undecided"


def report(what: str, beside: list[float], plain: list[float]) -> bool:
    """Print a ratio; whether it refutes the bar."""
    ratio = paired_ratio(beside, plain)
    found = verdict(ratio)
    print(f"{what}: {sum(plain) / len(plain):.0f} without, {sum(beside) / len(beside):.0f} with")
    print(
        f"  ratio {ratio.value:.4f}, 95 % interval {ratio.low:.4f} to {ratio.high:.4f}, "
        f"n {ratio.n}: at least {WANTED} is {found}"
    )
    return found == "refuted"


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--agent", default="target/release/perpacket-agent")
    options.add_argument("--pairs", type=int, default=40)
    options.add_argument("--frequency", help="samples a second; the profiler's own unless given")
    arguments = options.parse_args()
    for needed in ("nginx", "wrk", arguments.agent):
        if shutil.which(needed) is None:
            print(f"skipped: {needed} is not here")
            return
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        server = start_server(Path(directory), port)
        try:
            time.sleep(SETTLE_S)
            measured(port, server.pid)
            plain, beside = [], []
            for pair in range(arguments.pairs):
                for with_profiler in (pair % 2 == 0, pair % 2 == 1):
                    if with_profiler:
                        beside.append(
                            profiled(arguments.agent, arguments.frequency, port, server.pid)
                        )
                    else:
                        time.sleep(2 * SETTLE_S)
                        plain.append(measured(port, server.pid))
        finally:
            server.terminate()
            server.wait()
    print(f"{platform.release()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    rates = [[one.requests_per_s for one in windows] for windows in (beside, plain)]
    costs = [[one.requests_per_cpu_s for one in windows] for windows in (beside, plain)]
    is_refuted = report("requests/s", *rates)
    is_refuted |= report("requests by second of the server's processor time", *costs)
    sys.exit(int(is_refuted))


if __name__ == "__main__":
    main()
