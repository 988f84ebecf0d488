"""Samples a second that `profile --perf` decodes and attributes, on one core.

    .venv/bin/python benches/recording_speed.py --cpu 1

perf records this machine beside nginx and its load, with call chains. The rate is the samples of
the file by the processor time of a whole `profile --perf`, with its start and the kernel's symbols.
The bar is 200,000 a second. This benchmark needs nginx, perf and root.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import tempfile
from pathlib import Path

from profiler_overhead import free_port, start_server

from perpacket.analysis.statistics import mean
from perpacket.measure.agent import find

FREQUENCY_HZ = 40_000
"""Samples a second and processor while it records: a large file in a short time."""


def processor_s() -> float:
    """Processor time of ended children, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Record once, decode several times, and print the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--cpu", type=int, default=(os.cpu_count() or 1) - 1)
    arguments = parser.parse_args()
    agent = str(find())
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "perf.data"
        port = free_port()
        server = start_server(Path(directory), port, 0)
        try:
            url = f"http://127.0.0.1:{port}/page"
            load = [agent, "load", "http", url, "--duration", str(arguments.seconds), "--quiet"]
            record = ["perf", "record", "-a", "-g", "-e", "cpu-clock", "-F", str(FREQUENCY_HZ)]
            subprocess.run([*record, "-o", str(file), "--", *load], check=True, capture_output=True)
        finally:
            server.terminate()
            server.wait()
        print(
            f"machine: {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        )
        size_mb = file.stat().st_size / 1e6
        pinned = ("taskset", "-c", str(arguments.cpu), agent)
        rates = []
        for _ in range(arguments.rounds):
            before = processor_s()
            done = subprocess.run(
                [*pinned, "profile", "--perf", str(file), "--format", "json", "--quiet"],
                check=True,
                capture_output=True,
            )
            used_s = processor_s() - before
            samples = json.loads(done.stdout)["samples"]
            rates.append(samples / used_s)
            print(f"{samples:,} samples, {size_mb:.0f} MB: {rates[-1]:,.0f} a second")
        print(f"mean: {mean(rates)} a second; bar: 200,000")


if __name__ == "__main__":
    main()
