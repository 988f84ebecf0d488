"""One run of a media server: forget the files, serve, play, measure, take down.

    server ready | clients begin | warm-up | lead | report, profile, report | clients and server end

The clients' window begins after their warm-up and ends when they are stopped; the server's lies
within it, between two of its own reports. Whatever was started is stopped, however the run ends.
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
from perpacket.measure.media.summary import MediaAnswers, summarize
from perpacket.measure.programs import Answer
from perpacket.measure.web.files import QUICK_S, done
from perpacket.measure.web.plan import LEAD_S, fitted
from perpacket.measure.web.runs import POLL_S, TimedRun, Watched, profile_of, ready, started
from perpacket.study.point import Point

REPORT_S = 10.0
"""How long a server may take to report: it looks for signals several times a second."""


@dataclass(frozen=True, slots=True)
class MediaStage:
    """What the runner holds for its runs."""

    testbed: Testbed
    media: Media
    memory: MemoryGroup
    may_sample: bool
    """Whether the server's machine lets us sample what its processors run."""


class MediaRun(TimedRun):
    """A prepared run as the driver wants it."""

    def __init__(self, point: Point, plan: MediaPlan, setup: Callable[[], MediaStage]) -> None:
        """Prepare a run of `plan`; `setup` is asked for what the runner holds when it begins."""
        super().__init__(plan.expected_s)
        self.point, self.plan, self._setup = point, plan, setup

    def measure(self) -> tuple[Mapping[str, object], Mapping[str, object]]:
        """Set up, measure and sum up."""
        stage = self._setup()
        answers = self._answers(stage)
        return summarize(self.plan, answers), answers.raw()

    def _answers(self, stage: MediaStage) -> MediaAnswers:
        plan, testbed = fitted(self.plan, stage.may_sample), stage.testbed
        server, root = testbed.server, stage.media.root(plan)
        if plan.distribution == "multiple":
            disk.forget(server, root, plan.files)
        read_delay_ms = stage.media.read_delay_ms(plan)
        command = programs.serve(server, plan, root, read_delay_ms)
        confined, limit_bytes = stage.memory.confined(command, plan)
        with ExitStack() as stack:
            watched = stack.enter_context(started("the server", server, confined))
            url = ready(watched, programs.LISTENING)[1]
            idle_threads = threads_of(server, watched.process.pid)
            loads = []
            for host, first, clients in programs.parts(plan, len(testbed.clients)):
                client = testbed.clients[host]
                playing = programs.play(client, plan, url, first, clients)
                loads.append(stack.enter_context(started("the clients", client, playing)))
            self.sleep(plan.ramp_s + plan.warmup_s + LEAD_S, watched)
            before = self._report(watched)
            window = profile_of(testbed, self, plan, "", watched, loads)
            after = self._report(watched)
            threads = threads_of(server, watched.process.pid)
            said = [load.stopped() for load in loads]
            watched.check()
        return MediaAnswers(
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

    def _report(self, server: Watched) -> Answer:
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
    raise RunFailed(f"/proc/{pid}/status on {host.name} does not tell the threads")
