"""Measurement, simulation and models beside each other: what `agreement/study.toml` names.

    costs.py        what a request costs in one observation, of either method
    pairs.py        two methods side by side
    share.py        the network stack's share of the processor against file size
    throughput.py   throughput against connections
    handoff.py      the gain of handoff: simulated, by partial handoff, by LAWS

Models have no points of their own: they are computed from the runs that feed them, seed by seed.
"""

from __future__ import annotations

from perpacket.analysis.agreement import handoff, share, throughput
from perpacket.analysis.agreement.costs import SIMULATED, WAYS
from perpacket.analysis.estimates import rows_of
from perpacket.analysis.methods import MethodComparison
from perpacket.run.directory import RunDirectory

AXES = {
    share.QUESTION: "size_bytes",
    throughput.QUESTION: "connections",
    handoff.QUESTION: "nic_connections",
}
"""The factor that each question varies."""


def compare(directory: RunDirectory) -> list[MethodComparison]:
    """Two methods to each number side by side, question by question."""
    rows = rows_of(directory)
    names: dict[tuple[str, str], dict[int, str]] = {}
    for point in directory.configuration.points:
        question, way = str(point.factors["question"]), str(point.factors["way"])
        of_way = names.setdefault((question, way), {})
        of_way[int(point.factors[AXES[question]])] = point.name
    found = []
    for module in (share, throughput):
        by_way = {way: names.get((module.QUESTION, way), {}) for way in WAYS}
        found += module.contrasts(rows, by_way)
    return found + handoff.contrasts(rows, names.get((handoff.QUESTION, SIMULATED), {}))
