"""The number of streams of stored media that one core serves, with each way of buffering.

    .venv/bin/python benches/media_streams.py full      10,000 streams of 300 kb/s from one core
    .venv/bin/python benches/media_streams.py against   streams at equal lateness, in alternation
    .venv/bin/python benches/media_streams.py disk      100 streams of 1.5 Mb/s, 20 ms a read

The server runs on CPU 0 and the clients on CPU 1. Both have real-time priority where the machine
permits it, because other work would count as lateness; the output states the priority. A server
carries a number of streams if every client plays, no packet is lost or wrong, and the p99 of
lateness is below 5 ms. Clients measure lateness by the kernel's receive times. Each step of the
search has a quarter more streams.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from perpacket.analysis.statistics import paired_ratio
from perpacket.measure.agent import find as installed_agent
from perpacket_lab.measure.media import gstreamer

LATENESS_LIMIT_US = 5000.0
RATE_BPS = 300_000
DISK_RATE_BPS = 1_500_000
"""The rate with the slow disk. At 300 kb/s, packets are 35 ms apart, and a read would fit between
two of them."""
CLIENTS_PER_PROCESS = 5000
STEP = 1.25
GSTREAMER = Path(gstreamer.__file__).with_name("gstreamer_server.py")
BARS = {"single": 10.0, "gstreamer": 3.0}
"""The least ratio of the streams of `shared` over those of each server."""
OTHERS = {"double": 800, "single": 800, "gstreamer": 200}
"""The compared servers, with the first number of streams of the search."""


@dataclass(frozen=True)
class Outcome:
    """The results of one run's clients; the lateness is that of the later half of them."""

    clients: int
    played: int
    lost: int
    wrong: int
    p99_us: float
    throughput_bps: float

    @property
    def is_carried(self) -> bool:
        """Whether the server carried all streams in time."""
        is_whole = self.played == self.clients and not self.lost and not self.wrong
        return is_whole and self.p99_us < LATENESS_LIMIT_US

    def __str__(self) -> str:
        """Return the results as one line."""
        return (
            f"{self.played} of {self.clients} play, {self.throughput_bps / 1e6:.0f} Mb/s, "
            f"{self.lost} lost, {self.wrong} wrong, lateness p99 {self.p99_us / 1e3:.2f} ms"
        )


def priority() -> list[str]:
    """Return the command that sets real-time priority, if the machine permits it."""
    command = ["chrt", "-f", "10"]
    if (
        shutil.which("chrt")
        and subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0
    ):
        return command
    return []


@contextmanager
def server(agent: Path, root: Path, kind: str, *options: str) -> Iterator[str]:
    """Run a server on CPU 0, with a way of buffering or `gstreamer`, and yield its URL."""
    if kind == "gstreamer":
        command = [gstreamer.PYTHON, str(GSTREAMER), str(root)]
    else:
        command = [str(agent), "serve", "media", "--root", str(root), "--listen", "127.0.0.1:0"]
        # The server must refuse no stream for lateness, because lateness is measured.
        command += ["--buffering", kind, "--max-lateness", "1h", *options]
    process = subprocess.Popen(
        [*priority(), "taskset", "-c", "0", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        line = next((line for line in process.stderr if line.startswith("listening on ")), None)
        if line is None:
            raise SystemExit(f"{kind} did not start")
        yield line.split()[-1]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def load(agent: Path, url: str, clients: int, distribution: str, seconds: float) -> Outcome:
    """Run the clients on CPU 1, in several processes if they need more descriptors."""
    processes = -(-clients // CLIENTS_PER_PROCESS)
    shares = [clients // processes + (number < clients % processes) for number in range(processes)]
    ramp_s = max(1.0, clients / 1500)
    running = [
        subprocess.Popen(
            [
                *(*priority(), "taskset", "-c", "1", str(agent), "load", "media"),
                *(f"{url}/stream-{{}}.ts", "--clients", str(share), "--check", "--format", "json"),
                *("--ramp", str(ramp_s), "--warmup", "1", "--duration", str(seconds)),
                *("--distribution", distribution),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for share in shares
    ]
    reports = [json.loads(process.communicate(timeout=120)[0]) for process in running]
    return Outcome(
        clients=clients,
        played=sum(report["played"] for report in reports),
        lost=sum(report["lost"] for report in reports),
        wrong=sum(report["content_errors"] for report in reports),
        p99_us=max(report["lateness_us"]["p99"] for report in reports),
        throughput_bps=sum(report["throughput_bps"] for report in reports),
    )


def most_carried(agent: Path, root: Path, kind: str, start: int, limit: int) -> int:
    """Search the most streams that a server carries, upwards or downwards from `start`."""

    def carries(clients: int) -> bool:
        with server(agent, root, kind) as url:
            outcome = load(agent, url, clients, "unique", 4)
        print(f"    {kind}: {outcome}", flush=True)
        return outcome.is_carried

    clients = start
    if carries(clients):
        while clients < limit and carries(min(limit, int(clients * STEP))):
            clients = min(limit, int(clients * STEP))
        return clients
    while clients > 1:
        clients = int(clients / STEP)
        if carries(clients):
            return clients
    return 1


def full(agent: Path, root: Path, rounds: int) -> None:
    """Run 10,000 streams; the bar is no wrong byte, no loss and a p99 below 5 ms."""
    for _ in range(rounds):
        with server(agent, root, "shared") as url:
            outcome = load(agent, url, 10_000, "unique", 10)
        print(f"shared: {outcome}: {'carried' if outcome.is_carried else 'not carried'}")


def against(agent: Path, root: Path, rounds: int, limit: int, others: list[str]) -> None:
    """Compare streams at the same lateness, with the servers in turn in every round."""
    kinds = {"shared": 8000} | {kind: OTHERS[kind] for kind in others}
    try:
        subprocess.run([gstreamer.PYTHON, str(GSTREAMER)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print(f"skipped GStreamer's server: install {gstreamer.PACKAGES}")
        kinds.pop("gstreamer", None)
    carried: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        # Every other round is backwards, so that no server always follows the same one.
        for kind in list(kinds) if number % 2 == 0 else reversed(kinds):
            most = most_carried(agent, root, kind, min(kinds[kind], limit), limit)
            carried[kind].append(float(most))
            print(f"  round {number + 1}: {kind} carries {most}", flush=True)
        kinds = {kind: int(counts[-1]) for kind, counts in carried.items()}
    for kind in [kind for kind in kinds if kind != "shared"]:
        print(f"shared over {kind}: {compared(carried['shared'], carried[kind], kind, limit)}")


def compared(shared: list[float], other: list[float], kind: str, limit: int) -> str:
    """Return the ratio with its interval, and whether it meets the bar."""
    at_least = "at least, because no more were tried: " if limit in shared else ""
    if len(shared) == 1:
        return f"{at_least}{shared[0] / other[0]:.1f} (one round: no interval)"
    ratio = paired_ratio(shared, other)
    if kind not in BARS:
        return f"{at_least}{ratio}"
    bar = BARS[kind]
    verdict = "met" if ratio.low >= bar else "missed" if ratio.high < bar else "undecided"
    if verdict != "met" and at_least:
        verdict = "undecided: a higher --limit tries more"
    return f"{at_least}{ratio} (bar {bar:g}: {verdict})"


def disk(agent: Path, root: Path, rounds: int) -> None:
    """Run 100 streams of their own media, with 20 ms more for every read."""
    outcomes_of: dict[str, list[Outcome]] = {"single": [], "double": [], "shared": []}
    for number in range(rounds):
        for kind in list(outcomes_of) if number % 2 == 0 else reversed(outcomes_of):
            with server(agent, root, kind, "--read-delay", "20ms") as url:
                outcome = load(agent, url, 100, "multiple", 8)
            outcomes_of[kind].append(outcome)
            print(f"{kind}, 20 ms a read: {outcome}", flush=True)
    for kind, outcomes in outcomes_of.items():
        carried = sum(outcome.is_carried for outcome in outcomes)
        p99_ms = median(outcome.p99_us for outcome in outcomes) / 1e3
        expected = "none" if kind == "single" else "all"
        print(
            f"{kind}: {carried} of {rounds} rounds below 5 ms (expected: {expected}), median p99 "
            f"{p99_ms:.1f} ms"
        )


def main() -> None:
    """Make the media and run the selected benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["full", "against", "disk"])
    parser.add_argument("--agent", type=Path, help="default: the installed agent")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=12_000, help="most streams that are tried")
    parser.add_argument("--others", nargs="+", choices=OTHERS, default=list(OTHERS))
    arguments = parser.parse_args()
    agent: Path = arguments.agent or installed_agent()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("this machine has one CPU; the server and its clients need one each")
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}")
    print(f"real-time priority: {'yes' if priority() else 'no, not allowed'}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the server drops the privileges of root
        root = Path(folder)
        is_disk = arguments.what == "disk"
        files, rate_bps = (100, DISK_RATE_BPS) if is_disk else (1, RATE_BPS)
        make = [str(agent), "media", "synthesize", "--into", folder, "--files", str(files)]
        make += ["--bit-rate", str(rate_bps), "--duration", "60s"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        started = time.monotonic()
        if arguments.what == "full":
            full(agent, root, arguments.rounds)
        elif arguments.what == "disk":
            disk(agent, root, arguments.rounds)
        else:
            against(agent, root, arguments.rounds, arguments.limit, arguments.others)
        print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
