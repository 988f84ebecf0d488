"""`bench memory` against plain C loops: STREAM's triad, a sum, and a chain of dependent loads.

Run in alternation, each pair back to back, over working sets in each cache and in memory. The bar:
within 5 % of a plain STREAM triad, and of lmbench-style figures where they overlap. STREAM is J. D.
McCalpin's benchmark of sustainable bandwidth; the sum is what lmbench's `bw_mem rd` does, over
all words; the chain is its `lat_mem_rd` in random order. Loops in cache depend on the compiler's
unrolling, so the bar is judged past the caches, and in them for the chain.

    .venv/bin/python benches/memory_against_stream.py [PAIRS]
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from perpacket.statistics import paired_ratio
from perpacket.testbed import agent

SOURCE = Path(__file__).with_suffix(".c")
SECONDS = 0.4
"""Time for each measurement of either side."""

KIB, MIB = 2**10, 2**20
SETS = {
    "triad": [24 * KIB, 384 * KIB, 128 * MIB],
    "load": [16 * KIB, 256 * KIB, 128 * MIB],
    "chain": [16 * KIB, 128 * KIB, 128 * MIB],
}
"""Working sets in bytes of each measurement: first level, second level, memory."""


def ours(what: str, size_bytes: int, cpu: int) -> float:
    """MB/s or ns from `bench memory`."""
    common = ["--cpu", str(cpu), "--precision", "0.0001", "--point-limit-ms", f"{SECONDS * 1e3:g}"]
    if what == "chain":
        sizes = ["--operations", "load", "--strides", "1", "--smallest", str(size_bytes)]
    else:
        sizes = ["--operations", what, "--strides", "1", "--smallest", str(size_bytes)]
        sizes.append("--no-chain")
    command = [str(agent.find()), "bench", "memory", *sizes, "--largest", str(size_bytes), *common]
    answer = subprocess.run(
        [*command, "--format", "json", "--quiet"], check=True, capture_output=True, timeout=120
    )
    report = json.loads(answer.stdout)
    if what == "chain":
        return float(report["chain"][-1]["ns"])
    return float(report["surface"][0]["mbytes_per_s"])


def theirs(program: Path, what: str, size_bytes: int, cpu: int) -> float:
    """MB/s or ns from the C loops."""
    command = [str(program), what, str(size_bytes), str(SECONDS), str(cpu)]
    answer = subprocess.run(command, check=True, capture_output=True, timeout=120)
    return float(answer.stdout)


def in_alternation(
    program: Path, what: str, size_bytes: int, cpu: int, pairs: int
) -> tuple[list[float], list[float]]:
    """Results of both sides, whose turn to begin changes from pair to pair."""
    mine: list[float] = []
    plain: list[float] = []
    for pair in range(pairs):
        if pair % 2:
            mine.append(ours(what, size_bytes, cpu))
        plain.append(theirs(program, what, size_bytes, cpu))
        if not pair % 2:
            mine.append(ours(what, size_bytes, cpu))
    return mine, plain


def main() -> None:
    """Print a ratio with its interval for each measurement."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("skipped: no C compiler to build the plain loops with")
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    cpu = max(os.sched_getaffinity(0))
    print(f"{platform.machine()}, Linux {platform.release()}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "loops"
        subprocess.run([compiler, "-O3", "-o", str(program), str(SOURCE)], check=True, timeout=60)
        for what, sizes in SETS.items():
            for size_bytes in sizes:
                mine, plain = in_alternation(program, what, size_bytes, cpu, pairs)
                ratio = paired_ratio(mine, plain)
                unit = "ns" if what == "chain" else "MB/s"
                middle = sorted(plain)[pairs // 2]
                print(
                    f"{what:5} {size_bytes // KIB:>7} KiB: ours / plain C {ratio.text(3)}, "
                    f"plain C {middle:.4g} {unit}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
