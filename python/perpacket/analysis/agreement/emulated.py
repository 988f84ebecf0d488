"""An emulation of the measured scenario beside the measurement and the simulation.

The emulator runs an unmodified kernel and the measured server, and counts instructions. It has no
time, so its shares are shares of instructions. Measured shares are shares of time. Both agree if an
instruction takes the same time in every layer. Simulated runs also have shares of instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from perpacket.analysis.agreement import costs
from perpacket.analysis.agreement.costs import (
    EMULATED,
    MEASURED,
    SIMULATED,
    SIMULATED_INSTRUCTIONS,
)
from perpacket.analysis.agreement.scenario import Scenario
from perpacket.analysis.methods import MethodComparison
from perpacket.study.quantities import REGIONS, SEVEN, Row, Rows, present

CHECK = "layers"
TITLE = "Layers of the busy processor"

Runs = Mapping[int, Row]

MOST_FRAME_RATIO = 1.1
"""Above this ratio of segments per measured frame, offload is the likely cause of a difference."""


def compare(
    scenario: Scenario, names: Sequence[str], measured: Runs, simulated: Runs, emulated: Runs
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
    found = []
    for level, region in enumerate(SEVEN):
        scenario = Scenario(CHECK, TITLE, f"{region}, files of {size:,} B", level)
        found += compare(scenario, REGIONS[region], *runs)
    return found


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
