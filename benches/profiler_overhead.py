"""Throughput of a web server with the profiler at its default rate over that without.

    .venv/bin/python benches/profiler_overhead.py
    .venv/bin/python benches/profiler_overhead.py --frequency 997 --pairs 60

nginx on one processor serves a file of 10 KB over loopback to wrk on another, with 32 connections.
Short windows with and without `perpacket-agent profile` alternate in the order A B B A, so that
other work of the machine affects both. There are many windows, because the machine's drift is a
hundred times the effect. The segments that the kernel sent count the requests: one a response and
one a request. The program prints two ratios with intervals: segments a second, and segments a
second of the server's own processor time, which other programs disturb less. The bar is 0.99 or
more. It is confirmed if the whole interval reaches it, and refuted if none of it does. Otherwise it
is undecided: use more pairs. The exit status is 1 if the bar is refuted.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from perpacket.analysis.statistics import Interval, paired_ratio
from perpacket.measure import agent

BAR = 0.99
"""Least throughput with the profiler, as a share of the throughput without it."""

FILE_BYTES = 10_240
"""Size of the file served: a small page."""

SIZES = {"612 B": 612, "10 KB": FILE_BYTES, "1 MiB": 1 << 20}
"""Other files, for trials."""

SETTLE_S = 0.4
"""Time for a server to listen and for a profiler to open its events."""

WINDOW_S = 0.4
"""Length of a window."""

LONGEST_S = 3600
"""Time after which wrk ends by itself."""


def free_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_server(place: Path, port: int, cpu: int) -> subprocess.Popen[bytes]:
    """Start nginx in the foreground as one process; it writes only below `place`."""
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
    command = [
        "taskset",
        "-c",
        str(cpu),
        "nginx",
        "-c",
        str(configuration),
        "-e",
        str(place / "error.log"),
    ]
    return subprocess.Popen(command)


@dataclass(frozen=True)
class Window:
    """The results of one window."""

    segments_per_s: float
    segments_per_cpu_s: float


def cpu_s(pid: int) -> float:
    """Return the processor time of a process; the kernel counts nanoseconds (sched-stats.rst)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def segments_sent() -> int:
    """Return the TCP segments that this machine has sent, RFC 4022's tcpOutSegs."""
    lines = Path("/proc/net/snmp").read_text().splitlines()
    names, counts = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(counts[names.index("OutSegs")])


def measured(server: int, window_s: float = WINDOW_S) -> Window:
    """Measure one window."""
    before = (segments_sent(), cpu_s(server), time.monotonic())
    time.sleep(window_s)
    after = (segments_sent(), cpu_s(server), time.monotonic())
    segments, used_s, passed_s = (end - begin for begin, end in zip(before, after, strict=True))
    if not segments:
        raise SystemExit("the server sent nothing in a window")
    return Window(segments / passed_s, segments / used_s)


def profiled(program: str, frequency: str | None, server: int) -> Window:
    """Measure one window with a profiler."""
    command = [program, "profile", "--duration", "60", "--format", "json", "--quiet"]
    command += ["--frequency", frequency] if frequency else []
    profiler = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(SETTLE_S)
        if profiler.poll() is not None:
            raise SystemExit(f"skipped: the profiler ended with status {profiler.returncode}")
        return measured(server)
    finally:
        profiler.send_signal(signal.SIGINT)
        profiler.wait()


def verdict(ratio: Interval) -> str:
    """Judge an interval against the bar."""
    if ratio.low >= BAR:
        return "confirmed"
    return "refuted" if ratio.high < BAR else "undecided"


def report(what: str, beside: list[float], plain: list[float]) -> bool:
    """Print a ratio; return whether it refutes the bar."""
    ratio = paired_ratio(beside, plain)
    found = verdict(ratio)
    print(f"{what}: {sum(plain) / len(plain):.0f} without, {sum(beside) / len(beside):.0f} with")
    print(
        f"  ratio {ratio.value:.4f}, 95 % interval {ratio.low:.4f} to {ratio.high:.4f}, "
        f"n {ratio.n}: at least {BAR} is {found}"
    )
    return found == "refuted"


def in_turn(options: argparse.Namespace, server: int) -> tuple[list[Window], list[Window]]:
    """Measure windows with the profiler and without it."""
    beside: list[Window] = []
    plain: list[Window] = []
    for pair in range(options.pairs):
        for with_profiler in (pair % 2 == 0, pair % 2 == 1):
            if with_profiler:
                beside.append(profiled(options.agent, options.frequency, server))
            else:
                time.sleep(SETTLE_S)
                plain.append(measured(server))
    return beside, plain


def listens(port: int) -> bool:
    """Whether a program listens at a port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), SETTLE_S).close()
    except OSError:
        return False
    return True


def wait_until(is_true: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Return once something is true; fail if the process ends before."""
    while not is_true():
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} ended with status {process.returncode}")
        time.sleep(0.02)


@contextmanager
def loaded_nginx(
    server_cpu: int, client_cpu: int, *, load: bool = True
) -> Iterator[tuple[int, str]]:
    """Nginx under the load of wrk, or alone; yields its process and the URL of its folder.

    The folder has a file for each of `SIZES`, named by its bytes, beside `page`.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    client = ["taskset", "-c", str(client_cpu), "wrk", "-t1", "-c32", f"-d{LONGEST_S}s"]
    with tempfile.TemporaryDirectory() as directory:
        server = start_server(Path(directory), port, server_cpu)
        try:
            for size in SIZES.values():
                (Path(directory) / str(size)).write_bytes(os.urandom(size))
            wait_until(lambda: listens(port), server)
            with ExitStack() as stack:
                if load:
                    command = [*client, f"{url}/page"]
                    wrk = stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
                    stack.callback(wrk.terminate)
                    idle_s = cpu_s(server.pid)
                    wait_until(lambda: cpu_s(server.pid) > idle_s + SETTLE_S / 4, wrk)
                yield server.pid, url
        finally:
            server.terminate()
            server.wait()


def print_ratios(beside: Sequence[Window], plain: Sequence[Window]) -> bool:
    """Print the machine and both ratios; return whether one refutes the bar."""
    print(f"{platform.release()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    rates = [[one.segments_per_s for one in windows] for windows in (beside, plain)]
    costs = [[one.segments_per_cpu_s for one in windows] for windows in (beside, plain)]
    is_refuted = report("segments/s", *rates)
    return report("segments by second of the server's processor time", *costs) or is_refuted


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--agent", help="default: the installed agent")
    options.add_argument("--pairs", type=int, default=120)
    options.add_argument("--frequency", help="samples a second, by default those of the profiler")
    options.add_argument("--server-cpu", type=int, default=0)
    options.add_argument("--client-cpu", type=int, default=1)
    arguments = options.parse_args()
    arguments.agent = arguments.agent or str(agent.find())
    for needed in ("nginx", "wrk", "taskset", arguments.agent):
        if shutil.which(needed) is None:
            print(f"skipped: {needed} is not here")
            return
    with loaded_nginx(arguments.server_cpu, arguments.client_cpu) as (server, _):
        beside, plain = in_turn(arguments, server)
    sys.exit(int(print_ratios(beside, plain)))


if __name__ == "__main__":
    main()
