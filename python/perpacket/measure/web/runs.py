"""One run of one point: set up, warm up, measure, take down.

    server ready | load: starts | warm-up | lead | profile and /proc/stat | load and server end

A load may read a trace before it asks for anything: the warm-up begins when packets flow. The
profile begins after the load's warm-up, and the load is stopped when the profile is complete, so
that its whole window sees the load. What a packet costs comes from the profile's own window alone:
packets, processor time and requests are counted at the same two instants. The load's rates are over
its own, slightly longer window. Every program is stopped when the run ends or fails.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from perpacket.errors import Interrupted, MachineLacks, RunFailed
from perpacket.measure import process_tree, programs
from perpacket.measure.hosts.contract import Host, Process, Testbed
from perpacket.measure.processor_counts import Ticks, idle_share, read_frames, read_ticks
from perpacket.measure.programs import Answer, Profiled
from perpacket.measure.web import peers
from perpacket.measure.web.files import Files
from perpacket.measure.web.plan import LEAD_S, Plan, with_available_events
from perpacket.measure.web.summary import RunReports, summarize
from perpacket.study.point import Point
from perpacket.study.runner import Outcome

READY_S = 20.0
"""How long a program may take until it listens."""

GRACE_S = 30.0
"""How long programs may take beyond their time: on a loaded machine everything does."""

POLL_S = 0.05
"""How often a wait looks whether the server still lives."""

FLOWING_FRAMES = 20
"""Frames that tell a load from what a quiet network carries."""

POOLS = ("threads", "processes")
"""Architectures of `serve web` in which a connection takes one of a limited number of places."""

LISTENING_URL = r"listening on (https?://\S+)"
LISTENING_ADDRESS = r"listening on (\S+)"
"""What `serve web` and the far end of `load stream` say once they listen."""


@dataclass(frozen=True, slots=True)
class WebSetup:
    """The testbeds and files of the runs."""

    direct: Testbed
    delayed: Testbed | None
    """The same hosts anew with what adds latency between them; None where nothing does."""
    files: Files
    may_sample: bool = True
    """Whether the server's machine lets us sample what its processors run."""

    def with_available_events(self, plan: Plan) -> Plan:
        """The plan with what its profile samples here."""
        return with_available_events(plan, self.may_sample)

    def testbed(self, plan: Plan) -> Testbed:
        """The testbed of a plan, with its latency.

        Set anew for each run: what the network reports is then about that run alone.
        """
        if plan.network == "direct":
            return self.direct
        if self.delayed is None:
            raise MachineLacks("there is no testbed with latency")
        self.delayed.set_latency(1000 * plan.latency_ms)
        return self.delayed


Setup = Callable[[], WebSetup]
"""Returns the runner's setup; raises `RunFailed` when there is none."""


class TimedRun:
    """A measured run: it has an expected time and can be cancelled."""

    def __init__(self, expected_s: float) -> None:
        """A run that takes about `expected_s`."""
        self._expected_s = expected_s
        self._began_s: float | None = None
        self._cancelled = False

    def run(self) -> Outcome:
        """Measure; raises `RunFailed` or `MachineLacks` saying what went wrong."""
        began_s = self._began_s = time.monotonic()
        result, raw = self.measure()
        return Outcome(result, {"wall_s": time.monotonic() - began_s}, raw=raw)

    def measure(self) -> tuple[Mapping[str, object], Mapping[str, object]]:
        """The observation, and the complete reports of the programs."""
        raise NotImplementedError

    def progress(self) -> tuple[int, int]:
        """Milliseconds since it began, and expected in all."""
        expected_ms = round(1000 * self._expected_s)
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
        """Wait for a process to end by itself; its report."""
        until_s = time.monotonic() + timeout_s
        while monitored.process.poll() is None and time.monotonic() < until_s:
            self.check_cancelled()
            time.sleep(POLL_S)
        return programs.report_of(monitored.name, monitored.host, monitored.process.result(POLL_S))

    def check_cancelled(self) -> None:
        """Raise `Interrupted` once the run was cancelled."""
        if self._cancelled:
            raise Interrupted("the run was cancelled")


class MeasuredRun(TimedRun):
    """A prepared run of a web server or the bulk sender."""

    def __init__(self, point: Point, plan: Plan, seed: int, setup: Setup) -> None:
        """Prepare a run of `plan`; `setup` is asked for the testbed when it begins."""
        super().__init__(plan.expected_s)
        self.point, self.plan, self.seed, self._setup = point, plan, seed, setup

    def measure(self) -> tuple[Mapping[str, object], Mapping[str, object]]:
        """Set up, measure and sum up."""
        setup = self._setup()
        self.plan = setup.with_available_events(self.plan)
        testbed = setup.testbed(self.plan)
        answers = _web(testbed, setup.files, self) if self.plan.is_web else _stream(testbed, self)
        return summarize(self.plan, answers), answers.raw()


class MonitoredProcess:
    """A process that must run until the end of the run."""

    def __init__(self, name: str, host: Host, process: Process) -> None:
        """Monitor `process`, called `name` in messages."""
        self.name, self.host, self.process = name, host, process

    def check(self) -> None:
        """Raise `RunFailed` once it has ended."""
        status = self.process.poll()
        if status == programs.STATUS_LACKING:
            raise MachineLacks(
                f"{self.name} on {self.host.name}: {programs.last_error(self.process.result())}"
            )
        if status == 0:
            raise RunFailed(f"{self.name} on {self.host.name} ended before the profile did")
        if status is not None:
            raise RunFailed(
                f"{self.name} on {self.host.name} died in the middle of the run, with status "
                f"{status}: {programs.last_error(self.process.result())}"
            )

    def stopped(self) -> Answer:
        """Stop it and return its report, which it prints on `SIGINT`."""
        self.process.stop(GRACE_S)
        done = self.process.result()
        if done.returncode == INTERRUPTED:
            # It was asked to end, and did.
            done = replace(done, returncode=0)
        return programs.report_of(self.name, self.host, done)


INTERRUPTED = 130
"""The agent's exit status after a signal; it has printed its report nevertheless."""


@contextmanager
def started(
    name: str, host: Host, command: Sequence[str], cpus: Sequence[int] | None = None
) -> Iterator[MonitoredProcess]:
    """Start a command and make sure that it has ended afterwards."""
    process = host.start(command, cpus=host.cpus if cpus is None else cpus)
    try:
        yield MonitoredProcess(name, host, process)
    finally:
        if process.poll() is None:
            process.stop()


def ready(monitored: MonitoredProcess, pattern: str) -> re.Match[str]:
    """Wait until a program listens; raises `RunFailed` when it ends or takes too long."""
    try:
        return monitored.process.wait_for_line(pattern, READY_S)
    except RunFailed as error:
        monitored.check()
        raise RunFailed(
            f"{monitored.name} on {monitored.host.name} does not listen: {error}"
        ) from None


def _web(testbed: Testbed, files: Files, run: MeasuredRun) -> RunReports:
    """A web server under load from every client."""
    plan, server = run.plan, testbed.server
    root = files.root(server, plan)
    with ExitStack() as stack:
        if plan.is_foreign:
            command, url = _foreign(server, files, plan, root)
            monitored = stack.enter_context(started("the server", server, command))
            _wait_until_it_answers(
                monitored, testbed.clients[0], url + programs.load_path(plan), run
            )
            requests_url = ""
        else:
            command = programs.serve_web(server, plan, root)
            monitored = stack.enter_context(started("the server", server, command))
            url = ready(monitored, LISTENING_URL)[1].rstrip("/")
            # A full pool answers in seconds, if at all: the profile would wait for it.
            is_pool = plan.architecture in POOLS
            requests_url = "" if is_pool else url + programs.REPORT_PATH
        idle_frames = frames_of(server)
        clients = [
            stack.enter_context(started("the load", client, command))
            for client, command in _client_commands(testbed, files, run, url)
        ]
        warm_up(server, run, plan.warmup_s, [monitored, *clients], idle_frames)
        window = profile_of(testbed, run, plan, requests_url, monitored, clients)
        loads = [client.stopped() for client in clients]
        monitored.check()
        answer = None if plan.is_foreign else monitored.stopped()
        network = testbed.network_report()
    return window.answers(loads, answer, network)


def _foreign(server: Host, files: Files, plan: Plan, root: str) -> tuple[list[str], str]:
    """How a server that is not ours is started, and where it will answer."""
    if plan.server_kind == "perpacket":
        return programs.foreign_server(server, plan, root), programs.foreign_url(server, plan)
    prepared = peers.prepare(server, plan.server_kind, plan, root, files.folder(server))
    return prepared.command, prepared.url


def _client_commands(
    testbed: Testbed, files: Files, run: MeasuredRun, url: str
) -> Iterator[tuple[Host, list[str]]]:
    """The load of each client: its part of the connections, the users and the trace."""
    count = len(testbed.clients)
    for index, client in enumerate(testbed.clients, 1):
        trace = files.trace(client, run.plan)
        # A seed a client: two clients with one seed would ask for the same at the same time.
        seed = run.seed * count + index
        part = (index, count)
        yield client, programs.load_http(client, run.plan, url, part, seed, trace)


def _wait_until_it_answers(
    monitored: MonitoredProcess, client: Host, url: str, run: MeasuredRun
) -> None:
    """Ask a server that says nothing of its own until it answers."""
    once = ["load", "http", url, "--connections", "1", "--requests", "1", "--format", "json"]
    until_s = time.monotonic() + READY_S
    while True:
        done = client.run([client.agent(), *once], timeout_s=READY_S)
        if done.returncode == 0:
            return
        monitored.check()
        if done.returncode == programs.STATUS_USAGE or time.monotonic() > until_s:
            reason = programs.last_error(done)
            raise RunFailed(f"the server does not answer {url} within {READY_S:g} s: {reason}")
        run.sleep(POLL_S, monitored)


def _stream(testbed: Testbed, run: MeasuredRun) -> RunReports:
    """The bulk sender on the machine under test, with a far end on every client."""
    plan, server, count = run.plan, testbed.server, len(testbed.clients)
    with ExitStack() as stack:
        senders = []
        idle_frames = frames_of(server)
        for index, client in enumerate(testbed.clients[: plan.connections], 1):
            command = programs.stream_far_end(client)
            far_end = stack.enter_context(started("the far end", client, command))
            to = ready(far_end, LISTENING_ADDRESS)[1]
            part = (index, min(count, plan.connections))
            sender = programs.stream_sender(server, plan, to, part)
            senders.append(stack.enter_context(started("the sender", server, sender)))
        warm_up(server, run, plan.warmup_s, senders, idle_frames)
        window = profile_of(testbed, run, plan, "", senders[0], senders)
        loads = [sender.stopped() for sender in senders]
        network = testbed.network_report()
    return window.answers(loads, None, network)


@dataclass(frozen=True, slots=True)
class Window:
    """What was counted while the profile ran."""

    profile: Answer
    server_idle: float
    client_idle: float
    server_process: dict[str, object] | None

    def answers(
        self, loads: Sequence[Answer], server: Answer | None, network: Mapping[str, object] | None
    ) -> RunReports:
        """With the reports of the other programs."""
        idle = (self.server_idle, self.client_idle)
        return RunReports(self.profile, loads, server, network, *idle, self.server_process)


def profile_of(
    testbed: Testbed,
    run: TimedRun,
    plan: Profiled,
    requests_url: str,
    monitored: MonitoredProcess,
    loads: Sequence[MonitoredProcess],
) -> Window:
    """The profile of the server, and what the kernel counted of it and its clients meanwhile.

    A load that ended within the window would have left part of it without load.
    """
    server, clients = testbed.server, testbed.clients
    pid = monitored.process.pid
    process_before = process_tree.read(server, pid)
    before = [ticks_of(host) for host in (server, *clients)]
    command = programs.profile(server, plan, pid, requests_url)
    with started("the profile", server, command) as profile:
        run.sleep(plan.window_s, monitored)
        after = [ticks_of(host) for host in (server, *clients)]
        process_after = process_tree.read(server, pid)
        for load in loads:
            load.check()
        answer = programs.report_of("the profile", server, profile.process.result(GRACE_S))
    idle = [
        idle_share(earlier, later, host.cpus)
        for earlier, later, host in zip(before, after, (server, *clients), strict=True)
    ]
    # The busiest client is the one that may be the limit.
    counted = process_tree.between(process_before, process_after)
    return Window(answer, idle[0], min(idle[1:]), counted)


def warm_up(
    server: Host,
    run: TimedRun,
    warmup_s: float,
    programs_run: Sequence[MonitoredProcess],
    idle_frames: int,
) -> None:
    """Wait until the load has begun, and then for its warm-up; all programs must live."""
    until_s = time.monotonic() + READY_S
    while frames_of(server) < idle_frames + FLOWING_FRAMES:
        if time.monotonic() > until_s:
            raise RunFailed(f"the load sent nothing within {READY_S:g} s")
        for program in programs_run:
            program.check()
        time.sleep(POLL_S)
    run.sleep(warmup_s + LEAD_S, programs_run[0])


def frames_of(host: Host) -> int:
    """Frames at all interfaces of a host; raises `RunFailed` when they cannot be read."""
    return read_frames(text_of(host, "/proc/net/dev"))


def ticks_of(host: Host) -> dict[int, Ticks]:
    """What the processors of a host did; raises `RunFailed` when it cannot be read."""
    return read_ticks(text_of(host, "/proc/stat"))


def text_of(host: Host, path: str) -> str:
    """One of the kernel's text files on a host; raises `RunFailed` naming it."""
    done = host.run(["cat", path], timeout_s=GRACE_S)
    if done.returncode:
        raise RunFailed(f"{path} on {host.name} cannot be read: {programs.last_error(done)}")
    return done.stdout


def memory_bytes(host: Host, name: str) -> float:
    """One amount of proc_meminfo(5), such as `MemAvailable`; raises `RunFailed` naming it."""
    for line in text_of(host, "/proc/meminfo").splitlines():
        found, _, rest = line.partition(":")
        if found == name:
            return float(rest.split()[0]) * 1024
    raise RunFailed(f"/proc/meminfo on {host.name} has no {name}")
