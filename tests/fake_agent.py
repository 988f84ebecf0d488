#!/usr/bin/env python3
"""A fake perpacket-agent: it prints reports of the right shape at once.

It has the agent's interface (texts and the times at which they appear), so that measured runs are
tested without measurements. Environment variables change its behaviour and name a log of commands.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

LOG = "FAKE_AGENT_LOG"
"""Environment variable: a file that gets one line of JSON for each command."""

SERVER_DIES = "FAKE_AGENT_SERVER_DIES"
"""Environment variable: a text; a server whose root's name contains it dies early."""

HOLD_S = "FAKE_AGENT_HOLD_S"
"""Environment variable: the duration of a load in seconds, unless a signal stops it."""

WRONG_BYTES = "FAKE_AGENT_WRONG_BYTES"
"""Environment variable: the number of wrong packets that clients of media report."""

LAYERS = {
    "user": 200.0,
    "syscall": 150.0,
    "socket": 250.0,
    "tcp": 600.0,
    "ip": 120.0,
    "ethernet": 180.0,
    "driver": 300.0,
    "interrupt": 90.0,
    "scheduler": 60.0,
    "other": 50.0,
}


def option(name: str, default: str = "") -> str:
    """The value after an option."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


POSITIONAL = {"load http": "url", "load media": "url", "load files": "workload"}
"""The option of a verb that has no name on the command line."""


def words_of(document: str) -> list[str]:
    """The command line of a JSON document."""
    ((verb, options),) = json.loads(document).items()
    words: list[str] = verb.split()
    if verb in POSITIONAL:
        words.append(options.pop(POSITIONAL[verb]))
    for name, value in options.items():
        words.append(f"--{name}")
        words += [] if value is True else [str(value)]
    return words


def print_report(report: dict[str, object]) -> None:
    print(json.dumps({"schema": 1} | report), flush=True)


def serve() -> int:
    root = option("--root")
    print("listening on http://127.0.0.1:8080", file=sys.stderr, flush=True)
    dies = os.environ.get(SERVER_DIES, "")
    if dies and dies in root:
        time.sleep(0.05)
        print("error: the disk is on fire", file=sys.stderr, flush=True)
        return 4
    signal.sigwait([signal.SIGINT, signal.SIGTERM])
    print_report({"requests": 1000, "cpu_s": {"user": 0.1, "system": 0.4}})
    return 130


def serve_media() -> int:
    """Report on each SIGUSR1, with the counts of one more second."""
    print("listening on rtsp://127.0.0.1:8554", file=sys.stderr, flush=True)
    requested = 0
    while signal.sigwait([signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]) == signal.SIGUSR1:
        requested += 1
        print_report(
            {
                "uptime_s": 2.0 * requested,
                "cpu_s": 0.5 * requested,
                "packets": 1000 * requested,
                "sends": 500 * requested,
                "reads": 100 * requested,
                "starved": 0,
                "dropped": 0,
                "playing": 4,
                "page_faults": {"minor": 20 * requested, "major": 2 * requested},
                "context_switches": {"voluntary": 300 * requested, "involuntary": 10 * requested},
            }
        )
    return 0


def load_media() -> int:
    generate_load()
    clients = float(option("--clients"))
    print_report(
        {
            "clients": clients,
            "played": clients - 1,
            "refused": {"453": 1},
            "timed_out": 0,
            "failed": 0,
            "throughput_bps": 1e6 * clients,
            "packets": 990,
            "lost": 10,
            "reordered": 0,
            "duplicates": 0,
            "content_errors": int(os.environ.get(WRONG_BYTES, "0")),
            "cpu_s": 0.1,
            "lateness_us": {"p50": clients, "p99": 10 * clients},
            "start_up_ms": {"p50": 1.0},
            "jitter_us": {"mean": clients},
            "mean_gap_difference_us": {"mean": 2 * clients},
            "streams": [{"url": "rtsp://127.0.0.1:8554/stream-00000.ts"}],
        }
    )
    return 0


def synthesize() -> int:
    folder = Path(option("--into"))
    folder.mkdir(parents=True)
    for number in range(int(option("--files"))):
        (folder / f"stream-{number:05d}.ts").write_bytes(b"G" * 188 * 400)
    return 0


def generate_load() -> None:
    """Send some packets, then wait."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(40):
            sender.sendto(b"load", ("127.0.0.1", 9))
    signal.sigtimedwait([signal.SIGINT, signal.SIGTERM], float(os.environ.get(HOLD_S, "600")))


def load_http() -> int:
    if "--requests" not in sys.argv:
        generate_load()
    connections = float(option("--connections", option("--users", "1")))
    quantiles = {"p50": 100.0, "p90": 200.0, "p99": 300.0, "p999": 400.0, "max": 500.0}
    print_report(
        {
            "requests": 1000,
            "errors": {},
            "requests_per_s": 500.0 + connections,
            "content_mbps": 80.0,
            "latency_us": {"service": quantiles, "response": quantiles},
            "client_cpu_s": 0.2,
            "connections": connections,
            "duration_s": 1.0,
        }
    )
    return 0


def load_stream() -> int:
    if "--listen" in sys.argv:
        print("listening on 127.0.0.1:9000", file=sys.stderr, flush=True)
        signal.sigwait([signal.SIGINT, signal.SIGTERM])
        return 130
    generate_load()
    rate = float(option("--bit-rate", "1e9"))
    print_report(
        {
            "goodput_bps": rate,
            "segments": rate / 8 / 1460,
            "retransmissions": 3,
            "rtt_us": {"p50": 40.0, "p99": 90.0},
            "cpu_s": 0.5,
            "congestion_control": "cubic",
        }
    )
    return 0


def profile() -> int:
    time.sleep(float(option("--duration")))
    busy = sum(LAYERS.values())
    print_report(
        {
            "backend": "cpu-clock",
            "window_s": 1.0,
            "samples": 1200,
            "lost": 0,
            "packets": {
                "sent": 9000,
                "received": 6000,
                "segments_sent": 18_000,
                "segments_received": 12_000,
            },
            "requests": 1000,
            "layers": {
                name: {
                    "cpu_s": ns * 15_000 / 1e9,
                    "cpu_ns_per_packet": ns,
                    "share": ns / busy,
                    "low": 0.0,
                    "high": 1.0,
                }
                for name, ns in LAYERS.items()
            },
            "categories": {"server_program": {"share": 0.12}, "libraries": {"share": 0.05}},
            "unclaimed_share": 0.004,
            "unclaimed_top": [{"symbol": "mystery", "share": 0.002}],
            "closure": {"stat_cpu_s": 0.505, "difference": -0.01, "resolution": 0.01},
            "limits": ["no PMU"],
        }
    )
    return 0


def probe() -> int:
    print_report(
        {
            "capabilities": [
                {"name": "pmu", "available": False, "cost_of_lack": "time alone, no cycles"},
                {"name": "tun", "available": True},
            ]
        }
    )
    return 0


def main() -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
    if sys.argv[1] == "run":
        sys.argv[1:] = words_of(sys.argv[2])
    if LOG in os.environ:
        with Path(os.environ[LOG]).open("a") as log:
            log.write(json.dumps(sys.argv[1:]) + "\n")
    verbs: dict[str, Callable[[], int]] = {
        "serve web": serve,
        "load http": load_http,
        "load stream": load_stream,
        "load files": lambda: 0,
        "serve media": serve_media,
        "load media": load_media,
        "media synthesize": synthesize,
        "profile": profile,
        "probe": probe,
    }
    verb = verbs.get(" ".join(sys.argv[1:3])) or verbs.get(sys.argv[1])
    if verb is None:
        print(f"error: unrecognized {sys.argv[1:]}", file=sys.stderr)
        return 2
    return verb()


if __name__ == "__main__":
    sys.exit(main())
