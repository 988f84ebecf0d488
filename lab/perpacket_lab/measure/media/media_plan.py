"""The parameters of a run of a media server."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from perpacket_lab.measure.plan import LEAD_S, EventsKind, RunPlan, named

Distribution = Literal["unique", "multiple"]
Buffering = Literal["unbuffered", "single", "double", "shared", "mapped"]

ServerKind = Literal["perpacket", "gstreamer"]

CLIENTS_PER_S = 1500
"""Rate at which clients start: each sends three requests before it plays."""

RAMP_LEAST_S = 0.5

MARGIN_S = 6.0
"""Extra length of the media. Programs start late on a busy machine, and a medium that starts again
from its beginning is already in memory."""


class MediaPlan(RunPlan):
    """A run of a media server."""

    clients: int = Field(alias="media.clients", ge=1, le=100_000)
    rate_bps: int = Field(alias="media.rate_bps", ge=1_000, le=1_000_000_000)
    """Rate of each stream without headers."""
    distribution: Distribution = Field(alias="media.distribution", default="unique")
    most_files: int = Field(alias="media.most_files", default=1000, ge=1, le=100_000)
    """Largest number of media of `multiple`. If there are more clients, they share these."""
    buffering: Buffering = Field(alias="server.buffering", default="shared")
    buffer_packets: int = Field(alias="server.buffer_packets", default=10, ge=1, le=10_000)
    server_kind: ServerKind = Field(alias="server.kind", default="perpacket")
    server_command: str = Field(alias="server.command", default="")
    """The command of another RTSP server; `{root}`, `{address}` and `{cpus}` are replaced."""
    server_url: str = Field(alias="server.url", default="")
    """The URL below which that server serves the files of `{root}`."""
    readers: int = Field(alias="server.readers", default=256, ge=1, le=1024)
    """Concurrent reads of `shared` and `mapped`. In the other kinds, each stream reads for
    itself: with fewer readers here, a slow disk would favour the other kinds."""
    read_ms: float = Field(alias="disk.read_ms", default=0, ge=0, le=10_000)
    """Delay added to each read of `serve media` from a disk that is faster than this."""
    disk_rate_mbps: float = Field(alias="disk.rate_mbps", default=0, ge=0, le=100_000)
    """Rate of an emulated disk that serves one read of `serve media` after another; 0: any number
    at once."""
    memory_share: float = Field(alias="disk.memory_share", default=0.25, gt=0, le=1)
    """Memory for media in `multiple`, as a share of the size of all media of the run."""
    profile_events: EventsKind = Field(alias="profile.events", default="any")
    profile_frequency_hz: int = Field(alias="profile.frequency_hz", default=97, ge=1, le=20_000)

    @model_validator(mode="after")
    def has_no_delay(self) -> Self:
        """Raise an error for latency, which would only shift streams that a clock paces."""
        if self.network == "delayed":
            raise ValueError("expected network.kind direct: a study of media has no latency")
        return self

    @model_validator(mode="after")
    def has_a_url(self) -> Self:
        """Check that command and URL of another server are named together."""
        if bool(self.server_command) != bool(self.server_url):
            raise ValueError(
                f"expected {named('server.command')} and {named('server.url')} together, or neither"
            )
        return self

    @property
    def is_foreign(self) -> bool:
        """Whether the server under test is another one than `serve media`."""
        return bool(self.server_command) or self.server_kind != "perpacket"

    @property
    def files(self) -> int:
        """Number of media."""
        return 1 if self.distribution == "unique" else min(self.clients, self.most_files)

    @property
    def ramp_s(self) -> float:
        """The time in which all clients start."""
        return max(RAMP_LEAST_S, self.clients / CLIENTS_PER_S)

    @property
    def medium_s(self) -> float:
        """Length of each medium."""
        return self.ramp_s + self.warmup_s + LEAD_S + self.window_s + MARGIN_S

    @property
    def media_bytes(self) -> int:
        """Size of all media of the run."""
        return round(self.files * self.rate_bps / 8 * self.medium_s)

    @property
    def cache_bytes(self) -> int:
        """Memory of the server for media in `multiple`."""
        return round(self.memory_share * self.media_bytes)

    @property
    def expected_s(self) -> float:
        """Approximate time of the run."""
        return self.ramp_s + super().expected_s
