"""Throughput against connections, relative to throughput with the fewest connections.

The methods are measurement, simulation, and the bounds of a server that is the only limit
(`perpacket_lab.models.saturation`). The bounds use the run of the same method with the fewest
connections.
"""

from __future__ import annotations

from collections.abc import Mapping

from perpacket.errors import ConfigurationError
from perpacket_lab.analysis.agreement import costs
from perpacket_lab.analysis.agreement.costs import MEASURED, METHODS, SIMULATED
from perpacket_lab.analysis.agreement.scenario import NOTABLY_IDLE, ComparedScenario
from perpacket_lab.analysis.methods import MethodComparison, MethodValue
from perpacket_lab.models import saturation
from perpacket_lab.study.quantities import CLIENT_IDLE_LEAST, Row, Rows, number

CHECK = "connections"
TITLE = "Throughput relative to {} connections"
MODEL = "bound by the server, {}"


def compare(rows: Rows, names: Mapping[str, Mapping[int, str]]) -> list[MethodComparison]:
    """At each level above the fewest connections: both methods, and each with its bound."""
    levels = sorted({level for of_method in names.values() for level in of_method})
    comparisons = []
    for level in levels[1:]:
        scenario = ComparedScenario(CHECK, TITLE.format(levels[0]), f"{level:,} connections", level)
        by_method = {method: relative(rows, method, names[method], level) for method in METHODS}
        runs = {method: rows.get(names[method].get(level, ""), {}) for method in METHODS}
        why = _why_methods_differ(rows, names, level)
        comparisons.append(
            scenario.compare(by_method[MEASURED], by_method[SIMULATED], why, runs[MEASURED])
        )
        for method in METHODS:
            limit = bound(rows, method, names[method], level)
            why = _why_not_the_bound(rows, method, names[method], level)
            comparisons.append(scenario.compare(by_method[method], limit, why, runs[method]))
    return comparisons


def _ends(rows: Rows, names: Mapping[int, str], level: int) -> list[tuple[int, Row, Row]]:
    """Each common seed, with its runs at the fewest connections and at a level."""
    first, own = names.get(min(names, default=0), ""), names.get(level, "")
    return [(seed, rows[first][seed], rows[own][seed]) for seed in costs.seeds_of(rows, first, own)]


def relative(rows: Rows, method: str, names: Mapping[int, str], level: int) -> MethodValue:
    """Throughput relative to the same seed at the fewest connections, in per cent."""
    values = {}
    for seed, first, own in _ends(rows, names, level):
        base, rate = (number(row, "requests_per_s") for row in (first, own))
        if base and rate is not None:
            values[seed] = 100 * rate / base
    return MethodValue(method, method, values)


def bound(rows: Rows, method: str, names: Mapping[int, str], level: int) -> MethodValue:
    """The model's bound, from the busy share of the server at the fewest connections."""
    values = {}
    for seed, first, _ in _ends(rows, names, level):
        utilization = costs.busy(first)
        if utilization is None:
            continue
        try:
            ratio = saturation.relative_throughput(level, min(names), utilization)
        except ConfigurationError:
            continue
        values[seed] = 100 * float(ratio)
    return MethodValue(MODEL.format(method), method, values)


def _why_methods_differ(rows: Rows, names: Mapping[str, Mapping[int, str]], level: int) -> str:
    """The assumption that is most likely wrong for the two machines."""
    of_measured = names[MEASURED]
    both = [rows.get(of_measured.get(n, ""), {}) for n in (min(of_measured, default=0), level)]
    client_idle = min(costs.mean_of(runs, lambda row: number(row, "client_idle")) for runs in both)
    if client_idle < CLIENT_IDLE_LEAST:
        return (
            "that only the server is a limit: the measured clients were idle for "
            f"{100 * client_idle:.0f} %, simulated clients use no processor"
        )
    changes = [
        _growth(rows, names[method], level, "measured" if method == MEASURED else "simulated")
        for method in METHODS
    ]
    return (
        "that caches and kernels are alike: the cost of a request changes by "
        f"{' and '.join(changes)}"
    )


def _growth(rows: Rows, names: Mapping[int, str], level: int, method: str = "") -> str:
    """The change of the host's time per request from the fewest connections, in words."""
    first, own = (
        costs.mean_of(rows.get(names.get(n, ""), {}), costs.host_us)
        for n in (min(names, default=0), level)
    )
    change = f"{100 * (own / first - 1):+.1f} %" if first else "an unknown change"
    return f"{change} {method}".strip()


def _why_not_the_bound(rows: Rows, method: str, names: Mapping[int, str], level: int) -> str:
    """The assumption of the model that the run violates."""
    idle = 1 - costs.mean_of(rows.get(names.get(level, ""), {}), costs.busy)
    if idle > NOTABLY_IDLE:
        return (
            f"that only the server is a limit: its processors were idle for {100 * idle:.0f} % "
            f"at {level} connections"
        )
    return (
        "that the cost of a request does not depend on the number of connections: it changes by "
        f"{_growth(rows, names, level)} at {level}"
    )
