"""One run of a web server or of the bulk sender under load.

The load's rates are over its own window, which is slightly longer than the profile's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from perpacket.errors import MachineLacks, RunFailed
from perpacket.measure import agent
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket_lab.measure import process_tree
from perpacket_lab.measure.host_files import accepted_of, frames_of
from perpacket_lab.measure.measured_run import (
    LISTENING_ADDRESS,
    POLL_S,
    READY_S,
    MeasuredRun,
    MeasuredWindow,
    Measurement,
    MonitoredProcess,
    profiled_window,
    ready,
    started,
    warm_up,
)
from perpacket_lab.measure.plan import with_available_events
from perpacket_lab.measure.programs import (
    STATUS_USAGE,
    Answer,
    foreign_server,
    foreign_url,
    last_error,
)
from perpacket_lab.measure.web import peers, web_programs
from perpacket_lab.measure.web.served_files import ServedFiles
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.measure.web.web_summary import RunReports, summarize

POOLS = ("threads", "processes")
"""Architectures of `serve web` in which each connection occupies a thread or process of a pool."""

RATE_S = 0.2
"""Time to measure the load's rate, which determines the window of `load.requests`."""

APPLICATION_READY_S = 180.0
"""Time limit for the start of all programs of an application."""

LISTENING_URL = r"listening on (https?://\S+)"
"""The line that `serve web` prints when it listens."""


@dataclass(frozen=True, slots=True)
class RunningApplication:
    """A running application: the process that started its programs, and the URL of its pages."""

    monitored: MonitoredProcess
    url: str


@dataclass(frozen=True, slots=True)
class WebSetup:
    """The testbeds and files of the runs."""

    direct: Testbed
    delayed: Testbed | None
    """The same hosts with a link that adds latency; `None` if nothing can add it."""
    files: ServedFiles
    applications: Mapping[str, RunningApplication] = field(default_factory=dict)
    """The running applications by name; they run until the end of the study."""
    by_processors: Mapping[int, Testbed] = field(default_factory=dict)
    """Testbeds whose server has another number of processors."""
    may_sample: bool = True
    """Whether the kernel permits sampling of the server's processors."""

    def testbed(self, plan: WebPlan) -> Testbed:
        """The testbed of a plan, with its latency and acknowledgments.

        Setting the latency again restarts the network's report, which is then about one run.
        """
        if plan.network == "direct":
            testbed = self.by_processors.get(plan.processors, self.direct)
        elif self.delayed is None:
            raise MachineLacks("there is no testbed with latency")
        else:
            testbed = self.delayed
            testbed.set_latency(1000 * plan.latency_ms)
        testbed.set_quickack(plan.acknowledgments == "each")
        return testbed


class WebRun(MeasuredRun[WebPlan, WebSetup]):
    """A prepared run of a web server or the bulk sender."""

    def measure(self, setup: WebSetup) -> Measurement:
        """Start the programs, measure and summarize."""
        self.plan = with_available_events(self.plan, setup.may_sample)
        testbed = setup.testbed(self.plan)
        if self.plan.application:
            application = setup.applications[self.plan.application]
            reports = _application(testbed, setup.files, self, application)
        elif self.plan.is_web:
            reports = _web(testbed, setup.files, self)
        else:
            reports = _stream(testbed, self)
        return summarize(self.plan, reports), reports.raw()


def _web(testbed: Testbed, files: ServedFiles, run: WebRun) -> RunReports:
    """A web server under load from every client."""
    plan, server = run.plan, testbed.server
    root = files.root(server, plan)
    with ExitStack() as stack:
        requests_url = ""
        if plan.is_foreign:
            command, url = _foreign(server, files, plan, root)
            monitored = stack.enter_context(started("the server", server, command))
            path = web_programs.present_path(plan)
            _wait_until_it_responds(monitored, testbed.clients[0], url + path, run)
            if plan.server_kind == "apache-prefork":
                _wait_for_processes(monitored, server, peers.processes_of(plan), run)
        else:
            command = web_programs.serve_web(server, plan, root, files.certificate(server, plan))
            monitored = stack.enter_context(started("the server", server, command))
            url = ready(monitored, LISTENING_URL)[1].rstrip("/")
            # If all threads or processes of a pool are busy, the server sends the report after
            # seconds or never, and the profile would wait for it. The profile can read the report
            # only over plain HTTP.
            if plan.architecture not in POOLS and not plan.tls_key:
                requests_url = url + web_programs.REPORT_PATH
        idle_frames = frames_of(server)
        clients = [
            stack.enter_context(started("the load", client, command))
            for client, command in _client_commands(testbed, files, run, url)
        ]
        warm_up(server, run, plan.warmup_s, [monitored, *clients], idle_frames)
        plan = _with_window(plan, run, server, monitored)
        window = profiled_window(testbed, run, plan, clients, monitored, requests_url)
        loads = [client.stopped() for client in clients]
        monitored.check()
        report = None if plan.is_foreign else monitored.stopped()
        return _reports(testbed, window, loads, report)


def _with_window(plan: WebPlan, run: WebRun, server: Host, monitored: MonitoredProcess) -> WebPlan:
    """The plan with a window for its number of requests, at the present rate of the load."""
    if not plan.requests:
        return plan
    before, began_s = accepted_of(server), time.monotonic()
    run.sleep(RATE_S, monitored)
    rate_per_s = (accepted_of(server) - before) / (time.monotonic() - began_s)
    if rate_per_s <= 0:
        return plan
    window_s = min(plan.window_s, plan.requests / rate_per_s)
    return plan.model_copy(update={"duration_s": window_s, "duration_factor": 1.0})


@contextmanager
def running_application(plan: WebPlan, testbed: Testbed) -> Iterator[RunningApplication]:
    """The application of a plan, warmed up and checked, which runs within the context.

    Raises `RunFailed` if over one answer in a thousand is wrong.
    """
    command = web_programs.application(plan, testbed.server)
    with started(plan.application, testbed.server, command) as monitored:
        line = monitored.process.wait_for_line(LISTENING_URL, APPLICATION_READY_S)
        url, client = line[1].rstrip("/"), testbed.clients[0]
        done = client.run(web_programs.warm_up(client, plan, url), timeout_s=APPLICATION_READY_S)
        if done.returncode:
            raise RunFailed(f"{plan.application}: {last_error(done)}")
        yield RunningApplication(monitored, url)


def _application(
    testbed: Testbed, files: ServedFiles, run: WebRun, application: RunningApplication
) -> RunReports:
    """A running application under the load of its clients."""
    server, monitored = testbed.server, application.monitored
    with ExitStack() as stack:
        idle_frames = frames_of(server)
        clients = [
            stack.enter_context(started("the load", client, command))
            for client, command in _client_commands(testbed, files, run, application.url)
        ]
        warm_up(server, run, run.plan.warmup_s, [monitored, *clients], idle_frames)
        window = profiled_window(testbed, run, run.plan, clients, monitored)
        return _reports(testbed, window, [client.stopped() for client in clients], None)


def _foreign(server: Host, files: ServedFiles, plan: WebPlan, root: str) -> tuple[list[str], str]:
    """The command of another server than `serve web`, and its URL."""
    if plan.server_kind == "perpacket":
        return foreign_server(server, plan.server_command, root), foreign_url(
            server, plan.server_url
        )
    certificate = files.certificate(server, plan)
    return peers.prepare(server, plan.server_kind, plan, root, files.folder(server), certificate)


def _client_commands(
    testbed: Testbed, files: ServedFiles, run: WebRun, url: str
) -> Iterator[tuple[Host, list[str]]]:
    """The load of each client: its part of the connections, the users and the trace."""
    count = len(testbed.clients)
    for index, client in enumerate(testbed.clients, 1):
        trace = files.trace(client, run.plan)
        # Two clients with one seed would send the same requests at the same time.
        seed = run.seed * count + index
        yield client, web_programs.load_http(client, run.plan, url, (index, count), seed, trace)


def _wait_until_it_responds(
    monitored: MonitoredProcess, client: Host, url: str, run: WebRun
) -> None:
    """Send requests to a server that prints no line when it listens, until it responds."""
    insecure = bool(run.plan.tls_key)
    once = agent.words(
        "load http", url=url, connections=1, requests=1, insecure=insecure, format="json"
    )
    until_s = time.monotonic() + READY_S
    while True:
        done = client.run([client.agent(), *once], timeout_s=READY_S)
        if done.returncode == 0:
            return
        monitored.check()
        if done.returncode == STATUS_USAGE or time.monotonic() > until_s:
            reason = last_error(done)
            raise RunFailed(f"the server does not answer {url} within {READY_S:g} s: {reason}")
        run.sleep(POLL_S, monitored)


def _wait_for_processes(monitored: MonitoredProcess, server: Host, least: int, run: WebRun) -> None:
    """Wait until a server has forked its processes: under load it would fork within the window."""
    until_s = time.monotonic() + READY_S
    while (counts := process_tree.read(server, monitored.process.pid)) is not None:
        forked = counts.processes - 1
        if forked >= least:
            return
        if time.monotonic() > until_s:
            raise RunFailed(f"the server forked {forked} of {least} processes in {READY_S:g} s")
        run.sleep(POLL_S, monitored)


def _stream(testbed: Testbed, run: WebRun) -> RunReports:
    """The bulk sender on the machine under test, with a far end on every client."""
    plan, server, count = run.plan, testbed.server, len(testbed.clients)
    with ExitStack() as stack:
        senders = []
        idle_frames = frames_of(server)
        for index, client in enumerate(testbed.clients[: plan.connections], 1):
            command = web_programs.stream_far_end(client)
            far_end = stack.enter_context(started("the far end", client, command))
            to = ready(far_end, LISTENING_ADDRESS)[1]
            part = (index, min(count, plan.connections))
            sender = web_programs.stream_sender(server, plan, to, part)
            senders.append(stack.enter_context(started("the sender", server, sender)))
        warm_up(server, run, plan.warmup_s, senders, idle_frames)
        window = profiled_window(testbed, run, plan, senders, senders[0])
        return _reports(testbed, window, [sender.stopped() for sender in senders], None)


def _reports(
    testbed: Testbed, window: MeasuredWindow, loads: Sequence[Answer], server: Answer | None
) -> RunReports:
    return RunReports(
        profile=window.profile,
        loads=loads,
        server=server,
        network=testbed.network_report(),
        server_idle=window.server_idle,
        client_idle=window.client_idle,
        server_process=window.server_process,
    )
