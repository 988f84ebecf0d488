"""One run through the router: bulk TCP while it is profiled, or the search of RFC 2544.

TCP: far ends at the receiving hosts, a sender for each flow, a warm-up, then one window. The search
is the agent's: a generator at host 0, a receiver at host 1, and trials by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from perpacket.errors import RunFailed
from perpacket.measure import programs
from perpacket.measure.host_files import frames_of, memory_bytes
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket.measure.plan import with_available_events
from perpacket.measure.router.plan import FIRST_TCP_PORT, PlaneKind, RouterPlan
from perpacket.measure.router.summary import Window, summarize_loss, summarize_search, summarize_tcp
from perpacket.measure.runs import (
    LISTENING_ADDRESS,
    MeasuredRun,
    Measurement,
    MonitoredProcess,
    profiled_window,
    ready,
    started,
    warm_up,
)

PLANE_READY_S = 20.0

LONGEST_SEARCH_S = 300.0
"""A search that needs longer does not converge."""

LIVE_LOWEST_PPS = 20_000
"""Approximate lowest rate of live frames of BPF."""

HIGHEST_PPS = 4_000_000
"""More frames per second than one core of a current machine makes."""


class Port(Protocol):
    """An interface of the router and its host's interface, as `NETNS:IFNAME`."""

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
    """How the machine makes frames: `live` or `socket`."""
    may_sample: bool = True
    """Whether the kernel permits sampling of the router's processors."""


class RouterRun(MeasuredRun[RouterPlan, RouterSetup]):
    """One run of one point."""

    def measure(self, setup: RouterSetup) -> Measurement:
        """The flows or the search, over the plan's plane."""
        plan = self.plan
        is_tcp = plan.kind == "tcp"
        programmed = () if is_tcp else (setup.testbed.ports[1].host,)
        with plane(setup.testbed, plan.plane, programmed) as monitored:
            found = _tcp(setup, self) if is_tcp else _search(setup, self)
            if monitored is not None:
                monitored.check()
        return found


@contextmanager
def plane(
    testbed: RoutedTestbed, kind: PlaneKind, programmed: tuple[str, ...] = ()
) -> Iterator[MonitoredProcess | None]:
    """Forward by the kernel or by a program in XDP inside the context.

    A veth device receives frames from XDP only with a program at its end; `programmed` have one
    already. Raises `MachineLacks` if XDP is not allowed.
    """
    if kind == "kernel":
        yield None
        return
    router, ports = testbed.server, testbed.ports
    command = [router.agent(), "route", "plane", "--format", "json"]
    command += ["--interfaces", ",".join(port.router for port in ports)]
    receivers = [port.host for port in ports if port.host not in programmed]
    command += ["--take-redirected", ",".join(receivers)]
    with started("the plane in XDP", router, command) as monitored:
        try:
            monitored.process.wait_for_line("^ready", PLANE_READY_S)
        except RunFailed:
            monitored.check()
            raise
        yield monitored


def search_command(setup: RouterSetup, plan: RouterPlan, host: Host) -> list[str]:
    """The agent's search, or one trial, from host 0 to host 1, as a command on `host`."""
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
        # An interface has one XDP program at most, and the plane in XDP has its own there.
        command += ["--take-redirected", sending.router] if plan.plane == "kernel" else []
    return command


def _search(setup: RouterSetup, run: RouterRun) -> Measurement:
    """The highest rate without loss, or the loss at one rate."""
    sender, plan = setup.testbed.clients[0], run.plan
    with started("the search", sender, search_command(setup, plan, sender)) as monitored:
        answer = run.finish(monitored, LONGEST_SEARCH_S)
    summarize = summarize_loss if plan.kind == "loss" else summarize_search
    return summarize(plan, answer), {plan.kind: answer}


def _tcp(setup: RouterSetup, run: RouterRun) -> Measurement:
    """Bulk TCP over every flow of the configuration, over one window."""
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
        active = [memory_bytes(router, "Active")]
        profiled = with_available_events(plan, setup.may_sample)
        counted = profiled_window(setup.testbed, run, profiled, senders)
        active.append(memory_bytes(router, "Active"))
        loads = [sender.stopped() for sender in senders]
    window = Window(
        profile=counted.profile,
        loads=loads,
        router_idle=counted.server_idle,
        router_user=counted.server_user,
        hosts_idle=counted.client_idle,
        active_bytes=sum(active) / len(active),
    )
    return summarize_tcp(plan, window), {"profile": counted.profile, "load": loads}
