"""An hour of `perpacket export` under load: memory, processor time, lost samples, falling counters.

    .venv/bin/python benches/export_hour.py
    .venv/bin/python benches/export_hour.py --minutes 10

A web server answers requests at a steady rate. Once a minute it is started again, and a
pair of interfaces appears or disappears. The exporter is scraped every five seconds. Bars: no
growth of memory after the first tenth, under 1 % of the processors, no counter that falls, and no
missing sample that the exporter does not count. It runs in a network namespace of
its own, so it needs root. The exit status is 1 if a bar is missed.
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
from pathlib import Path

from profiler_overhead import free_port

from perpacket.measure import agent

SCRAPE_S = 5.0
DISTURB_S = 60.0
REQUESTS_S = 2000

GROWTH_KB = 1024
"""The growth of the exporter's memory up to which it is no leak, but pages of the allocator."""

Counters = dict[str, float]


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


def memory_kb(pid: int) -> int:
    """The resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def fallen(before: Counters, after: Counters) -> list[str]:
    """Counters that fell. Series of a replaced name may be absent."""
    return [
        name
        for name, value in before.items()
        if "_total" in name and name in after and after[name] < value
    ]


def serve(own: str, address: str, stack: ExitStack) -> None:
    """A web server and its load."""
    options = ("--listen", address, "--quiet")
    stack.enter_context(started(own, "serve", "web", "--routes", *options))
    wait_for(address)
    load = ("load", "http", f"http://{address}/bytes/1000", "--rate", str(REQUESTS_S))
    stack.enter_context(started(own, *load, "--duration", f"{2 * DISTURB_S:g}", "--quiet"))


def change_interfaces(turn: int) -> None:
    """Add or remove a pair of interfaces."""
    pair = ["add", "bench0", "type", "veth", "peer", "name", "bench1"]
    subprocess.run(["ip", "link", *(pair if turn % 2 else ["del", "bench0"])], check=True)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if not arguments.inside:
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv, "--inside"])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    own = str(agent.find())
    server_at, exporter_at = (f"127.0.0.1:{free_port()}" for _ in range(2))
    requests = f"http://{server_at}/.perpacket/report"
    rows: list[tuple[float, int, Counters]] = []
    falls: list[str] = []
    with ExitStack() as stack:
        served = stack.enter_context(ExitStack())
        serve(own, server_at, served)
        export = (own, "export", "--by", "cgroup", "--requests", requests, "--listen", exporter_at)
        exporter = stack.enter_context(started(*export, "--quiet"))
        url = f"http://{exporter_at}/metrics"
        wait_for(exporter_at)
        last = scraped(url)
        began_s, turn = time.monotonic(), 0
        while (elapsed_s := time.monotonic() - began_s) < arguments.minutes * 60:
            if elapsed_s > (turn + 1) * DISTURB_S:
                turn += 1
                served.close()
                serve(own, server_at, served)
                change_interfaces(turn)
            now = scraped(url)
            falls += fallen(last, now)
            rows.append((time.monotonic() - began_s, memory_kb(exporter.pid), now))
            last = now
            time.sleep(SCRAPE_S)
    sys.exit(int(not report(rows, falls, turn)))


def report(rows: list[tuple[float, int, Counters]], falls: list[str], turns: int) -> bool:
    """Print the results; whether every bar was met."""
    settled = rows[len(rows) // 10 :]
    (begin_s, begin_kb, before), (end_s, end_kb, after) = settled[0], settled[-1]
    seconds = end_s - begin_s

    def grown(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    cpus = sum(name.startswith("perpacket_busy_seconds_total") for name in after)
    share = grown("perpacket_overhead_seconds_total") / seconds / cpus
    expected, found = grown("perpacket_expected_samples_total"), grown("perpacket_samples_total")
    lost = grown("perpacket_lost_samples_total")
    missing = [row.get("perpacket_missing_share", 0.0) for *_, row in settled]
    print(f"{seconds / 60:.0f} min, {len(settled)} scrapes, {turns} restarts of the server")
    print(f"memory: {begin_kb} KB, at the end {end_kb} KB, most {max(kb for _, kb, _ in settled)}")
    print(f"processor time: {share:.3%} of {cpus} processors")
    print(f"requests: {grown('perpacket_requests_total'):,.0f}")
    print(f"samples: {found:,.0f} of {expected:,.0f} expected, {lost:,.0f} lost in full rings")
    print(f"missing share of a minute: at most {max(missing):.2%}")
    print(f"counters that fell: {', '.join(sorted(set(falls))) or 'none'}")
    return end_kb - begin_kb <= GROWTH_KB and share < 0.01 and not falls


if __name__ == "__main__":
    main()
