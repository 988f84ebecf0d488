"""Intervals have their stated confidence, and equal those of scipy if it has the method."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import special as scipy_special
from scipy import stats as scipy_stats

from patience import PATIENCE_S
from perpacket.analysis import statistics
from perpacket.analysis.statistics import Interval, StatisticsError
from perpacket.show import trial_tables

numbers = st.floats(-1e9, 1e9, allow_nan=False)
positive = st.floats(1e-3, 1e9)
samples = st.lists(numbers, min_size=1, max_size=40)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 7, 10, 30, 100, 1000, 10_000])
def test_t_quantiles_are_those_of_scipy(confidence: float, degrees: int) -> None:
    expected = scipy_stats.t.ppf(0.5 + confidence / 2, degrees)
    assert statistics.t_quantile(confidence, degrees) == pytest.approx(expected, rel=1e-9)


@given(st.floats(0.1, 500), st.floats(0.1, 500), st.floats(0, 1))
def test_the_incomplete_beta_function_is_that_of_scipy(a: float, b: float, x: float) -> None:
    expected = scipy_special.betainc(a, b, x)
    assert statistics.regularized_beta(a, b, x) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_no_number_in_a_text_is_a_negative_zero() -> None:
    assert statistics.number_text(-0.0) == "0"
    assert statistics.significant(-0.0, 4, 6) == "0"
    assert statistics.format_number(-0.001, 2) == "0.00"
    assert trial_tables.percent(-1e-17) == "0.0 %"


def test_five_runs_have_the_t_interval_of_a_textbook() -> None:
    """Student's t with 4 degrees of freedom is 2.776 at 95 %."""
    interval = statistics.mean([1.0, 2.0, 3.0, 4.0, 5.0])
    half_width = 2.776445105 * math.sqrt(2.5 / 5)
    assert interval.value == 3.0
    assert interval.low == pytest.approx(3 - half_width)
    assert interval.high == pytest.approx(3 + half_width)
    assert (interval.n, interval.confidence) == (5, 0.95)


def test_one_run_has_no_bounds() -> None:
    for interval in (statistics.mean([7.0]), statistics.median([7.0])):
        assert interval.value == 7.0
        assert not interval.is_bounded
        assert interval.as_dict()["low"] is None
        assert str(interval) == "7.00 (one run)"


@given(
    st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=12),
    st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=12),
)
def test_a_difference_is_welchs(first: list[float], second: list[float]) -> None:
    own = statistics.difference(first, second)
    assert own.value == pytest.approx(
        math.fsum(second) / len(second) - math.fsum(first) / len(first), rel=1e-6, abs=1e-3
    )
    assert own.contains(own.value)
    assume(len(set(first)) > 1 or len(set(second)) > 1)
    theirs = scipy_stats.ttest_ind(second, first, equal_var=False).confidence_interval(0.95)
    # Degrees of freedom are rounded down: at most one fewer, which makes the interval wider.
    assert own.low <= theirs.low + 1e-6 * (1 + abs(theirs.low))
    assert own.high >= theirs.high - 1e-6 * (1 + abs(theirs.high))


def test_equal_spreads_have_the_interval_of_twice_the_degrees() -> None:
    """Student's t with 4 degrees of freedom is 2.776 at 95 %."""
    own = statistics.difference([1.0, 2.0, 3.0], [11.0, 12.0, 13.0])
    assert own.value == 10.0
    assert own.high == pytest.approx(10 + 2.776445105 * math.sqrt(2 / 3))
    assert not statistics.difference([1.0], [2.0, 3.0]).is_bounded
    assert statistics.difference([1.0, 1.0], [3.0, 3.0]).low == 2.0


@given(samples)
def test_intervals_contain_their_value_and_the_value_is_within_the_range_of_the_runs(
    values: list[float],
) -> None:
    for interval in (statistics.mean(values), statistics.median(values)):
        assert interval.low <= interval.value <= interval.high
        assert min(values) <= interval.value <= max(values)


@given(st.lists(numbers, min_size=2, max_size=12), st.floats(0.5, 0.9))
def test_more_confidence_never_narrows_an_interval(values: list[float], confidence: float) -> None:
    for statistic in (statistics.mean, statistics.median):
        narrow, wide = statistic(values, confidence), statistic(values, 0.99)
        assert wide.low <= narrow.low
        assert narrow.high <= wide.high


@pytest.mark.parametrize("n", [6, 9, 17, 40])
def test_the_median_interval_reaches_its_confidence_and_the_next_narrower_does_not(n: int) -> None:
    interval = statistics.median([float(value) for value in range(n)])
    rank = int(interval.low) + 1
    reached = 1 - 2 * scipy_stats.binom.cdf(rank - 1, n, 0.5)
    narrower = 1 - 2 * scipy_stats.binom.cdf(rank, n, 0.5)
    assert interval.confidence == pytest.approx(reached)
    assert reached >= 0.95
    assert narrower < 0.95
    assert interval.high == n - rank


def test_a_median_of_five_runs_has_less_than_95_per_cent_confidence() -> None:
    interval = statistics.median([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (interval.low, interval.high) == (1.0, 5.0)
    assert interval.confidence == pytest.approx(1 - 2 / 32)


def test_95_per_cent_intervals_contain_the_true_value_in_about_95_of_100_experiments() -> None:
    source = random.Random(1)
    held = {"mean": 0, "median": 0}
    experiments = 2000
    for _ in range(experiments):
        values = [source.gauss(10, 2) for _ in range(9)]
        held["mean"] += statistics.mean(values).contains(10)
        held["median"] += statistics.median(values).contains(10)
    assert held["mean"] / experiments == pytest.approx(0.95, abs=0.015)
    assert held["median"] / experiments >= 0.94


def a_run(chance: random.Random, correlation: float, windows: int) -> list[list[float]]:
    """Three points around 100. Half of the noise is common; neighbours are correlated."""
    states = [chance.gauss(0, 4) for _ in range(3)]
    found: list[list[float]] = [[] for _ in states]
    for _ in range(windows):
        together = chance.gauss(0, 4)
        for point, values in enumerate(found):
            new = math.sqrt(0.5) * (together + chance.gauss(0, 4))
            states[point] = correlation * states[point] + math.sqrt(1 - correlation**2) * new
            values.append(100 + states[point])
    return found


@pytest.mark.parametrize(
    ("correlation", "least"), [(0.0, (0.94, 0.94, 0.94)), (0.4, (0.88, 0.9, 0.91))]
)
def test_windows_in_time_order_bound_their_mean(
    correlation: float, least: tuple[float, float, float]
) -> None:
    """The shares are those of `benches/window_intervals.py`. Student's interval has 82 % at 0.4."""
    for windows, share in zip((6, 12, 24), least, strict=True):
        chance = random.Random(windows)
        contained = 0
        for _ in range(500):
            run = a_run(chance, correlation, windows)
            alike = statistics.neighbour_correlation(run)
            contained += sum(statistics.mean(v, correlation=alike).contains(100) for v in run)
        assert contained / 1500 >= share


@given(st.lists(st.integers(90_000, 130_000).map(float), min_size=12, max_size=12))
def test_a_dozen_windows_never_have_an_interval_of_several_times_that_of_student(
    windows: list[float],
) -> None:
    """Windows between 99,903 and 123,763 requests/s once had a half-width of 61,483."""
    plain = statistics.mean(windows)
    alike = statistics.neighbour_correlation([windows])
    wide = statistics.mean(windows, correlation=alike)
    assert wide.high - wide.low <= 2.4 * (plain.high - plain.low)


def test_the_correlation_of_a_run_is_that_of_all_its_points() -> None:
    """One point that drifts by chance does not widen its own interval alone."""
    drift, noise = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, -1.0, 1.0, -1.0, 1.0, -1.0]
    assert statistics.neighbour_correlation([drift]) == statistics.MOST_CORRELATION
    assert statistics.neighbour_correlation([noise]) == 0.0
    assert statistics.neighbour_correlation([drift, noise, noise]) == 0.0
    assert statistics.neighbour_correlation([[5.0, 5.0, 5.0, 5.0], [1.0], []]) == 0.0


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=20))
def test_swapping_two_systems_inverts_their_ratio(pairs: list[tuple[float, float]]) -> None:
    own, base = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    forth, back = statistics.paired_ratio(own, base), statistics.paired_ratio(base, own)
    assert forth.value == pytest.approx(1 / back.value)
    assume(back.low > 0 and math.isfinite(back.high))
    assert forth.low == pytest.approx(1 / back.high)


def test_the_effect_of_a_seed_on_both_systems_cancels_out() -> None:
    """The gain is exactly ten per cent, although the seeds differ by a factor of ten."""
    base = [100.0, 1000.0, 300.0]
    gain = statistics.paired_ratio([1.1 * value for value in base], base)
    assert gain.low == pytest.approx(1.1)
    assert gain.high == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("own", "base", "complaint"),
    [([1.0], [1.0, 2.0], "one of each"), ([0.0], [1.0], "positive"), ([], [], "no values")],
)
def test_ratios_that_do_not_exist_are_errors(
    own: list[float], base: list[float], complaint: str
) -> None:
    with pytest.raises(StatisticsError, match=complaint):
        statistics.paired_ratio(own, base)


def test_a_number_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(StatisticsError, match="finite"):
        statistics.mean([1.0, math.nan])


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=12, unique=True))
def test_the_trend_test_is_kendalls_exact_one(values: list[int]) -> None:
    order = list(range(len(values)))
    chance = scipy_stats.kendalltau(order, values, method="exact").pvalue
    warned = statistics.trend([float(value) for value in values]) is not None
    assert warned == (chance < statistics.TREND_SIGNIFICANCE)


def test_a_drift_over_six_seeds_is_reported_with_its_direction() -> None:
    warning = statistics.trend([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    assert warning is not None
    assert "fall" in warning
    assert statistics.trend([3.0, 5.0, 1.0, 6.0, 2.0, 4.0]) is None
    assert statistics.trend([1.0] * 8) is None


def test_an_outlier_is_named() -> None:
    warning = statistics.outlier([10.0, 10.1, 9.9, 10.0, 25.0])
    assert warning is not None
    assert warning.startswith("one of 5 runs is an outlier: 25, the mean of the others is 10.0")
    assert statistics.outlier([10.0, 10.1, 9.9, 10.0, 10.05]) is None
    assert statistics.outlier([10.0] * 5) is None
    assert statistics.outlier([10.0, 10.0, 10.0 + 1e-14, 10.0]) is None
    assert statistics.outlier([1.0, 1.0, 9.0]) is None


@pytest.mark.parametrize(("n", "critical"), [(4, 1.4925), (5, 1.7489), (7, 2.0973), (10, 2.4097)])
def test_outliers_begin_at_the_published_critical_values(n: int, critical: float) -> None:
    """Tables of Grubbs' test at 1 % on one side, which is 2 % on both."""
    assert statistics.grubbs_limit(n, 0.02) == pytest.approx(critical, abs=5e-4)


def test_normal_runs_are_rarely_outliers() -> None:
    source = random.Random(2)
    alarms = sum(
        statistics.outlier([source.gauss(100, 5) for _ in range(5)]) is not None
        for _ in range(2000)
    )
    assert alarms / 2000 < 0.02


def test_overlapping_neighbours_are_not_ranked() -> None:
    intervals = {
        "slow": Interval(10, 9, 11, 5, 0.95),
        "middle": Interval(12, 10.5, 13.5, 5, 0.95),
        "fast": Interval(20, 19, 21, 5, 0.95),
        "faster": Interval(21, 20.5, 21.5, 5, 0.95),
        "fastest": Interval(22, 21.2, 22.8, 5, 0.95),
    }
    assert statistics.unranked(intervals) == [
        ("slow", "middle"),
        ("fast", "faster"),
        ("faster", "fastest"),
    ]
    assert statistics.unranked({"alone": Interval(1, 0, 2, 5, 0.95)}) == []


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(26410.4, 26120.2, 26700.6, 5, 0.95), "26,410 [26,120, 26,701]"),
        (Interval(0.00412, 0.00410, 0.00414, 5, 0.95), "0.004120 [0.004100, 0.004140]"),
        (Interval(-0.001, -0.2, 0.3, 5, 0.95), "0.00 [-0.20, 0.30]"),
        (Interval(0.0, 0.0, 0.0, 5, 0.95), "0 [0, 0]"),
        (Interval(57.347931, 57.347930, 57.347932, 5, 0.95), "57.348 [57.348, 57.348]"),
    ],
)
def test_an_interval_has_no_more_digits_than_its_width_justifies(
    interval: Interval, text: str
) -> None:
    assert str(interval) == text


def test_an_interval_is_cut_to_possible_values_and_stays_unbounded_without_bounds() -> None:
    assert Interval(0.9, 0.7, 1.1, 3, 0.95).within(0, 1) == Interval(0.9, 0.7, 1, 3, 0.95)
    alone = statistics.mean([0.9])
    assert alone.within(0, 1) == alone


def test_a_value_without_bounds_prints_the_reason() -> None:
    assert str(statistics.mean([5.0])) == "5.00 (one run)"
    assert str(Interval(5.0, -math.inf, math.inf, 2, 0.0)) == "5.00 (no interval)"


def test_importing_statistics_loads_nothing_heavy() -> None:
    code = (
        "import sys, perpacket.analysis.statistics; "
        "print('numpy' in sys.modules or 'scipy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout == "False\n"
