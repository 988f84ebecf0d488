"""One run through the router: bulk TCP while it is profiled, or the search of RFC 2544.

TCP: far ends at the receiving hosts, a sender for each flow, a warm-up, then one window over which
the router's interfaces, processors and the profile are read. The search is the agent's: a generator
at host 0, a receiver at host 1, trials by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from perpacket.errors import RunFailed
from perpacket.measure import programs
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket.measure.processor_counts import idle_share, user_share
from perpacket.measure.programs import Answer
from perpacket.measure.router.plan import FIRST_TCP_PORT, PlaneKind, RouterPlan
from perpacket.measure.router.summary import Window, summarize_loss, summarize_search, summarize_tcp
from perpacket.measure.web.plan import available_events
from perpacket.measure.web.runs import (
    GRACE_S,
    LISTENING_ADDRESS,
    MonitoredProcess,
    TimedRun,
    frames_of,
    memory_bytes,
    ready,
    started,
    ticks_of,
    warm_up,
)
from perpacket.study.point import Point

PLANE_READY_S = 20.0

LONGEST_SEARCH_S = 300.0
"""A search that takes longer does not converge."""

LIVE_LOWEST_PPS = 20_000
"""Live frames of BPF are not sent at lower rates than about this."""

HIGHEST_PPS = 4_000_000
"""More frames a second than one core of a current machine makes."""


class Port(Protocol):
    """An interface of the router and that of the host at its other end, as `NETNS:IFNAME`."""

    @property
    def router(self) -> str:
        """The router's."""
        ...

    @property
    def host(self) -> str:
        """The host's."""
        ...


class RoutedTestbed(Testbed, Protocol):
    """A router, which is the server, with a host at each port."""

    @property
    def ports(self) -> tuple[Port, ...]:
        """The router's interfaces, in the order of the hosts."""
        ...


@dataclass(frozen=True, slots=True)
class RouterSetup:
    """The testbed and generator of the runs."""

    testbed: RoutedTestbed
    generator: str
    """How the machine lets frames be made: `live` or `socket`."""
    may_sample: bool = True
    """Whether the kernel lets us sample what the router's processors run."""

    def events(self, plan: RouterPlan) -> str:
        """What a profile samples here."""
        return available_events(plan.profile_events, self.may_sample)


class RouterRun(TimedRun):
    """One run of one point."""

    def __init__(self, point: Point, plan: RouterPlan, setup: Callable[[], RouterSetup]) -> None:
        """Prepare a run of `plan`; `setup` returns the testbed when the run begins."""
        super().__init__(plan.expected_s)
        self.point, self.plan, self._setup = point, plan, setup

    def measure(self) -> tuple[dict[str, object], dict[str, object]]:
        """The flows or the search, over the plane that was asked for."""
        setup, plan = self._setup(), self.plan
        if plan.kind != "tcp":
            receiving = setup.testbed.ports[1]
            with plane(setup.testbed, plan.plane, programmed=(receiving.host,)) as monitored:
                answer = search(setup, self)
                if monitored is not None:
                    monitored.check()
            summarize = summarize_loss if plan.kind == "loss" else summarize_search
            return summarize(plan, answer), {plan.kind: answer}
        with plane(setup.testbed, plan.plane) as monitored:
            window, raw = through(setup, self)
            if monitored is not None:
                monitored.check()
        return summarize_tcp(plan, window), raw


@contextmanager
def plane(
    testbed: RoutedTestbed, kind: PlaneKind, programmed: tuple[str, ...] = ()
) -> Iterator[MonitoredProcess | None]:
    """Forward by the kernel or by a program in XDP inside the context.

    A veth device takes what XDP sends if its end has a program; `programmed` have one already.
    Raises `MachineLacks` where XDP is not allowed.
    """
    if kind == "kernel":
        yield None
        return
    router, ports = testbed.server, testbed.ports
    command = [router.agent(), "route", "plane", "--format", "json"]
    command += ["--interfaces", ",".join(port.router for port in ports)]
    takers = [port.host for port in ports if port.host not in programmed]
    command += ["--take-redirected", ",".join(takers)]
    with started("the plane in XDP", router, command) as monitored:
        try:
            monitored.process.wait_for_line("^ready", PLANE_READY_S)
        except RunFailed:
            monitored.check()
            raise
        yield monitored


def search_command(setup: RouterSetup, plan: RouterPlan, host: Host) -> list[str]:
    """The agent's search, or one trial, from host 0 to host 1; `host` is where it is started."""
    sending, receiving = setup.testbed.ports[:2]
    command = [
        *(host.agent(), "route", "throughput", "--format", "json", "--quiet"),
        *("--from", sending.host, "--next-hop", sending.router, "--to", receiving.host),
        *("--frame-size", str(plan.frame_bytes), "--trial", f"{plan.trial_s:g}"),
        *("--resolution", f"{plan.resolution:g}", "--tolerated-loss", f"{plan.tolerated_loss:g}"),
        *("--highest-rate", str(HIGHEST_PPS), "--generator", setup.generator),
    ]
    if plan.kind == "loss":
        command += ["--rates", str(plan.rate_pps)]
    if setup.generator == "live":
        command += ["--lowest-rate", str(LIVE_LOWEST_PPS)]
        # The plane in XDP has a program at the router's interfaces; beside it none is allowed.
        command += ["--take-redirected", sending.router] if plan.plane == "kernel" else []
    return command


def search(setup: RouterSetup, run: RouterRun) -> Answer:
    """The highest rate without loss, or the loss at one rate."""
    sender = setup.testbed.clients[0]
    command = search_command(setup, run.plan, sender)
    with started("the search", sender, command) as monitored:
        return run.finish(monitored, LONGEST_SEARCH_S)


def through(setup: RouterSetup, run: RouterRun) -> tuple[Window, dict[str, object]]:
    """Bulk TCP over every flow of the configuration, and the window that is measured."""
    plan, router, hosts = run.plan, setup.testbed.server, setup.testbed.clients
    with ExitStack() as stack:
        for receiver in sorted({receiver for _, receiver in plan.flows}):
            host = hosts[receiver]
            listen = f"{host.address}:{FIRST_TCP_PORT}"
            far_end = [host.agent(), "load", "stream", "--listen", listen, "--format", "json"]
            ready(stack.enter_context(started("the far end", host, far_end)), LISTENING_ADDRESS)
        idle_frames = frames_of(router)
        senders = []
        for sender, receiver in plan.flows:
            to = f"{hosts[receiver].address}:{FIRST_TCP_PORT}"
            command = [
                *programs.bulk_sender(hosts[sender], to, 1, plan.message_bytes),
                *("--warmup", f"{plan.warmup_s:g}", "--duration", f"{plan.load_s:g}"),
                *("--threads", "1", "--format", "json"),
            ]
            senders.append(stack.enter_context(started("the sender", hosts[sender], command)))
        warm_up(router, run, plan.warmup_s, senders, idle_frames)
        window = _window(setup, run, senders)
        loads = [sender.stopped() for sender in senders]
    window.loads = loads
    return window, {"profile": window.profile, "load": loads}


def _window(setup: RouterSetup, run: RouterRun, senders: list[MonitoredProcess]) -> Window:
    """One window: the profile, and what the kernel counts at both of its ends."""
    plan, router, host = run.plan, setup.testbed.server, setup.testbed.clients[0]
    before = ticks_of(router)
    active = [memory_bytes(router, "Active")]
    command = programs.profile_of(
        router, plan.duration_s, setup.events(plan), plan.profile_frequency_hz
    )
    with started("the profile", router, command) as profile:
        run.sleep(plan.duration_s, senders[0])
        after = ticks_of(router)
        active.append(memory_bytes(router, "Active"))
        for sender in senders:
            sender.check()
        answer = programs.report_of("the profile", router, profile.process.result(GRACE_S))
    return Window(
        profile=answer,
        loads=[],
        router_idle=idle_share(before, after, router.cpus),
        router_user=user_share(before, after, router.cpus),
        # All hosts share their processors.
        hosts_idle=idle_share(before, after, host.cpus),
        active_bytes=sum(active) / len(active),
    )
