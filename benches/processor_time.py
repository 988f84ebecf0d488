"""A profile's busy time by processor over the window less idle, in cases where processors sleep.

    .venv/bin/python benches/processor_time.py
    .venv/bin/python benches/processor_time.py --starts 1 --only ping-pong
    .venv/bin/python benches/processor_time.py bias

In each case the server runs on processor 0 and its client on processor 1, and both sleep and wake
often. Server, client and profiler start anew for each number, because the share of lost samples may
differ from start to start. A processor's yardstick is the window less the `idle` of /proc/stat,
exact where the tick stops, and less the time that the hypervisor stole. The program reads it beside
the profile. It prints, by processor, the samples before calibration and the calibrated time over
the yardstick, and how many are within 3 % of it. A processor that was not calibrated has no number,
which is `-`. `process` is the time of the server's process over its /proc/PID/schedstat.

`bias` compares processes with the same true cost that sleep differently: they work half of the time
in turns of 50 ms or of 50 us, or poll between turns of 50 us instead of sleeping. If `process`
differs between them, a trial of a change that makes a server sleep more often is biased by this
ratio.

The exit status is 1 if the calibrated time of a processor is more than 3 % from its yardstick, or
if the interval of a bias is outside of 3 %.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perpacket.analysis.statistics import unpaired_ratio
from perpacket.measure import agent

BAR = 0.03
"""Largest distance of a processor's calibrated time from its yardstick."""

PORT = 18_443
SERVER_CPU, CLIENT_CPU = 0, 1
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

PING_PONG = """
import os, socket, sys
os.sched_setaffinity(0, {int(sys.argv[2])})
address = ("127.0.0.1", int(sys.argv[3]))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "server":
    udp.bind(address)
    while True:
        data, client = udp.recvfrom(64)
        udp.sendto(data, client)
udp.settimeout(0.1)
udp.connect(address)
while True:
    udp.send(bytes(32))
    try:
        udp.recv(64)
    except OSError:
        pass
"""

DUTY = """
import os, select, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
turn_s, sleeps = float(sys.argv[2]), sys.argv[3] == "sleep"
while True:
    end = time.thread_time() + turn_s
    while time.thread_time() < end:
        pass
    if sleeps:
        time.sleep(turn_s)
    else:
        end = time.monotonic() + turn_s
        while time.monotonic() < end:
            select.select([], [], [], 0)
"""

GO_TLS = """
package main

import "net/http"

func main() {
	page := make([]byte, 1024)
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.Write(page) })
	panic(http.ListenAndServeTLS("127.0.0.1:PORT", "cert.pem", "key.pem", nil))
}
"""

NODE = """
const page = Buffer.alloc(1024);
require("http").createServer((_, response) => response.end(page)).listen(PORT, "127.0.0.1");
"""

NGINX = """
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {}
http { access_log off; server { listen 127.0.0.1:PORT; location / { return 200 "hello"; } } }
"""

Case = tuple[list[str], list[str]]
"""The commands of the server and of its client, without their processors."""

Rows = dict[str, list[dict[str, float | None]]]
"""The ratios of each start, by case."""


def python(program: str, *arguments: object) -> list[str]:
    """A command that runs a Python program."""
    return [sys.executable, "-c", program, *map(str, arguments)]


def wrk(scheme: str, connections: int = 4) -> list[str]:
    """A client that keeps some connections busy."""
    url = f"{scheme}://127.0.0.1:{PORT}/"
    return ["wrk", "-t", "1", "-c", str(connections), "-d", "3600", url]


def ping_pong(folder: Path) -> Case:
    """32 bytes over UDP, there and back."""
    program = folder / "ping_pong.py"
    program.write_text(PING_PONG)
    run = [sys.executable, str(program)]
    return (
        [*run, "server", str(SERVER_CPU), str(PORT)],
        [*run, "client", str(CLIENT_CPU), str(PORT)],
    )


def nginx(folder: Path) -> Case:
    """A short response over HTTP."""
    (folder / "nginx.conf").write_text(NGINX.replace("PORT", str(PORT)))
    return ["nginx", "-p", str(folder), "-c", "nginx.conf"], wrk("http")


def go_tls(folder: Path) -> Case:
    """1 KiB over HTTPS from Go's net/http."""
    (folder / "main.go").write_text(GO_TLS.replace("PORT", str(PORT)))
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=bench"]
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*request, *files], cwd=folder, check=True, capture_output=True)
    go = shutil.which("go") or "/usr/local/go/bin/go"
    subprocess.run([go, "build", "-o", "server", "main.go"], cwd=folder, check=True)
    return ["./server"], wrk("https")


def node(folder: Path) -> Case:
    """1 KiB over HTTP from Node."""
    (folder / "server.js").write_text(NODE.replace("PORT", str(PORT)))
    return ["node", "server.js"], wrk("http")


def perpacket(_folder: Path) -> Case:
    """The agent as server and client, at a rate that leaves both asleep half of the time."""
    executable = str(agent.find())
    listen = f"127.0.0.1:{PORT}"
    server = [executable, "serve", "web", "--routes", "--architecture", "single"]
    load = [executable, "load", "http", f"http://{listen}/work?us=20"]
    options = ["--connections", "8", "--rate", "8000", "--duration", "1h", "--quiet"]
    return [*server, "--listen", listen, "--quiet"], [*load, *options]


def duty(turn_s: float, wait: str) -> Callable[[Path], Case]:
    """Processes that work and wait in turns of this length."""

    def case(_folder: Path) -> Case:
        server, client = (python(DUTY, cpu, turn_s, wait) for cpu in (SERVER_CPU, CLIENT_CPU))
        return server, client

    return case


CASES: dict[str, Callable[[Path], Case]] = {
    "ping-pong": ping_pong,
    "nginx": nginx,
    "go-tls": go_tls,
    "node": node,
    "perpacket": perpacket,
}

DUTIES: dict[str, Callable[[Path], Case]] = {
    "duty-long": duty(0.05, "sleep"),
    "duty-short": duty(5e-5, "sleep"),
    "duty-poll": duty(5e-5, "poll"),
}


@contextmanager
def running(command: list[str], cpu: int, folder: Path) -> Iterator[int]:
    """A command on one processor; its process id."""
    pinned = ["taskset", "-c", str(cpu), *command]
    process = subprocess.Popen(
        pinned, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(1)
        if process.poll() is not None:
            sys.exit(f"{' '.join(command)}: ended at once with status {process.returncode}")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def away_s() -> dict[int, float]:
    """The time so far in which each processor did not run: idle, and stolen by the hypervisor."""
    times = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            times[int(name[3:])] = sum(int(fields[number]) for number in (3, 4, 7)) / TICKS_PER_S
    return times


def ran_s(pid: int) -> float:
    """Run time of all threads of a process so far."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def reading(pid: int) -> tuple[float, dict[int, float], float]:
    """The moment, the times in which processors did not run, and the run time of the process."""
    return time.monotonic(), away_s(), ran_s(pid)


def started(case: Case, folder: Path, duration_s: float, frequency: int) -> dict[str, float | None]:
    """Start server, client and profiler; ratios to the yardsticks by name.

    The yardsticks are read when a window's line arrives, so they cover the same time as the window.
    The first window only starts them.
    """
    server, client = case
    with running(server, SERVER_CPU, folder) as pid, running(client, CLIENT_CPU, folder):
        command = [str(agent.find()), "profile", "--pid", str(pid), "--every", f"{duration_s}s"]
        length = f"{2 * duration_s + 0.1}s"
        options = ["--duration", length, "--frequency", str(frequency), "--format", "json"]
        with subprocess.Popen([*command, *options, "--quiet"], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            before = reading(pid)
            line = process.stdout.readline()
            after = reading(pid)
    return ratios(json.loads(line), pid, before, after)


def ratios(
    report: dict[str, Any],
    pid: int,
    before: tuple[float, dict[int, float], float],
    after: tuple[float, dict[int, float], float],
) -> dict[str, float | None]:
    """The times of a report over the yardsticks between two readings."""
    (began, away, ran), (ended, away_after, ran_after) = before, after
    scale = report["window_s"] / (ended - began)
    times: dict[str, float | None] = {}
    for row in report["processors"]:
        cpu, factor = row["cpu"], row["calibration"]
        yardstick_s = (ended - began - (away_after[cpu] - away[cpu])) * scale
        sampled = row["sampled_s"] / yardstick_s
        times[f"cpu {cpu} sampled"] = sampled
        times[f"cpu {cpu} calibrated"] = None if factor is None else sampled * factor
    own = [row for row in report["processes"] if row["pid"] == pid]
    of_process_s = sum(row["user_cpu_s"] + row["kernel_cpu_s"] for row in own)
    times["process"] = of_process_s / ((ran_after - ran) * scale)
    return times


def measure(cases: dict[str, Callable[[Path], Case]], options: argparse.Namespace) -> Rows:
    """Start each case several times and print its ratios."""
    rows: Rows = {}
    for name, prepare in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            case = prepare(Path(folder))
            length = options.duration, options.frequency
            rows[name] = [started(case, Path(folder), *length) for _ in range(options.starts)]
        print(f"{name}: {options.starts} starts", flush=True)
        for key in sorted({key for row in rows[name] for key in row}):
            print(f"  {key:<18} {summary([row.get(key) for row in rows[name]])}", flush=True)
    return rows


def summary(values: list[float | None]) -> str:
    """The range of the values, how many are near 1, and how many are absent."""
    numbers = sorted(value for value in values if value is not None)
    near = sum(abs(value - 1) <= BAR for value in numbers)
    shown = f"{numbers[0]:.3f} to {numbers[-1]:.3f}" if numbers else "-"
    lacking = len(values) - len(numbers)
    absent = f", no number in {lacking}" if numbers and lacking else ""
    return f"{shown}, within {100 * BAR:.0f} %: {near} of {len(numbers)}{absent}"


def bias(options: argparse.Namespace) -> bool:
    """Compare what a profile shows of processes that sleep differently; whether all are alike."""
    rows = measure(DUTIES, options)
    shown = {name: [row["process"] or 0.0 for row in of] for name, of in rows.items()}
    alike = True
    for name in ("duty-short", "duty-poll"):
        ratio = unpaired_ratio(shown[name], shown["duty-long"])
        print(f"{name} over duty-long, of the same true cost: {ratio}")
        alike = alike and (not ratio.is_bounded or (ratio.low < 1 + BAR and ratio.high > 1 - BAR))
    return alike


def main() -> int:
    """Run the cases and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=["cases", "bias"], default="cases")
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--duration", type=float, default=4.0, help="seconds of a profile")
    parser.add_argument("--frequency", type=int, default=997)
    parser.add_argument("--only", choices=CASES, action="append")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"Linux {platform.release()}, {os.cpu_count()} processors, load {load:.1f}")
    if options.part == "bias":
        return int(not bias(options))
    rows = measure({name: CASES[name] for name in options.only or CASES}, options)
    calibrated = [
        value
        for row in (row for of in rows.values() for row in of)
        for key, value in row.items()
        if key.endswith("calibrated") and value is not None
    ]
    broken = sum(abs(value - 1) > BAR for value in calibrated)
    print(f"calibrated times more than {100 * BAR:.0f} % from their yardstick: {broken}")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
