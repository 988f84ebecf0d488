"""Throughput of a web server with `perpacket export --by cgroup` and 200 control groups.

    .venv/bin/python benches/export_overhead.py

The method is that of `profiler_overhead.py`, with the exporter in place of the profiler. The
exporter is scraped once a window. Each control group has a process that wakes up ten times a
second, with and without the exporter. The bar is 0.99 or more of the throughput. The program also
prints the time from the start of the exporter to its first answer (bar: 2 s) and the size of the
executable (bar: 25 MB). It needs root and control groups of version 2.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from profiler_overhead import SETTLE_S, Window, free_port, loaded_nginx, measured, print_ratios

from perpacket.measure import agent

GROUPS = 200

FOLDERS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
"""The folders in which control groups of version 2 may be mounted."""

SLEEPER = "import time\nwhile True: time.sleep(0.1)"

START_S = 10.0
"""Time limit for the exporter's first answer."""


@contextmanager
def control_groups(number: int) -> Iterator[None]:
    """Control groups, each with a process that wakes up."""
    mounted = next(one for one in FOLDERS if (one / "cgroup.procs").exists())
    root = mounted / f"perpacket-bench-{os.getpid()}"
    folders = [root / f"group-{index}" for index in range(number)]
    processes = []
    try:
        for folder in folders:
            folder.mkdir(parents=True)
            process = subprocess.Popen([sys.executable, "-S", "-E", "-c", SLEEPER])
            processes.append(process)
            (folder / "cgroup.procs").write_text(str(process.pid))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for folder in (*folders, root):
            if folder.is_dir():
                folder.rmdir()


def scrape(url: str) -> int:
    """The lines of an answer."""
    with urllib.request.urlopen(url, timeout=START_S) as answer:
        return len(answer.read().splitlines())


def exported(program: str, server: int, first_s: list[float]) -> Window:
    """Measure one window beside an exporter, and append the time of its first answer."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    began_s = time.monotonic()
    command = [program, "export", "--by", "cgroup", "--listen", f"127.0.0.1:{port}", "--quiet"]
    exporter = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                scrape(url)
                break
            except OSError as error:
                if exporter.poll() is not None or time.monotonic() > began_s + START_S:
                    raise SystemExit(f"skipped: the exporter does not answer: {error}") from None
                time.sleep(0.02)
        first_s.append(time.monotonic() - began_s)
        time.sleep(SETTLE_S)
        found = measured(server)
        scrape(url)
        return found
    finally:
        exporter.terminate()
        exporter.wait()


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pairs", type=int, default=60)
    options.add_argument("--server-cpu", type=int, default=0)
    options.add_argument("--client-cpu", type=int, default=1)
    arguments = options.parse_args()
    program = str(agent.find())
    beside: list[Window] = []
    plain: list[Window] = []
    first_s: list[float] = []
    loaded = loaded_nginx(arguments.server_cpu, arguments.client_cpu)
    with control_groups(GROUPS), loaded as (server, _):
        for pair in range(arguments.pairs):
            for with_it in (pair % 2 == 0, pair % 2 == 1):
                if with_it:
                    beside.append(exported(program, server, first_s))
                else:
                    time.sleep(SETTLE_S)
                    plain.append(measured(server))
    print(f"first answer after {max(first_s):.2f} s at most; executable: ", end="")
    print(f"{Path(program).stat().st_size / 1e6:.1f} MB")
    sys.exit(int(print_ratios(beside, plain)))


if __name__ == "__main__":
    main()
