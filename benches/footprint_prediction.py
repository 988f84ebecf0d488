"""How well the simulator with machine `linux-6.1` predicts the misses of the emulated kernel.

    .venv/bin/python benches/footprint_prediction.py [--folder FOLDER]

Emulates the bulk sender with numbers of connections and sizes of the level-2 cache other than
those that the machine was made from, simulates the same, and prints the table of
docs/emulation-footprint.md: level-2 misses a packet, code included. The bar is a difference of
15 %. With `--folder` the results of the emulation are stored there, and a later run reads them
instead of emulating again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from perpacket_lab import _core

BAR = 0.15
CONNECTIONS = (4, 32, 128, 512, 2048)
SIZES_KIB = {256: "256K:16", 512: "512K:16", 1024: "1M:16", 2048: "2M:16"}
RATE_MBPS = 100
FRAMES = 6000
SENDER = {
    "workload.rate_mbps": RATE_MBPS,
    "workload.segment_bytes": 1448,
    "workload.burst_us": 1000,
    "workload.sleep_us": 250,
}
"""The sender `load stream` (crates/instruments/load/src/stream): BURST_NS and SHORTEST_SLEEP_NS."""


def emulated(connections: int, variants: int, folder: Path | None) -> dict[str, Any]:
    """The result of an emulation, from the folder if it is there."""
    kept = folder / f"{connections}.json" if folder else None
    if kept and kept.exists():
        text = kept.read_text()
    else:
        command = [str(Path(sys.executable).with_name("perpacket")), "emulate", "--server", "bulk"]
        command += ["--connections", str(connections), "--rate-mbps", str(RATE_MBPS)]
        command += ["--l2", ",".join(SIZES_KIB.values()), "--frames", str(FRAMES)]
        command += ["--variants", str(variants), "--format", "json"]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(text)
    if kept and not kept.exists():
        kept.write_text(text)
    return found


def simulated(connections: int, kib: int) -> float:
    """Level-2 misses per packet of the simulator with the machine, code included."""
    settings = {
        "machine": "linux-6.1",
        "workload.connections": connections,
        **SENDER,
        "machine.l2.size_kib": kib,
        "run.warmup_packets": max(20_000, 12 * connections),
        "run.packets": max(40_000, 20 * connections),
    }
    run = _core.Simulation("bulk", [(name, str(value)) for name, value in settings.items()], 1)
    layers = json.loads(run.run())["layers"]
    keys = ("l2_misses_per_packet", "fetch_l2_misses_per_packet")
    return sum(float(cost[key]) for cost in layers.values() for key in keys)


def main() -> None:
    """Print the table and the number of predictions within the bar."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--variants", type=int, default=5)
    options.add_argument("--folder", type=Path)
    options.add_argument("--connections", type=int, nargs="+", default=CONNECTIONS)
    given = options.parse_args()
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
    within = []
    print("| connections | second level | emulated | simulated | difference |")
    print("|---|---|---|---|---|")
    for connections in given.connections:
        misses = emulated(connections, given.variants, given.folder)["total"][
            "l2_misses_per_packet"
        ]
        for kib, size in SIZES_KIB.items():
            real, own = misses[size]["value"], simulated(connections, kib)
            difference = own / real - 1
            within.append(abs(difference) <= BAR)
            print(f"| {connections} | {kib} KiB | {real:.2f} | {own:.2f} | {difference:+.0%} |")
    print(f"{sum(within)} of {len(within)} predictions are within {BAR:.0%}")


if __name__ == "__main__":
    main()
