"""The combinations of the factors' levels that a study runs.

| design | runs |
|---|---|
| `full` | every combination |
| `two-level` | every combination of two levels each: 2^k, from which effects are computed |
| `fraction` | a part of these, 2^(k-p); `generators` define some factors as products of others |
| `sweeps` | one factor after another over its levels, the others at their first level |

Each combination is replicated: `two-level` with r replications is the 2^k r design.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from perpacket.analysis import two_level as factorial
from perpacket.errors import StudyError
from perpacket_lab.study.point import Level, first_names

DesignKind = Literal["full", "two-level", "fraction", "sweeps"]

MOST_POINTS = 4096
"""A study with more points would run for weeks; its factors probably contain a mistake."""

MOST_CONFOUNDED = 4
"""The number of confounded effects that a sentence names, the lowest interactions first."""

FINEST_RESOLUTION = 3
"""At this resolution a factor is confounded with the interaction of two other factors."""

Combination = Mapping[str, Level]
"""A level for each factor."""


@dataclass(frozen=True, slots=True)
class TwoLevelDesign:
    """A two-level design, with the study's point for each of its runs."""

    design: factorial.Design
    points: tuple[str, ...]
    levels: str
    """The lower and upper level of each factor, in words."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """The levels of the factors, and the effects that a fraction cannot separate."""
        sentences = [
            f"an effect is half the change from the lower to the upper level: {self.levels}"
        ]
        resolution = self.design.resolution
        if resolution is not None:
            sentences.append(
                f"this fraction has resolution {resolution}, so some effects cannot be separated "
                f"and an effect is their sum: {'; '.join(confounding(self.design))}"
            )
            if resolution < FINEST_RESOLUTION:
                sentences.append(
                    "some factors always change together and cannot be separated: use a different "
                    "generator for each"
                )
            elif resolution == FINEST_RESOLUTION:
                sentences.append("a factor cannot be separated from interactions of two others")
        return tuple(sentences)


def effect_text(effect: factorial.Effect) -> str:
    """`connections x size_kib`, or `mean`."""
    return " x ".join(effect) or "mean"


def confounding(design: factorial.Design) -> list[str]:
    """The effects that a fraction cannot separate, grouped; empty for full designs."""
    groups = [[effect_text(effect) for effect in group] for group in design.confounded()]
    return [first_names(group, MOST_CONFOUNDED, " = ") for group in groups if len(group) > 1]


def combinations(
    kind: DesignKind,
    factors: Mapping[str, Sequence[Level]],
    generators: Mapping[str, Sequence[str]],
) -> tuple[tuple[Combination, ...], factorial.Design | None]:
    """The combinations of a design, and the two-level design if there is one.

    Without factors there is one empty combination. Raises `StudyError` that names the factor and
    the requirement of the design.
    """
    if generators and kind != "fraction":
        raise StudyError(f"generators are for the design fraction, not for {kind}")
    if kind in ("two-level", "fraction"):
        return _two_level(kind, factors, generators)
    if kind == "sweeps":
        return _sweeps(factors), None
    count = math.prod(len(levels) for levels in factors.values())
    if count > MOST_POINTS:
        raise StudyError(
            f"these factors have {count:,} combinations, more than {MOST_POINTS:,}: use fewer "
            "levels, or the design sweeps or fraction"
        )
    every = product(*factors.values())
    return tuple(dict(zip(factors, levels, strict=True)) for levels in every), None


def _two_level(
    kind: DesignKind,
    factors: Mapping[str, Sequence[Level]],
    generators: Mapping[str, Sequence[str]],
) -> tuple[tuple[Combination, ...], factorial.Design]:
    """All combinations of two levels, or the fraction that the generators define."""
    for name, levels in factors.items():
        if len(levels) != 2:
            raise StudyError(
                f"factor {name} has {len(levels)} levels: the design {kind} needs two of each"
            )
    if kind == "fraction" and not generators:
        raise StudyError(
            "the design fraction needs generators: each makes one factor the product of others, as "
            '[generators] and "c" = ["a", "b"]'
        )
    for name in (*generators, *(part for parts in generators.values() for part in parts)):
        if name not in factors:
            raise StudyError(f"generator: {name} is no factor; there are {', '.join(factors)}")
    base = [name for name in factors if name not in generators]
    design = factorial.fraction(base, generators)
    if len(design.runs) > MOST_POINTS:
        raise StudyError(
            f"{len(base)} factors make {len(design.runs):,} runs, more than {MOST_POINTS:,}: "
            "use the design fraction"
        )
    runs = tuple(
        {name: factors[name][sign > 0] for name, sign in zip(design.factors, signs, strict=True)}
        for signs in design.runs
    )
    return runs, design


def _sweeps(factors: Mapping[str, Sequence[Level]]) -> tuple[Combination, ...]:
    """The first levels of all factors, then the other levels of each factor."""
    first = {name: levels[0] for name, levels in factors.items()}
    others = [first | {name: level} for name, levels in factors.items() for level in levels[1:]]
    return (first, *others)
