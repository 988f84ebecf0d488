"""The parts that measured runs of every kind share: programs that must run, and the window.

    programs ready | load starts | warm-up | lead | profile and /proc/stat | programs end

The profile starts after the load's warm-up. The run stops the load when the profile is complete, so
the whole window has load. The cost of a packet comes only from the profile's window: packets,
processor time and requests are counted at the same two instants.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from perpacket.errors import Interrupted, MachineLacks, RunFailed
from perpacket.measure.hosts.contract import Host, Process, Testbed
from perpacket_lab.measure import process_tree, programs
from perpacket_lab.measure.host_files import frames_of, ticks_of
from perpacket_lab.measure.plan import LEAD_S, ProfiledPlan
from perpacket_lab.measure.processor_counts import idle_share, user_share
from perpacket_lab.measure.programs import Answer
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import RunOutcome

READY_S = 20.0
"""Time limit for a program to listen."""

GRACE_S = 30.0
"""Extra time for programs to end: a loaded machine is slow."""

POLL_S = 0.05
"""Interval at which a wait checks its processes."""

FLOWING_FRAMES = 20
"""The load has started when the network has carried this many frames more than before; a network
without load carries fewer."""

INTERRUPTED = 130
"""The agent's exit status after a signal. It prints its report before it ends."""

LISTENING_ADDRESS = r"listening on (\S+)"
"""The line that the receiver of `load stream` prints when it listens."""


class TimedPlan(Protocol):
    """A plan with an expected time."""

    @property
    def expected_s(self) -> float:
        """Approximate time of the run."""
        ...


PlanT = TypeVar("PlanT", bound=TimedPlan)
SetupT = TypeVar("SetupT")
Measurement = tuple[Mapping[str, object], Mapping[str, object]]
"""An observation, and the complete reports of the programs."""


class MeasuredRun(Generic[PlanT, SetupT]):
    """A prepared run of one point."""

    def __init__(self, point: Point, plan: PlanT, seed: int, setup: Callable[[], SetupT]) -> None:
        """Prepare a run of `plan`; `setup` returns the runner's setup when the run begins."""
        self.point, self.plan, self.seed, self._setup = point, plan, seed, setup
        self._began_s: float | None = None
        self._cancelled = False

    def run(self) -> RunOutcome:
        """Measure; raises `RunFailed` or `MachineLacks` with the reason."""
        began_s = self._began_s = time.monotonic()
        result, raw = self.measure(self._setup())
        return RunOutcome(result, {"wall_s": time.monotonic() - began_s}, raw=raw)

    def measure(self, setup: SetupT) -> Measurement:
        """Start the programs, measure and summarize; the programs end in any case."""
        raise NotImplementedError

    def progress(self) -> tuple[int, int]:
        """Elapsed and expected milliseconds."""
        expected_ms = round(1000 * self.plan.expected_s)
        if self._began_s is None:
            return 0, expected_ms
        return min(expected_ms, round(1000 * (time.monotonic() - self._began_s))), expected_ms

    def cancel(self) -> None:
        """Make `run` raise `Interrupted` soon."""
        self._cancelled = True

    def sleep(self, duration_s: float, monitored: MonitoredProcess) -> None:
        """Wait; raise an error when the monitored process ends."""
        until_s = time.monotonic() + duration_s
        while (left_s := until_s - time.monotonic()) > 0:
            self.check_cancelled()
            monitored.check()
            time.sleep(min(POLL_S, left_s))

    def finish(self, monitored: MonitoredProcess, timeout_s: float) -> Answer:
        """Wait until a process ends by itself, and return its report."""
        until_s = time.monotonic() + timeout_s
        while monitored.process.poll() is None and time.monotonic() < until_s:
            self.check_cancelled()
            time.sleep(POLL_S)
        return programs.report_of(monitored.name, monitored.host, monitored.process.result(POLL_S))

    def check_cancelled(self) -> None:
        """Raise `Interrupted` if the run was cancelled."""
        if self._cancelled:
            raise Interrupted("the run was cancelled")


class MonitoredProcess:
    """A process that must run until the end of the run."""

    def __init__(self, name: str, host: Host, process: Process) -> None:
        """Monitor `process`, called `name` in messages."""
        self.name, self.host, self.process = name, host, process

    def check(self) -> None:
        """Raise `RunFailed` or `MachineLacks` if the process has ended."""
        status = self.process.poll()
        if status is None:
            return
        where = f"{self.name} on {self.host.name}"
        if status == 0:
            raise RunFailed(f"{where} ended before the profile did")
        reason = programs.last_error(self.process.result())
        if status == programs.STATUS_LACKING:
            raise MachineLacks(f"{where}: {reason}")
        raise RunFailed(f"{where} died in the middle of the run, with status {status}: {reason}")

    def stopped(self) -> Answer:
        """Stop the process and return the report that it prints on `SIGINT`."""
        self.process.stop(GRACE_S)
        done = self.process.result()
        if done.returncode == INTERRUPTED:
            done = replace(done, returncode=0)
        return programs.report_of(self.name, self.host, done)


@contextmanager
def started(
    name: str, host: Host, command: Sequence[str], cpus: Sequence[int] | None = None
) -> Iterator[MonitoredProcess]:
    """Run a command on `cpus` or on the host's processors; leaving the context stops it."""
    process = host.start(command, cpus=cpus or host.cpus)
    try:
        yield MonitoredProcess(name, host, process)
    finally:
        if process.poll() is None:
            process.stop()


def ready(monitored: MonitoredProcess, pattern: str) -> re.Match[str]:
    """Wait until a program listens; raises `RunFailed` if it ends or exceeds `READY_S`."""
    try:
        return monitored.process.wait_for_line(pattern, READY_S)
    except RunFailed as error:
        monitored.check()
        raise RunFailed(
            f"{monitored.name} on {monitored.host.name} does not listen: {error}"
        ) from None


def warm_up(
    server: Host,
    run: MeasuredRun[PlanT, SetupT],
    warmup_s: float,
    loads: Sequence[MonitoredProcess],
    idle_frames: int,
) -> None:
    """Wait until the load sends frames, then for the warm-up time; all programs must run.

    A load may need time to read a trace before it sends.
    """
    until_s = time.monotonic() + READY_S
    while frames_of(server) < idle_frames + FLOWING_FRAMES:
        if time.monotonic() > until_s:
            raise RunFailed(f"the load sent nothing within {READY_S:g} s")
        for load in loads:
            load.check()
        time.sleep(POLL_S)
    run.sleep(warmup_s + LEAD_S, loads[0])


@dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """The profile, and the kernel's counts over the same window."""

    profile: Answer
    server_idle: float
    server_user: float
    client_idle: float
    """The idle share of the busiest client, which may limit the result."""
    server_process: dict[str, object] | None
    """The counts of the server's processes; `None` if no process is the server."""


def profiled_window(
    testbed: Testbed,
    run: MeasuredRun[PlanT, SetupT],
    plan: ProfiledPlan,
    loads: Sequence[MonitoredProcess],
    server_process: MonitoredProcess | None = None,
    requests_url: str = "",
) -> MeasuredWindow:
    """Profile the server for one window; raises `RunFailed` if a load ends within the window."""
    server, hosts = testbed.server, (testbed.server, *testbed.clients)
    pid = None if server_process is None else server_process.process.pid
    process_before = process_tree.read(server, pid)
    before = [ticks_of(host) for host in hosts]
    command = programs.profile(server, plan, pid, requests_url)
    with started("the profile", server, command) as profile:
        run.sleep(plan.window_s, server_process or loads[0])
        after = [ticks_of(host) for host in hosts]
        process_after = process_tree.read(server, pid)
        for load in loads:
            load.check()
        answer = programs.report_of("the profile", server, profile.process.result(GRACE_S))
    idle = [
        idle_share(earlier, later, host.cpus)
        for earlier, later, host in zip(before, after, hosts, strict=True)
    ]
    return MeasuredWindow(
        profile=answer,
        server_idle=idle[0],
        server_user=user_share(before[0], after[0], server.cpus),
        client_idle=min(idle[1:]),
        server_process=process_tree.between(process_before, process_after),
    )
