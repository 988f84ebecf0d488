"""The parts that measured runners share: the setup, the testbed, and facts about the testbed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import ClassVar, Generic

from pydantic import BaseModel

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure.hosts.contract import Host, Testbed
from perpacket.measure.hosts.processor_division import Division
from perpacket_lab.measure.host_files import QUICK_S
from perpacket_lab.measure.measured_run import MeasuredRun, SetupT
from perpacket_lab.measure.plan import ProfiledPlan, RunPlan, named, parameters_of, validated
from perpacket_lab.measure.programs import report_of, words_of
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import Run

PERF = "perf_cpu_wide"
"""The agent's name for sampling whole processors, which layers need."""

CONGESTION_CONTROL = "/proc/sys/net/ipv4/tcp_congestion_control"

PROCESSOR = ["sed", "-n", "s/^model name[[:space:]]*: *//p", "/proc/cpuinfo"]
"""Prints the name of each processor of a host, if the architecture has such names."""

CONNECTING_LATENCY_US = 1000.0
"""Latency of a new delayed testbed; every run sets its own."""


class HostRunner(Generic[SetupT]):
    """Prepares runs, and owns the setup that they share."""

    plan_type: ClassVar[type[BaseModel]]
    run_type: ClassVar[type[MeasuredRun]]  # type: ignore[type-arg]

    def __init__(self) -> None:
        """A runner without a setup."""
        self._setup: SetupT | None = None

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters that the points of this runner may have."""
        return parameters_of(self.plan_type)

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A run of that point; raises `ConfigurationError` for wrong parameters."""
        return self.run_type(point, validated(self.plan_type, point), seed, self.setup)

    def setup(self) -> SetupT:
        """The setup; raises `RunFailed` outside of `using`."""
        if self._setup is None:
            raise RunFailed("a measured run began without a testbed: this is a fault of perpacket")
        return self._setup

    @contextmanager
    def using(self, setup: SetupT) -> Iterator[None]:
        """Return `setup` to the runs inside the context."""
        self._setup = setup
        try:
            yield
        finally:
            self._setup = None


def open_testbed(
    plan: RunPlan, division: Division | None = None
) -> AbstractContextManager[Testbed]:
    """The testbed of a plan, which can add latency if the plan has a delayed network.

    On this machine, `division` has the processors of each side; `None` uses half for each.
    Raises `MachineLacks` if this machine cannot make the testbed.
    """
    from perpacket_lab.measure import hosts

    sysctls = {"net.ipv4.tcp_congestion_control": plan.congestion_control}
    latency_us = CONNECTING_LATENCY_US if plan.network == "delayed" else 0.0
    server = division.server if division else None
    clients = division.clients if division else None
    match plan.testbed:
        case "loopback":
            return hosts.loopback(server, clients)
        case "namespaces":
            return hosts.namespaces(
                one_way_latency_us=latency_us,
                server_cpus=server,
                client_cpus=clients,
                sysctls=sysctls,
            )
        case "ssh":
            return hosts.machines(plan.server_host, plan.client_hosts.split(","))
        case _:
            return hosts.best(
                one_way_latency_us=latency_us,
                server_cpus=server,
                client_cpus=clients,
                sysctls=sysctls,
            )


def check_agents(testbed: Testbed) -> None:
    """Raise `MachineLacks` when a host has no agent that runs.

    The caller checks this before the first run, because otherwise every run would fail.
    """
    for host in (testbed.server, *testbed.clients):
        host.agent()


def check_server_commands(server: Host, commands: Iterable[str]) -> None:
    """Raise `ConfigurationError` when the program of a server's command is missing.

    The caller checks this before the first run, because otherwise every run would fail.
    """
    for command in dict.fromkeys(commands):
        program = words_of(command)[0] if command else ""
        if not program or "{" in program:
            continue
        search = ["sh", "-c", 'command -v "$0"', program]
        if server.run(search, timeout_s=QUICK_S).returncode:
            raise ConfigurationError(
                f"{named('server.command')} {command}: there is no program {program} on "
                f"{server.name}",
                parameter="server.command",
                value=command,
                hint="install it there, or name the program by its path",
            )


def may_sample(known: ProbeResult, plans: Iterable[ProfiledPlan]) -> bool:
    """Whether the server's machine allows sampling; true if no plan depends on it."""
    return known.may_sample or all(plan.profile_events != "any" for plan in plans)


def identity(direct: Testbed, delayed: Testbed | None = None) -> dict[str, object]:
    """The facts that must be the same when a study resumes."""
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


def facts(
    direct: Testbed, known: ProbeResult, limits: Iterable[str] = (), delayed: Testbed | None = None
) -> dict[str, object]:
    """Other facts for the report: the limits of the testbeds, and what the server's machine lacks.

    `limits` are those of the study besides the testbed's.
    """
    own_limits = list(direct.limits)
    if delayed is not None:
        own_limits += [
            f"With added latency: {limit}" for limit in delayed.limits if limit not in own_limits
        ]
    return {
        "clients": len(direct.clients),
        "limits": [*own_limits, *limits],
        "could_not": known.sentences,
    }


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The missing capabilities of a machine."""

    lacking: Mapping[str, str]
    """The effect of each missing capability, by its name."""
    unknown: str = ""
    """The reason why nothing is known; runs then try everything."""

    @property
    def may_sample(self) -> bool:
        """Whether the machine's processors may be sampled; true if this is unknown."""
        return PERF not in self.lacking

    @property
    def sentences(self) -> list[str]:
        """The missing capabilities, as `name: effect`."""
        if self.unknown:
            return [f"the machine's capabilities are unknown: {self.unknown}"]
        return [f"{name}: {cost}" for name, cost in self.lacking.items()]


def probed(host: Host) -> ProbeResult:
    """The missing capabilities of a host; none when the probe fails."""
    try:
        return ProbeResult(capabilities_lacking(host))
    except (ConfigurationError, MachineLacks, RunFailed) as error:
        return ProbeResult({}, str(error))


def capabilities_lacking(host: Host) -> dict[str, str]:
    """The effect of each missing capability of a host; raises as `programs.report_of` does."""
    done = host.run([host.agent(), "probe", "--format", "json"], timeout_s=QUICK_S)
    capabilities = report_of("the probe", host, done).get("capabilities")
    return {
        str(capability.get("name")): str(
            capability.get("cost_of_lack") or capability.get("detail") or "not there"
        )
        for capability in (capabilities if isinstance(capabilities, list) else [])
        if isinstance(capability, dict) and capability.get("available") is False
    }


def _line(host: Host, command: list[str]) -> str | None:
    """The first line that a command prints; `None` if the command fails."""
    done = host.run(command, timeout_s=QUICK_S)
    return done.stdout.partition("\n")[0].strip() or None if done.returncode == 0 else None
