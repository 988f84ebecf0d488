"""Advice on the points of a measured run, from the profiles and settings that the run stored.

A run stores no call chains and no settings of interfaces. Therefore a change can be judged only if
its evidence is in the layers of a profile or in the options of the study's server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from perpacket.advise import advice, catalogue
from perpacket.advise.advice import Advice
from perpacket.advise.expression import NotReadable
from perpacket.advise.links import Link
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.observation import Observation
from perpacket.advise.profile import Profile
from perpacket.advise.servers import SERVE_WEB, Server
from perpacket_lab.study.point import Point

RAW = "raw"
"""The folder of a run directory with the profiles."""

LOOPBACK_MTU, MTU = 65_536, 1_500
"""The MTU of `lo`, and that of the interfaces of testbeds."""

COUNTS = ("packets_sent", "packets_received", "bytes_sent", "bytes_received")


def suggestions(path: Path, points: Sequence[Point]) -> list[tuple[Point, Advice]]:
    """The change whose gain has the largest upper bound at each point; the largest bounds first."""
    judged = {
        name: change
        for name, change in catalogue.load().items()
        if change.bound.layers and change.setting is None
    }
    advised: list[tuple[Point, Advice]] = []
    for point in points:
        profile = pooled(list(_profiles(path, point)))
        first = None if profile is None else advice.advise(_seen(point, profile), judged).first
        if first is not None:
            advised.append((point, first))
    return sorted(advised, key=lambda row: row[1].rank, reverse=True)


def _profiles(path: Path, point: Point) -> Iterator[Mapping[str, object]]:
    for file in sorted((path / RAW).glob(f"{point.name}.seed-*.profile.json")):
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            yield document


def pooled(documents: Sequence[Mapping[str, object]]) -> Profile | None:
    """The profiles of a point added up, with shares weighted by samples; None without layers."""
    each = [Profile(document) for document in documents if document.get("layer_kinds")]
    samples = sum(profile.number("samples") for profile in each)
    if not samples:
        return None
    cells: dict[str, dict[str, float]] = {}
    interfaces: dict[str, dict[str, float]] = {}
    for profile in each:
        weight = profile.number("samples") / samples
        for layer, row in profile.table("layer_kinds").items():
            for kind in row if isinstance(row, Mapping) else ():
                inner = cells.setdefault(layer, {})
                share = profile.number("layer_kinds", layer, kind)
                inner[kind] = inner.get(kind, 0.0) + weight * share
        for name in profile.table("interfaces"):
            counts = interfaces.setdefault(name, dict.fromkeys(COUNTS, 0.0))
            for key in COUNTS:
                counts[key] += profile.number("interfaces", name, key)
    document: dict[str, object] = {
        "window_s": sum(profile.number("window_s") for profile in each),
        "samples": samples,
        "layer_kinds": cells,
        "interfaces": interfaces,
    }
    if all(isinstance(profile.document.get("requests"), int) for profile in each):
        document["requests"] = sum(profile.number("requests") for profile in each)
    return Profile(document)


def _seen(point: Point, profile: Profile) -> Observation:
    parameters = dict(point.overrides)
    links = {
        name: Link(name, LOOPBACK_MTU, "loopback", 1, "") if name == "lo"
        else Link(name, MTU, "veth", 1, "")
        for name in profile.table("interfaces")
    }  # fmt: skip
    busiest = sorted(
        profile.table("interfaces"),
        key=lambda name: sum(profile.number("interfaces", name, key) for key in COUNTS[:2]),
        reverse=True,
    )
    return Observation(
        profile,
        NetworkScope(),
        links,
        _not_stored,
        _server(parameters),
        interfaces=tuple(busiest[:1]),
    )


def _not_stored(table: Mapping[str, str], interface: str) -> str:
    raise NotReadable("the run did not store this setting")


def _server(parameters: Mapping[str, str]) -> Server | None:
    kind = parameters.get("server.kind", "perpacket")
    if parameters.get("load.kind") == "stream":
        return None
    if kind != "perpacket":
        return Server(kind, 0, (), {}, "the run did not store the options of this server")
    architecture = parameters.get("server.architecture", "events")
    # The testbed starts the server with defaults for its other options.
    options = {"io-uring": "on" if architecture == "uring" else "off", "sendfile": "on"}
    return Server(SERVE_WEB, 0, (), options)
