"""Claims are right: runs with a known difference, under the noise of a shared machine.

The noise has heavy tails (Student's t with three degrees of freedom). A part of it affects all
points of a block, and neighbouring blocks are alike. The tests make each kind of claim about many
such runs. False claims are at most as many as the confidence allows, and large differences are
found.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import pytest

from perpacket.analysis.ratios import read_rule
from perpacket_lab.analysis import contests
from perpacket_lab.analysis.changes import NOT_DISTINGUISHABLE
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.findings import change_text
from perpacket_lab.analysis.published import Verdict, judge
from perpacket_lab.analysis.run_comparison import Sides
from perpacket_lab.study.contest import Contest
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import Row
from test_studies import figure

RATE = 50_000.0
BLOCKS = 8
TRIALS = 1_000
NOMINAL = 0.05
ALLOWED = NOMINAL + 1.645 * math.sqrt(NOMINAL * (1 - NOMINAL) / TRIALS)
"""The largest allowed share of false claims. With a true rate of 5 %, one test in twenty exceeds
it by chance."""

SHARED, OWN = 0.03, 0.015
"""Standard deviations of a block and of a run within it, as shares of the value."""

ALIKE = 0.2
"""Correlation of neighbouring blocks."""

Runs = dict[str, dict[int, Row]]


def heavy(chance: random.Random) -> float:
    """Student's t with three degrees of freedom and a variance of one."""
    spread = math.sqrt(sum(chance.gauss(0, 1) ** 2 for _ in range(3)) / 3)
    return chance.gauss(0, 1) / spread / math.sqrt(3)


def blocks(chance: random.Random) -> Iterator[float]:
    """The effect of each block on all of its runs."""
    state = heavy(chance)
    for _ in range(BLOCKS):
        yield SHARED * state
        state = ALIKE * state + math.sqrt(1 - ALIKE**2) * heavy(chance)


def runs(chance: random.Random, values: dict[str, float]) -> Runs:
    """A run of points with these true values, in blocks."""
    found: Runs = {name: {} for name in values}
    for block, shared in enumerate(blocks(chance), 1):
        for name, value in values.items():
            noise = math.exp(shared + OWN * heavy(chance))
            found[name][block] = {"point": name, "seed": block, "requests_per_s": value * noise}
    return found


def share(claims: Callable[[random.Random], bool], seed: int) -> float:
    """The share of trials in which a claim is made."""
    chance = random.Random(seed)
    return sum(claims(chance) for _ in range(TRIALS)) / TRIALS


def change_is_claimed(difference: float) -> Callable[[random.Random], bool]:
    def claims(chance: random.Random) -> bool:
        found = runs(chance, {"a": RATE, "b": RATE * (1 + difference)})
        ratio = Estimates(found, in_time_order=lambda _: True).ratio("b", "a", "requests_per_s")
        assert ratio is not None
        return change_text(ratio)[0] != NOT_DISTINGUISHABLE

    return claims


def lead_is_claimed(difference: float) -> Callable[[random.Random], bool]:
    contest = Contest("Most", "server", "size", "request_rate")
    names = ("a", "b", "c", "d")
    points = [Point(name, "file", {"server": name, "size": 1}) for name in names]

    def claims(chance: random.Random) -> bool:
        found = runs(chance, dict.fromkeys(names, RATE) | {"a": RATE * (1 + difference)})
        values = {
            name: {block: float(str(row["requests_per_s"])) for block, row in own.items()}
            for name, own in found.items()
        }
        (level,) = contests.compare(contest, points, values).levels
        return not level.not_distinguishable

    return claims


def gate_fails(difference: float, rule: str) -> Callable[[random.Random], bool]:
    commands = read_rule(rule)

    def claims(chance: random.Random) -> bool:
        sides = runs(chance, {"a": RATE}), runs(chance, {"a": RATE * (1 + difference)})
        ratio = Sides(sides, 0.95, in_time_order=True).ratio("a", "requests_per_s")
        assert ratio is not None
        return commands.is_certain(ratio)

    return claims


def published_differs(difference: float) -> Callable[[random.Random], bool]:
    stated = figure(value=RATE, unit="req/s")

    def claims(chance: random.Random) -> bool:
        estimates = Estimates(runs(chance, {"a": RATE * (1 + difference)}), 0.95, lambda _: True)
        verdict = judge(stated, "a", estimates.mean("a", "requests_per_s")).verdict
        return verdict is Verdict.DIFFERS

    return claims


KINDS = {
    "change": change_is_claimed,
    "lead": lead_is_claimed,
    "gate": lambda difference: gate_fails(-difference, "requests_per_s < 1"),
    "gate with a margin": lambda difference: gate_fails(-difference, "requests_per_s < 0.97"),
    "published": published_differs,
}

FOUND = {
    "change": (0.9, 0.99),
    "lead": (0.75, 0.97),
    "gate": (0.25, 0.7),
    "gate with a margin": (0.0, 0.6),
    "published": (0.4, 0.7),
}
"""The least share of runs in which a difference of 3 % and of 10 % must be found."""


@pytest.mark.parametrize("kind", KINDS)
def test_false_claims_have_at_most_the_nominal_rate(kind: str) -> None:
    assert share(KINDS[kind](0.0), seed=1) <= ALLOWED


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_difference_is_found(kind: str) -> None:
    small, large = FOUND[kind]
    assert share(KINDS[kind](0.03), seed=2) >= small
    assert share(KINDS[kind](0.1), seed=3) >= large


def test_a_gate_with_a_margin_does_not_fail_for_a_difference_within_it() -> None:
    assert share(gate_fails(-0.03, "requests_per_s < 0.97"), seed=4) <= ALLOWED
