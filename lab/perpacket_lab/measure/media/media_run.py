"""One run of a media server: drop the files from memory, serve, play, measure, stop.

    server ready | clients start | warm-up | lead | report, profile, report | clients and server end

The clients' window starts after their warm-up and ends when they are stopped. The server's window
is within it, between two of its own reports.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket.measure.hosts.process import requested_report
from perpacket_lab.measure.host_files import field_of
from perpacket_lab.measure.measured_run import (
    POLL_S,
    READY_S,
    MeasuredRun,
    Measurement,
    MonitoredProcess,
    profiled_window,
    ready,
    started,
)
from perpacket_lab.measure.media import disk, media_programs
from perpacket_lab.measure.media.disk import Media
from perpacket_lab.measure.media.media_plan import MediaPlan
from perpacket_lab.measure.media.media_summary import MediaReports, summarize
from perpacket_lab.measure.media.memory import MemoryGroup
from perpacket_lab.measure.plan import LEAD_S, with_available_events
from perpacket_lab.measure.programs import STATUS_USAGE, Answer, last_error

REPORT_S = 10.0
"""Time limit for a report: the server checks for signals several times a second."""


@dataclass(frozen=True, slots=True)
class MediaSetup:
    """The testbed, media and memory limit of the runs."""

    testbed: Testbed
    media: Media
    memory: MemoryGroup
    may_sample: bool
    """Whether the kernel permits sampling of the server's processors."""


class MediaRun(MeasuredRun[MediaPlan, MediaSetup]):
    """A prepared run of a media server."""

    def measure(self, setup: MediaSetup) -> Measurement:
        """Start the programs, measure and summarize."""
        plan, testbed = with_available_events(self.plan, setup.may_sample), setup.testbed
        server, root = testbed.server, setup.media.root(plan)
        if plan.distribution == "multiple":
            disk.forget(server, root, plan.files)
        read_delay_ms = setup.media.read_delay_ms(plan)
        command, url = media_programs.served(server, plan, root, read_delay_ms)
        confined, limit_bytes = setup.memory.confined(command, plan)
        with ExitStack() as stack:
            monitored = stack.enter_context(started("the server", server, confined))
            if url:
                self.wait_until_it_plays(monitored, testbed.clients[0], url)
            else:
                url = ready(monitored, media_programs.LISTENING)[1]
            status = f"/proc/{monitored.process.pid}/status"
            idle_threads = field_of(server, status, "Threads")
            loads = []
            for host, first, clients in media_programs.parts(plan, len(testbed.clients)):
                client = testbed.clients[host]
                playing = media_programs.play(client, plan, url, first, clients)
                loads.append(stack.enter_context(started("the clients", client, playing)))
            self.sleep(plan.ramp_s + plan.warmup_s + LEAD_S, monitored)
            before = None if plan.is_foreign else _report(monitored)
            window = profiled_window(testbed, self, plan, loads, monitored)
            after = None if plan.is_foreign else _report(monitored)
            threads = field_of(server, status, "Threads")
            load_reports = [load.stopped() for load in loads]
            monitored.check()
        reports = MediaReports(
            before=before,
            after=after,
            process=window.server_process,
            profile=window.profile,
            loads=load_reports,
            server_idle=window.server_idle,
            client_idle=window.client_idle,
            threads=(idle_threads, threads),
            read_delay_ms=read_delay_ms,
            memory_limit_bytes=limit_bytes,
        )
        return summarize(plan, reports), reports.raw()

    def wait_until_it_plays(self, monitored: MonitoredProcess, client: Host, url: str) -> None:
        """Play a medium until it is received: the server prints no line when it listens."""
        until_s = time.monotonic() + READY_S
        while True:
            done = client.run(media_programs.play_once(client, url), timeout_s=READY_S)
            if done.returncode == 0:
                return
            monitored.check()
            if done.returncode == STATUS_USAGE or time.monotonic() > until_s:
                reason = last_error(done)
                raise RunFailed(f"the server plays nothing below {url}: {reason}")
            self.sleep(POLL_S, monitored)


def _report(server: MonitoredProcess) -> Answer:
    """The server's counts until now."""
    report = requested_report(server.process, REPORT_S)
    if report is None:
        server.check()
        raise RunFailed(f"the server did not report within {REPORT_S:g} s of the request")
    return report
