"""What one measured run is asked for, read from the parameters of its point.

A point holds its parameters as text, as every study does, so that `config.toml` is the whole truth
about a run and a resumed study asks for the same again.
"""

from __future__ import annotations

from typing import Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from perpacket.errors import ConfigurationError
from perpacket.study.parameters import OPTIONS
from perpacket.study.point import Point

P = TypeVar("P", bound="RunPlan")
ModelT = TypeVar("ModelT", bound=BaseModel)

LoadKind = Literal["stream", "file", "trace", "specweb99", "surge"]
NetworkKind = Literal["direct", "delayed"]
EventsKind = Literal["best", "clock", "counters", "accounts", "any"]
TestbedKind = Literal["auto", "loopback", "namespaces", "ssh"]
ServerKind = Literal["perpacket", "nginx", "apache"]

SEGMENT_BYTES = 1460
"""Segments of the bulk sender: TR05-450, section 5.1."""

LEAD_S = 0.1
"""Time between the warm-up and the profile: the load starts within it."""

TAIL_S = 30.0
"""The load could outlast the profile by this: it is stopped when the profile is complete, so that
the whole profile sees load however late a busy machine begins it."""

OVERHEAD_S = 0.6
"""About what starting and stopping the programs takes; the time to go counts it."""


class RunPlan(BaseModel):
    """Hosts, times and profile of a run of any kind; the alias is the name in the point."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    network: NetworkKind = Field(alias="network.kind", default="direct")
    """Points along latency all go through what adds it, those without any too: else the first of
    them would differ from the others in more than latency."""
    congestion_control: str = Field(alias="network.congestion_control", default="reno")
    """Set where the hosts have networks of their own; elsewhere the machine's stays. Reno is what
    the published machines had, and what every kernel lets a network namespace have."""
    testbed: TestbedKind = Field(alias="testbed.kind", default="auto")
    server_host: str = Field(alias="testbed.server_host", default="")
    client_hosts: str = Field(alias="testbed.client_hosts", default="")
    """Machines by commas, as `user@host`."""
    duration_s: float = Field(alias="run.duration_s", default=4.0, gt=0, allow_inf_nan=False)
    warmup_s: float = Field(alias="run.warmup_s", default=1.0, ge=0, allow_inf_nan=False)
    profile_frequency_hz: int = Field(alias="profile.frequency_hz", default=499, ge=1, le=20_000)
    """More than a live server is asked to bear: it makes every point dearer alike, by some per cent
    in virtual machines, and short runs need the samples."""
    profile_events: EventsKind = Field(alias="profile.events", default="best")
    """`accounts` where perf is forbidden: user, kernel and interrupt time, and no layers; `any` is
    `best` where perf is allowed and `accounts` elsewhere, for studies that need no layers."""

    @model_validator(mode="after")
    def has_hosts(self) -> Self:
        """Hosts are named together, and for machines reached over ssh alone."""
        host, clients = named("testbed.server_host"), named("testbed.client_hosts")
        if (self.testbed == "ssh") != bool(self.server_host):
            raise ValueError(f"expected {host} for {named('testbed.kind')} ssh, and only for it")
        if bool(self.server_host) != bool(self.client_hosts):
            raise ValueError(f"expected {host} and {clients} together, or neither")
        return self


class Plan(RunPlan):
    """A run of a web server or the bulk sender."""

    kind: LoadKind = Field(alias="load.kind")
    connections: int = Field(alias="load.connections", default=1, ge=1)
    rate_mbps: float = Field(alias="load.rate_mbps", default=0, ge=0)
    size_bytes: int = Field(alias="load.size_bytes", default=0, ge=0)
    users: int = Field(alias="load.users", default=0, ge=0)
    keep_alive: bool = Field(alias="load.keep_alive", default=True)
    file_set_connections: int = Field(alias="load.file_set_connections", default=0, ge=0)
    trace: str = Field(alias="load.trace", default="")
    """A recorded trace; empty for a synthesized one."""
    trace_requests: int = Field(alias="load.trace_requests", default=200_000, ge=1)
    latency_ms: float = Field(alias="network.latency_ms", default=0, ge=0)
    """Added one way."""
    duration_factor: float = Field(alias="run.stretch", default=1.0, ge=1, allow_inf_nan=False)
    """How many times longer than others a load must be watched that thinks between requests."""
    server_command: str = Field(alias="server.command", default="")
    """Another server than `serve web`; `{root}`, `{address}` and `{cpus}` are filled in."""
    server_url: str = Field(alias="server.url", default="")
    server_kind: ServerKind = Field(alias="server.kind", default="perpacket")
    """nginx and Apache are configured and started by us: see `perpacket.measure.web.peers`."""
    server_threads: int = Field(alias="server.threads", default=0, ge=0)
    """Threads or processes in the pool of `serve web`; 0 for its own default."""
    architecture: str = Field(alias="server.architecture", default="events")

    @model_validator(mode="after")
    def is_whole(self) -> Self:
        """Parameters that need each other are there together."""
        if bool(self.server_command) != bool(self.server_url):
            raise ValueError(
                f"expected {named('server.command')} and {named('server.url')} together, or neither"
            )
        if self.server_command and self.server_kind != "perpacket":
            raise ValueError(
                f"{named('server.command')} and server.kind {self.server_kind} exclude each other: "
                "this study has servers of its own"
            )
        if self.latency_ms and self.network == "direct":
            raise ValueError("expected network.kind delayed where network.latency_ms is not 0")
        if self.kind == "surge" and not self.users:
            raise ValueError("expected load.users of 1 or more for a Surge load")
        return self

    @property
    def is_web(self) -> bool:
        """Whether a web server is under test; else the bulk sender is."""
        return self.kind != "stream"

    @property
    def is_foreign(self) -> bool:
        """Whether the server under test is not ours."""
        return self.is_web and (bool(self.server_command) or self.server_kind != "perpacket")

    @property
    def window_s(self) -> float:
        """How long is measured."""
        return self.duration_s * self.duration_factor

    @property
    def load_s(self) -> float:
        """How long the load would run after its warm-up."""
        return LEAD_S + self.window_s + TAIL_S

    @property
    def expected_s(self) -> float:
        """About how long the run takes."""
        return self.warmup_s + LEAD_S + self.window_s + OVERHEAD_S


def named(parameter: str) -> str:
    """A parameter as the user knows it: `--duration (run.duration_s)` where it has an option."""
    option = OPTIONS.get(parameter)
    return f"{option} ({parameter})" if option else parameter


def read_plan(point: Point) -> Plan:
    """The plan of a point; later parameters win.

    Raises `ConfigurationError` naming the parameter and what was expected.
    """
    return validated(Plan, point)


def with_available_events(plan: P, may_sample: bool) -> P:
    """The plan with the events that the server's machine can sample."""
    events = available_events(plan.profile_events, may_sample)
    return plan.model_copy(update={"profile_events": events})


def available_events(events: EventsKind, may_sample: bool) -> EventsKind:
    """`events`, with `any` replaced by the best that the machine allows."""
    if events != "any":
        return events
    return "best" if may_sample else "accounts"


def parameters_of(model: type[BaseModel]) -> frozenset[str]:
    """The parameters that a plan has."""
    return frozenset(str(field.alias) for field in model.model_fields.values())


def validated(model: type[ModelT], point: Point) -> ModelT:
    """The parameters of a point as `model` reads them; raises as `read_plan` does."""
    try:
        return model.model_validate(dict(point.overrides))
    except ValidationError as error:
        problem = error.errors()[0]
        name = ".".join(str(part) for part in problem["loc"])
        text = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            text = "the runs of this study have no such parameter"
        value = dict(point.overrides).get(name, "")
        raise ConfigurationError(
            f"point {point.name}: {named(name)} = {value}: {text}" if name else text,
            parameter=name,
            value=value,
            hint="`perpacket study run --help` lists what can be set",
        ) from None
