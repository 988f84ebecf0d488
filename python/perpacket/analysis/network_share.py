"""Reads the inputs of models from a profile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from perpacket.errors import ConfigurationError

NETWORK_LAYERS = ("socket", "tcp", "udp", "ip", "ethernet", "driver", "interrupt")
"""Layers that count as communication: the stack, its driver and its interrupts.

*Communication Breakdown* counts the stack and the driver. It counts system calls and the copy
between user and socket as the application's work, but a profile counts the copy in `socket`.
"""


def read_document(file: Path, place: str) -> Mapping[str, object]:
    """A JSON document; raises `ConfigurationError` when it is invalid. `place` is its name."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{place}: cannot be read: {reason}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{place}: expected a JSON object")
    return content


def network_share(profile: Mapping[str, object], place: str) -> float:
    """Share of busy CPU time in the network layers, as a fraction, from a profile document.

    `place` names the document in errors. Raises `ConfigurationError` when it has no layers.
    """
    layers = profile.get("layers")
    if not isinstance(layers, Mapping) or not layers:
        raise ConfigurationError(
            f"{place}: expected layers",
            hint="make a profile with `perpacket profile --format json`",
        )
    share = 0.0
    for name in NETWORK_LAYERS:
        layer = layers.get(name, {})
        value = layer.get("share", 0.0) if isinstance(layer, Mapping) else None
        if not isinstance(value, int | float):
            raise ConfigurationError(f"{place}: layers.{name}.share: expected a number")
        share += value
    return share


def part_share(profile: Mapping[str, object], part: str, place: str) -> float:
    """Share of busy CPU time in a part of an application, as a fraction, from a profile document.

    `place` names the document in errors. Raises `ConfigurationError` when it has no such part.
    """
    parts = profile.get("parts")
    costs = parts.get("costs") if isinstance(parts, Mapping) else None
    found = costs.get(part) if isinstance(costs, Mapping) else None
    share = found.get("share") if isinstance(found, Mapping) else None
    if not isinstance(share, int | float):
        known = ", ".join(costs) if isinstance(costs, Mapping) else "no parts"
        raise ConfigurationError(
            f"{place}: no part {part!r}; there are {known}",
            hint="make a profile with `perpacket profile --application NAME --format json`",
        )
    return float(share)
