"""Which combinations of the factors' levels a study runs.

| design | runs |
|---|---|
| `full` | every combination |
| `two-level` | every combination of two levels each: 2^k, from which effects are computed |
| `fraction` | a part of those, 2^(k-p): `generators` makes some factors products of others |
| `sweeps` | one factor after another over its levels, the others at their first |

Replications come on top: `two-level` with r of them is the 2^k r design.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from perpacket.analysis import factorial
from perpacket.analysis.statistics import StatisticsError
from perpacket.study.study import Level

DesignKind = Literal["full", "two-level", "fraction", "sweeps"]

MOST_POINTS = 4096
"""More than this is a mistake in the factors: it would run for weeks."""

Combination = Mapping[str, Level]
"""A level for each factor."""


@dataclass(frozen=True, slots=True)
class Laid:
    """The combinations to run; with two levels also the design they are the runs of."""

    combinations: tuple[Combination, ...]
    two_level: factorial.Design | None = None


def lay_out(
    kind: DesignKind,
    factors: Mapping[str, Sequence[Level]],
    generators: Mapping[str, Sequence[str]],
) -> Laid:
    """The combinations of a design; without factors there is one, of nothing.

    Raises `StatisticsError` saying what the design needs, and of which factor.
    """
    if generators and kind != "fraction":
        raise StatisticsError(f"generators are for the design fraction, not for {kind}")
    match kind:
        case "two-level" | "fraction":
            return _two_level(kind, factors, generators)
        case "sweeps":
            return Laid(_sweeps(factors))
        case _:
            count = math.prod(len(levels) for levels in factors.values())
            if count > MOST_POINTS:
                raise StatisticsError(
                    f"these factors have {count:,} combinations, more than {MOST_POINTS:,}: "
                    "take fewer levels, or the design sweeps or fraction"
                )
            names = list(factors)
            return Laid(
                tuple(
                    dict(zip(names, levels, strict=True)) for levels in product(*factors.values())
                )
            )


def _two_level(
    kind: DesignKind,
    factors: Mapping[str, Sequence[Level]],
    generators: Mapping[str, Sequence[str]],
) -> Laid:
    """Both levels of each factor: all combinations, or the part that the generators leave."""
    for name, levels in factors.items():
        if len(levels) != 2:
            raise StatisticsError(
                f"factor {name} has {len(levels)} levels: the design {kind} takes two of each"
            )
    if kind == "fraction" and not generators:
        raise StatisticsError(
            "the design fraction needs generators: each makes one factor the product of others, as "
            '[generators] and "c" = ["a", "b"]'
        )
    for name in (*generators, *(part for parts in generators.values() for part in parts)):
        if name not in factors:
            raise StatisticsError(f"generator: {name} is no factor; there are {', '.join(factors)}")
    base = [name for name in factors if name not in generators]
    design = factorial.fraction(base, generators)
    if len(design.runs) > MOST_POINTS:
        raise StatisticsError(
            f"{len(base)} factors make {len(design.runs):,} runs, more than {MOST_POINTS:,}: "
            "take the design fraction"
        )
    return Laid(
        tuple(
            {
                name: factors[name][sign > 0]
                for name, sign in zip(design.factors, signs, strict=True)
            }
            for signs in design.runs
        ),
        design,
    )


def _sweeps(factors: Mapping[str, Sequence[Level]]) -> tuple[Combination, ...]:
    """The first levels, and then each factor's others."""
    first = {name: levels[0] for name, levels in factors.items()}
    others = [first | {name: level} for name, levels in factors.items() for level in levels[1:]]
    return (first, *others)
