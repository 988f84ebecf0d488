"""The delay of the requests of `load http` after their times, at 10,000 a second.

The bar is a p99 under 100 us on an idle core. Bind the client to its own core with --cpus, and the
server to another. On a busy machine the result shows the machine. This benchmark needs nginx.

    .venv/bin/python benches/schedule_lag.py --cpus 1
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from load_against_wrk import CONFIGURATION, free_port, run

from perpacket.analysis.statistics import mean
from perpacket.measure.agent import find as installed_agent


def main() -> None:
    """Measure and print the percentiles of every round, and their mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", help="default: the installed agent")
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--cpus", default=str((os.cpu_count() or 1) - 1))
    parser.add_argument("--server-cpu", default="0")
    arguments = parser.parse_args()
    arguments.agent = arguments.agent or str(installed_agent())
    if shutil.which("nginx") is None or shutil.which("taskset") is None:
        print("skipped: nginx or taskset is not installed")
        return
    with tempfile.TemporaryDirectory() as directory:
        root, port = Path(directory), free_port()
        root.chmod(0o755)
        (root / "file").write_bytes(os.urandom(612))
        (root / "nginx.conf").write_text(CONFIGURATION.format(root=root, port=port))
        start = ["taskset", "-c", arguments.server_cpu, "nginx", "-c", str(root / "nginx.conf")]
        server = subprocess.Popen(start)
        try:
            time.sleep(1)
            loads = " ".join(f"{load:.2f}" for load in os.getloadavg())
            print(f"machine: {platform.machine()}, {os.cpu_count()} cores, load before: {loads}")
            medians, tails = [], []
            for _ in range(arguments.rounds):
                command = [arguments.agent, "load", "http", f"http://127.0.0.1:{port}/file"]
                command += ["--rate", str(arguments.rate), "--threads", "1"]
                command += ["--cpus", arguments.cpus, "--duration", str(arguments.seconds)]
                output, _ = run([*command, "--warmup", "0.5", "--format", "json"])
                lag = json.loads(output)["schedule_lag_us"]
                print({name: round(lag[name], 1) for name in ("p50", "p90", "p99", "p999", "max")})
                medians.append(lag["p50"])
                tails.append(lag["p99"])
            print(f"lag at {arguments.rate}/s: p50 {mean(medians)} us, p99 {mean(tails)} us")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
