"""What one run through the router is asked for, and which host sends to which.

Eight traffic configurations, of Isa 2003, section 4.6: one to one, two pairs, a tree from host 0,
and a ring; odd numbers are simplex, even ones the same in both directions at once.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from perpacket.measure.web.plan import LEAD_S, OVERHEAD_S, TAIL_S, EventsKind

LoadKind = Literal["tcp", "search", "loss"]
PlaneKind = Literal["kernel", "xdp"]

HOSTS = 4

ONE_WAY = {
    1: ((0, 1),),
    3: ((0, 1), (2, 3)),
    5: ((0, 1), (0, 2), (0, 3)),
    7: ((0, 1), (1, 2), (2, 3), (3, 0)),
}
"""Sender and receiver of each flow of the simplex configurations."""

MOST_CONFIGURATION = 8

TRIALS = 13
"""About as many trials a search makes at the resolutions that are used here."""

TRIAL_OVERHEAD_S = 0.27
"""Time of a trial of a search besides sending, about: silence, and setting up live frames."""

LOSS_OVERHEAD_S = 0.5
"""Time of a run of one trial besides sending, about: starting and stopping the programs."""

FIRST_TCP_PORT = 5001


def flows(configuration: int) -> tuple[tuple[int, int], ...]:
    """Which host sends to which, by their numbers."""
    one_way = ONE_WAY[configuration - (configuration + 1) % 2]
    if configuration % 2:
        return one_way
    return one_way + tuple((receiver, sender) for sender, receiver in one_way)


class RouterPlan(BaseModel):
    """One run's parameters; the alias is the name in the point."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    kind: LoadKind = Field(alias="load.kind")
    configuration: int = Field(alias="router.configuration", default=1, ge=1, le=MOST_CONFIGURATION)
    plane: PlaneKind = Field(alias="router.plane", default="kernel")
    message_bytes: int = Field(alias="load.message_bytes", default=65_536, ge=1, le=65_536)
    """Bytes that a sender writes at a time, nothing held back."""
    frame_bytes: int = Field(alias="load.frame_bytes", default=64, ge=64, le=1518)
    """Bytes of a UDP frame with its check sequence."""
    congestion_control: str = Field(alias="network.congestion_control", default="reno")
    duration_s: float = Field(alias="run.duration_s", default=2.0, gt=0, allow_inf_nan=False)
    warmup_s: float = Field(alias="run.warmup_s", default=0.5, ge=0, allow_inf_nan=False)
    rate_pps: int = Field(alias="load.rate_pps", default=100_000, ge=1)
    """Frames a second that a trial of the loss offers."""
    trial_s: float = Field(alias="search.trial_s", default=0.5, gt=0, allow_inf_nan=False)
    resolution: float = Field(alias="search.resolution", default=0.05, gt=0, lt=1)
    """The search ends when rates with and without loss are this share apart."""
    tolerated_loss: float = Field(alias="search.tolerated_loss", default=0.0, ge=0, lt=1)
    """Share of frames that may be lost; RFC 2544 has none."""
    testbed: Literal["auto", "namespaces"] = Field(alias="testbed.kind", default="auto")
    profile_frequency_hz: int = Field(alias="profile.frequency_hz", default=499, ge=1, le=20_000)
    profile_events: EventsKind = Field(alias="profile.events", default="any")
    """`any` is `best` where perf is allowed; elsewhere the kernel's accounts, without layers."""

    @property
    def flows(self) -> tuple[tuple[int, int], ...]:
        """Which host sends to which."""
        return flows(self.configuration)

    @property
    def load_s(self) -> float:
        """How long a sender would run after its warm-up."""
        return LEAD_S + self.duration_s + TAIL_S

    @property
    def expected_s(self) -> float:
        """About how long the run takes."""
        if self.kind == "loss":
            return self.trial_s + LOSS_OVERHEAD_S
        if self.kind == "search":
            return TRIALS * (self.trial_s + TRIAL_OVERHEAD_S)
        return self.warmup_s + LEAD_S + self.duration_s + OVERHEAD_S
