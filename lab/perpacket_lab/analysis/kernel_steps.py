"""The steps of a cost from kernel to kernel: the layers, functions and options behind each.

A study with the factor `kernel` has them. Its levels are in the order of the releases. A real-time
kernel is compared with the general one of its release, and never is the kernel before another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perpacket.analysis.claim import Claim, Pair, ratio_claim
from perpacket.analysis.statistics import unpaired_ratio
from perpacket_lab.analysis.emulation_comparison import (
    LEAST_VARIANTS,
    OptionPair,
    different_options,
)
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.run.observation_file import RunObservation
from perpacket_lab.study.quantities import FUNCTIONS

if TYPE_CHECKING:
    from perpacket_lab.study.point import Point
    from perpacket_lab.study.study import Study

FACTOR: Final = "kernel"
COST: Final = "instructions_per_unit"
COMPILER: Final = "CC_VERSION_TEXT"
REAL_TIME: Final = "-rt"
"""The end of the name of a real-time kernel."""

NamedChange = tuple[str, float, float]
"""A name, and its instructions before and after."""


@dataclass(frozen=True, slots=True)
class KernelStep:
    """The cost of a unit of work on a kernel, divided by that on the kernel before it."""

    levels: Mapping[str, object]
    """The levels of the other factors."""
    claim: Claim[Pair]
    """Its subject is the second kernel, its quantity the first one."""
    layers: tuple[NamedChange, ...]
    """The layers, those with the largest difference first."""
    functions: tuple[NamedChange, ...]
    """The functions in the same order."""


@dataclass(frozen=True, slots=True)
class StudiedKernel:
    """A kernel of a run."""

    name: str
    version: str
    compiler: str
    changed: tuple[OptionPair, ...]
    """The options that differ from those of the kernel before it."""


def steps_of(
    study: Study, estimates: Estimates, observations: Sequence[RunObservation]
) -> tuple[KernelStep, ...]:
    """The steps between neighbouring kernels that ran, by the other factors."""
    groups: dict[tuple[tuple[str, object], ...], dict[str, Point]] = defaultdict(dict)
    for point in study.points:
        if FACTOR in point.factors and estimates.runs(point.name):
            others = tuple(item for item in point.factors.items() if item[0] != FACTOR)
            groups[others][str(point.factors[FACTOR])] = point
    functions = functions_by_point(observations)
    return tuple(
        step(dict(others), points[first], points[second], estimates, functions)
        for others, points in groups.items()
        for second, first in before_each(points).items()
        if first is not None
    )


def before_each(names: Iterable[str]) -> dict[str, str | None]:
    """The kernel with which each is compared; None for the first, or if there is no general one."""
    result: dict[str, str | None] = {}
    last: str | None = None
    for name in names:
        general = name.removesuffix(REAL_TIME)
        if general != name:
            result[name] = general if general in result else None
        else:
            result[name], last = last, name
    return result


def functions_by_point(observations: Sequence[RunObservation]) -> dict[str, dict[str, float]]:
    """The mean instructions of each function by unit of work, by point."""
    runs: dict[str, list[Mapping[str, float]]] = defaultdict(list)
    for observation in observations:
        own: Any = observation.result.get(FUNCTIONS)
        if own:
            runs[observation.point].append(own)
    return {
        point: {
            name: sum(run.get(name, 0.0) for run in own) / len(own)
            for name in {name for run in own for name in run}
        }
        for point, own in runs.items()
    }


def step(
    levels: Mapping[str, object],
    first: Point,
    second: Point,
    estimates: Estimates,
    functions: Mapping[str, Mapping[str, float]],
) -> KernelStep:
    """The step between two points."""
    sides = [list(estimates.values(point.name, COST).values()) for point in (first, second)]
    has_interval = min(map(len, sides)) >= LEAST_VARIANTS
    ratio = unpaired_ratio(sides[1], sides[0], estimates.confidence) if has_interval else None
    before, after = (sum(side) / len(side) for side in sides)
    names = [str(point.factors[FACTOR]) for point in (first, second)]
    layers = [
        {
            name: cost.value
            for name in estimates.layers(COST)
            if (cost := estimates.layer_sum(point.name, [name], COST)) is not None
        }
        for point in (first, second)
    ]
    return KernelStep(
        levels,
        ratio_claim(names[1], names[0], ratio, Pair(before, after, paired=False)),
        changes(*layers),
        changes(*(functions.get(point.name, {}) for point in (first, second))),
    )


def changes(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[NamedChange, ...]:
    """The numbers that differ, those with the largest difference first."""
    pairs = [
        (name, first.get(name, 0.0), second.get(name, 0.0)) for name in first.keys() | second.keys()
    ]
    differ = [pair for pair in pairs if pair[1] != pair[2]]
    return tuple(sorted(differ, key=lambda pair: (-abs(pair[2] - pair[1]), pair[0])))


def kernels_of(study: Study, environment: Mapping[str, object]) -> Iterator[StudiedKernel]:
    """The kernels of a run in the study's order, with what its environment says about each."""
    testbed: Any = environment.get("testbed")
    known: Any = testbed.get("kernels", {}) if isinstance(testbed, Mapping) else {}
    names = dict.fromkeys(str(point.factors.get(FACTOR)) for point in study.points)
    for name, base in before_each(name for name in names if name in known).items():
        options = known[name].get("kernel_options", {})
        yield StudiedKernel(
            name,
            known[name]["kernel"],
            options.get("compiler", {}).get(COMPILER, ""),
            different_options(known[base].get("kernel_options", {}) if base else {}, options),
        )
