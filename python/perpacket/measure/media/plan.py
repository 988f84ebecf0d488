"""What one run of a media server is asked for, read from the parameters of its point."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from perpacket.measure.web.plan import LEAD_S, TAIL_S, EventsKind, RunPlan, validated
from perpacket.study.point import Point

Distribution = Literal["unique", "multiple"]
Buffering = Literal["single", "double", "shared", "mapped"]

CLIENTS_PER_S = 1500
"""How fast clients may begin: each asks three times before it plays."""

RAMP_LEAST_S = 0.5

MARGIN_S = 6.0
"""Media last so much longer than a run, whose programs may be slow to start on a busy machine: a
medium that is played again from its start is in memory already."""

OVERHEAD_S = 0.6
"""What dropping the files, starting and stopping the programs takes, about."""


class MediaPlan(RunPlan):
    """A run of a media server."""

    clients: int = Field(alias="media.clients", ge=1, le=100_000)
    rate_bps: int = Field(alias="media.rate_bps", ge=1_000, le=1_000_000_000)
    """Of each stream, headers not counted."""
    distribution: Distribution = Field(alias="media.distribution", default="unique")
    most_files: int = Field(alias="media.most_files", default=1000, ge=1, le=100_000)
    """Media there are at most in `multiple`; more clients share them."""
    buffering: Buffering = Field(alias="server.buffering", default="shared")
    buffer_packets: int = Field(alias="server.buffer_packets", default=10, ge=1, le=10_000)
    readers: int = Field(alias="server.readers", default=256, ge=1, le=1024)
    """Reads at once of `shared` and `mapped`; with fewer a slow disk would serve the other two
    better, whose streams all read by themselves."""
    read_ms: float = Field(alias="disk.read_ms", default=0, ge=0, le=10_000)
    """What a read from the disk is to take: on a faster disk, each takes so much longer."""
    memory_share: float = Field(alias="disk.memory_share", default=0.25, gt=0, le=1)
    """Memory for media, in parts of what all media of the run take, in `multiple`."""
    profile_events: EventsKind = Field(alias="profile.events", default="any")
    profile_frequency_hz: int = Field(alias="profile.frequency_hz", default=97, ge=1, le=20_000)

    @model_validator(mode="after")
    def has_no_delay(self) -> Self:
        """Streams are paced by their own clock: latency moves them and changes nothing."""
        if self.network == "delayed":
            raise ValueError("expected network.kind direct: media are not run along latency")
        return self

    @property
    def files(self) -> int:
        """How many media are played."""
        return 1 if self.distribution == "unique" else min(self.clients, self.most_files)

    @property
    def ramp_s(self) -> float:
        """The time over which clients begin."""
        return max(RAMP_LEAST_S, self.clients / CLIENTS_PER_S)

    @property
    def window_s(self) -> float:
        """How long is measured."""
        return self.duration_s

    @property
    def load_s(self) -> float:
        """How long the clients would play after their warm-up: they are stopped before."""
        return LEAD_S + self.window_s + TAIL_S

    @property
    def medium_s(self) -> float:
        """How long each medium lasts."""
        return self.ramp_s + self.warmup_s + LEAD_S + self.window_s + MARGIN_S

    @property
    def media_bytes(self) -> int:
        """What the media of the run take together."""
        return round(self.files * self.rate_bps / 8 * self.medium_s)

    @property
    def cache_bytes(self) -> int:
        """Memory for media that the server is given in `multiple`."""
        return round(self.memory_share * self.media_bytes)

    @property
    def expected_s(self) -> float:
        """About how long the run takes."""
        return self.ramp_s + self.warmup_s + LEAD_S + self.window_s + OVERHEAD_S


def read_media_plan(point: Point) -> MediaPlan:
    """The plan of a point; later parameters win.

    Raises `ConfigurationError` naming the parameter and what was expected.
    """
    return validated(MediaPlan, point)
