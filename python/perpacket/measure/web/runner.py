"""The testbeds of a study, and the points that they cannot run.

Hosts, file sets and traces are set up once for all points. Points along latency have hosts of their
own: what adds latency (a user-space link, where the kernel has no netem) carries less than a direct
path, and would slow the others. Points that cannot run here are left out with the reason.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure import programs
from perpacket.measure.active_setup import ActiveSetup
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket.measure.programs import report_of
from perpacket.measure.web import peers
from perpacket.measure.web.files import QUICK_S, file_sets
from perpacket.measure.web.plan import Plan, RunPlan, named, parameters_of, read_plan
from perpacket.measure.web.runs import MeasuredRun, WebSetup
from perpacket.study.point import Point
from perpacket.study.runner import Run, SetupDescription

DESCRIPTORS_BESIDE = 64
"""Descriptors a program needs beside its connections, generously."""

PERF = "perf_cpu_wide"
"""The agent's name for sampling whole processors, which layers need."""

LAYERLESS = ("accounts", "any")
"""Events of plans that do without layers, always or where they must."""

CONGESTION_CONTROL = "/proc/sys/net/ipv4/tcp_congestion_control"

PROCESSOR = ["sed", "-n", "s/^model name[[:space:]]*: *//p", "/proc/cpuinfo"]
"""Prints the name of each processor of a host, where its architecture has one."""

OpenTestbed = Callable[[Plan], AbstractContextManager[Testbed]]

CONNECTING_LATENCY_US = 1000.0
"""What a testbed with latency is opened with; every run sets its own."""


def open_testbed(plan: RunPlan) -> AbstractContextManager[Testbed]:
    """The testbed that a plan asks for, with latency between the hosts where it asks for that.

    Raises `MachineLacks` where it cannot be had.
    """
    from perpacket.measure import hosts as testbed

    sysctls = {"net.ipv4.tcp_congestion_control": plan.congestion_control}
    latency_us = CONNECTING_LATENCY_US if plan.network == "delayed" else 0.0
    opened: AbstractContextManager[Testbed]
    match plan.testbed:
        case "loopback":
            opened = testbed.loopback()
        case "namespaces":
            opened = testbed.namespaces(one_way_latency_us=latency_us, sysctls=sysctls)
        case "ssh":
            opened = testbed.machines(plan.server_host, plan.client_hosts.split(","))
        case _:
            opened = testbed.best(one_way_latency_us=latency_us, sysctls=sysctls)
    return opened


class WebRunner:
    """Prepares measured runs, and owns the testbeds they run on."""

    def __init__(self, open_testbed: OpenTestbed = open_testbed) -> None:
        """A runner that finds its testbeds with `open_testbed`."""
        self._open = open_testbed
        self._setup = ActiveSetup[WebSetup]()

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters that its points may have."""
        return parameters_of(Plan)

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A run of that point; raises `ConfigurationError` when its parameters are wrong."""
        return MeasuredRun(point, read_plan(point), seed, self._setup)

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        """Set up the testbeds and the files of `points`.

        Raises `MachineLacks` when no testbed can be had, `RunFailed` when the files cannot be made,
        and `ConfigurationError` when the parameters of a point are wrong.
        """
        plans = {point.name: read_plan(point) for point in points}
        with ExitStack() as stack:
            first = next(iter(plans.values())).model_copy(update={"network": "direct"})
            direct = stack.enter_context(self._open(first))
            check_agents(direct)
            delayed, lack = self._with_latency(stack, list(plans.values()))
            check_server_command(direct.server, plans.values())
            known = probed(direct.server)
            left_out = impossible(plans, lack, direct.server, known)
            possible = [plan for name, plan in plans.items() if name not in left_out]
            files = stack.enter_context(file_sets(direct, possible))
            setup = WebSetup(direct, delayed, files, may_sample(known, possible))
            with self._setup.use(setup):
                yield SetupDescription(
                    identity(direct, delayed), facts(direct, delayed, known), left_out
                )

    def _with_latency(self, stack: ExitStack, plans: list[Plan]) -> tuple[Testbed | None, str]:
        """The testbed with latency, where a plan asks for one, or why there is none."""
        plan = next((plan for plan in plans if plan.network == "delayed"), None)
        if plan is None:
            return None, ""
        try:
            delayed = stack.enter_context(self._open(plan))
            delayed.set_latency(CONNECTING_LATENCY_US)
        except MachineLacks as error:
            return None, f"nothing can add latency here: {error}"
        return delayed, ""


def check_agents(testbed: Testbed) -> None:
    """Raise `MachineLacks` when a host has no agent that runs, and can get none.

    Before the first run: else every run would fail for the same reason.
    """
    for host in (testbed.server, *testbed.clients):
        host.agent()


def check_server_command(server: Host, plans: Iterable[Plan]) -> None:
    """Raise `ConfigurationError` when a command that is to be the server is not there.

    Before the first run: else every run would fail for the same reason.
    """
    for command in dict.fromkeys(plan.server_command for plan in plans if plan.is_foreign):
        program = programs.words_of(command)[0] if command else ""
        if not program or "{" in program:
            continue
        look = ["sh", "-c", 'command -v "$0"', program]
        if server.run(look, timeout_s=QUICK_S).returncode:
            raise ConfigurationError(
                f"{named('server.command')} {command}: there is no program {program} on "
                f"{server.name}",
                parameter="server.command",
                value=command,
                hint="install it there, or give the path of the program",
            )


def impossible(
    plans: Mapping[str, Plan], lack_of_latency: str, server: Host, known: ProbeResult
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
        if plan.network == "delayed" and lack_of_latency:
            reasons[name] = lack_of_latency
        elif plan.is_web and lacks_of_servers.get(which):
            reasons[name] = lacks_of_servers[which]
        elif lack_of_perf and plan.profile_events not in LAYERLESS:
            reasons[name] = lack_of_perf
        elif lack := _lack_of_descriptors(plan):
            reasons[name] = lack
    return reasons


def _lack_of_uring(server: Host, plans: Iterable[Plan], known: ProbeResult) -> str:
    """Why the server's machine cannot run the architecture `uring`, if a plan asks for it."""
    wanted = any(plan.architecture == "uring" and not plan.is_foreign for plan in plans)
    return f"{server.name} has no io_uring" if wanted and "io_uring" in known.lacking else ""


def _lack_of_perf(server: Host, plans: Iterable[Plan], known: ProbeResult) -> str:
    """Why layers cannot be measured on the server's machine, if a plan asks for them."""
    if known.may_sample or all(plan.profile_events in LAYERLESS for plan in plans):
        return ""
    return (
        f"perf cannot sample the processors of {server.name}: be root there, or set "
        "kernel.perf_event_paranoid to -1"
    )


def _lack_of_descriptors(plan: Plan) -> str:
    """Why a process cannot open the plan's connections here; empty when it can.

    Machines reached over ssh have limits of their own, which their agents check.
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


def may_sample(known: ProbeResult, plans: Iterable[RunPlan]) -> bool:
    """Whether the server's machine may be sampled, if that decides anything."""
    return known.may_sample or all(plan.profile_events != "any" for plan in plans)


def identity(direct: Testbed, delayed: Testbed | None) -> dict[str, object]:
    """What a resumed study must find again."""
    server = direct.server
    return {
        "network": direct.network,
        "network_with_latency": delayed.network if delayed is not None else None,
        "server_kernel": _line(server, ["uname", "-sr"]),
        "server_processor": _line(server, PROCESSOR),
        "congestion_control": _line(server, ["cat", CONGESTION_CONTROL]),
        "server_cpus": list(server.cpus),
        "client_cpus": [list(client.cpus) for client in direct.clients],
    }


def facts(direct: Testbed, delayed: Testbed | None, known: ProbeResult) -> dict[str, object]:
    """What else is worth knowing: the testbeds' limits, and what the server's machine lacks."""
    limits = list(direct.limits)
    if delayed is not None:
        limits += [f"Along latency: {limit}" for limit in delayed.limits if limit not in limits]
    return {
        "clients": len(direct.clients),
        "limits": limits,
        "could_not": known.sentences,
    }


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a machine lacks, asked once; what is not known is tried."""

    lacking: Mapping[str, str]
    """What is missing by name, with what that costs."""
    unknown: str = ""
    """Why nothing is known."""

    @property
    def may_sample(self) -> bool:
        """Whether its processors may be sampled, as far as is known."""
        return PERF not in self.lacking

    @property
    def sentences(self) -> list[str]:
        """What is missing, as `what: what that costs`."""
        if self.unknown:
            return [f"what the machine can do is not known: {self.unknown}"]
        return [f"{name}: {cost}" for name, cost in self.lacking.items()]


def probed(host: Host) -> ProbeResult:
    """What the agent finds missing on a host; a probe that fails says nothing is."""
    try:
        return ProbeResult(capabilities_lacking(host))
    except (ConfigurationError, MachineLacks, RunFailed) as error:
        return ProbeResult({}, str(error))


def capabilities_lacking(host: Host) -> dict[str, str]:
    """What a host lacks by name, with what that costs.

    Raises what `programs.answered` raises.
    """
    done = host.run([host.agent(), "probe", "--format", "json"], timeout_s=QUICK_S)
    probed = report_of("the probe", host, done).get("capabilities")
    found = {}
    for capability in probed if isinstance(probed, list) else []:
        if isinstance(capability, dict) and capability.get("available") is False:
            cost = capability.get("cost_of_lack") or capability.get("detail") or "not there"
            found[str(capability.get("name"))] = str(cost)
    return found


def _line(host: Host, command: list[str]) -> str | None:
    """The first line a command prints, None where it fails."""
    done = host.run(command, timeout_s=QUICK_S)
    return done.stdout.partition("\n")[0].strip() or None if done.returncode == 0 else None
