"""The network stack's share of the busy processor against the size of files.

The methods are measurement, simulation, emulation and, for sizes between the smallest and the
largest, a line through these two sizes (`models.segments`). The line uses the runs of the
same method. Emulated shares are of instructions, because an emulation has no time. They are
compared with measured shares of time and simulated shares of instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from perpacket.errors import ConfigurationError
from perpacket_lab.analysis.agreement import costs, emulated_scenario
from perpacket_lab.analysis.agreement.costs import EMULATED, MEASURED, METHODS, SIMULATED
from perpacket_lab.analysis.agreement.scenario import ComparedScenario
from perpacket_lab.analysis.methods import MethodComparison, MethodValue
from perpacket_lab.models import segments
from perpacket_lab.study.quantities import BUSY, Row, Rows, number

CHECK = "share"
TITLE = "Network stack in the busy processor"
MODEL = "line through two sizes, {}"

GROUPS = {
    "the server's code": (("user",), "the server's code costs the same as in 2003"),
    "system calls": (("syscall", "socket"), "system calls cost the same as in 2003"),
    "interrupts, scheduling and the rest": (
        ("interrupt", "scheduler", "other"),
        "only the server and its stack use the processor, not interrupts or scheduling",
    ),
}
"""The parts of the busy processor beside the stack: their layers, and the simulation's assumption.
"""

MOST_FRAME_RATIO = 1.1
"""Above this ratio of segments per frame, offload is the likely cause of a curved line."""


def compare(rows: Rows, names: Mapping[str, Mapping[int, str]]) -> list[MethodComparison]:
    """For each size: measured and simulated, and each with its line where it has one.

    `names` has the point of each method and size; an emulation is compared with both others.
    """
    sizes = sorted({size for of_method in names.values() for size in of_method})
    comparisons = []
    for size in sizes:
        runs = {method: rows.get(names[method].get(size, ""), {}) for method in METHODS}
        by_method = {
            method: costs.estimated(method, method, runs[method], costs.stack_share)
            for method in runs
        }
        scenario = ComparedScenario(CHECK, TITLE, f"files of {size:,} B", size)
        why = _differing_part(runs[MEASURED], runs[SIMULATED])
        comparisons.append(
            scenario.compare(by_method[MEASURED], by_method[SIMULATED], why, runs[MEASURED])
        )
        if names[EMULATED]:
            here = rows.get(names[EMULATED].get(size, ""), {})
            comparisons += emulated_scenario.compare(
                scenario, costs.STACK, runs[MEASURED], runs[SIMULATED], here
            )
        if sizes[0] < size < sizes[-1]:
            for method in METHODS:
                line = predicted(rows, method, names[method], size)
                why = _why_not_a_line(rows, method, names[method], size)
                comparisons.append(scenario.compare(by_method[method], line, why, runs[method]))
    return comparisons


def predicted(rows: Rows, method: str, names: Mapping[int, str], size: int) -> MethodValue:
    """The share at a size by the line through the smallest and the largest, seed by seed."""
    few, many = names.get(min(names, default=0), ""), names.get(max(names, default=0), "")
    middle = names.get(size, "")
    values = {}
    for seed in costs.seeds_of(rows, few, middle, many):
        ends = [rows[name][seed] for name in (few, many)]
        share = _share_between(ends, rows[middle][seed])
        if share is not None:
            values[seed] = 100 * share
    return MethodValue(MODEL.format(method), method, values)


def _share_between(ends: list[Row], row: Row) -> float | None:
    """The share at a run's number of segments per request, by the lines through the two ends."""
    at = costs.segments_per_request(row)
    stack, whole = ([_cost(end, names) for end in ends] for names in (costs.STACK, BUSY))
    if at is None:
        return None
    lines = []
    for pairs in (stack, whole):
        first, second = pairs
        if first is None or second is None:
            return None
        try:
            lines.append(segments.line(first, second))
        except ConfigurationError:
            return None
    return float(segments.share(lines[0], lines[1], at))


def _cost(row: Row, names: tuple[str, ...]) -> tuple[float, float] | None:
    """Segments per request, and their cost in some layers."""
    count, each = costs.segments_per_request(row), costs.per_packet(row, names)
    return (count, count * each) if count is not None and each is not None else None


def _differing_part(measured: Mapping[int, Row], simulated: Mapping[int, Row]) -> str:
    """The part of the processor beside the stack that differs most, and the assumption on it.

    If the stack's share differs, another part's share differs too.
    """
    differences = {}
    for group, (names, _) in GROUPS.items():
        part = partial(costs.share_of, names=names)
        differences[group] = [100 * costs.mean_of(runs, part) for runs in (measured, simulated)]
    group = max(differences, key=lambda name: abs(differences[name][1] - differences[name][0]))
    here, there = differences[group]
    return f"that {GROUPS[group][1]}: {group}: {here:.0f} % measured, {there:.0f} % simulated"


def _why_not_a_line(rows: Rows, method: str, names: Mapping[int, str], size: int) -> str:
    """Why the line is curved: segments per frame, or caches."""
    own = rows.get(names.get(size, ""), {})
    most = rows.get(names.get(max(names, default=0), ""), {})
    if method == MEASURED:
        bundles = [costs.mean_of(runs, _segments_per_frame) for runs in (own, most)]
        if min(bundles) > 0 and max(bundles) / min(bundles) > MOST_FRAME_RATIO:
            return (
                "that every segment costs the same: with segmentation offload a frame has "
                f"{bundles[0]:.1f} segments here, {bundles[1]:.1f} for the largest file"
            )
    return (
        "that every segment costs the same: the first segments of a response are the handshake, "
        "the request and small frames; the segments of a large file are full"
    )


def _segments_per_frame(row: Row) -> float | None:
    return number(row, "segments_per_packet")
