"""Designs and the allocation of variation, against worked examples and their own algebra."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perpacket.analysis import two_level as factorial
from perpacket.analysis.factorial import allocate
from perpacket.analysis.statistics import StatisticsError
from perpacket.errors import StudyError

MEMORY_AND_CACHE = [[15.0, 18.0, 12.0], [45.0, 48.0, 51.0], [25.0, 28.0, 19.0], [75.0, 75.0, 81.0]]
"""Jain, example 18.1: a 2^2 3 design."""


def test_the_worked_example_has_the_published_effects_and_shares() -> None:
    found = allocate(factorial.full(["A", "B"]), MEMORY_AND_CACHE)
    effects = [found.effects[name].value for name in [(), ("A",), ("B",), ("A", "B")]]
    assert effects == [41.0, 21.5, 9.5, 5.0]
    shares = [found.shares[name] for name in [("A",), ("B",), ("A", "B")]]
    assert [round(100 * share, 2) for share in shares] == [78.88, 15.40, 4.27]
    assert round(100 * found.error_share, 2) == 1.45


def test_the_worked_example_has_the_published_intervals() -> None:
    """Example 18.3 prints the intervals at 90 %, with t = 1.86 and a deviation of 1.03."""
    found = allocate(factorial.full(["A", "B"]), MEMORY_AND_CACHE, confidence=0.90)
    main = found.effects["A",]
    assert (main.low, main.high) == pytest.approx((19.59, 23.41), abs=0.02)
    assert all(found.significant(effect) for effect in found.effects)


rows = st.lists(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), min_size=8, max_size=8)


@given(rows)
def test_shares_sum_to_one_unless_nothing_varies(responses: list[list[float]]) -> None:
    found = allocate(factorial.full(["a", "b", "c"]), responses)
    total = math.fsum(found.shares.values()) + found.error_share
    assert total == pytest.approx(1.0) or total == 0.0


@given(rows)
def test_effects_reproduce_every_mean(responses: list[list[float]]) -> None:
    design = factorial.full(["a", "b", "c"])
    found = allocate(design, responses)
    for place, row in enumerate(responses):
        rebuilt = math.fsum(
            interval.value * design.column(effect)[place]
            for effect, interval in found.effects.items()
        )
        assert rebuilt == pytest.approx(math.fsum(row) / len(row), abs=1e-6)


def test_a_half_fraction_confounds_the_effects_of_its_generator() -> None:
    design = factorial.fraction(["A", "B", "C"], {"D": ["A", "B", "C"]})
    assert len(design.runs) == 8
    assert design.resolution == 4
    groups = [set(group) for group in design.confounded()]
    assert {("A",), ("B", "C", "D")} in groups
    assert {("A", "B"), ("C", "D")} in groups
    assert {(), ("A", "B", "C", "D")} in groups


def test_a_coarser_fraction_confounds_main_effects_with_pairs() -> None:
    design = factorial.fraction(["A", "B"], {"C": ["A", "B"]})
    assert design.resolution == 3
    assert {("C",), ("A", "B")} in [set(group) for group in design.confounded()]


def test_a_full_design_confounds_nothing() -> None:
    design = factorial.full(["A", "B", "C"])
    assert design.resolution is None
    assert all(len(group) == 1 for group in design.confounded())
    assert len(set(design.runs)) == 8


def test_without_replications_effects_have_no_interval() -> None:
    found = allocate(factorial.full(["A"]), [[1.0], [3.0]])
    assert not found.effects["A",].is_bounded
    assert not found.significant(("A",))


@pytest.mark.parametrize(
    ("factors", "generators"),
    [([], {}), (["A", "A"], {}), (["A", "B"], {"C": ["A"]}), (["A", "B"], {"C": ["A", "D"]})],
)
def test_an_invalid_design_is_an_error(
    factors: list[str], generators: dict[str, list[str]]
) -> None:
    with pytest.raises(StudyError):
        factorial.fraction(factors, generators)


def test_responses_that_do_not_fit_the_design_are_errors() -> None:
    design = factorial.full(["A"])
    for responses in ([[1.0]], [[1.0], [1.0, 2.0]], [[1.0], [math.nan]]):
        with pytest.raises(StatisticsError):
            allocate(design, responses)


def test_effects_are_confounded_where_their_signs_are_equal_in_every_run() -> None:
    design = factorial.fraction(["A", "B", "C"], {"D": ["A", "B"], "E": ["A", "B", "C"]})
    groups: dict[tuple[int, ...], list[factorial.Effect]] = {}
    for effect in factorial.every_effect(design.factors):
        groups.setdefault(design.column(effect), []).append(effect)
    assert design.confounded() == tuple(map(tuple, groups.values()))
