"""Reads the inputs of models from a profile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from perpacket import server_cost
from perpacket.errors import ConfigurationError
from perpacket.server_cost import ServerCost


def read_document(file: Path, place: str) -> Mapping[str, object]:
    """A JSON document; raises `ConfigurationError` when it is invalid. `place` is its name."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{place}: cannot be read: {reason}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{place}: expected a JSON object")
    return content


def network_share(profile: Mapping[str, object], place: str) -> float:
    """The share of communication in the server's cost (`perpacket.server_cost`), as a fraction.

    *Communication Breakdown* counts the stack and the driver. It counts system calls and the copy
    between user and socket as the application's work, but a profile counts the copy in `socket`.

    `place` names the document in errors. Raises `ConfigurationError` when it has no layers.
    """
    return cost_of(profile, place).network_share


def cost_of(profile: Mapping[str, object], place: str) -> ServerCost:
    """The server's cost in a document; raises `ConfigurationError` when it has no layers."""
    layers = profile.get("layers")
    if not isinstance(layers, Mapping) or not layers:
        raise ConfigurationError(
            f"{place}: expected layers",
            hint="make a profile with `perpacket profile --format json`",
        )
    shares: dict[str, float] = {}
    for name, layer in layers.items():
        value = layer.get("share", 0.0) if isinstance(layer, Mapping) else None
        if not isinstance(value, int | float):
            raise ConfigurationError(f"{place}: layers.{name}.share: expected a number")
        shares[str(name)] = value
    return server_cost.of_documents([profile]) or server_cost.of_layers(shares)


def part_share(profile: Mapping[str, object], part: str, place: str) -> float:
    """Share of busy CPU time in a part of an application, as a fraction, from a profile document.

    `place` names the document in errors. Raises `ConfigurationError` when it has no such part.
    """
    parts = profile.get("parts")
    costs = parts.get("costs") if isinstance(parts, Mapping) else None
    cost = costs.get(part) if isinstance(costs, Mapping) else None
    share = cost.get("share") if isinstance(cost, Mapping) else None
    if not isinstance(share, int | float):
        known = ", ".join(costs) if isinstance(costs, Mapping) else "no parts"
        raise ConfigurationError(
            f"{place}: no part {part!r}; there are {known}",
            hint="make a profile with `perpacket profile --application NAME --format json`",
        )
    return float(share)
