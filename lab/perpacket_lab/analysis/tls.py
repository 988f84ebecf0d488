"""The cost of TLS: a handshake, a byte and a request, fitted to a run of the study `tls-cost`.

TLS adds `request + handshake / R + byte * S` to the cost of a request, for R requests of a
connection and S bytes of a response. In each block, the three costs are a least-squares fit. The
intervals are over the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from perpacket.analysis.statistics import Interval, mean, neighbour_correlation
from perpacket.errors import ConfigurationError
from perpacket_lab.analysis.analysis import Analysis
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.study.point import Point

COST: Final = "server_cpu_us_per_request"
"""The fitted number of the result."""

PLAIN: Final = "plain"
"""The level of `security` without TLS."""

NS_PER_US: Final = 1000.0

Case = tuple[float, float]
"""Requests of a connection, and bytes of a response."""


@dataclass(frozen=True, slots=True)
class TlsCost:
    """The costs of TLS on one server."""

    server: str
    security: str
    handshake_us: Interval
    byte_ns: Interval
    request_us: Interval
    """The added cost of a request without its handshake and its bytes."""
    worst_us: float | None
    """The largest difference of a case's mean from the fit; `None` with only three cases, because
    three costs fit these exactly."""


def costs(analysis: Analysis) -> list[TlsCost]:
    """The costs of TLS by server and kind of TLS, in the order of the study.

    Raises `ConfigurationError` for a run of another study, or without enough points.
    """
    points = [point for point in analysis.study.points if "security" in point.factors]
    kinds = dict.fromkeys((str(p.factors["server"]), str(p.factors["security"])) for p in points)
    costs = list(fitted_costs(analysis.estimates, points, list(kinds), analysis.confidence))
    if not costs:
        raise ConfigurationError(
            f"{analysis.study.name}: no server has three cases with both TLS and plain requests",
            hint="run `perpacket study run tls-cost` first",
        )
    return costs


def fitted_costs(
    estimates: Estimates,
    points: Sequence[Point],
    kinds: Sequence[tuple[str, str]],
    confidence: float,
) -> Iterator[TlsCost]:
    """The costs of the servers and kinds of TLS in `kinds` that have enough points."""
    for server, security in kinds:
        if security == PLAIN:
            continue
        plain = _by_case(estimates, points, server, PLAIN)
        added = {
            case: {
                seed: own - plain[case][seed] for seed, own in values.items() if seed in plain[case]
            }
            for case, values in _by_case(estimates, points, server, security).items()
            if case in plain
        }
        fits = list(_fits(added))
        if not fits:
            continue
        request, handshake, byte, *_ = zip(*fits, strict=True)
        alike = neighbour_correlation((request, handshake, byte))
        yield TlsCost(
            server,
            security,
            mean(handshake, confidence, correlation=alike),
            mean([NS_PER_US * case for case in byte], confidence, correlation=alike),
            mean(request, confidence, correlation=alike),
            _worst(added, [sum(cost) / len(cost) for cost in (request, handshake, byte)]),
        )


def _by_case(
    estimates: Estimates, points: Sequence[Point], server: str, security: str
) -> dict[Case, Mapping[int, float]]:
    """The cost of a request in µs by case and seed."""
    values: dict[Case, Mapping[int, float]] = {}
    for point in points:
        if (point.factors["server"], point.factors["security"]) == (server, security):
            case = (float(point.factors["requests"]), float(point.factors["size_bytes"]))
            values[case] = estimates.values(point.name, COST)
    return values


def _fits(added: Mapping[Case, Mapping[int, float]]) -> Iterator[tuple[float, float, float]]:
    """Cost of a request, a handshake and a byte in µs, in each block that has every case."""
    import numpy as np

    cases = list(added)
    if len(cases) < 3:
        return
    design = np.array([_terms(case) for case in cases])
    if np.linalg.matrix_rank(design) < 3:
        return
    for seed in sorted(set.intersection(*(set(values) for values in added.values()))):
        fitted, *_ = np.linalg.lstsq(design, [added[case][seed] for case in cases], rcond=None)
        yield float(fitted[0]), float(fitted[1]), float(fitted[2])


def _terms(case: Case) -> tuple[float, float, float]:
    requests, size_bytes = case
    return 1.0, 1.0 / requests, size_bytes


def _worst(added: Mapping[Case, Mapping[int, float]], fitted: Sequence[float]) -> float | None:
    if len(added) <= len(fitted):
        return None
    return max(
        abs(
            sum(values.values()) / len(values)
            - sum(term * cost for term, cost in zip(_terms(case), fitted, strict=True))
        )
        for case, values in added.items()
        if values
    )
