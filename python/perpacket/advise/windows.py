"""The windows of a trial: their order, and the measurement of one.

One profiler runs for the whole trial and prints slices of a tenth of a second. A window is the sum
of the slices inside it. Slices in which a setting changed belong to no window.
"""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from perpacket.advise import counters
from perpacket.advise.effect import Window
from perpacket.advise.network_scope import NetworkScope
from perpacket.errors import MachineLacks, RunFailed
from perpacket.machine.files import Files
from perpacket.measure import agent, live

SLICE_S = 0.1
"""The shortest slices that the profiler prints."""

EDGE_S = 0.03
"""A slice of a window may begin or end this much outside of it."""

PATIENCE_S = 5.0
"""Time limit for the profiler to print a slice, even on a busy machine."""

LEAST_RUN_SHARE = 0.2
"""A processor that runs for less of a window is not calibrated: rounding its idle time to ticks
would change its run time too much."""

NO_SERVER = "no server was named (--pid): user code of every program counts"

FREQUENCY_HZ = 499
"""Samples per second and processor; more than in production, because windows are short."""


class NoTraffic(RunFailed):
    """A window without traffic."""


class NoSlice(RunFailed):
    """A window without a whole slice, because the profiler could not run."""


def order(sides: int, block: int, seed: int) -> list[int]:
    """The sides of a block's windows: each side twice, the second time in reverse order.

    With two sides this is ABBA or BAAB.
    """
    chosen = list(range(sides))
    random.Random(f"{seed} {block}").shuffle(chosen)
    return [*chosen, *reversed(chosen)]


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of the system's clock, in seconds."""

    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """The measurements of the trial's own load in a window."""

    interval: Span
    requests: float | None
    latency_us: Mapping[str, float]


class Load(Protocol):
    """A load that the trial starts for each window, in this process's network namespace."""

    def check(self, pid: int | None) -> None:
        """Raise `RunFailed` if the load cannot run, or does not reach the server `pid`."""
        ...

    def run(self, settle_s: float, window_s: float, url: str) -> Loaded:
        """Run the load for a warm-up and a window; a `url` that is not empty replaces its own."""
        ...


@dataclass(frozen=True, slots=True)
class HttpLoad:
    """Requests for one URL on kept-alive connections, as fast as responses come."""

    url: str
    connections: int
    cpus: str = ""

    def check(self, pid: int | None) -> None:
        """Send one request: the address may belong to another host, which must not get the load."""
        before = accepted(pid)
        _report("load http", url=self.url, requests=1)
        if pid is not None and accepted(pid) == before:
            raise RunFailed(
                f"{self.url} does not lead to process {pid}: its network namespace accepted no "
                "connection",
                "run the trial in the namespace of the clients: `ip netns exec NAME perpacket ...`",
            )

    def run(self, settle_s: float, window_s: float, url: str) -> Loaded:
        """Request the URL as fast as possible; raises `RunFailed` if requests fail."""
        times = _times(settle_s, window_s, self.cpus)
        report = _report("load http", url=url or self.url, connections=self.connections, **times)
        errors = sum(report["errors"].values())
        requests = float(report["sound"])
        if errors > requests / 100 or not requests:
            raise RunFailed(
                f"the load on {url or self.url}: {errors:,} errors, {requests:,.0f} responses",
                "try `perpacket load http` with that URL first",
            )
        latency = report["latency_us"]["response"]
        kept = {name: float(latency[name]) for name in ("p50", "p99") if latency.get(name)}
        return Loaded(_window(report), requests, kept)


@dataclass(frozen=True, slots=True)
class StreamLoad:
    """A bulk sender to a receiver, `load stream --listen`."""

    to: str
    connections: int
    cpus: str = ""

    def check(self, pid: int | None) -> None:
        """Do nothing, because only `load stream --listen` accepts the stream."""

    def run(self, settle_s: float, window_s: float, url: str) -> Loaded:
        """Send as fast as possible; raises `RunFailed` if sending fails."""
        times = _times(settle_s, window_s, self.cpus)
        report = _report("load stream", to=self.to, connections=self.connections, **times)
        return Loaded(_window(report), None, {})


def accepted(pid: int | None) -> int:
    """TCP connections that a process's network namespace has accepted."""
    if pid is None:
        return 0
    counts = counters.protocols(Files(), f"/proc/{pid}/net")
    if "TcpPassiveOpens" not in counts:
        raise RunFailed(f"process {pid}: its counters of TCP cannot be read: the server has ended")
    return counts["TcpPassiveOpens"]


def _times(settle_s: float, window_s: float, cpus: str) -> dict[str, object]:
    return {"warmup": settle_s, "duration": window_s, "cpus": cpus}


def _report(verb: str, **options: object) -> dict[str, Any]:
    """The report of an agent's load; raises `RunFailed` with its error."""
    command = [str(agent.find()), *agent.words(verb, **options, format="json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        message = (lines or ["it printed nothing"])[0].removeprefix("error: ")
        target = options.get("url") or f"--to {options.get('to')}"
        cpus = f" --cpus {options['cpus']}" if options.get("cpus") else ""
        raise NoTraffic(
            f"the load of the trial failed: {message}",
            f"expected responses: try `perpacket {verb} {target}{cpus}` first",
        )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _window(report: Mapping[str, Any]) -> Span:
    return Span(report["window"]["begin"], report["window"]["end"])


@dataclass(frozen=True, slots=True)
class _Slice:
    end_s: float
    content: live.Window

    @property
    def begin_s(self) -> float:
        return self.end_s - _number(self.content.get("window_s"))


class Profiler:
    """The profiler that runs for the whole trial, read by a thread."""

    def __init__(self, slices: Iterator[live.Window]) -> None:
        """Start the thread."""
        self._slices: list[_Slice] = []
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(slices,), daemon=True)
        self._thread.start()

    def _read(self, slices: Iterator[live.Window]) -> None:
        error: BaseException = RunFailed("the profiler of the trial ended")
        try:
            for content in slices:
                with self._changed:
                    self._slices.append(_Slice(time.time(), content))
                    self._changed.notify_all()
        except BaseException as raised:
            error = raised
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait for the first slice, which shows that the profiler runs."""
        self._until(0.0)

    def within(self, interval: Span) -> list[live.Window]:
        """The slices of an interval that has ended; raises the profiler's error."""
        self._until(interval.end_s - EDGE_S)
        with self._changed:
            found = [
                one.content
                for one in self._slices
                if one.begin_s >= interval.begin_s - EDGE_S and one.end_s <= interval.end_s + EDGE_S
            ]
            self._slices = [one for one in self._slices if one.end_s > interval.end_s]
        if not found:
            raise NoSlice("the profiler printed no slice within a window", "use longer windows")
        return found

    def _until(self, moment_s: float) -> None:
        deadline = time.monotonic() + PATIENCE_S + max(0.0, moment_s - time.time())
        with self._changed:
            while not any(one.end_s >= moment_s for one in self._slices):
                if self._error is not None:
                    raise self._error
                left = deadline - time.monotonic()
                if left <= 0:
                    raise RunFailed("the profiler of the trial is silent")
                self._changed.wait(left)


@contextmanager
def profiler(
    pid: int | None, requests: str, cpus: str, beside: Sequence[int] = ()
) -> Iterator[tuple[Profiler, list[str]]]:
    """A running profiler, and notes on the data that it lacks.

    The URL `requests` is read in the network namespace of `pid`. The user code of the processes
    `beside` counts as that of the server `pid`. If the kernel does not permit sampling, the
    kernel's accounts supply the processor time without layers.
    """
    options: agent.Options = {
        "pid": pid,
        "beside": list(beside),
        "requests": requests,
        "cpus": cpus,
    }
    scope = NetworkScope.of(pid) if requests else NetworkScope()
    with ExitStack() as stack:
        notes: list[str] = []
        try:
            running = _started(options | {"frequency": FREQUENCY_HZ}, scope, stack)
        except MachineLacks as error:
            running = _started(options | {"events": "accounts"}, scope, stack)
            notes.append(f"no layers: {error}")
        yield running, notes  # Not inside the `try`: the context may raise `MachineLacks` too.


def _started(options: agent.Options, scope: NetworkScope, stack: ExitStack) -> Profiler:
    """A profiler in a namespace that has printed its first slice. It ends when `stack` closes."""
    slices = scope.inside(lambda: stack.enter_context(live.windows(options, SLICE_S)))
    running = Profiler(slices)
    running.wait()
    return running


def measured(block: int, side: int, slices: Sequence[live.Window], loaded: Loaded | None) -> Window:
    """The sum of slices. The load's requests are scaled to the time of the slices."""
    seconds = sum(_number(one.get("window_s")) for one in slices)
    layers = _calibrated(slices, seconds)
    cpu_s = sum(layers.values())
    if not layers:
        layers = _summed(slices)
        cpu_s = sum(_number(_table(slice_.get("total")).get("cpu_s")) for slice_ in slices)
    requests = [one.get("requests") for one in slices]
    window = Window(
        block=block,
        side=side,
        seconds=seconds,
        cpu_s=cpu_s,
        layers=layers,
        packets=_sum(slices, "packets", "sent") + _sum(slices, "packets", "received"),
        payload_bytes=_sum(slices, "bytes", "sent") + _sum(slices, "bytes", "received"),
        requests=None if None in requests else sum(map(_number, requests)),
        retransmissions=_sum(slices, "packets", "segments_retransmitted"),
        drops=sum(_number(one.get("drops")) for one in slices),
    )
    if loaded is None:
        return window
    length = loaded.interval.end_s - loaded.interval.begin_s
    own = None if loaded.requests is None else loaded.requests * seconds / length
    return replace(
        window, requests=window.requests if own is None else own, latency_us=loaded.latency_us
    )


def _summed(slices: Sequence[live.Window]) -> dict[str, float]:
    """Busy time by layer, as the slices have it."""
    layers: dict[str, float] = {}
    for slice_ in slices:
        for name, layer in _table(slice_.get("layers")).items():
            layers[name] = layers.get(name, 0.0) + _number(_table(layer).get("cpu_s"))
    return layers


def _calibrated(slices: Sequence[live.Window], seconds: float) -> dict[str, float]:
    """Busy time by layer, with the samples of each processor scaled to its run time.

    The profiler does not calibrate slices, because the ticks of the kernel's idle time are a tenth
    of a slice. Over a window their error is small. Without calibration a change that makes a
    processor sleep more often looks cheaper, because its samples fall short of its run time
    (`benches/processor_time.py bias`). The result is empty if no processor has samples.
    """
    run_s: dict[object, float] = {}
    sampled: dict[object, dict[str, float]] = {}
    for slice_ in slices:
        # Passes of other events divide the slice, and its times are scaled from the pass of time.
        of_pass = _number(_table(slice_.get("closure")).get("profile_cpu_s"))
        scale = _number(_table(slice_.get("total")).get("cpu_s")) / of_pass if of_pass else 1.0
        rows = slice_.get("processors")
        for row in map(_table, rows if isinstance(rows, list) else []):
            cpu = row.get("cpu")
            run_s[cpu] = run_s.get(cpu, 0.0) + scale * _number(row.get("run_s"))
            layers = sampled.setdefault(cpu, {})
            for name, share in _table(row.get("layers")).items():
                part = scale * _number(share) * _number(row.get("sampled_s"))
                layers[name] = layers.get(name, 0.0) + part
    totals: dict[str, float] = {}
    for cpu, layers in sampled.items():
        whole = sum(layers.values())
        is_busy = run_s[cpu] > LEAST_RUN_SHARE * seconds
        factor = run_s[cpu] / whole if whole and is_busy else 1.0
        for name, part in layers.items():
            totals[name] = totals.get(name, 0.0) + factor * part
    return totals


def _sum(slices: Sequence[live.Window], table: str, key: str) -> float:
    return sum(_number(_table(one.get(table)).get(key)) for one in slices)


def _table(content: object) -> Mapping[str, object]:
    return content if isinstance(content, dict) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def limits_of(scope: NetworkScope, pid: int | None) -> list[str]:
    """Sentences on the limits of an interface and, without `pid`, on which programs are counted."""
    found = [] if pid is not None else [NO_SERVER]
    if not scope.interface:
        return found
    name = scope.interface
    if scope.inside(Path(f"/sys/class/net/{name}/device").exists):
        return found
    return [
        *found,
        f"{name} is no network card: there are no interrupts of a card, no DMA and no wire; "
        "packets are copied and stay on this machine",
    ]
