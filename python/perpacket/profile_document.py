"""A profile as `perpacket profile --format json` prints it, parsed once where it enters.

A later agent may print more keys: unknown keys are kept in `document`. A key that this agent did
not measure is null or absent, and None here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perpacket.errors import ConfigurationError
from perpacket.validation import problem_text

HINT = "make a profile with `perpacket profile --format json`"


class Section(BaseModel):
    """A table of the document."""

    model_config = ConfigDict(strict=True, frozen=True)


class Cost(Section):
    """The processor time of a layer, kind of work or part, with further counts if measured."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")
    cpu_s: float | None = None
    share: float | None = None
    """Share of the busy time, with the ends of its interval of 95 % within the profile."""
    low: float | None = None
    high: float | None = None
    cpu_ns_per_packet: float | None = None
    cycles_per_packet: float | None = None
    instructions_per_packet: float | None = None

    def per_packet(self, measure: str) -> float:
        """The cost of a packet in a measure, such as `cpu_ns`; 0 if it was not measured."""
        return float(getattr(self, f"{measure}_per_packet") or 0.0)


class TwoWays(Section):
    """Counts of packets or bytes in both directions."""

    sent: float | None = None
    received: float | None = None
    segments_sent: float | None = None
    segments_received: float | None = None

    @property
    def both(self) -> float:
        """Sent and received."""
        return (self.sent or 0.0) + (self.received or 0.0)

    @property
    def segments(self) -> float:
        """Segments sent and received."""
        return (self.segments_sent or 0.0) + (self.segments_received or 0.0)


class ProcessorLoad(Section):
    """One processor: its time and its packets."""

    cpu: int
    run_share: float | None = None
    softirq_share: float | None = None
    packets: float | None = None
    packet_share: float | None = None
    cpu_ns_per_packet: float | None = None
    drops: float | None = None


class Parts(Section):
    """The server's user code by part of the application."""

    costs: dict[str, Cost] = Field(default_factory=dict)


class Closure(Section):
    """Busy time by the samples."""

    profile_cpu_s: float | None = None


class ProfileDocument(Section):
    """One profile, or one window of `--every`."""

    document: Mapping[str, object] = Field(repr=False)
    """The whole document."""
    window_s: float = 0.0
    """The length of the profile; 0 if it is not known."""
    backend: str | None = None
    packets: TwoWays = TwoWays()
    bytes: TwoWays = TwoWays()
    requests: float | None = None
    """Answered requests; None if they were not counted."""
    total: Cost = Cost()
    layers: dict[str, Cost] = Field(default_factory=dict)
    kinds: dict[str, Cost] = Field(default_factory=dict)
    layer_kinds: dict[str, dict[str, float]] = Field(default_factory=dict)
    """The share of the busy time of each layer and kind of work."""
    parts: Parts | None = None
    cpus: list[int] = Field(default_factory=list)
    processors: list[ProcessorLoad] = Field(default_factory=list)
    closure: Closure | None = None
    findings: list[str] = Field(default_factory=list)
    limits: list[str] = Field(default_factory=list)

    @classmethod
    def parse(cls, document: Mapping[str, object], place: str = "the profile") -> Self:
        """The profile in a JSON object; raises `ConfigurationError` naming `place` and the key."""
        try:
            return cls.model_validate({**document, "document": document})
        except ValidationError as error:
            raise ConfigurationError(f"{place}: {problem_text(error)}", hint=HINT) from None

    def require_layers(self, place: str) -> None:
        """Raise `ConfigurationError` if the profile has no layers."""
        if not self.layers:
            raise ConfigurationError(f"{place}: expected layers", hint=HINT)

    def part_share(self, part: str, place: str) -> float:
        """The share of busy time in a part of an application, as a fraction.

        Raises `ConfigurationError` naming `place` when the profile has no such part.
        """
        costs = self.parts.costs if self.parts is not None else {}
        share = costs[part].share if part in costs else None
        if share is None:
            raise ConfigurationError(
                f"{place}: no part {part!r}; there are {', '.join(costs) or 'no parts'}",
                hint="make a profile with `perpacket profile --application NAME --format json`",
            )
        return share


def read_object(file: Path, place: str) -> Mapping[str, object]:
    """A JSON object; raises `ConfigurationError` when it is invalid. `place` is its name."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{place}: cannot be read: {reason}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{place}: expected a JSON object")
    return content


def read_profile(file: Path, place: str) -> ProfileDocument:
    """The profile in a file; raises `ConfigurationError` when it is none. `place` is its name."""
    return ProfileDocument.parse(read_object(file, place), place)
