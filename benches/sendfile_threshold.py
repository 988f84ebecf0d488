"""CPU time per request of `serve web`: sendfile over memory, by file size.

    .venv/bin/python benches/sendfile_threshold.py
    .venv/bin/python benches/sendfile_threshold.py --rounds 15 --sizes 262144 1048576

Two servers of one executable, pinned to one CPU, serve the same folder: one sends every file by
sendfile, the other every file from memory. The client has another CPU. Each round measures one
directly after the other; the first one alternates. `--sendfile-above` should be the smallest size
from which sendfile costs less. This benchmark set its default.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from serve_against_nginx import children, processor, spent, started, wait_for

from perpacket.analysis.statistics import paired_ratio
from perpacket.measure.agent import find as installed_agent

SIZES = [65_536, 131_072, 262_144, 524_288, 1_048_576, 2_097_152, 4_194_304]
"""File sizes, in bytes."""


def options() -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", help="default: the installed agent")
    parser.add_argument("--architecture", default="events")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="BYTES")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--client-cpu", type=int, default=1)
    arguments = parser.parse_args()
    arguments.agent = arguments.agent or str(installed_agent())
    arguments.client = "wrk"
    return arguments


def main() -> None:
    """Measure and print."""
    arguments = options()
    for tool in (arguments.client, "taskset"):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed")
            return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for size in arguments.sizes:
            (folder / f"f{size}").write_bytes(os.urandom(size))
        command = [arguments.agent, "serve", "web", "--root", name, "--listen", "127.0.0.1:0"]
        command += ["--cpus", str(arguments.server_cpu), "--architecture", arguments.architecture]
        command += ["--quiet", "--sendfile-above"]
        pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
        with (
            started([*command, "0"], **pipes) as by_sendfile,
            started([*command, str(1 << 40)], **pipes) as from_memory,
        ):
            measure(arguments, [by_sendfile, from_memory])


def measure(arguments: argparse.Namespace, servers: list[subprocess.Popen[str]]) -> None:
    """Measure all sizes in all rounds."""
    urls = []
    for server in servers:
        assert server.stderr is not None
        urls.append(server.stderr.readline().split()[-1])
    processes = [[server.pid, *children(server.pid)] for server in servers]
    print(f"# {platform.platform()}, {os.cpu_count()} CPUs, {processor()}")
    print(f"# wrk, {arguments.connections} connections kept alive, {arguments.rounds} rounds")
    print(f"{'bytes':>9} {'sendfile us':>11} {'memory us':>10} {'ratio':>7} 95 %")
    for size in arguments.sizes:
        times: list[list[float]] = [[], []]
        for url in urls:
            wait_for(f"{url}/f{size}")
        for number in range(arguments.rounds):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                times[side].append(spent(arguments, f"{urls[side]}/f{size}", processes[side]).us)
        ratio = paired_ratio(times[0], times[1])
        middle = [sorted(values)[len(values) // 2] for values in times]
        print(
            f"{size:>9} {middle[0]:>11.1f} {middle[1]:>10.1f} {ratio.value:>7.3f} "
            f"[{ratio.low:.3f}, {ratio.high:.3f}]",
            flush=True,
        )


if __name__ == "__main__":
    main()
