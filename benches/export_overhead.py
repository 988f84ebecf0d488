"""Cost of `perpacket export --by cgroup` beside a web server and 200 control groups.

    .venv/bin/python benches/export_overhead.py
    .venv/bin/python benches/export_overhead.py --pairs 4000

nginx on one processor serves a file of 10 KB over loopback to wrk on another. Each control group
has a process that wakes up ten times a second. Short windows with and without the exporter
alternate in the order A B B A. The effect is a hundredth of what single windows differ by, so there
are many.

The number of segments by second of the server's processor time is judged. That time contains the
sampling interrupts and the exporter's effect on caches, and other programs disturb it little. The
bar is 0.99 or more of the number without the exporter: confirmed if the whole interval reaches it,
refuted if none of it does. Segments a second are printed too; they also depend on the client.

The program also measures the direct costs: the exporter's own processor time, and the time of the
sampling interrupts by the kernel's trace of its timers. Both are known after ten seconds. It
prints the time from the start of the exporter to its first answer (bar: 2 s) and the size of the
executable (bar: 25 MB). It needs root and control groups of version 2. The exit status is 1 if a
bar is refuted.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from profiler_overhead import (
    BAR,
    Window,
    free_port,
    loaded_nginx,
    measured,
    report,
)

from perpacket.measure import agent

GROUPS = 200

FOLDERS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
"""The folders in which control groups of version 2 may be mounted."""

SLEEPER = "import time\nwhile True: time.sleep(0.1)"

START_S = 10.0
"""Time limit for the exporter's first answer."""

WINDOW_S = 0.5
"""Length of a window: the exporter reads its samples and counters once in it."""

SETTLE_S = 0.7
"""Time after the start or the end of an exporter before a window. Half a second after its start,
the exporter reads the names of all control groups for the first time."""

FREQUENCY_HZ = 97
"""The exporter's default rate of samples."""

TRACE_S = 10.0
"""Length of the trace of the sampling interrupts."""

TIMER = "perf_swevent_hrtimer"
"""The kernel's function that takes a sample of the processor clock (kernel/events/core.c)."""

EVENT = re.compile(r" (?P<at>\d+\.\d+): hrtimer_expire_(?P<end>entry|exit): hrtimer=(?P<timer>\S+)")
"""A line of the trace: include/trace/events/timer.h."""


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


@contextmanager
def exporting(program: str, first_s: list[float]) -> Iterator[tuple[int, str]]:
    """An exporter that has answered: its process and URL. Appends the time until then."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    began_s = time.monotonic()
    command = [program, "export", "--by", "cgroup", "--listen", f"127.0.0.1:{port}", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                scrape(url)
                break
            except OSError as error:
                if process.poll() is not None or time.monotonic() > began_s + START_S:
                    raise SystemExit(f"skipped: the exporter does not answer: {error}") from None
                time.sleep(0.02)
        first_s.append(time.monotonic() - began_s)
        time.sleep(SETTLE_S)
        yield process.pid, url
    finally:
        process.terminate()
        process.wait()


def beside_exporter(program: str, server: int, first_s: list[float]) -> Window:
    """Measure one window beside an exporter."""
    with exporting(program, first_s):
        return measured(server, WINDOW_S)


def used_s(process: int) -> float:
    """The processor time of a process with its ended threads (clock_getcpuclockid(3))."""
    return time.clock_gettime((~process << 3) | 2)


@contextmanager
def traces() -> Iterator[Path | None]:
    """A buffer of traces of its own, removed with the context; none if the kernel has no traces."""
    with tempfile.TemporaryDirectory() as place:
        if subprocess.run(["mount", "-t", "tracefs", "tracefs", place], check=False).returncode:
            yield None
            return
        own = Path(place) / "instances" / f"perpacket-bench-{os.getpid()}"
        try:
            own.mkdir()
            yield own
        finally:
            own.rmdir()
            subprocess.run(["umount", place], check=True)


def interrupt_times_s(lines: list[str]) -> list[float]:
    """The time of each run of the sampling timer in a trace."""
    began: dict[str, float] = {}
    found = []
    for line in lines:
        match = EVENT.search(line)
        if match is None:
            continue
        timer, at = match["timer"], float(match["at"])
        if match["end"] == "entry" and TIMER in line:
            began[timer] = at
        elif match["end"] == "exit" and timer in began:
            found.append(at - began.pop(timer))
    return found


def traced(seconds: float) -> list[float]:
    """The time of each sampling interrupt of the machine for a while, if the kernel has a trace."""
    with traces() as own:
        if own is None:
            time.sleep(seconds)
            return []
        (own / "buffer_size_kb").write_text("8192")
        events = [own / "events" / "timer" / f"hrtimer_expire_{end}" for end in ("entry", "exit")]
        for event in events:
            (event / "enable").write_text("1")
        time.sleep(seconds)
        for event in events:
            (event / "enable").write_text("0")
        return interrupt_times_s((own / "trace").read_text().splitlines())


def print_direct_costs(program: str) -> None:
    """Measure and print what the exporter and its interrupts use, without pairs."""
    cpus = os.cpu_count() or 1
    with exporting(program, []) as (exporter, url):
        time.sleep(START_S / 2)
        before_s = used_s(exporter)
        times_s = traced(TRACE_S)
        scrape(url)
        own = (used_s(exporter) - before_s) / TRACE_S / cpus
    print(f"exporter's own processor time: {own:.3%} of {cpus} processors")
    if not times_s:
        print("sampling interrupts: the kernel's trace has none")
        return
    # Other programs may sample too, so the trace has the time of an interrupt and not their number.
    each_s = sum(times_s) / len(times_s)
    interrupts = each_s * FREQUENCY_HZ
    print(
        f"sampling interrupts: {interrupts:.3%}, {FREQUENCY_HZ} a second of {1e6 * each_s:.1f} us "
        f"on each processor; direct costs together: {own + interrupts:.3%}"
    )


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pairs", type=int, default=2000)
    options.add_argument("--server-cpu", type=int, default=0)
    options.add_argument("--client-cpu", type=int, default=1)
    options.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if not arguments.inside:
        # A network namespace of its own: other programs' segments are not counted.
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv, "--inside"])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    program = str(agent.find())
    beside: list[Window] = []
    plain: list[Window] = []
    first_s: list[float] = []
    loaded = loaded_nginx(arguments.server_cpu, arguments.client_cpu)
    with control_groups(GROUPS), loaded as (server, _):
        for pair in range(arguments.pairs):
            for with_it in (pair % 2 == 0, pair % 2 == 1):
                if with_it:
                    beside.append(beside_exporter(program, server, first_s))
                else:
                    time.sleep(SETTLE_S)
                    plain.append(measured(server, WINDOW_S))
        print(f"{platform.release()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        print_direct_costs(program)
    print(f"first answer after {max(first_s):.2f} s at most; executable: ", end="")
    print(f"{Path(program).stat().st_size / 1e6:.1f} MB")
    rates = [[one.segments_per_s for one in windows] for windows in (beside, plain)]
    costs = [[one.segments_per_cpu_s for one in windows] for windows in (beside, plain)]
    report("segments/s, not judged", *rates)
    is_refuted = report(f"judged, bar {BAR}: segments by second of the server's time", *costs)
    sys.exit(int(is_refuted))


if __name__ == "__main__":
    main()
