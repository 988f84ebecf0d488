"""One run through the router: bulk TCP while the router is profiled, or the search of RFC 2544.

TCP: far ends at the receiving hosts, a sender for each flow, a warm-up, then one window. The search
is the agent's: a generator at host 0, a receiver at host 1, and trials by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket_lab.measure import programs
from perpacket_lab.measure.host_files import frames_of, memory_bytes
from perpacket_lab.measure.measured_run import (
    LISTENING_ADDRESS,
    MeasuredRun,
    Measurement,
    MonitoredProcess,
    profiled_window,
    ready,
    started,
    warm_up,
)
from perpacket_lab.measure.plan import with_available_events
from perpacket_lab.measure.router import rip
from perpacket_lab.measure.router.router_plan import FIRST_TCP_PORT, HOSTS, PlaneKind, RouterPlan
from perpacket_lab.measure.router.router_summary import (
    RouterWindow,
    summarize_loss,
    summarize_search,
    summarize_tcp,
)

PLANE_READY_S = 20.0

LONGEST_SEARCH_S = 300.0
"""A search that needs longer does not converge."""

LIVE_LOWEST_PPS = 20_000
"""Approximate lowest rate of live frames of BPF."""

HIGHEST_PPS = 4_000_000
"""More frames per second than one core of a current machine makes."""


Started = AbstractContextManager[MonitoredProcess]


class RouterPort(Protocol):
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
    def ports(self) -> tuple[RouterPort, ...]:
        """The router's interfaces, in the order of the hosts."""
        ...

    @property
    def inner_addresses(self) -> tuple[str, ...]:
        """The address of each host in the network behind it."""
        ...

    def steer(self, number: int, cpus: Sequence[int] | None) -> None:
        """Move the receive work of a host and of its port to processors; `None` moves it back."""


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
            measurement = _tcp(setup, self) if is_tcp else _search(setup, self)
            if monitored is not None:
                monitored.check()
        return measurement


@contextmanager
def plane(
    testbed: RoutedTestbed, kind: PlaneKind, programmed: tuple[str, ...] = ()
) -> Iterator[MonitoredProcess | None]:
    """Forward by the kernel or by a program in XDP inside the context.

    To receive frames that XDP redirects, a host's veth device must have an XDP program itself.
    The devices in `programmed` have one already. Raises `MachineLacks` if XDP is not allowed.
    """
    if kind == "kernel":
        yield None
        return
    router, ports = testbed.server, testbed.ports
    receivers = [port.host for port in ports if port.host not in programmed]
    interfaces = [port.router for port in ports]
    command = programs.command(
        router, "route plane", interfaces=interfaces, take_redirected=receivers
    )
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
    is_live = setup.generator == "live"
    # An interface has one XDP program at most, and the plane in XDP has its own there.
    takes = is_live and plan.plane == "kernel"
    return programs.command(
        host,
        "route throughput",
        from_=sending.host,
        next_hop=sending.router,
        to=receiving.host,
        frame_size=plan.frame_bytes,
        trial=plan.trial_s,
        resolution=plan.resolution,
        tolerated_loss=plan.tolerated_loss,
        highest_rate=HIGHEST_PPS,
        lowest_rate=LIVE_LOWEST_PPS if is_live else None,
        generator=setup.generator,
        rates=plan.rate_pps if plan.kind == "loss" else None,
        take_redirected=sending.router if takes else None,
        quiet=True,
    )


def _search(setup: RouterSetup, run: RouterRun) -> Measurement:
    """The highest rate without loss, or the loss at one rate."""
    sender, plan = setup.testbed.clients[0], run.plan
    with started("the search", sender, search_command(setup, plan, sender)) as monitored:
        answer = run.finish(monitored, LONGEST_SEARCH_S)
    summarize = summarize_loss if plan.kind == "loss" else summarize_search
    return summarize(plan, answer), {plan.kind: answer}


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the ends of flows run and which address each host has for them."""

    hosts: Sequence[Host]
    addresses: Sequence[str]
    cpus: Sequence[tuple[int, ...]]

    def far_end(self, receiver: int) -> Started:
        """The far end of all flows to a host."""
        host = self.hosts[receiver]
        listen = f"{self.addresses[receiver]}:{FIRST_TCP_PORT}"
        command = programs.command(host, "load stream", listen=listen)
        return started("the far end", host, command, self.cpus[receiver])

    def sender(self, plan: RouterPlan, flow: tuple[int, int], rate_bps: int = 0) -> Started:
        """The sender of a flow; `rate_bps` limits its rate unless it is 0."""
        sender, receiver = flow
        to = f"{self.addresses[receiver]}:{FIRST_TCP_PORT}"
        command = programs.bulk_sender(
            self.hosts[sender],
            to,
            1,
            plan.message_bytes,
            warmup=plan.warmup_s,
            duration=plan.load_s,
            threads=1,
            bit_rate=rate_bps or None,
        )
        return started("the sender", self.hosts[sender], command, self.cpus[sender])


def usable(testbed: Testbed) -> list[int]:
    """The processors of the router and its hosts together."""
    return sorted({cpu for host in (testbed.server, *testbed.clients) for cpu in host.cpus})


@contextmanager
def placed(testbed: RoutedTestbed, plan: RouterPlan) -> Iterator[list[tuple[int, ...]]]:
    """The processors of each host's programs, with the receive work moved to them.

    Raises `MachineLacks` where it cannot be moved.
    """
    hosts = testbed.clients
    if plan.processors == "divided":
        yield [host.cpus for host in hosts]
        return
    cpus = usable(testbed)
    # Hosts 0 and 1 are the first pair.
    pairs = [number // 2 if plan.processors == "pairs" else 0 for number in range(HOSTS)]
    chosen: list[tuple[int, ...]] = [(cpus[pair],) for pair in pairs]
    try:
        for number, processors in enumerate(chosen):
            testbed.steer(number, processors)
        yield chosen
    finally:
        for number in range(HOSTS):
            testbed.steer(number, None)


def _tcp(setup: RouterSetup, run: RouterRun) -> Measurement:
    """Bulk TCP over every flow of the configuration, over one window."""
    plan, testbed, router = run.plan, setup.testbed, setup.testbed.server
    with ExitStack() as stack:
        learned = None
        addresses = [host.address for host in testbed.clients]
        if plan.routes == "rip":
            learned = stack.enter_context(rip.spread(testbed, plan.injected))
            addresses = list(testbed.inner_addresses)
        ends = Ends(testbed.clients, addresses, stack.enter_context(placed(testbed, plan)))
        for receiver in sorted({to for _, to in (*plan.flows, *plan.cross_flows)}):
            ready(stack.enter_context(ends.far_end(receiver)), LISTENING_ADDRESS)
        idle_frames = frames_of(router)
        senders = [stack.enter_context(ends.sender(plan, flow)) for flow in plan.flows]
        crossing = [
            stack.enter_context(ends.sender(plan, flow, plan.cross_bps))
            for flow in plan.cross_flows
        ]
        warm_up(router, run, plan.warmup_s, senders, idle_frames)
        active = [memory_bytes(router, "Active")]
        profiled = with_available_events(plan, setup.may_sample)
        counted = profiled_window(testbed, run, profiled, [*senders, *crossing])
        active.append(memory_bytes(router, "Active"))
        loads = [sender.stopped() for sender in senders]
        cross = [sender.stopped() for sender in crossing]
        if learned is not None:
            learned.check()
    window = RouterWindow(
        profile=counted.profile,
        loads=loads,
        cross=cross,
        router_idle=counted.server_idle,
        router_user=counted.server_user,
        hosts_idle=counted.client_idle,
        active_bytes=sum(active) / len(active),
        converged_s=None if learned is None else learned.converged_s,
    )
    return summarize_tcp(plan, window), {"profile": counted.profile, "load": [*loads, *cross]}
