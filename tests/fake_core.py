"""A fake `perpacket_lab._core`: it computes results from the arguments, at once.

It has the interface of the core (errors, JSON text, cancelling), so that the Python front is tested
without simulations. `python tests/fake_core.py ARGUMENTS` is the command line with the fake core.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import time
from pathlib import Path
from types import ModuleType

RUN_S = "FAKE_CORE_RUN_S"
"""Environment variable: the duration of a run, in seconds."""

HOLD_AFTER = "FAKE_CORE_HOLD_AFTER"
"""Environment variable: after this many runs of a process, runs wait until they are cancelled."""

begun = itertools.count(1)
"""Numbers the runs of this process."""

STARTED = "FAKE_CORE_STARTED"
"""Environment variable: a file to make when a run has begun."""

LAYERS = ("user", "syscall", "socket", "tcp", "ip", "ethernet", "driver")


class ConfigurationError(ValueError):
    """A parameter has a value that is not allowed."""

    def __init__(self, parameter: str, value: str, allowed: str) -> None:
        super().__init__(f"{parameter} = {value}: {allowed}")
        self.parameter, self.value, self.allowed = parameter, value, allowed


class TraceError(ValueError):
    """A trace cannot be used."""


class Interrupted(Exception):
    """The run was cancelled."""


class PanicException(BaseException):
    """A panic of the real core, which is not an Exception."""


class Simulation:
    """One run: numbers drawn from a generator seeded with the arguments."""

    def __init__(
        self,
        configuration: str,
        overrides: list[tuple[str, str]],
        seed: int,
        trace: str | None = None,
        timeline: bool = False,
    ) -> None:
        if configuration != "bulk" and configuration.count("-") != 5:
            raise ConfigurationError(
                "configuration", configuration, "give one such as W-1024-P-N-FCFS-400, or bulk"
            )
        self.overrides = dict(overrides)
        if self.overrides.get("nic.mips") == "0":
            raise ConfigurationError("nic.mips", "0", "give 1 or more")
        if trace is not None and not Path(trace).read_bytes():
            raise TraceError(f"{trace}: offset 0: the file is empty")
        self.configuration, self.seed, self.has_timeline = configuration, seed, timeline
        self.cancelled = False

    def run(self) -> str:
        began = time.monotonic()
        is_set_up = next(begun) > int(os.environ.get(HOLD_AFTER, sys.maxsize))
        if STARTED in os.environ:
            Path(os.environ[STARTED]).touch()
        while is_set_up or time.monotonic() - began < float(os.environ.get(RUN_S, "0")):
            if self.cancelled:
                raise Interrupted
            time.sleep(0.005)
        if self.cancelled:
            raise Interrupted
        if "break.run" in self.overrides:
            raise PanicException("index out of bounds")
        return json.dumps(self.result(time.monotonic() - began))

    def result(self, wall_s: float) -> dict[str, object]:
        source = random.Random(f"{self.configuration} {sorted(self.overrides.items())}")
        rate = source.uniform(10_000, 30_000) * (1 + self.seed / 1000)
        is_bulk = self.configuration == "bulk"
        delay = {"mean": rate / 4000, "median": rate / 5000, "p99": rate / 1000}
        layer = {
            "cycles_per_packet": rate / 20,
            "instructions_per_packet": rate / 40,
            "l1d_misses_per_packet": rate / 5000,
            "l2_misses_per_packet": rate / 9000,
        }
        return {
            "schema": 1,
            "configuration": self.configuration,
            "seed": self.seed,
            "simulated_s": 2.5,
            "wall_s": wall_s,
            "packets_per_wall_s": 1e6,
            "requests_per_s": None if is_bulk else rate,
            "content_mbps": rate / 20,
            "packets_per_s": rate * 14,
            "nic_packet_share": 0.3,
            "connections_per_s": None if is_bulk else rate / 7,
            "handed_off_share": 0.45,
            "host_idle": 0.01,
            "nic_idle": 0.2,
            "host_cycles": {"user": 4e9, "kernel": 1.4e10, "idle": 2e8},
            "stack_share": 0.57,
            "layers": dict.fromkeys(LAYERS, layer),
            "host_packet_delay_us": {"send": delay, "receive": delay},
            "response_ms": delay,
            "drops": 3,
            "retransmissions": 4,
            "timeouts": 0,
            "connections_on_nic": {"mean": 1000.5, "last": 998},
            "conserved": "break.conservation" not in self.overrides,
        }

    def progress(self) -> tuple[int, int]:
        return 250_000, 1_000_000

    def cancel(self) -> None:
        self.cancelled = True

    def parameters(self) -> str:
        return json.dumps(
            [
                {"name": "nic.mips", "value": 400, "unit": "MIPS", "source": "OSDI 2006, 4.1"},
                *(
                    {"name": name, "value": value, "unit": "", "source": "command line"}
                    for name, value in self.overrides.items()
                ),
            ]
        )

    def explanation(self) -> str:
        operation = {"operation": "tcp.input", "layer": "tcp", "calls": 7.0, "cycles": 1e4}
        queue = {"queue": "host: kernel jobs", "jobs": 7.0, "mean_us": 1.0}
        work = {"work": "lookup", "pieces": 7.0, "instructions": 1050.0}
        explanation = {"unit": "request", "host": [operation], "nic": [work], "queues": [queue]}
        return json.dumps(explanation)

    def timeline(self) -> str:
        assert self.has_timeline
        return json.dumps(
            {
                "time_s": [0.0, 0.5, 1.0],
                "connections_on_nic": [2048, 1400, 1000],
                "soft_limit": [4096, 1300, 1010],
                "queue_packets": [0, 1100, 300],
                "state": ["monitor", "decrease", "monitor"],
            }
        )


def trace_info(
    path: str, form: str | None = None, window_s: float = 15.0, log_fields: str | None = None
) -> str:
    """A summary with rejected lines."""
    if not Path(path).read_bytes():
        raise TraceError(f"{path}: offset 0: the file is empty")
    rejects = [{"line": line, "reason": "no status"} for line in range(1, 13)]
    summary = {"format": form or "common", "requests": 1930, "rejected": 12, "rejects": rejects}
    others = {"status": {"200": 1900, "304": 30}, "session_curve": [], "window_s": window_s}
    return json.dumps(summary | others)


def trace_convert(*arguments: object) -> str:
    """The arguments, so that a test can check them."""
    return json.dumps({"arguments": arguments})


def module() -> ModuleType:
    """The fake core as a module."""
    fake = ModuleType("perpacket_lab._core")
    for item in (ConfigurationError, TraceError, Interrupted, Simulation):
        setattr(fake, item.__name__, item)
    fake.trace_info, fake.trace_convert, fake.trace_synthesize = (  # type: ignore[attr-defined]
        trace_info,
        trace_convert,
        trace_convert,
    )
    return fake


def stub_report(analysis: object, destination: Path) -> Path:
    """An empty report: the tests only check that it is written."""
    destination.write_text("<!doctype html><title>stub</title>")
    return destination


def stub_charts(analysis: object, folder: Path, *, dark: bool = False) -> list[Path]:
    """One chart with the name of its theme."""
    folder.mkdir(parents=True)
    (folder / "01.svg").write_text("dark" if dark else "light")
    return [folder / "01.svg"]


if __name__ == "__main__":
    import perpacket_lab
    from perpacket.cli import main
    from perpacket_lab.show import html

    sys.modules["perpacket_lab._core"] = perpacket_lab._core = module()
    html.write = stub_report
    main()
