"""The testbeds of a study of web servers, and the points that they cannot run.

Hosts, file sets and traces are set up once for all points. Points with a delayed network have hosts
of their own, because a user-space link adds the latency where the kernel has no netem. This link
carries less than a direct path and would slow the other points down.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket.measure.hosts.processor_division import with_server
from perpacket_lab.measure.applications import application_file, preparation
from perpacket_lab.measure.host_runner import (
    CONNECTING_LATENCY_US,
    HostRunner,
    ProbeResult,
    check_agents,
    check_server_commands,
    facts,
    identity,
    may_sample,
    open_testbed,
    probed,
)
from perpacket_lab.measure.plan import named, validated
from perpacket_lab.measure.web import peers
from perpacket_lab.measure.web.served_files import file_sets
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.measure.web.web_run import WebRun, WebSetup, running_application
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import SetupDescription

DESCRIPTORS_BESIDE = 64
"""An upper bound on the descriptors that a program needs besides those of its connections."""

COUNTERS = "pmu"
"""The agent's name for performance counters."""

LAYERLESS = ("accounts", "any")
"""Events of plans that need no layers."""

OpenTestbed = Callable[[WebPlan], AbstractContextManager[Testbed]]


def open_web_testbed(plan: WebPlan) -> AbstractContextManager[Testbed]:
    """The testbed of a plan, whose server has the plan's number of processors.

    Raises `MachineLacks` if there is none.
    """
    if plan.processors and plan.testbed == "ssh":
        raise MachineLacks("servers on other machines use all their processors")
    return open_testbed(plan, with_server(plan.processors) if plan.processors else None)


class WebRunner(HostRunner[WebSetup]):
    """Prepares runs of web servers and the bulk sender."""

    plan_type: ClassVar[type[WebPlan]] = WebPlan
    run_type: ClassVar[type[WebRun]] = WebRun

    def __init__(self, open_testbed: OpenTestbed | None = None) -> None:
        """A runner that opens testbeds with `open_testbed`; the default is `open_web_testbed`."""
        super().__init__()
        self._open = open_testbed or open_web_testbed

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        """Set up the testbeds and the files of `points`.

        Raises `MachineLacks` when there is no testbed, `RunFailed` when the files cannot be made,
        and `ConfigurationError` when the parameters of a point are wrong.
        """
        plans = {point.name: validated(self.plan_type, point) for point in points}
        with ExitStack() as stack:
            first = next(iter(plans.values())).model_copy(update={"network": "direct"})
            direct = stack.enter_context(self._open(first))
            check_agents(direct)
            delayed, lack_of_latency = self._with_latency(stack, plans.values())
            others, lacks_of_processors = self._by_processors(stack, first, plans.values())
            lacks = Lacks(
                lack_of_latency, _lack_of_quickack(direct, plans.values()), lacks_of_processors
            )
            foreign = [plan.server_command for plan in plans.values() if plan.is_foreign]
            check_server_commands(direct.server, foreign)
            for plan in plans.values():
                check_reachable(plan.server_url, direct.server.address)
            known = probed(direct.server)
            left_out = impossible(plans, lacks, direct.server, known)
            possible = [plan for name, plan in plans.items() if name not in left_out]
            files = stack.enter_context(file_sets(direct, possible))
            applications = {
                plan.application: stack.enter_context(running_application(plan, direct))
                for plan in {
                    plan.application: plan for plan in possible if plan.application
                }.values()
            }
            may = may_sample(known, possible)
            setup = WebSetup(direct, delayed, files, applications, others, may)
            with self.using(setup):
                known_facts = facts(direct, known, limits_of(others, direct), delayed)
                yield SetupDescription(identity(direct, delayed), known_facts, left_out)

    def _with_latency(
        self, stack: ExitStack, plans: Iterable[WebPlan]
    ) -> tuple[Testbed | None, str]:
        """The testbed with latency, where a plan needs it, or the reason why there is none."""
        plan = next((plan for plan in plans if plan.network == "delayed"), None)
        if plan is None:
            return None, ""
        try:
            delayed = stack.enter_context(self._open(plan))
            delayed.set_latency(CONNECTING_LATENCY_US)
        except MachineLacks as error:
            return None, f"nothing can add latency here: {error}"
        return delayed, ""

    def _by_processors(
        self, stack: ExitStack, first: WebPlan, plans: Iterable[WebPlan]
    ) -> tuple[dict[int, Testbed], dict[int, str]]:
        """Testbeds by the server's number of processors, and why there is none for a number."""
        testbeds, lacks = {}, {}
        for count in sorted({plan.processors for plan in plans} - {0}):
            try:
                plan = first.model_copy(update={"processors": count})
                testbeds[count] = stack.enter_context(self._open(plan))
            except MachineLacks as error:
                lacks[count] = str(error)
        return testbeds, lacks


def check_reachable(url: str, address: str) -> None:
    """Raise `ConfigurationError` for a URL on loopback if the clients are on other hosts.

    `address` is the server's. A network namespace has a loopback interface of its own.
    """
    name = urlsplit(url).hostname or ""
    if is_loopback(name) and not is_loopback(address):
        raise ConfigurationError(
            f"{named('server.url')} {url}: the clients have another loopback interface than the "
            f"server, which is at {address}",
            parameter="server.url",
            value=url,
            hint="write {address} in place of the host, or use --testbed loopback",
        )


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is that of its own loopback interface."""
    return host in ("localhost", "::1") or host.startswith("127.")


def limits_of(testbeds: Mapping[int, Testbed], direct: Testbed) -> list[str]:
    """The limits of testbeds with another number of processors, besides those of `direct`."""
    return [
        f"Where the server has {count} processors: {limit}"
        for count, testbed in testbeds.items()
        for limit in testbed.limits
        if limit not in direct.limits
    ]


@dataclass(frozen=True, slots=True)
class Lacks:
    """The reasons why some testbeds cannot be made; empty if they can."""

    latency: str = ""
    quickack: str = ""
    processors: Mapping[int, str] = field(default_factory=dict)


def impossible(
    plans: Mapping[str, WebPlan], lacks: Lacks, server: Host, known: ProbeResult
) -> dict[str, str]:
    """The points that cannot run here, and why."""
    kinds = {plan.server_kind for plan in plans.values() if plan.is_web}
    lacks_of_servers = {kind: peers.lack(server, kind) for kind in kinds if kind != "perpacket"} | {
        "uring": _lack_of_uring(server, plans.values(), known)
    }
    lack_of_perf = _lack_of_perf(server, plans.values(), known)
    reasons: dict[str, str] = {}
    for name, plan in plans.items():
        which = plan.architecture if plan.server_kind == "perpacket" else plan.server_kind
        if plan.network == "delayed" and lacks.latency:
            reasons[name] = lacks.latency
        elif plan.acknowledgments == "each" and lacks.quickack:
            reasons[name] = lacks.quickack
        elif plan.server_command and plan.server_kind != "perpacket":
            reasons[name] = f"{named('server.command')} replaces `serve web`, not {which}"
        elif lack := lacks.processors.get(plan.processors):
            reasons[name] = lack
        elif plan.is_web and lacks_of_servers.get(which):
            reasons[name] = lacks_of_servers[which]
        elif lack_of_perf and plan.profile_events not in LAYERLESS:
            reasons[name] = lack_of_perf
        elif plan.profile_events == "misses" and COUNTERS in known.lacking:
            reasons[name] = f"{server.name} has no performance counters that count misses"
        elif lack := _lack_of_application(plan) or _lack_of_descriptors(plan):
            reasons[name] = lack
    return reasons


def _lack_of_quickack(direct: Testbed, plans: Iterable[WebPlan]) -> str:
    """The reason why clients cannot acknowledge each frame, if a plan needs it; else empty."""
    if all(plan.acknowledgments != "each" for plan in plans):
        return ""
    try:
        direct.set_quickack(True)
        direct.set_quickack(False)
    except MachineLacks as error:
        return str(error)
    return ""


def _lack_of_uring(server: Host, plans: Iterable[WebPlan], known: ProbeResult) -> str:
    """The reason why the server's machine cannot run `uring`, if a plan has it; else empty."""
    wanted = any(plan.architecture == "uring" and not plan.is_foreign for plan in plans)
    return f"{server.name} has no io_uring" if wanted and "io_uring" in known.lacking else ""


def _lack_of_perf(server: Host, plans: Iterable[WebPlan], known: ProbeResult) -> str:
    """The reason why layers cannot be measured there, if a plan needs them; else empty."""
    if known.may_sample or all(plan.profile_events in LAYERLESS for plan in plans):
        return ""
    return (
        f"perf cannot sample the processors of {server.name}: be root there, or set "
        "kernel.perf_event_paranoid to -1"
    )


def _lack_of_application(plan: WebPlan) -> str:
    """The reason why the plan's application cannot run; empty if it can or there is none."""
    if not plan.application:
        return ""
    if plan.server_command or plan.testbed == "ssh":
        return "an application is a server of its own, and runs on this machine alone"
    try:
        preparation.require(application_file.load(plan.application))
    except MachineLacks as error:
        return f"{error}: {error.hint}"
    return ""


def _lack_of_descriptors(plan: WebPlan) -> str:
    """The reason why a process cannot open the plan's connections here; empty if it can.

    The agents on machines over ssh check the limits there.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if plan.testbed == "ssh" or hard == resource.RLIM_INFINITY:
        return ""
    if plan.connections + DESCRIPTORS_BESIDE <= hard:
        return ""
    return (
        f"{plan.connections} connections need more than the {hard} files that a process may have "
        "open here: raise the hard limit (`ulimit -Hn`)"
    )
