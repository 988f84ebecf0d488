"""How often the intervals of a few windows contain the true value, how wide they are, and why.

    .venv/bin/python benches/window_intervals.py record windows.json
    .venv/bin/python benches/window_intervals.py coverage windows.json
    .venv/bin/python benches/window_intervals.py demos --runs 10

`record` measures the demo's points in many blocks. `coverage` draws runs of 6, 12 and 24 blocks
from the series in a file, and from series with a known correlation of neighbours. It computes the
interval of each point by several methods. The drawn runs consist of stretches of consecutive
blocks, which begin at random; so neighbours stay neighbours, and the true value is the mean of the
whole series. `demos` repeats the measured part of `perpacket demo` and prints the half-width of
its requests per second; the bar is 8 % in nine runs of ten.

`perpacket` uses `pooled`: the correlation of neighbours is the mean of that of all points.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles

from perpacket.analysis import statistics
from perpacket.analysis.statistics import Interval, mean, neighbour_correlation
from perpacket_lab.demo import live
from perpacket_lab.run import start

Run = Sequence[Sequence[float]]
"""The values of each point of a run, in the order of its blocks."""

Method = Callable[[Run], list[Interval]]

QUANTITIES = ("requests_per_s", "layers.tcp.cpu_ns_per_packet", "layers.user.cpu_ns_per_packet")
BLOCKS = (6, 12, 24)
STRETCH = 30
"""The mean number of consecutive blocks of a stretch in a drawn run."""

CORRELATIONS = (0.0, 0.2, 0.4, 0.6)
POINTS, SPREAD, SHARED = 3, 0.04, 0.5
"""Of series with a known correlation: the points, the standard deviation as a share of the value,
and the share of the variance that all points have in common."""

DEGREES = 4
"""Degrees of freedom of the noise of these series: heavy tails."""

BAR, BAR_SHARE = 0.08, 0.9


def student(run: Run) -> list[Interval]:
    """All values are independent."""
    return [mean(values) for values in run]


def pairs(run: Run) -> list[Interval]:
    """Two neighbouring blocks are one value."""
    return [
        mean([(a + b) / 2 for a, b in zip(values[::2], values[1::2], strict=True)])
        for values in run
    ]


def own(run: Run) -> list[Interval]:
    """The correlation of each point is estimated from its own values."""
    return [mean(values, correlation=neighbour_correlation([values])) for values in run]


def own_degrees(run: Run) -> list[Interval]:
    """The same, up to a correlation of 0.8, which also reduces the degrees of freedom to one."""
    found = []
    for values in run:
        n, correlation = len(values), unlimited_correlation(values)
        independent = statistics.independent_values(n, correlation)
        student_interval = mean(values)
        t = statistics.t_quantile(0.95, max(1, math.floor(independent) - 1))
        factor = t / statistics.t_quantile(0.95, n - 1) * math.sqrt(n / independent)
        half = factor * (student_interval.high - student_interval.value)
        value = student_interval.value
        found.append(Interval(value, value - half, value + half, n, 0.95))
    return found


def unlimited_correlation(values: Sequence[float]) -> float:
    """The correlation of neighbours, up to 0.8."""
    limit, statistics.MOST_CORRELATION = statistics.MOST_CORRELATION, 0.8
    try:
        return neighbour_correlation([values])
    finally:
        statistics.MOST_CORRELATION = limit


def pooled(run: Run) -> list[Interval]:
    """The correlation is the mean of that of all points."""
    correlation = neighbour_correlation(run)
    return [mean(values, correlation=correlation) for values in run]


METHODS: dict[str, Method] = {
    "student": student,
    "pairs of blocks": pairs,
    "own correlation": own,
    "own, fewer degrees": own_degrees,
    "pooled": pooled,
}


def correlated(correlation: float, blocks: int = 20_000) -> Run:
    """Series of points whose neighbours have this correlation."""
    chance = random.Random(1)

    def noise() -> float:
        spread = math.sqrt(sum(chance.gauss(0, 1) ** 2 for _ in range(DEGREES)) / DEGREES)
        return chance.gauss(0, 1) / spread / math.sqrt(DEGREES / (DEGREES - 2))

    states = [0.0] * POINTS
    series: list[list[float]] = [[] for _ in range(POINTS)]
    for _ in range(blocks):
        together = math.sqrt(SHARED) * noise()
        for point, values in enumerate(series):
            new = together + math.sqrt(1 - SHARED) * noise()
            states[point] = correlation * states[point] + math.sqrt(1 - correlation**2) * new
            values.append(1 + SPREAD * states[point])
    return series


def drawn(series: Run, blocks: int, chance: random.Random) -> Run:
    """A run of stretches of the series."""
    length, places = len(series[0]), list[int]()
    while len(places) < blocks:
        begin = chance.randrange(length)
        stretch = 1 + int(chance.expovariate(1 / STRETCH))
        places += [(begin + step) % length for step in range(stretch)]
    return [[values[place] for place in places[:blocks]] for values in series]


def cells(series: Run, method: Method, repetitions: int) -> Iterator[str]:
    """Coverage, median half-width and its 90 % quantile, for each number of blocks."""
    truth = [math.fsum(values) / len(values) for values in series]
    for blocks in BLOCKS:
        chance = random.Random(2)
        contained, widths = 0, []
        for _ in range(repetitions):
            for interval, value in zip(method(drawn(series, blocks, chance)), truth, strict=True):
                contained += interval.contains(value)
                widths.append(50 * (interval.high - interval.low) / value)
        share = 100 * contained / len(widths)
        yield f"{share:3.0f} % {median(widths):5.1f} {quantiles(widths, n=10)[-1]:6.1f}"


def coverage(files: Sequence[Path], repetitions: int) -> None:
    """Print a table for each series."""
    tables: dict[str, Run] = {f"correlation {r:g}": correlated(r) for r in CORRELATIONS}
    for file in files:
        recorded = json.loads(file.read_text())
        tables |= {f"{file.stem}, {name}": series for name, series in recorded.items()}
    for title, series in tables.items():
        neighbours = neighbour_correlation(series)
        print(f"\n{title}: {len(series[0])} blocks, correlation of neighbours {neighbours:.2f}")
        heading = "".join(f"{f'{blocks} blocks':>22}" for blocks in BLOCKS)
        print(f"{'contains, half-width and its 90 % quantile, %':20}\n{'':20}{heading}")
        for name, method in METHODS.items():
            print(f"{name:20}", *(f"{cell:>21}" for cell in cells(series, method, repetitions)))


def record(file: Path, blocks: int) -> None:
    """Measure the demo's points, and write the values of `QUANTITIES`."""
    events, _ = live.usable_events()
    study = replace(live.study(), seeds=tuple(range(1, blocks + 1)))
    with tempfile.TemporaryDirectory() as folder:
        overrides = (("profile.events", events),)
        rows = start.run(study, Path(folder) / "run", overrides=overrides).rows()
    series = {
        name: [[float(str(own[seed][name])) for seed in sorted(own)] for own in rows.values()]
        for name in QUANTITIES
        if all(name in row for own in rows.values() for row in own.values())
    }
    file.write_text(json.dumps(series))


def demos(count: int) -> bool:
    """Repeat the demo's measurement; returns whether the bar is met."""
    widest = []
    for number in range(1, count + 1):
        with tempfile.TemporaryDirectory() as folder:
            rows = live.run(Path(folder) / "live", None).rows
        intervals = {connections: row["requests_per_s"] for connections, row in rows.items()}
        widths = [(each.high - each.low) / 2 / each.value for each in intervals.values()]
        widest.append(max(widths))
        shown = ", ".join(
            f"{connections} connections {each.value:,.0f} ± {100 * width:.1f} %"
            for (connections, each), width in zip(intervals.items(), widths, strict=True)
        )
        print(f"demo {number}: {shown}", flush=True)
    narrow = sum(width < BAR for width in widest)
    print(f"all three half-widths under {100 * BAR:g} %: {narrow} of {count} demos")
    return narrow >= BAR_SHARE * count


def main() -> None:
    """Run one of the three parts."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = options.add_subparsers(dest="part", required=True)
    recording = parts.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("--blocks", type=int, default=80, help="each lasts about three seconds")
    covering = parts.add_parser("coverage")
    covering.add_argument("files", type=Path, nargs="*", help="files that `record` wrote")
    covering.add_argument("--repetitions", type=int, default=1000)
    repeating = parts.add_parser("demos")
    repeating.add_argument("--runs", type=int, default=10)
    arguments = options.parse_args()
    print(f"Linux {platform.release()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    if arguments.part == "record":
        record(arguments.file, arguments.blocks)
    elif arguments.part == "coverage":
        coverage(arguments.files, arguments.repetitions)
    else:
        sys.exit(int(not demos(arguments.runs)))


if __name__ == "__main__":
    main()
