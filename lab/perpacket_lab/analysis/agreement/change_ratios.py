"""The effect of changes on the cost of a request, measured and emulated: for the study `what-if`.

A measurement compares processor time, an emulation instructions. Both ratios are paired: by block,
and by the variant of the emulation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perpacket_lab.analysis.agreement.costs import EMULATED, MEASURED
from perpacket_lab.analysis.agreement.scenario import ComparedScenario
from perpacket_lab.analysis.methods import MethodComparison, MethodValue
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import Rows, number

CHECK = "changes"
TITLE = "Change of the cost of a request"

STAGES = {"alone": MEASURED, "emulated": EMULATED}
"""The method of a point by its level of `stage`."""

COSTS = {MEASURED: "cost.cpu_us_per_unit", EMULATED: "instructions_per_request"}

ASSUMPTION = (
    "that an instruction takes the same time with and without the change, and that the measured "
    "network is like the emulated one"
)


def compare(points: Sequence[Point], rows: Rows) -> list[MethodComparison]:
    """A comparison for each change and load that both methods tried."""
    by_method: dict[str, dict[tuple[str, str], MethodValue]] = {MEASURED: {}, EMULATED: {}}
    for point in points:
        method = STAGES.get(str(point.factors.get("stage")))
        if method is not None and point.against is not None:
            subject = str(point.factors["change"]), str(point.factors["load"])
            by_method[method][subject] = change_of(point, method, rows)
    both = [subject for subject in by_method[MEASURED] if subject in by_method[EMULATED]]
    return [
        ComparedScenario(CHECK, TITLE, f"{change}, {load}", level).compare(
            by_method[MEASURED][change, load], by_method[EMULATED][change, load], ASSUMPTION
        )
        for level, (change, load) in enumerate(both)
    ]


def change_of(point: Point, method: str, rows: Rows) -> MethodValue:
    """The change of the cost of a point in per cent, in each run that its baseline has too."""
    own, base = (costs(rows, name, method) for name in (point.name, str(point.against)))
    return MethodValue(
        method, method, {seed: 100 * (own[seed] / base[seed] - 1) for seed in own if seed in base}
    )


def costs(rows: Rows, point: str, method: str) -> Mapping[int, float]:
    """The cost of a unit of work in each run of a point."""
    found = {seed: number(row, COSTS[method]) for seed, row in rows.get(point, {}).items()}
    return {seed: cost for seed, cost in found.items() if cost}
