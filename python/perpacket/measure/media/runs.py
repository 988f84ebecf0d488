"""One run of a media server: forget the files, serve, play, measure, take down.

    server ready | clients begin | warm-up | lead | report, profile, report | clients and server end

The clients' window begins after their warm-up and ends when they are stopped; the server's lies
within it, between two of its own reports. Every program is
stopped when the run ends or fails.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket.measure.media import disk, programs
from perpacket.measure.media.disk import Media
from perpacket.measure.media.memory import MemoryGroup
from perpacket.measure.media.plan import MediaPlan
from perpacket.measure.media.summary import MediaReports, summarize
from perpacket.measure.programs import Answer
from perpacket.measure.web.files import QUICK_S, done
from perpacket.measure.web.plan import LEAD_S, with_available_events
from perpacket.measure.web.runs import (
    POLL_S,
    MonitoredProcess,
    TimedRun,
    profile_of,
    ready,
    started,
)
from perpacket.study.point import Point

REPORT_S = 10.0
"""How long a server may take to report: it looks for signals several times a second."""


@dataclass(frozen=True, slots=True)
class MediaSetup:
    """The testbed, media and memory limit of the runs."""

    testbed: Testbed
    media: Media
    memory: MemoryGroup
    may_sample: bool
    """Whether the server's machine lets us sample what its processors run."""


class MediaRun(TimedRun):
    """A prepared run of a media server."""

    def __init__(self, point: Point, plan: MediaPlan, setup: Callable[[], MediaSetup]) -> None:
        """Prepare a run of `plan`; `setup` returns the runner's setup when the run begins."""
        super().__init__(plan.expected_s)
        self.point, self.plan, self._setup = point, plan, setup

    def measure(self) -> tuple[Mapping[str, object], Mapping[str, object]]:
        """Set up, measure and sum up."""
        setup = self._setup()
        answers = self._answers(setup)
        return summarize(self.plan, answers), answers.raw()

    def _answers(self, setup: MediaSetup) -> MediaReports:
        plan, testbed = with_available_events(self.plan, setup.may_sample), setup.testbed
        server, root = testbed.server, setup.media.root(plan)
        if plan.distribution == "multiple":
            disk.forget(server, root, plan.files)
        read_delay_ms = setup.media.read_delay_ms(plan)
        command = programs.serve(server, plan, root, read_delay_ms)
        confined, limit_bytes = setup.memory.confined(command, plan)
        with ExitStack() as stack:
            monitored = stack.enter_context(started("the server", server, confined))
            url = ready(monitored, programs.LISTENING)[1]
            idle_threads = threads_of(server, monitored.process.pid)
            loads = []
            for host, first, clients in programs.parts(plan, len(testbed.clients)):
                client = testbed.clients[host]
                playing = programs.play(client, plan, url, first, clients)
                loads.append(stack.enter_context(started("the clients", client, playing)))
            self.sleep(plan.ramp_s + plan.warmup_s + LEAD_S, monitored)
            before = self._report(monitored)
            window = profile_of(testbed, self, plan, "", monitored, loads)
            after = self._report(monitored)
            threads = threads_of(server, monitored.process.pid)
            said = [load.stopped() for load in loads]
            monitored.check()
        return MediaReports(
            before=before,
            after=after,
            profile=window.profile,
            loads=said,
            server_idle=window.server_idle,
            client_idle=window.client_idle,
            threads=(idle_threads, threads),
            read_delay_ms=read_delay_ms,
            memory_limit_bytes=limit_bytes,
        )

    def _report(self, server: MonitoredProcess) -> Answer:
        """What the server has counted until now."""
        told = sum(1 for _ in programs.reports(server.process.stdout))
        server.process.send_signal(signal.SIGUSR1)
        until_s = time.monotonic() + REPORT_S
        while time.monotonic() < until_s:
            self.sleep(POLL_S, server)
            found = list(programs.reports(server.process.stdout))
            if len(found) > told:
                return found[told]
        raise RunFailed(f"the server did not report within {REPORT_S:g} s of being asked")


def threads_of(host: Host, pid: int) -> int:
    """How many threads a process has (proc_pid_status(5)); raises `RunFailed`."""
    status = done(host, ["cat", f"/proc/{pid}/status"], QUICK_S)
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "Threads":
            return int(value)
    raise RunFailed(f"/proc/{pid}/status on {host.name} has no line `Threads`")
