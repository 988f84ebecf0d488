"""An emulation of the measured scenario beside the measurement and the simulation.

The emulator runs an unmodified kernel and the measured server, and counts instructions. It has no
time, so its shares are shares of instructions. Measured shares are shares of time. Both agree if an
instruction takes the same time in every layer. Simulated runs also have shares of instructions.
If the measured machine counts cache misses, they are compared with those of the modelled caches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from perpacket_lab.analysis.agreement import costs
from perpacket_lab.analysis.agreement.costs import (
    EMULATED,
    MEASURED,
    SIMULATED,
    SIMULATED_INSTRUCTIONS,
)
from perpacket_lab.analysis.agreement.scenario import ComparedScenario
from perpacket_lab.analysis.methods import MethodComparison
from perpacket_lab.study.quantities import BUSY, REGIONS, SEVEN, Row, Rows, present

CHECK = "layers"
TITLE = "Layers of the busy processor"

MISSES = "misses"
MISSES_TITLE = "Misses per packet, in per cent of the measured ones"

CACHES = {
    "L1 data cache": ("l1d_misses_per_packet", "l1d_misses_per_packet"),
    "L1 instruction cache": ("l1i_misses_per_packet", "l1i_misses_per_packet"),
    "last level": ("llc_misses_per_packet", "l2_misses_per_packet"),
}
"""The misses that a processor counts, and the emulated ones: the keys of a layer in results."""

Runs = Mapping[int, Row]

MOST_FRAME_RATIO = 1.1
"""Above this ratio of segments per measured frame, offload is the likely cause of a difference."""


def compare(
    scenario: ComparedScenario,
    names: Sequence[str],
    measured: Runs,
    simulated: Runs,
    emulated: Runs,
) -> list[MethodComparison]:
    """Some layers' share of the busy processor: emulated beside measured, and beside simulated.

    Doubts about the measured runs are not repeated here: the comparison of measured and simulated
    values has them.
    """
    share = partial(costs.share_of, names=names)
    own = costs.estimated(EMULATED, EMULATED, emulated, share)
    time = costs.estimated(MEASURED, MEASURED, measured, share)
    of_instructions = partial(costs.share_of_instructions, names=names)
    instructions = costs.estimated(SIMULATED_INSTRUCTIONS, SIMULATED, simulated, of_instructions)
    return [
        scenario.compare(time, own, _why_time_differs(measured, emulated)),
        scenario.compare(instructions, own, _why_kernels_differ(simulated, emulated)),
    ]


def compare_layers(rows: Rows, names: Mapping[str, Mapping[int, str]]) -> list[MethodComparison]:
    """Each region of the busy processor at the middle size, if it is emulated."""
    sizes = sorted(names[EMULATED])
    if not sizes:
        return []
    size = sizes[len(sizes) // 2]
    methods = (MEASURED, SIMULATED, EMULATED)
    runs = [rows.get(names[method].get(size, ""), {}) for method in methods]
    comparisons = []
    for level, region in enumerate(SEVEN):
        scenario = ComparedScenario(CHECK, TITLE, f"{region}, files of {size:,} B", level)
        comparisons += compare(scenario, REGIONS[region], *runs)
    return comparisons


def compare_misses(rows: Rows, names: Mapping[str, Mapping[int, str]]) -> list[MethodComparison]:
    """The misses of each cache at each size where both methods have them.

    They are in per cent of the mean of the measured runs, because the comparisons of methods are
    differences of percentages.
    """
    comparisons = []
    for size in sorted(names[EMULATED].keys() & names[MEASURED].keys()):
        measured, emulated = (rows.get(names[method][size], {}) for method in (MEASURED, EMULATED))
        for cache, (counted, modelled) in CACHES.items():
            whole = costs.mean_of(measured, partial(misses, key=counted))
            own = costs.mean_of(emulated, partial(misses, key=modelled))
            if not whole or not own:
                continue

            def share(row: Row, key: str, whole: float = whole) -> float | None:
                count = misses(row, key)
                return None if count is None else count / whole

            scenario = ComparedScenario(MISSES, MISSES_TITLE, f"{cache}, files of {size:,} B", size)
            first = costs.estimated(MEASURED, MEASURED, measured, partial(share, key=counted))
            second = costs.estimated(EMULATED, EMULATED, emulated, partial(share, key=modelled))
            why = (
                "that the modelled caches are those of the processor, and frames are alike: "
                f"{whole:.4g} misses per packet measured, {own:.4g} emulated"
            )
            comparisons.append(scenario.compare(first, second, why, measured))
    return comparisons


def misses(row: Row, key: str) -> float | None:
    """The misses of all layers of the busy processor; None if the run did not count them."""
    counts = [present(row, f"layers.{layer}.{key}") for layer in BUSY]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _why_time_differs(measured: Runs, emulated: Runs) -> str:
    """The assumption that most likely fails where shares of time and of instructions differ."""
    region, time, instructions = _largest_difference(measured, emulated, costs.share_of)
    bundle = costs.mean_of(measured, lambda row: present(row, "segments_per_packet"))
    if bundle > MOST_FRAME_RATIO and set(REGIONS[region]) <= set(costs.STACK):
        return (
            "that frames are alike: with segmentation offload a measured frame has "
            f"{bundle:.1f} segments, an emulated frame has one"
        )
    return (
        "that an instruction takes the same time in every layer: "
        f"{region}: {time:.0f} % of the time, {instructions:.0f} % of the instructions"
    )


def _why_kernels_differ(simulated: Runs, emulated: Runs) -> str:
    """The assumption that fails, with the region whose shares of instructions differ most."""
    region, there, here = _largest_difference(simulated, emulated, costs.share_of_instructions)
    return (
        "that a kernel of 2003 divides its instructions as today's: "
        f"{region}: {there:.0f} % simulated, {here:.0f} % emulated"
    )


def _largest_difference(
    others: Runs, emulated: Runs, share: costs.ShareOf
) -> tuple[str, float, float]:
    """The region whose shares differ most, with both in per cent."""
    pairs = {
        region: [
            100 * costs.mean_of(runs, partial(share, names=REGIONS[region]))
            for runs in (others, emulated)
        ]
        for region in SEVEN
    }
    region = max(pairs, key=lambda name: abs(pairs[name][1] - pairs[name][0]))
    there, here = pairs[region]
    return region, there, here
