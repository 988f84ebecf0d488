"""The server's cost in a profile: the time of its own code, and of the stack on its behalf.

It is the time of all layers except `other` and `idle`. If the profile has a server (`--pid`), the
layer `other` has the user code of all other programs. This is the only definition: trials, advice,
comparisons, `--fail-if` and LAWS divide it by packets, and take shares of it.

A profile of an idle machine, or of one that other programs keep busy, shows no server's cost. Then
nothing can be concluded from it, and the verbs end with an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perpacket.errors import ConfigurationError, RunFailed
from perpacket.profile_document import ProfileDocument

OFF_PATH = "other"
"""The layer of other programs, and of kernel work of no layer."""

NETWORK_LAYERS = ("socket", "tcp", "udp", "ip", "ethernet", "driver", "interrupt")
"""The layers of communication: the stack, its driver and its interrupts."""

NOT_SERVER = (OFF_PATH, "idle")
"""The layers that are not the server's cost."""

LEAST_SHARE = 0.1
"""The least share of the server's cost in the busy time. With less, the profile is one of other
programs: their interrupts and context switches count in the layers of the kernel."""

LEAST_PROCESSORS = 0.05
"""The least busy processors of a server under load. An idle machine uses about 0.02 for timers and
for the profiler."""

HINT = "profile while the server is under load, name it (--pid), and stop other programs"


@dataclass(frozen=True, slots=True)
class ServerCost:
    """The server's cost in a profile, or in several windows."""

    server_s: float
    """Busy time of the server's layers."""
    busy_s: float
    """Busy time of all programs."""
    network_s: float
    """Busy time of `NETWORK_LAYERS`."""
    window_s: float
    """The length of the profile; 0 if it is not known."""

    @property
    def share(self) -> float:
        """The share of the server's cost in the busy time."""
        return self.server_s / self.busy_s if self.busy_s > 0 else 0.0

    @property
    def network_share(self) -> float:
        """The share of communication in the server's cost."""
        return self.network_s / self.server_s if self.server_s > 0 else 0.0

    @property
    def problem(self) -> str:
        """Why nothing can be concluded from the profile; empty if something can."""
        processors = self.server_s / self.window_s if self.window_s > 0 else math.inf
        if processors < LEAST_PROCESSORS:
            return (
                f"the server is idle: it and the stack use {100 * processors:.1f} % of a "
                f"processor, expected {100 * LEAST_PROCESSORS:g} % or more"
            )
        if self.share < LEAST_SHARE:
            return (
                f"{100 * (1 - self.share):.0f} % of the busy time is of other programs: the server "
                f"and the stack have {100 * self.share:.1f} %, expected {100 * LEAST_SHARE:g} % or "
                "more"
            )
        return ""

    def require_load(self, place: str) -> None:
        """Raise `RunFailed` if nothing can be concluded; `place` names the profile."""
        if self.problem:
            raise RunFailed(f"{place}: {self.problem}", HINT)


def of_layers(layers: Mapping[str, float], window_s: float = 0.0) -> ServerCost:
    """The cost from the busy time of each layer, in seconds; `window_s` is 0 if it is not known."""
    busy = {name: seconds for name, seconds in layers.items() if name != "idle"}
    own = {name: seconds for name, seconds in busy.items() if name not in NOT_SERVER}
    return ServerCost(
        math.fsum(own.values()),
        math.fsum(busy.values()),
        math.fsum(seconds for name, seconds in own.items() if name in NETWORK_LAYERS),
        window_s,
    )


def of_profiles(profiles: Iterable[ProfileDocument]) -> ServerCost | None:
    """The cost in profiles; None if one has no layers of time."""
    seconds: dict[str, float] = {}
    windows_s = 0.0
    for profile in profiles:
        if not profile.layers or "window_s" not in profile.model_fields_set:
            return None
        for name, layer in profile.layers.items():
            if layer.cpu_s is None:
                return None
            seconds[name] = seconds.get(name, 0.0) + layer.cpu_s
        windows_s += profile.window_s
    return of_layers(seconds, windows_s) if seconds else None


def of_documents(documents: Iterable[Mapping[str, object]]) -> ServerCost | None:
    """The cost in documents of `perpacket profile`; None if one has no layers of time."""
    try:
        return of_profiles([ProfileDocument.parse(document) for document in documents])
    except ConfigurationError:
        return None


def of_profile(profile: ProfileDocument, place: str) -> ServerCost:
    """The cost in one profile; only its shares are known in a profile without times.

    *Communication Breakdown* counts the stack and the driver as communication. It counts system
    calls and the copy between user and socket as the application's work, but a profile counts the
    copy in `socket`. Raises `ConfigurationError` naming `place` when the profile has no layers.
    """
    profile.require_layers(place)
    shares = {name: layer.share or 0.0 for name, layer in profile.layers.items()}
    return of_profiles([profile]) or of_layers(shares)
