"""The cost of a trial while its windows run, and the time that it needs to show 2 %.

    .venv/bin/python benches/trial_overhead.py
    .venv/bin/python benches/trial_overhead.py --pairs 40 --blocks 20

The first part is that of `profiler_overhead.py`, with `perpacket trial nothing` in the place of the
profiler: a trial with one long window runs in half of the windows. It samples at a higher rate than
a profile. The program also prints the processor time of the trial's processes. The bar is 0.99 or
more of the throughput, as in that benchmark.

The second part runs `perpacket trial nothing` on files of three sizes. From the widths of the
effect and of the floor the trial computes how many blocks would show a change of 2 %; the program
prints their time. The exit status is 1 if the bar is refuted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from profiler_overhead import SETTLE_S, SIZES, Window, loaded_nginx, measured, print_ratios

TRIAL = [sys.executable, "-m", "perpacket.cli", "trial", "nothing", "--quiet"]

TRIAL_WINDOW_S, TRIAL_SETTLE_S = 1.0, 0.2
"""The trial's default windows."""

OWN_SETTLE_S, OWN_S = 4.0, 10.0
"""The time until a trial has imported everything, and the length of the measurement of its cost."""

WINDOWS = 5
"""Windows of one side of a pair: the start of a trial takes longer than a window."""

START_S = 30.0
"""Time limit for a trial to start its profiler."""


@contextmanager
def trial_beside(server: int) -> Iterator[list[int]]:
    """A trial in its first window; yields its processes."""
    command = [*TRIAL, "--pid", str(server), "--window", "1000s"]
    trial = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_S
        while not (profilers := children(trial.pid)):
            if time.monotonic() > deadline or trial.poll() is not None:
                raise SystemExit("skipped: the trial did not start its profiler")
            time.sleep(0.02)
        time.sleep(OWN_SETTLE_S)
        yield [trial.pid, *profilers]
    finally:
        trial.terminate()
        trial.wait()


def own_share(server: int) -> float:
    """The processor time of a trial's processes, as a share of a processor."""
    with trial_beside(server) as own:
        before, began_s = sum(map(used_s, own)), time.monotonic()
        time.sleep(OWN_S)
        return (sum(map(used_s, own)) - before) / (time.monotonic() - began_s)


def used_s(pid: int) -> float:
    """The processor time of all threads of a process."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def children(pid: int) -> list[int]:
    """The children of a process, of any of its threads."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for file in files for word in file.read_text().split()]


def mean(server: int) -> Window:
    """The mean of several windows."""
    found = [measured(server) for _ in range(WINDOWS)]
    return Window(
        sum(one.segments_per_s for one in found) / WINDOWS,
        sum(one.segments_per_cpu_s for one in found) / WINDOWS,
    )


def in_turn(pairs: int, server: int) -> tuple[list[Window], list[Window]]:
    """Measure windows with the trial and without it."""
    beside: list[Window] = []
    plain: list[Window] = []
    for pair in range(pairs):
        for with_it in (pair % 2 == 0, pair % 2 == 1):
            if with_it:
                with trial_beside(server):
                    beside.append(mean(server))
            else:
                time.sleep(SETTLE_S)
                plain.append(mean(server))
    return beside, plain


def time_to_show(url: str, server: int, options: argparse.Namespace) -> str:
    """The time that would show 2 %, from a trial of nothing."""
    done = subprocess.run(
        [
            *(*TRIAL, "--pid", str(server), "--url", url, "--format", "json"),
            *("--blocks", str(options.blocks), "--connections", "32"),
            *("--cpus", str(options.server_cpu), "--load-cpus", str(options.client_cpu)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return done.stderr.strip()
    (found,) = json.loads(done.stdout)["trials"]
    needed = found["blocks_for_2_percent"]
    minutes = needed * 4 * (TRIAL_WINDOW_S + TRIAL_SETTLE_S) / 60
    ratio = found["quantities"]["cpu_us_per_unit"]["ratio"]
    return (
        f"ratio {ratio['value']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}], unchanged windows "
        f"differ by {100 * found['floor']:.1f} %: {needed} blocks, {minutes:.0f} minutes"
    )


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pairs", type=int, default=20)
    options.add_argument("--blocks", type=int, default=10)
    options.add_argument("--server-cpu", type=int, default=0)
    options.add_argument("--client-cpu", type=int, default=1)
    arguments = options.parse_args()
    with loaded_nginx(arguments.server_cpu, arguments.client_cpu) as (server, _):
        beside, plain = in_turn(arguments.pairs, server)
        own = own_share(server)
    with loaded_nginx(arguments.server_cpu, arguments.client_cpu, load=False) as (server, url):
        times = {
            name: time_to_show(f"{url}/{size}", server, arguments) for name, size in SIZES.items()
        }
    print(f"processor time of the trial's processes: {100 * own:.2f} % of a processor")
    is_refuted = print_ratios(beside, plain)
    for name, text in times.items():
        print(f"to show 2 %, {name}: {text}")
    sys.exit(int(is_refuted))


if __name__ == "__main__":
    main()
