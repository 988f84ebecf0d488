"""The router and its hosts while a study runs.

Before the first run, `route check` checks every frame that the router forwards, over each plane of
the points. The runner also tries whether the kernel allows XDP to forward, and whether it allows
live frames of `BPF_PROG_RUN` as load. Without XDP it leaves out the points that need it. Without
live frames, a packet socket sends the frames. The report lists what was missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket_lab.measure import programs
from perpacket_lab.measure.host_runner import HostRunner, facts, identity, probed
from perpacket_lab.measure.plan import validated
from perpacket_lab.measure.router import machines, rip
from perpacket_lab.measure.router.router_plan import HOSTS, PlaneKind, RouterPlan
from perpacket_lab.measure.router.router_run import (
    LIVE_LOWEST_PPS,
    RoutedTestbed,
    RouterRun,
    RouterSetup,
    plane,
    usable,
)
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import SetupDescription

CHECK_S = 120.0
"""Time limit of the oracle, `route check`, which waits for frames that must not arrive."""

OpenRouted = Callable[[RouterPlan], AbstractContextManager[RoutedTestbed]]


def open_routed(plan: RouterPlan) -> AbstractContextManager[RoutedTestbed]:
    """A router and four hosts; raises `MachineLacks` if there are none.

    They are namespaces of this machine, or machines over ssh. In namespaces TCP has no time stamps,
    so that a segment has 40 bytes of headers, as published.
    """
    from perpacket_lab.measure import hosts

    if plan.testbed == "ssh":
        return machines.RoutedMachines(plan)
    sysctls = {
        "net.ipv4.tcp_congestion_control": plan.congestion_control,
        "net.ipv4.tcp_timestamps": "0",
    }
    try:
        return hosts.routed(HOSTS, sysctls=sysctls)
    except MachineLacks as error:
        raise MachineLacks(
            f"a router needs hosts of its own: {error}",
            "run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN): loopback routes nothing",
        ) from error


class RouterRunner(HostRunner[RouterSetup]):
    """Prepares runs through a router."""

    plan_type, run_type = RouterPlan, RouterRun

    def __init__(self, open_testbed: OpenRouted = open_routed) -> None:
        """A runner that opens its testbed with `open_testbed`."""
        super().__init__()
        self._open = open_testbed

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        """Set up the router; raises `MachineLacks` if there are no namespaces."""
        plans = {point.name: validated(RouterPlan, point) for point in points}
        with self._open(next(iter(plans.values()))) as testbed:
            lacks: dict[PlaneKind, str] = {}
            left_out = {name: why for name, p in plans.items() if (why := lack_of(testbed, p))}
            verdicts: dict[str, object] = {}
            limits: list[str] = []
            planes = dict.fromkeys(plan.plane for plan in plans.values())
            for kind in planes if testbed.ports else ():
                try:
                    verdicts[kind], breach = checked_by_oracle(testbed, kind)
                    limits += [breach] if breach else []
                except MachineLacks as error:
                    lacks[kind] = f"the kernel allows no router in XDP here: {error}"
            generator = ""
            if testbed.ports and any(plan.kind != "tcp" for plan in plans.values()):
                generator, lack = best_generator(testbed)
                limits += [lack] if lack else []
            left_out |= {name: lacks[p.plane] for name, p in plans.items() if p.plane in lacks}
            learns = any(p.routes == "rip" for name, p in plans.items() if name not in left_out)
            daemon = rip.version(testbed.server) if learns else None
            known = probed(testbed.server)
            with self.using(RouterSetup(testbed, generator, known.may_sample)):
                yield SetupDescription(
                    identity(testbed) | {"generator": generator or None},
                    facts(testbed, known, limits) | {"oracle": verdicts, "rip": daemon},
                    left_out,
                )


def lack_of(testbed: RoutedTestbed, plan: RouterPlan) -> str:
    """The reason why the machine cannot run a plan, whatever its plane; empty if it can."""
    if plan.testbed == "ssh":
        return machines.lack_of(plan)
    if plan.routes == "rip" and (reason := rip.lack()):
        return reason
    if plan.processors == "pairs" and len(usable(testbed)) < HOSTS // 2:
        return f"two pairs of hosts need a processor each: this machine has {usable(testbed)}"
    if plan.processors != "divided":
        try:
            testbed.steer(0, None)
        except MachineLacks as error:
            return str(error)
    return ""


def checked_by_oracle(testbed: RoutedTestbed, kind: PlaneKind) -> tuple[str, str]:
    """Check the router by RFC 1812 and others; returns a summary and a sentence on a breach.

    Raises `MachineLacks` if the plane is not allowed.
    """
    router = testbed.server
    ports = [f"{port.router}={port.host}" for port in testbed.ports]
    command = programs.command(router, "route check", port=ports, quiet=True)
    with plane(testbed, kind):
        done = router.run(command, timeout_s=CHECK_S, cpus=testbed.clients[0].cpus)
    if done.returncode == programs.STATUS_UNMET and done.stdout.strip():
        answer: programs.Answer = json.loads(done.stdout)
    else:
        answer = programs.report_of("the oracle", router, done)
    listed = answer.get("cases")
    cases = listed if isinstance(listed, list) else []
    breaches = [f"{case['case']}: {case['breach']}" for case in cases if case.get("breach")]
    text = f"{len(cases)} cases, {len(breaches)} wrong"
    if not breaches:
        return text, ""
    return text, f"The router broke the rules over {kind} ({text}), first {breaches[0]}."


def best_generator(testbed: RoutedTestbed) -> tuple[str, str]:
    """The best allowed generator of frames, and a sentence where it is not `live`."""
    sender = testbed.clients[0]
    sending, receiving = testbed.ports[:2]
    command = programs.command(
        sender,
        "route throughput",
        from_=sending.host,
        next_hop=sending.router,
        to=receiving.host,
        generator="live",
        take_redirected=sending.router,
        receiver="xdp",
        trial="50ms",
        rates=LIVE_LOWEST_PPS,
        quiet=True,
    )
    done = sender.run(command, timeout_s=CHECK_S)
    try:
        programs.report_of("the generator", sender, done)
    except (MachineLacks, RunFailed, ConfigurationError) as error:
        return "socket", (
            "Frames come in batches from a packet socket, which is often slower than the router: "
            f"the kernel runs no program on live frames here ({error})."
        )
    return "live", ""
