"""Plans: the parameters of one run, read from its point.

A point stores its parameters as text, so `config.toml` describes a run completely and a resumed
study runs with the same values.
"""

from __future__ import annotations

from typing import Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from perpacket.errors import ConfigurationError
from perpacket_lab.study.parameters import OPTIONS
from perpacket_lab.study.point import Point

ModelT = TypeVar("ModelT", bound=BaseModel)
ProfiledT = TypeVar("ProfiledT", bound="ProfiledPlan")

NetworkKind = Literal["direct", "delayed"]
EventsKind = Literal["best", "clock", "counters", "misses", "accounts", "any"]
TestbedKind = Literal["auto", "loopback", "namespaces", "ssh"]

LEAD_S = 0.1
"""Time between the warm-up and the profile, in which the load's own window begins."""

TAIL_S = 30.0
"""The load's time limit is this much longer than the profile, because a busy machine may start the
profile late. The run stops the load when the profile is complete."""

OVERHEAD_S = 0.6
"""Approximate time to start and stop the programs, for the estimate of the remaining time."""


class ProfiledPlan(BaseModel):
    """The times and the profile of a run; the alias is the name in the point."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    congestion_control: str = Field(alias="network.congestion_control", default="reno")
    """Only hosts with network namespaces get this setting; others use the machine's. The published
    machines had Reno, and every kernel allows Reno in a network namespace."""
    duration_s: float = Field(alias="run.duration_s", default=4.0, gt=0, allow_inf_nan=False)
    warmup_s: float = Field(alias="run.warmup_s", default=1.0, ge=0, allow_inf_nan=False)
    profile_frequency_hz: int = Field(alias="profile.frequency_hz", default=499, ge=1, le=20_000)
    """Higher than for a server in production, because short runs need more samples. In a virtual
    machine, sampling adds some per cent to the cost of every point."""
    profile_events: EventsKind = Field(alias="profile.events", default="best")
    """`accounts` needs no perf, and has user, kernel and interrupt time but no layers. `any` is for
    studies that need no layers: it means `best` if perf is allowed, else `accounts`. `misses` needs
    performance counters."""

    @property
    def window_s(self) -> float:
        """Length of the measured window."""
        return self.duration_s

    @property
    def load_s(self) -> float:
        """The load's time limit after its warm-up."""
        return LEAD_S + self.window_s + TAIL_S

    @property
    def expected_s(self) -> float:
        """Approximate time of the run."""
        return self.warmup_s + LEAD_S + self.window_s + OVERHEAD_S


class RunPlan(ProfiledPlan):
    """The hosts of a run with one server and its clients."""

    network: NetworkKind = Field(alias="network.kind", default="direct")
    """In a study of latency, points without latency use the delayed network too. Otherwise they
    would differ from the other points in more than latency."""
    testbed: TestbedKind = Field(alias="testbed.kind", default="auto")
    server_host: str = Field(alias="testbed.server_host", default="")
    client_hosts: str = Field(alias="testbed.client_hosts", default="")
    """Machines as `user@host`, separated by commas."""

    @model_validator(mode="after")
    def has_hosts(self) -> Self:
        """Check that server and clients are named together, and only for `ssh`."""
        host, clients = named("testbed.server_host"), named("testbed.client_hosts")
        if (self.testbed == "ssh") != bool(self.server_host):
            raise ValueError(f"expected {host} for {named('testbed.kind')} ssh, and only for it")
        if bool(self.server_host) != bool(self.client_hosts):
            raise ValueError(f"expected {host} and {clients} together, or neither")
        return self


def named(parameter: str) -> str:
    """A parameter's name for messages: `--duration (run.duration_s)` if it has an option."""
    option = OPTIONS.get(parameter)
    return f"{option} ({parameter})" if option else parameter


def with_available_events(plan: ProfiledT, may_sample: bool) -> ProfiledT:
    """The plan with `any` replaced by the best events that the server's machine can sample."""
    if plan.profile_events != "any":
        return plan
    events: EventsKind = "best" if may_sample else "accounts"
    return plan.model_copy(update={"profile_events": events})


def parameters_of(model: type[BaseModel]) -> frozenset[str]:
    """The parameters that a plan has."""
    return frozenset(str(field.alias) for field in model.model_fields.values())


def validated(model: type[ModelT], point: Point) -> ModelT:
    """The plan of a point; a later value of a parameter replaces an earlier one.

    Raises `ConfigurationError` naming the parameter and what was expected.
    """
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
            hint="`perpacket study run --help` lists the parameters",
        ) from None
