"""An hour of `perpacket export` under load: memory, processor time, lost samples, falling counters.

    .venv/bin/python benches/export_hour.py
    .venv/bin/python benches/export_hour.py --minutes 10 --restart-seconds 3 --processes 40

A web server answers requests at a steady rate. Once a minute it is started again, and a pair of
interfaces appears or disappears; `--restart-seconds` sets another time. `--processes` also starts
so many short programs a second. The exporter is scraped every five seconds.

Four things are judged after a warm-up of three minutes, or a fifth of a shorter run. Memory: the
median resident memory of the last fifth of the scrapes is at most 1 MB above that of the first
fifth. Processor time: under 1 % of the processors. Counters: none falls. Samples: those that were
expected and not found are in the counters of lost and missing samples. It runs in a network
namespace of its own, so it needs root. The exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from profiler_overhead import free_port

from perpacket.measure import agent

SCRAPE_S = 5.0
REQUESTS_S = 2000

WARM_UP_S = 180.0
"""Time in which the exporter's tables fill."""

GROWTH_KB = 1024
"""The growth of the exporter's memory up to which it is no leak, but pages of the allocator."""

MISSING_SLACK = 0.02
"""Share of the expected samples that may differ: both counters are read half a second late."""

Counters = dict[str, float]


@dataclass(frozen=True)
class Row:
    """The exporter at one scrape."""

    elapsed_s: float
    resident_kb: int
    anonymous_kb: int
    counters: Counters


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends with the context."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def scraped(url: str) -> Counters:
    """The series of a page with their values."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def wait_for(address: str) -> None:
    """Return once a program listens."""
    host, port = address.split(":")
    while True:
        try:
            return socket.create_connection((host, int(port))).close()
        except OSError:
            time.sleep(0.05)


def memory_kb(pid: int) -> tuple[int, int]:
    """The resident memory of a process, and the part that no file has."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["VmRSS"].split()[0]), int(fields["RssAnon"].split()[0])


def fallen(before: Counters, after: Counters) -> list[str]:
    """Counters that fell. Series of a replaced name may be absent."""
    return [
        name
        for name, value in before.items()
        if "_total" in name and name in after and after[name] < value
    ]


def serve(own: str, address: str, restart_s: float, stack: ExitStack) -> None:
    """A web server and its load."""
    options = ("--listen", address, "--quiet")
    stack.enter_context(started(own, "serve", "web", "--routes", *options))
    wait_for(address)
    load = ("load", "http", f"http://{address}/bytes/1000", "--rate", str(REQUESTS_S))
    stack.enter_context(started(own, *load, "--duration", f"{2 * restart_s:g}", "--quiet"))


def change_interfaces(turn: int) -> None:
    """Add or remove a pair of interfaces."""
    pair = ["add", "bench0", "type", "veth", "peer", "name", "bench1"]
    subprocess.run(["ip", "link", *(pair if turn % 2 else ["del", "bench0"])], check=True)


def short_programs(rate: float) -> subprocess.Popen[bytes]:
    """Start programs that end at once, so many a second."""
    script = f"while :; do /bin/true; /bin/cat /dev/null; sleep {2 / rate:.3f}; done"
    return subprocess.Popen(["bash", "-c", script])


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument("--restart-seconds", type=float, default=60.0)
    options.add_argument("--processes", type=float, default=0.0, help="short programs a second")
    options.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if not arguments.inside:
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv, "--inside"])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    own = str(agent.find())
    server_at, exporter_at = (f"127.0.0.1:{free_port()}" for _ in range(2))
    requests = f"http://{server_at}/.perpacket/report"
    rows: list[Row] = []
    falls: list[str] = []
    with ExitStack() as stack:
        served = stack.enter_context(ExitStack())
        serve(own, server_at, arguments.restart_seconds, served)
        if arguments.processes:
            programs = short_programs(arguments.processes)
            stack.callback(programs.wait)
            stack.callback(programs.kill)
        export = (own, "export", "--by", "cgroup", "--requests", requests, "--listen", exporter_at)
        exporter = stack.enter_context(started(*export, "--quiet"))
        url = f"http://{exporter_at}/metrics"
        wait_for(exporter_at)
        last = scraped(url)
        began_s, turn = time.monotonic(), 0
        while (elapsed_s := time.monotonic() - began_s) < arguments.minutes * 60:
            if elapsed_s > (turn + 1) * arguments.restart_seconds:
                turn += 1
                served.close()
                serve(own, server_at, arguments.restart_seconds, served)
                change_interfaces(turn)
            now = scraped(url)
            falls += fallen(last, now)
            rows.append(Row(time.monotonic() - began_s, *memory_kb(exporter.pid), now))
            last = now
            time.sleep(min(SCRAPE_S, arguments.restart_seconds))
    sys.exit(int(not report(rows, falls, turn)))


def growth_kb(memory: list[int]) -> tuple[float, float]:
    """The median of the first and of the last fifth."""
    fifth = max(1, len(memory) // 5)
    return median(memory[:fifth]), median(memory[-fifth:])


def report(rows: list[Row], falls: list[str], turns: int) -> bool:
    """Print the results; whether every bar was met."""
    warm_s = min(WARM_UP_S, rows[-1].elapsed_s / 5)
    settled = [row for row in rows if row.elapsed_s >= warm_s]
    before, after = settled[0].counters, settled[-1].counters
    seconds = settled[-1].elapsed_s - settled[0].elapsed_s

    def grown(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    cpus = sum(name.startswith("perpacket_busy_seconds_total") for name in after)
    share = grown("perpacket_overhead_seconds_total") / seconds / cpus
    expected, found = grown("perpacket_expected_samples_total"), grown("perpacket_samples_total")
    lost = grown("perpacket_lost_samples_total")
    minutes = [row.counters.get("perpacket_missing_share", 0.0) for row in settled]
    missing = sum(minutes) / len(minutes)
    unseen = 1 - (found + lost) / expected - missing
    begin_kb, end_kb = growth_kb([row.resident_kb for row in settled])
    own_begin_kb, own_end_kb = growth_kb([row.anonymous_kb for row in settled])
    most_kb = max(row.resident_kb for row in settled)
    print(
        f"{rows[-1].elapsed_s / 60:.0f} min, {len(rows)} scrapes, {turns} restarts of the server; "
        f"judged after {warm_s / 60:.1f} min"
    )
    print(
        f"resident memory, first and last fifth: {begin_kb:.0f} and {end_kb:.0f} KB, most {most_kb}"
        f" (without files {own_begin_kb:.0f} and {own_end_kb:.0f}); growth of at most "
        f"{GROWTH_KB} KB is {'met' if end_kb - begin_kb <= GROWTH_KB else 'missed'}"
    )
    print(
        f"processor time: {share:.3%} of {cpus} processors; under 1 % is "
        f"{'met' if share < 0.01 else 'missed'}"
    )
    print(f"counters that fell: {', '.join(sorted(set(falls))) or 'none'}")
    print(
        f"samples: {found:,.0f} of {expected:,.0f} expected, {lost:,.0f} lost in full rings, "
        f"{missing:.2%} missing by the exporter's own count; the rest, {unseen:.2%}, is "
        f"{'met' if abs(unseen) < MISSING_SLACK else 'missed'}"
    )
    print(f"requests: {grown('perpacket_requests_total'):,.0f}")
    is_flat = end_kb - begin_kb <= GROWTH_KB
    return is_flat and share < 0.01 and not falls and abs(unseen) < MISSING_SLACK


if __name__ == "__main__":
    main()
