"""The parameters of a run through the router, and the flows between its hosts.

The eight traffic configurations of Isa 2003, section 4.6: one to one, two pairs, a tree from host
0, and a ring. Odd numbers are simplex; even numbers have the same flows in both directions at once.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from perpacket_lab.measure.plan import EventsKind, RunPlan, named

LoadKind = Literal["tcp", "search", "loss"]
PlaneKind = Literal["kernel", "xdp"]
RoutesKind = Literal["static", "rip"]
ProcessorsKind = Literal["divided", "one", "pairs"]

HOSTS = 4

MOST_INJECTED = 250
"""Each injected network is a /24 of 10.79.0.0/16."""

ONE_WAY = {
    1: ((0, 1),),
    3: ((0, 1), (2, 3)),
    5: ((0, 1), (0, 2), (0, 3)),
    7: ((0, 1), (1, 2), (2, 3), (3, 0)),
}
"""Sender and receiver of each flow of the simplex configurations."""

MOST_CONFIGURATION = 8

CROSS = (3, 1)
"""Sender and receiver of the cross traffic: a path that no configuration has, from the last host of
the second pair to the last of the first."""

TRIALS = 13
"""Approximate number of trials of a search at the resolutions of the studies."""

TRIAL_OVERHEAD_S = 0.27
"""Approximate time of a trial of a search besides sending: a pause, and setting up live frames."""

RIP_S = 0.5
"""Approximate time for RIP to spread its routes, and to end."""

LOSS_OVERHEAD_S = 0.5
"""Approximate time of a run of one trial besides sending: starting and stopping the programs."""

FIRST_TCP_PORT = 5001


def flows(configuration: int) -> tuple[tuple[int, int], ...]:
    """The numbers of the sending and receiving hosts of each flow."""
    one_way = ONE_WAY[configuration - (configuration + 1) % 2]
    if configuration % 2:
        return one_way
    return one_way + tuple((receiver, sender) for sender, receiver in one_way)


class RouterPlan(RunPlan):
    """A run through the router."""

    kind: LoadKind = Field(alias="load.kind")
    configuration: int = Field(alias="router.configuration", default=1, ge=1, le=MOST_CONFIGURATION)
    plane: PlaneKind = Field(alias="router.plane", default="kernel")
    routes: RoutesKind = Field(alias="router.routes", default="static")
    """`rip`: the flows are between the networks behind the hosts, which RIP spreads."""
    injected: int = Field(alias="router.injected_routes", default=100, ge=0, le=MOST_INJECTED)
    """Networks that host 0 announces by RIP besides its own."""
    processors: ProcessorsKind = Field(alias="router.processors", default="divided")
    """`divided`: the router on its processors, the hosts on theirs. `one`: the router and all
    hosts on the first processor. `pairs`: hosts 0 and 1 with their ports on the first, hosts 2 and
    3 with theirs on the second."""
    message_bytes: int = Field(alias="load.message_bytes", default=65_536, ge=1, le=65_536)
    """Bytes of each write of a sender, which sets TCP_NODELAY."""
    frame_bytes: int = Field(alias="load.frame_bytes", default=64, ge=64, le=1518)
    """Bytes of a UDP frame with its check sequence."""
    cross_bps: int = Field(alias="cross.rate_bps", default=0, ge=0)
    """Payload rate of the cross traffic, in both directions in duplex configurations."""
    duration_s: float = Field(alias="run.duration_s", default=2.0, gt=0, allow_inf_nan=False)
    warmup_s: float = Field(alias="run.warmup_s", default=0.5, ge=0, allow_inf_nan=False)
    rate_pps: int = Field(alias="load.rate_pps", default=100_000, ge=1)
    """Offered frames per second of the trial that measures the loss (`load.kind` is `loss`)."""
    trial_s: float = Field(alias="search.trial_s", default=0.5, gt=0, allow_inf_nan=False)
    resolution: float = Field(alias="search.resolution", default=0.05, gt=0, lt=1)
    """The search ends when rates with and without loss are this share apart."""
    tolerated_loss: float = Field(alias="search.tolerated_loss", default=0.0, ge=0, lt=1)
    """Share of frames that may be lost; 0 in RFC 2544."""
    network: Literal["direct"] = Field(alias="network.kind", default="direct")
    testbed: Literal["auto", "namespaces", "ssh"] = Field(alias="testbed.kind", default="auto")
    addresses: str = Field(alias="router.addresses", default="")
    """Over ssh, the address of each host in the network that it shares with the router, separated
    by commas; by default the name by which ssh reaches it."""
    profile_events: EventsKind = Field(alias="profile.events", default="any")

    @model_validator(mode="after")
    def has_four_machines(self) -> Self:
        """Over ssh there is a machine for each host, and an address for each or for none."""
        for name, text in (
            ("testbed.client_hosts", self.client_hosts),
            ("router.addresses", self.addresses),
        ):
            if text and len(text.split(",")) != HOSTS:
                raise ValueError(f"expected {HOSTS} hosts in {named(name)}, not {text}")
        if self.addresses and self.testbed != "ssh":
            raise ValueError("expected router.addresses only with testbed.kind ssh")
        return self

    @property
    def flows(self) -> tuple[tuple[int, int], ...]:
        """The sending and receiving host of each flow."""
        return flows(self.configuration)

    @property
    def cross_flows(self) -> tuple[tuple[int, int], ...]:
        """The flows of the cross traffic."""
        if not self.cross_bps:
            return ()
        return (CROSS,) if self.configuration % 2 else (CROSS, CROSS[::-1])

    @model_validator(mode="after")
    def has_a_load_for_its_routes(self) -> Self:
        """Check the options that only bulk TCP over the kernel's plane has.

        They are RIP, cross traffic, and other processors than `divided`. With other processors,
        every flow must also stay within a pair of hosts.
        """
        plain = self.routes == "static" and self.processors == "divided" and not self.cross_bps
        if not plain and (self.kind != "tcp" or self.plane != "kernel"):
            raise ValueError(
                "RIP, cross traffic and router.processors other than divided: expected load.kind "
                "tcp and router.plane kernel"
            )
        within_pairs = {0, 1}, {2, 3}
        if self.processors != "divided" and not all(
            any(set(flow) <= pair for pair in within_pairs)
            for flow in (*self.flows, *self.cross_flows)
        ):
            raise ValueError(f"router.processors {self.processors}: expected flows within pairs")
        return self

    @property
    def expected_s(self) -> float:
        """Approximate time of the run."""
        if self.kind == "loss":
            return self.trial_s + LOSS_OVERHEAD_S
        if self.kind == "search":
            return TRIALS * (self.trial_s + TRIAL_OVERHEAD_S)
        return super().expected_s + (RIP_S if self.routes == "rip" else 0.0)
