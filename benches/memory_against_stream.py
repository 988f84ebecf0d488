"""`bench memory` against plain C loops: STREAM's triad, a sum, and a chain of dependent loads.

The two sides alternate, each pair back to back, over working sets in each cache and in memory. The
bar is 5 % of a plain STREAM triad, and of lmbench's figures where they overlap. STREAM is J. D.
McCalpin's benchmark of sustainable bandwidth; its rules require arrays of four last caches each.
The sum is lmbench's `bw_mem rd` over all words, the chain its `lat_mem_rd` in random order. Loops
in cache depend on the compiler's unrolling, so the bar applies beyond the caches, and in them for
the chain. Both sides report the median of their repetitions in the same time, on one processor.
Each measurement is a new process, so the choice of pages is part of the spread.

A bar is met if the whole interval of the ratio is within it, and missed if all of it is outside.
Otherwise it is undecided: use more pairs, or a quieter machine. The exit status is 1 if a bar is
missed.

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

from perpacket.analysis.statistics import Interval, median, paired_ratio
from perpacket.measure import agent

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-O3", "-march=native", "-funroll-loops")
"""The flags of STREAM. With plain -O3, instructions can limit a wide core instead of memory.

lmbench unrolls its loops by hand; -funroll-loops does the same.
"""

SECONDS = 0.8
"""Length of each measurement of either side."""

BAR = 0.05
"""Largest distance of a ratio from 1."""

KIB, MIB = 2**10, 2**20
UNKNOWN_CACHES = {1: 32 * KIB, 2: 512 * KIB, 3: 32 * MIB}
"""Sizes to assume if the kernel lists no caches."""

TRIAD_ARRAYS, STREAM_CACHES = 3, 4


def working_sets(cpu: int) -> dict[str, list[int]]:
    """Return working sets: in the first level, in the second, and beyond the last cache."""
    command = [str(agent.find()), "bench", "memory", "--operations", "load", "--strides", "1"]
    command += ["--largest", "512", "--no-chain", "--cpu", str(cpu), "--format", "json", "--quiet"]
    done = subprocess.run(command, check=True, capture_output=True, timeout=120)
    known = {
        row["level"]: row["size_bytes"] for row in json.loads(done.stdout)["machine"]["caches"]
    }
    caches = known or UNKNOWN_CACHES
    first, second, last = (caches[min(level, max(caches))] for level in (1, 2, max(caches)))
    memory = STREAM_CACHES * last
    return {
        "triad": [first // 2, 3 * second // 8, TRIAD_ARRAYS * memory],
        "load": [first // 3, second // 4, memory],
        "chain": [first // 3, second // 8, memory],
    }


def verdict(ratio: Interval) -> str:
    """Judge an interval against the bar."""
    if ratio.low >= 1 - BAR and ratio.high <= 1 + BAR:
        return "met"
    if ratio.high < 1 - BAR or ratio.low > 1 + BAR:
        return "missed"
    return "undecided"


def ours(what: str, size_bytes: int, cpu: int) -> float:
    """Return MB/s or ns of `bench memory`."""
    common = ["--cpu", str(cpu), "--precision", "0.0001", "--point-limit", f"{SECONDS:g}s"]
    if what == "chain":
        sizes = ["--operations", "load", "--strides", "1", "--smallest", str(size_bytes)]
    else:
        sizes = ["--operations", what, "--strides", "1", "--smallest", str(size_bytes)]
        sizes.append("--no-chain")
    command = [str(agent.find()), "bench", "memory", *sizes, "--largest", str(size_bytes), *common]
    done = subprocess.run(
        [*command, "--format", "json", "--quiet"], check=True, capture_output=True, timeout=120
    )
    report = json.loads(done.stdout)
    if what == "chain":
        return float(report["chain"][-1]["ns"])
    return float(report["surface"][0]["mbytes_per_s"])


def theirs(program: Path, what: str, size_bytes: int, cpu: int) -> float:
    """Return MB/s or ns of the C loops."""
    command = [str(program), what, str(size_bytes), str(SECONDS), str(cpu)]
    done = subprocess.run(command, check=True, capture_output=True, timeout=120)
    return float(done.stdout)


def in_alternation(
    program: Path, what: str, size_bytes: int, cpu: int, pairs: int
) -> tuple[list[float], list[float]]:
    """Measure both sides in pairs; the first side alternates."""
    mine: list[float] = []
    plain: list[float] = []
    for pair in range(pairs):
        if pair % 2:
            mine.append(ours(what, size_bytes, cpu))
        plain.append(theirs(program, what, size_bytes, cpu))
        if not pair % 2:
            mine.append(ours(what, size_bytes, cpu))
    return mine, plain


def main() -> int:
    """Print a ratio with its interval and the bar's verdict for each measurement."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("skipped: no C compiler to build the plain loops with")
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    cpu = max(os.sched_getaffinity(0))
    print(f"{platform.machine()}, Linux {platform.release()}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "loops"
        subprocess.run([compiler, *FLAGS, "-o", str(program), str(SOURCE)], check=True, timeout=60)
        missed = 0
        for what, sizes in working_sets(cpu).items():
            for size_bytes in sizes:
                mine, plain = in_alternation(program, what, size_bytes, cpu, pairs)
                ratio = paired_ratio(mine, plain)
                judged = what == "chain" or size_bytes == sizes[-1]
                said = verdict(ratio) if judged else "not judged: it depends on the compiler"
                missed += said == "missed"
                unit = "ns" if what == "chain" else "MB/s"
                print(
                    f"{what:5} {size_bytes // KIB:>7} KiB: ours / plain C {ratio.text(3)}, "
                    f"{said}; plain C {median(plain)} {unit}",
                    flush=True,
                )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
