"""The precision and cost of the delay of `perpacket link` at 200 Mb/s.

    cargo build --release -p perpacket-benches --example blast
    cargo build --release -p perpacket-agent
    PERPACKET_AGENT=target/release/perpacket-agent .venv/bin/python benches/link_delay.py \
        target/release/examples/blast

Each round sends the same stream over veth and over the link. Rounds alternate between the two
directions. The link's own error counts from its read of a frame to its delivery. The packets' delay
counts from the sender's call until the receiving kernel gets the packet from its device; the table
also has it over veth. The bar is a delay of at most 50 us too much at the median, and 200 us at the
99th percentile.

Recorded on a 2-core VM (AMD EPYC, Linux 6.18) with a load average of 14, 8 rounds of 1 s, medians
with 95 % intervals. The link's own error was 6 us [4, 11] at the median and 39 us [36, 466] at the
99th percentile. Packets were late by 23 us [14, 28] and 80 us [56, 798]; in 7 of the 8 rounds by at
most 28 and 165. The server sent 200 Mb/s. The client, whose processor the link shares, sent 142 to
173. The link used 0.72 [0.70, 0.77] of a processor, 0.10 of it spinning, and 0.0004 without
traffic.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from perpacket.analysis import statistics
from perpacket.errors import PerpacketError
from perpacket_lab.measure import hosts
from perpacket_lab.run.environment import describe

PORT = 9000
PACKET_BYTES = 1472


def measure(
    bed: hosts.Testbed, blast: str, to_client: bool, rate_bps: int, duration_s: float
) -> dict[str, Any]:
    """Send one stream and return the receiver's report."""
    ends = (bed.server, bed.clients[0])
    sender, receiver = ends if to_client else ends[::-1]
    receiving = receiver.start([blast, "receive", f"0.0.0.0:{PORT}"])
    receiving.wait_for_line("^ready$", 10)
    words = [f"{receiver.address}:{PORT}", str(rate_bps), str(PACKET_BYTES), str(duration_s)]
    # A sender that waits for the processor would not send at the requested rate.
    command = ["chrt", "-f", "1", blast, "send", *words]
    sent = json.loads(sender.run(command, timeout_s=duration_s + 30).stdout)
    received = json.loads(receiving.result(30).stdout.splitlines()[-1])
    lost = sent["packets"] - received["packets"]
    return {**received, "lost": lost, "rate_bps": sent["rate_bps"]}


def idle_share(bed: hosts.Testbed, duration_s: float) -> float:
    """Return the share of a processor that the link uses without traffic."""
    before = bed.network_report() or {}
    time.sleep(duration_s)
    after = bed.network_report() or {}
    used, elapsed = (float(str(after[n])) - float(str(before[n])) for n in ("cpu_s", "elapsed_s"))
    return used / elapsed


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("blast", type=Path, help="the example `blast`, built for release")
    parser.add_argument("--delay-us", type=float, default=1000)
    parser.add_argument("--rate-bps", type=int, default=200_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    blast = str(options.blast.absolute())
    machine = describe()
    print(f"{machine['cpu']}, {machine['cores_usable']} cores, {machine['kernel']}")
    columns: dict[str, list[float]] = {}
    for number in range(options.rounds):
        to_client = number % 2 == 0
        stream = (blast, to_client, options.rate_bps, options.seconds)
        with hosts.namespaces(use_netem=False) as bed:
            direct = measure(bed, *stream)
        delay_us = options.delay_us
        with hosts.namespaces(one_way_latency_us=delay_us, use_netem=False) as bed:
            idle = idle_share(bed, 0.5)
            delayed = measure(bed, *stream)
            report: Any = bed.network_report()
        way = report["left_to_right" if to_client else "right_to_left"]
        row = {
            "sent, Mb/s": delayed["rate_bps"] / 1e6,
            "link's own error, p50 us": way["delay_error_us"]["p50"],
            "link's own error, p99 us": way["delay_error_us"]["p99"],
            "end to end beyond veth, p50 us": delayed["p50"] - delay_us - direct["p50"],
            "end to end beyond the delay, p50 us": delayed["p50"] - delay_us,
            "end to end beyond the delay, p99 us": delayed["p99"] - delay_us,
            "veth end to end, p50 us": direct["p50"],
            "veth end to end, p99 us": direct["p99"],
            "packets lost": delayed["lost"],
            "not kept by the link": way["dropped"]["not_kept"],
            "link's processor share": report["cpu_s"] / options.seconds,
            "of it spinning": report["spin_s"] / options.seconds,
            "link's processor share, idle": idle,
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(float(value))
        print(", ".join(f"{name} {value:.4g}" for name, value in row.items()))
    print(f"{options.rate_bps / 1e6:g} Mb/s, {delay_us:g} us, {options.rounds} rounds, medians:")
    for name, values in columns.items():
        print(f"  {name:<38} {statistics.median(values)}")


if __name__ == "__main__":
    try:
        main()
    except PerpacketError as error:
        raise SystemExit(f"skipped: {error}") from error
