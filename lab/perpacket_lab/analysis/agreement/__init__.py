"""Measurement, simulation and models compared: the functions that files of studies name.

    costs.py              the cost of a request in one observation
    scenario.py           two methods in one scenario
    share.py              the network stack's share of the processor against file size
    emulated_scenario.py  the layers' shares of instructions, beside the others; misses
    throughput.py         throughput against connections
    handoff_gain.py       the gain of handoff: simulated, by partial handoff and by LAWS
    change_ratios.py      the effect of changes, measured and emulated, in the study `what-if`

Models have no points of the study. They are computed from measured or simulated runs, seed by seed.
"""

from __future__ import annotations

from collections.abc import Sequence

from perpacket_lab.analysis.agreement import (
    change_ratios,
    emulated_scenario,
    handoff_gain,
    share,
    throughput,
)
from perpacket_lab.analysis.agreement.costs import EMULATED, METHODS, SIMULATED
from perpacket_lab.analysis.methods import MethodComparison
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import Rows

AXES = {
    share.CHECK: "size_bytes",
    throughput.CHECK: "connections",
    handoff_gain.CHECK: "nic_connections",
}
"""The factor that each question varies."""


compare_changes = change_ratios.compare


def compare(points: Sequence[Point], rows: Rows) -> list[MethodComparison]:
    """The comparisons of two methods, question by question."""
    names: dict[tuple[str, str], dict[int, str]] = {}
    for point in points:
        question, method = str(point.factors["question"]), str(point.factors["way"])
        of_method = names.setdefault((question, method), {})
        of_method[int(point.factors[AXES[question]])] = point.name
    comparisons = []
    for module in (share, throughput):
        by_method = {
            method: names.get((module.CHECK, method), {}) for method in (*METHODS, EMULATED)
        }
        comparisons += module.compare(rows, by_method)
        if module is share:
            comparisons += emulated_scenario.compare_layers(rows, by_method)
            comparisons += emulated_scenario.compare_misses(rows, by_method)
    return comparisons + handoff_gain.compare(rows, names.get((handoff_gain.CHECK, SIMULATED), {}))
