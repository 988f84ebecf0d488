"""Two-level factorial designs: their runs, and the effects that they cannot separate.

A 2^k r design runs every combination of k factors at two levels, r times each. A 2^(k-p) design
runs a fraction, in which effects are confounded: only their sum can be measured. Source: Jain, *The
Art of Computer Systems Performance Analysis*, 1991, chapters 17 to 19.

A tuple of factors names an effect: `("memory", "cache")` is their interaction, in the order of the
factors. The empty tuple is the mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from operator import xor

from perpacket.errors import StudyError

Effect = tuple[str, ...]
"""The factors of an effect; empty for the mean."""

Signs = tuple[int, ...]
"""The level of each factor in one run: -1 or +1."""

MOST_FACTORS = 16
"""65,536 combinations. A larger design is a mistake."""


@dataclass(frozen=True, slots=True)
class Design:
    """The runs of a two-level design.

    `runs` has the signs of all factors for each run, with the first factor changing fastest.
    `generators` maps each added factor of a fraction to the factors whose product it equals.
    """

    factors: tuple[str, ...]
    runs: tuple[Signs, ...]
    generators: Mapping[str, Effect]

    def column(self, effect: Effect) -> tuple[int, ...]:
        """The sign of an effect in each run: the product of its factors' signs."""
        indices = [self.factors.index(factor) for factor in effect]
        return tuple(math.prod(signs[index] for index in indices) for signs in self.runs)

    def confounded(self) -> tuple[tuple[Effect, ...], ...]:
        """Groups of effects that cannot be separated, simplest first.

        In a full design each group has one effect.
        """
        base = [factor for factor in self.factors if factor not in self.generators]
        masks = {factor: 1 << index for index, factor in enumerate(base)}
        # A factor times itself is the mean, so a product of factors is the exclusive or of their
        # bits. Two effects with the same bits have the same signs in every run.
        for added, parts in self.generators.items():
            masks[added] = reduce(xor, (masks[part] for part in parts))
        groups: dict[int, list[Effect]] = {}
        for effect in every_effect(self.factors):
            bits = reduce(xor, (masks[factor] for factor in effect), 0)
            groups.setdefault(bits, []).append(effect)
        return tuple(tuple(effects) for effects in groups.values())

    @property
    def resolution(self) -> int | None:
        """The number of factors in the shortest effect confounded with the mean.

        At resolution 3, main effects are confounded with interactions of two factors. At resolution
        4 they are not. None for a full design.
        """
        with_mean = next(group for group in self.confounded() if () in group)
        return min((len(effect) for effect in with_mean if effect), default=None)


def every_effect(factors: Sequence[str]) -> list[Effect]:
    """The mean, every factor, every interaction: simplest first."""
    return [
        chosen for size in range(len(factors) + 1) for chosen in combinations(tuple(factors), size)
    ]


def full(factors: Sequence[str]) -> Design:
    """Every combination of the factors' two levels: 2^k runs."""
    return fraction(factors, {})


def fraction(factors: Sequence[str], generators: Mapping[str, Sequence[str]]) -> Design:
    """Every combination of `factors`, with added factors that are products of these.

    `fraction(["A", "B", "C"], {"D": ["A", "B", "C"]})` is a 2^(4-1) design. Raises `StudyError` on
    a repeated or unknown name and on a product of fewer than two factors.
    """
    base = tuple(factors)
    names = (*base, *generators)
    if not base or len(names) > MOST_FACTORS or len(set(names)) != len(names):
        raise StudyError(
            f"factors {', '.join(names)}: expected 1 to {MOST_FACTORS} different names"
        )
    for added, parts in generators.items():
        if len(parts) < 2 or len(set(parts)) != len(parts) or not set(parts) <= set(base):
            raise StudyError(
                f"generator {added} = {' x '.join(parts)}: expected two or more of "
                f"{', '.join(base)}"
            )
    runs = []
    for reversed_signs in product((-1, 1), repeat=len(base)):
        signs = reversed_signs[::-1]
        by_name = dict(zip(base, signs, strict=True))
        extra = (math.prod(by_name[part] for part in parts) for parts in generators.values())
        runs.append((*signs, *extra))
    return Design(names, tuple(runs), {name: tuple(parts) for name, parts in generators.items()})


def renamed(design: Design, names: Mapping[str, str]) -> Design:
    """The same design with other names for its factors."""
    return Design(
        tuple(names[name] for name in design.factors),
        design.runs,
        {
            names[name]: tuple(names[part] for part in parts)
            for name, parts in design.generators.items()
        },
    )
