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
from types import SimpleNamespace
from typing import cast

import pytest

from perpacket.advise import effect
from perpacket.analysis import profile_comparison
from perpacket.analysis.claim import Relation, Verdict, judge
from perpacket.analysis.ratios import read_rule
from perpacket.analysis.statistics import Interval
from perpacket_lab.analysis import contests, findings
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.methods import Methods, MethodValue
from perpacket_lab.analysis.methods import compare as compare_methods
from perpacket_lab.analysis.published_comparison import compare
from perpacket_lab.analysis.run_comparison import Sides
from perpacket_lab.analysis.tried_changes import change_sets
from perpacket_lab.analysis.wording import MINUS
from perpacket_lab.study.contest import Contest
from perpacket_lab.study.figure import Figure
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import Row, gain
from perpacket_lab.study.study import Study
from test_profile_compare import window
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
        return judge(ratio, Relation.RATIO).is_shown

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
        verdict = compare(stated, "a", estimates.mean("a", "requests_per_s")).verdict
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


RATIOS = {
    Verdict.HIGHER: [1.1, 1.15, 1.2, 1.12, 1.17],
    Verdict.LOWER: [0.9, 0.85, 0.8, 0.88, 0.83],
    Verdict.NOT_DISTINGUISHABLE: [0.9, 1.15, 1.0, 0.95, 1.08],
    Verdict.SAME: [1.0] * 5,
    Verdict.NO_INTERVAL: [1.2],
}
"""The ratio of point `b` to point `a` in each block."""

FIGURE = Figure("changes", "Changes", "change", "requests_per_s")
STUDY = SimpleNamespace(
    figures=[FIGURE],
    points=[Point("a", "c", {"change": "none"}), Point("b", "c", {"change": "b"}, against="a")],
)


def of_ratios(ratios: list[float]) -> Runs:
    """Runs with these ratios; a block changes both of its values."""
    return {
        name: {
            block: {"point": name, "seed": block, "requests_per_s": RATE * block * ratio}
            for block, ratio in enumerate(values, 1)
        }
        for name, values in (("a", [1.0] * len(ratios)), ("b", ratios))
    }


def by_runs(ratios: list[float]) -> Verdict:
    rows = of_ratios(ratios)
    claim = Sides(({"p": rows["a"]}, {"p": rows["b"]}), 0.95, False).ratio("p", "requests_per_s")
    assert claim is not None
    return claim.verdict


def by_profiles(ratios: list[float]) -> Verdict:
    sides = (
        [window({"tcp": 10_000.0 * one}) for one in side] for side in ([1.0] * len(ratios), ratios)
    )
    return profile_comparison.compare(*sides, paired=True).total.verdict


def by_changes(ratios: list[float]) -> Verdict:
    ((row,),) = (one.rows for one in change_sets(cast(Study, STUDY), Estimates(of_ratios(ratios))))
    return row.verdict


def logarithms(rows: dict[int, Row]) -> dict[int, float]:
    return {seed: math.log(float(str(row["requests_per_s"]))) for seed, row in rows.items()}


def by_methods(ratios: list[float]) -> Verdict:
    values = [MethodValue(name, "runs", logarithms(own)) for name, own in of_ratios(ratios).items()]
    methods = Methods("question", 1.0, values[0], values[1])
    return compare_methods("title", "scenario", methods).verdict


def interval_of(ratios: list[float]) -> Interval:
    ratio = Estimates(of_ratios(ratios)).ratio("b", "a", "requests_per_s")
    assert ratio is not None
    return ratio


def by_published(ratios: list[float]) -> Verdict:
    """A published rise; the run agrees with it if its ratio is higher."""
    stated = figure(minimum=0.0, judged="direction")
    verdict = compare(stated, "b", interval_of(ratios).map(gain)).verdict
    agreement = {Verdict.SAME_DIRECTION: Verdict.HIGHER, Verdict.OPPOSITE: Verdict.LOWER}
    return agreement.get(verdict, verdict)


def by_trials(ratios: list[float]) -> Verdict:
    verdict = effect.judge(interval_of(ratios), floor=0.0)
    shown = {effect.CostVerdict.CHEAPER: Verdict.LOWER, effect.CostVerdict.DEARER: Verdict.HIGHER}
    return shown.get(verdict, Verdict.NOT_DISTINGUISHABLE)


def by_findings(ratios: list[float]) -> Verdict:
    text, _ = findings.change_text(interval_of(ratios))
    shown = {"+": Verdict.HIGHER, MINUS: Verdict.LOWER}
    return shown.get(text[0], Verdict.NOT_DISTINGUISHABLE)


def by_contests(ratios: list[float]) -> Verdict:
    contest = Contest("Most", "server", "size", "request_rate")
    points = [Point(name, "c", {"server": name, "size": 1}) for name in ("a", "b")]
    values = {name: logarithms(own) for name, own in of_ratios(ratios).items()}
    (level,) = contests.compare(contest, points, values).levels
    if level.not_distinguishable:
        return Verdict.NOT_DISTINGUISHABLE
    return Verdict.HIGHER if level.leader == "b" else Verdict.LOWER


PRODUCERS = {
    **{"runs": by_runs, "profiles": by_profiles, "changes": by_changes, "methods": by_methods},
    **{"published": by_published, "trials": by_trials, "findings": by_findings},
    "contests": by_contests,
}

COARSE = {Verdict.SAME, Verdict.NO_INTERVAL}
"""Verdicts that trials and contests do not have: they claim nothing."""


@pytest.mark.parametrize("expected", RATIOS)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_every_producer_has_one_verdict_on_a_ratio(producer: str, expected: Verdict) -> None:
    """Three modules once defined `not distinguishable` in three ways."""
    verdict = PRODUCERS[producer](RATIOS[expected])
    if expected in COARSE and producer in ("trials", "contests", "findings"):
        assert not (producer != "findings" and verdict.is_shown)
    else:
        assert verdict is expected
