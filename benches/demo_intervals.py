"""The width of the demo's interval of requests per second, of two checkouts in alternation.

    .venv/bin/python benches/demo_intervals.py ../before . --runs 5

`make setup` must have run in both folders. Each run is `perpacket demo` with a short simulation,
because only the measured part counts. The width of a run is the half-width of the interval of
`requests_per_s` over its value: the median of the three numbers of connections. The program prints
the median of the runs of each checkout, their ratio, and the time that the windows of one demo
last. The bar is a third of the earlier width within the same time. The exit status is 1 if the
ratio is greater.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median

BAR = 1 / 3
QUANTITY = "requests_per_s"
SHORT_SIMULATION = ("--warmup-packets", "1000", "--packets", "10000")

WINDOWS = """
from perpacket.demo import live
windows = getattr(live, "BLOCKS", None) or live.SEEDS
print(len(live.CONNECTIONS) * len(windows) * live.DURATION_S, live.WARMUP_S / live.DURATION_S)
"""
"""Prints the time of the windows in seconds and the warm-up as a share of it. An early version
called the blocks seeds."""

Widths = Mapping[int, float]
"""By number of connections: the half-width over the value."""


def widths(document: str) -> Widths:
    """The widths in the JSON of a demo.

    Raises `SystemExit` when the demo has no measurement, or a number without bounds.
    """
    live = json.loads(document)["live"]
    if live is None or not live["rows"]:
        raise SystemExit(f"the demo has no measurement: {live and live['notes']}")
    found: dict[int, float] = {}
    for row in live["rows"]:
        interval = row[QUANTITY]
        if interval["low"] is None:
            raise SystemExit(f"{row['connections']} connections: {QUANTITY} has no interval")
        found[row["connections"]] = (interval["high"] - interval["low"]) / 2 / interval["value"]
    return found


def demo(checkout: Path) -> Widths:
    """Run the demo of a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *(checkout / ".venv/bin/perpacket", "demo", "--format", "json", "--quiet"),
                *("--output", Path(folder) / "report.html", *SHORT_SIMULATION),
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return widths(done.stdout)


def measured_time(checkout: Path) -> str:
    """`14.4 s, and 25 % of it for warm-up`: the time of all windows of a demo."""
    done = subprocess.run(
        [checkout / ".venv/bin/python", "-c", WINDOWS],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    measured_s, warmup_share = map(float, done.stdout.split())
    return f"{measured_s:.1f} s, and {100 * warmup_share:.0f} % of it for warm-up"


def summary(runs: list[Widths]) -> str:
    """`4.1 %; 4 connections 5.0 %, ...`: medians of the runs."""
    each = ", ".join(
        f"{connections} connections {100 * median(run[connections] for run in runs):.1f} %"
        for connections in runs[0]
    )
    return f"{100 * typical(runs):.1f} %; {each}"


def typical(runs: list[Widths]) -> float:
    """The median of the runs."""
    return median(median(run.values()) for run in runs)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("before", type=Path, help="the earlier checkout, set up")
    options.add_argument("after", type=Path, help="the later checkout, set up")
    options.add_argument("--runs", type=int, default=5, help="runs of each")
    arguments = options.parse_args()
    checkouts = {"before": arguments.before.resolve(), "after": arguments.after.resolve()}
    for checkout in checkouts.values():
        if not (checkout / ".venv/bin/perpacket").exists():
            options.error(f"{checkout}: run `make setup` there first")
    print(f"Linux {platform.release()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    runs: dict[str, list[Widths]] = {name: [] for name in checkouts}
    for run in range(arguments.runs):
        for name in sorted(checkouts, reverse=run % 2 == 0):
            runs[name].append(demo(checkouts[name]))
            print(f"run {run + 1}, {name}: {summary(runs[name][-1:])}", file=sys.stderr)
    for name, checkout in checkouts.items():
        print(f"{name}: {summary(runs[name])}; measured time {measured_time(checkout)}")
    ratio = typical(runs["after"]) / typical(runs["before"])
    print(f"after / before: {ratio:.2f} (bar: at most {BAR:.2f})")
    sys.exit(int(ratio > BAR))


if __name__ == "__main__":
    main()
