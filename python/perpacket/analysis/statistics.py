"""Intervals and comparisons of replicated runs.

A replication is one run with its own seed. The functions accept one number for each replication, in
the order of the seeds, and return an `Interval`, so every result has its spread. The module needs
only the standard library, so its import is fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

DEFAULT_CONFIDENCE = 0.95
"""The default confidence of intervals."""

TREND_SIGNIFICANCE = 0.01
"""A drift is reported if the probability that chance produces it is below this."""

OUTLIER_SIGNIFICANCE = 0.01
"""A run is an outlier if the probability that chance produces its distance is below this."""

MOST_CORRELATION = 0.6
"""Greater correlations of neighbours are replaced by this. It widens an interval to twice that of
independent values. A few windows cannot show more (`benches/window_intervals.py`)."""

ROUNDING = 1e-9
"""Smaller differences, as a share of the value, come from floating-point rounding alone."""


class StatisticsError(ValueError):
    """The statistic does not exist for these numbers."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the interval that contains the true value with the stated confidence.

    `value`, `low` and `high` have the unit of the numbers, with `low <= value <= high`. `n` is the
    number of replications. One replication shows no spread, so its bounds are infinite.
    `confidence` is a share (0.95). For the median of few runs, it is lower than requested.
    """

    value: float
    low: float
    high: float
    n: int
    confidence: float

    @property
    def is_bounded(self) -> bool:
        """Whether there were enough replications to bound the value."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def contains(self, value: float) -> bool:
        """Whether `value` lies within the bounds."""
        return self.low <= value <= self.high

    def overlaps(self, other: Interval) -> bool:
        """Whether the two intervals share a value. Then their order is not certain."""
        return self.low <= other.high and other.low <= self.high

    def map(self, function: Callable[[float], float]) -> Interval:
        """The interval under a monotonic `function`, for a change of unit."""
        low, high = sorted((function(self.low), function(self.high)))
        return Interval(function(self.value), low, high, self.n, self.confidence)

    def within(self, least: float, most: float) -> Interval:
        """The interval cut to possible values; an unbounded interval is returned unchanged."""
        if not self.is_bounded:
            return self
        low, high = max(self.low, least), min(self.high, most)
        return replace(self, low=min(low, self.value), high=max(high, self.value))

    def as_dict(self) -> dict[str, float | int | None]:
        """The fields for JSON. JSON has no infinity: missing bounds are null."""
        return {
            "value": self.value,
            **self.bounds(),
            "n": self.n,
            "confidence": self.confidence,
        }

    def bounds(self) -> dict[str, float | None]:
        """The keys `low` and `high`; both are None without bounds."""
        bounded = self.is_bounded
        return {"low": self.low if bounded else None, "high": self.high if bounded else None}

    @property
    def decimals(self) -> int:
        """Decimals that the width justifies, at most five significant digits of the value."""
        width = self.high - self.low if self.is_bounded else 0.0
        justified = decimals_for(width) if width else decimals_for(self.value, digits=3)
        return min(justified, decimals_for(self.value, digits=5)) if self.value else justified

    def __str__(self) -> str:
        """`26,410 [26,120, 26,700]`."""
        return self.text(self.decimals)

    def text(self, most_decimals: int) -> str:
        """The same text as `str`, with at most `most_decimals` decimals."""
        value, low, high = (
            format_number(number, min(most_decimals, self.decimals))
            for number in (self.value, self.low, self.high)
        )
        if self.is_bounded:
            return f"{value} [{low}, {high}]"
        return f"{value} (one run)" if self.n == 1 else f"{value} (no interval)"


def decimals_for(magnitude: float, digits: int = 2) -> int:
    """Decimals that show that many significant digits of `magnitude`, at most six."""
    if magnitude == 0 or not math.isfinite(magnitude):
        return 0
    return min(6, max(0, digits - 1 - math.floor(math.log10(abs(magnitude)))))


def format_number(number: float, decimals: int) -> str:
    """`number` with thousands separators and no negative zero."""
    text = f"{number:,.{decimals}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


@lru_cache(maxsize=256)
def t_quantile(confidence: float, degrees: int) -> float:
    """The t for which Student's distribution has `confidence` between -t and t.

    Bisection on the tail finds it. The tail is the regularized incomplete beta function
    I_x(degrees / 2, 1 / 2) at x = degrees / (degrees + t^2) (Abramowitz and Stegun, 26.7.1).

    Raises `StatisticsError` unless 0 < confidence < 1 and degrees >= 1.
    """
    check_confidence(confidence)
    if degrees < 1:
        raise StatisticsError(f"degrees of freedom: {degrees}, expected at least 1")
    tail = 1.0 - confidence

    def tail_beyond(t: float) -> float:
        return regularized_beta(degrees / 2, 0.5, degrees / (degrees + t * t))

    low, high = 0.0, 1.0
    while tail_beyond(high) > tail:
        low, high = high, high * 2
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return middle
        if tail_beyond(middle) > tail:
            low = middle
        else:
            high = middle


def regularized_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b), for a, b > 0 and 0 <= x <= 1.

    Evaluated by its continued fraction (Abramowitz and Stegun, 26.5.8), with the reflection
    I_x(a, b) = 1 - I_(1-x)(b, a) where that converges faster.
    """
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - regularized_beta(b, a, 1.0 - x)
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return math.exp(log_front) / (a * beta_fraction(a, b, x))


def beta_fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)), the continued fraction of I_x(a, b), by Lentz's method."""
    tiny = 1e-300
    fraction, numerator, denominator = 1.0, 1.0, 0.0
    for step in range(1, 10_000):
        half = step // 2
        if step % 2:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        denominator = 1.0 / ((1.0 + term * denominator) or tiny)
        numerator = (1.0 + term / numerator) or tiny
        change = numerator * denominator
        fraction *= change
        if abs(change - 1.0) < 1e-16:
            break
    return fraction


def mean(
    values: Sequence[float],
    confidence: float = DEFAULT_CONFIDENCE,
    *,
    correlation: float = 0.0,
) -> Interval:
    """The mean with Student's t interval.

    Values that were measured one after another on one machine are often like their neighbours.
    `correlation` is that of neighbours (`neighbour_correlation`); it widens the interval. Raises
    `StatisticsError` when `values` is empty or has a number that is not finite.
    """
    check_values(values)
    check_confidence(confidence)
    n = len(values)
    centre = math.fsum(values) / n
    # Rounding can make the mean of equal numbers differ from them and lie outside the interval.
    centre = min(max(centre, min(values)), max(values))
    if n == 1:
        return Interval(centre, -math.inf, math.inf, 1, confidence)
    independent = independent_values(n, correlation)
    spread = math.sqrt(_variance(values) / independent)
    half_width = t_quantile(confidence, math.floor(degrees_of(n, independent))) * spread
    return Interval(centre, centre - half_width, centre + half_width, n, confidence)


def neighbour_correlation(series: Iterable[Sequence[float]]) -> float:
    """The correlation of neighbours in time, from all series of one quantity in a run.

    A dozen values determine their own correlation badly, so the series are pooled: all points of a
    run share the machine and its disturbances. A short series underestimates the correlation r by
    (1 + 4 r) / n (Kendall, Biometrika 41, 1954), which is added back. The result is from 0 to
    `MOST_CORRELATION`; it is 0 without a series of three values that differ.
    """
    estimates = []
    for values in series:
        n = len(values)
        centre = math.fsum(values) / n if n else 0.0
        deviations = [value - centre for value in values]
        squares = math.fsum(value**2 for value in deviations)
        if n >= 3 and squares > 0:
            products = math.fsum(first * second for first, second in pairwise(deviations))
            estimates.append(products / squares + (1 + 4 * products / squares) / n)
    if not estimates:
        return 0.0
    return min(max(math.fsum(estimates) / len(estimates), 0.0), MOST_CORRELATION)


def independent_values(n: int, correlation: float) -> float:
    """The number of independent values that bound a mean as closely as `n` correlated ones.

    It is n (1 - r) / (1 + r) if neighbours have the correlation r (Bayley and Hammersley, The
    Effective Number of Independent Observations, JRSS Supplement 8, 1946).
    """
    return n * (1 - correlation) / (1 + correlation)


def degrees_of(n: int, independent: float) -> float:
    """The degrees of freedom of the variance of `n` values: at least half of those of n.

    With fewer, the interval of a dozen values is several times wider, and contains the true value
    hardly more often (`benches/window_intervals.py`).
    """
    return max(1.0, (n - 1) / 2, independent - 1)


def median(values: Sequence[float], confidence: float = DEFAULT_CONFIDENCE) -> Interval:
    """The median, and the narrowest symmetric interval of order statistics with that confidence.

    The interval between the k-th smallest and the k-th largest of n values contains the median of
    the population with probability 1 - 2 P(Binomial(n, 1/2) < k), for any distribution. With fewer
    than six values, even the whole range has less than 95 %. The result is then the range, with its
    lower confidence.

    Raises `StatisticsError` when `values` is empty or has a number that is not finite.
    """
    check_values(values)
    check_confidence(confidence)
    ordered = sorted(values)
    n = len(ordered)
    middle = n // 2
    centre = ordered[middle] if n % 2 else ordered[middle - 1] / 2 + ordered[middle] / 2
    if n == 1:
        return Interval(centre, -math.inf, math.inf, 1, confidence)
    rank, reached, below = 1, 1.0 - 2 * 0.5**n, 0.5**n
    while rank < middle:
        below += math.comb(n, rank) * 0.5**n
        if 1.0 - 2 * below < confidence:
            break
        rank, reached = rank + 1, 1.0 - 2 * below
    return Interval(centre, ordered[rank - 1], ordered[n - rank], n, reached)


def difference(
    first: Sequence[float],
    second: Sequence[float],
    confidence: float = DEFAULT_CONFIDENCE,
    *,
    correlation: float = 0.0,
) -> Interval:
    """The mean of `second` minus the mean of `first`, for two samples without pairs.

    Welch's interval (1947) allows different variances. The degrees of freedom are rounded down,
    which makes the interval a little wider. `n` is the size of the smaller sample. `correlation` is
    as for `mean`. Raises `StatisticsError` when a sample is empty or has a number that is not
    finite.
    """
    centres = [mean(values, confidence).value for values in (first, second)]
    value, n = centres[1] - centres[0], min(len(first), len(second))
    if n == 1:
        return Interval(value, -math.inf, math.inf, n, confidence)
    counts = [independent_values(len(values), correlation) for values in (first, second)]
    degrees = [degrees_of(len(v), count) for v, count in zip((first, second), counts, strict=True)]
    shares = [_variance(v) / count for v, count in zip((first, second), counts, strict=True)]
    spread = math.fsum(shares)
    if spread == 0:
        return Interval(value, value, value, n, confidence)
    weights = math.fsum(share**2 / own for share, own in zip(shares, degrees, strict=True))
    # Rounding must not put the degrees below those of the smaller sample.
    together = max(math.floor(min(degrees)), math.floor(spread**2 / weights))
    half_width = t_quantile(confidence, together) * math.sqrt(spread)
    return Interval(value, value - half_width, value + half_width, n, confidence)


def _variance(values: Sequence[float]) -> float:
    centre = math.fsum(values) / len(values)
    return math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)


def paired_ratio(
    numerators: Sequence[float],
    denominators: Sequence[float],
    confidence: float = DEFAULT_CONFIDENCE,
    *,
    in_time_order: bool = False,
) -> Interval:
    """The geometric mean ratio of two systems that ran with the same seeds.

    Pair i has one seed, whose effect on both systems cancels out. The interval is Student's on the
    logarithms of the ratios, so exchanging the systems inverts it. `in_time_order` is for pairs
    that were measured one after another, whose neighbours may be alike.

    Raises `StatisticsError` when the lengths differ or a number is not positive.
    """
    first, second = _logarithms(numerators), _logarithms(denominators)
    if len(first) != len(second):
        raise StatisticsError(
            f"{len(numerators)} numerators for {len(denominators)} denominators, "
            "expected one of each for every seed"
        )
    ratios = [a - b for a, b in zip(first, second, strict=True)]
    correlation = neighbour_correlation([ratios]) if in_time_order else 0.0
    return mean(ratios, confidence, correlation=correlation).map(_exp)


def unpaired_ratio(
    numerators: Sequence[float],
    denominators: Sequence[float],
    confidence: float = DEFAULT_CONFIDENCE,
    *,
    in_time_order: bool = False,
) -> Interval:
    """The ratio of the geometric means of two samples that have no seeds in common.

    Welch's interval of the logarithms (see `difference`). `in_time_order` is as for `paired_ratio`.
    Raises `StatisticsError` when a number is not positive.
    """
    first, second = _logarithms(denominators), _logarithms(numerators)
    correlation = neighbour_correlation([first, second]) if in_time_order else 0.0
    return difference(first, second, confidence, correlation=correlation).map(_exp)


def _logarithms(values: Sequence[float]) -> list[float]:
    """The logarithms of positive numbers; raises `StatisticsError` for others."""
    check_values(values)
    if min(values) <= 0:
        raise StatisticsError("a ratio needs positive numbers: a run has zero or less")
    return [math.log(value) for value in values]


def _exp(logarithm: float) -> float:
    """The exponential, infinite beyond the range of a float."""
    try:
        return math.exp(logarithm)
    except OverflowError:
        return math.inf


def trend(values: Sequence[float]) -> str | None:
    """A warning when the values drift in the order of replications, else None.

    Kendall's test of the order against every possible order (Mann, 1945): the replications of a
    point must not depend on their order. A significance of one per cent needs five replications.
    """
    check_values(values)
    n = len(values)
    pairs = n * (n - 1) // 2
    rising = falling = 0
    for later in range(n):
        for earlier in range(later):
            rising += values[earlier] < values[later]
            falling += values[earlier] > values[later]
    # A tie counts for the rarer direction, so that a warning becomes less likely.
    against = pairs - max(rising, falling)
    chance = min(1.0, 2 * _share_of_orders(n, against))
    if chance >= TREND_SIGNIFICANCE:
        return None
    direction = "rise" if rising > falling else "fall"
    return f"the {n} runs {direction} in the order of their seeds (chance {chance:.1%})"


def _share_of_orders(n: int, inversions: int) -> float:
    """The share of the n! orders of n distinct values with at most that many inversions."""
    counts = [1.0]
    for size in range(2, n + 1):
        longer = [0.0] * min(len(counts) + size - 1, inversions + 1)
        for position in range(len(longer)):
            window = counts[max(0, position - size + 1) : position + 1]
            longer[position] = math.fsum(window) / size
        counts = longer
    return min(1.0, math.fsum(counts[: inversions + 1]))


def outlier(values: Sequence[float]) -> str | None:
    """A warning when one replication is an outlier, else None.

    Grubbs' two-sided test (1969) compares the value furthest from the mean with the greatest
    distance of normal variables. It needs four replications.
    """
    check_values(values)
    n = len(values)
    if n < 4:
        return None
    average = mean(values)
    furthest = max(values, key=lambda value: abs(value - average.value))
    distance = abs(furthest - average.value)
    if distance <= ROUNDING * abs(average.value):
        return None
    spread = math.sqrt(math.fsum((value - average.value) ** 2 for value in values) / (n - 1))
    if distance <= grubbs_limit(n, OUTLIER_SIGNIFICANCE) * spread:
        return None
    rest = list(values)
    rest.remove(furthest)
    named = format_number(furthest, average.decimals)
    return f"one of {n} runs is an outlier: {named}, the mean of the others is {mean(rest)}"


def grubbs_limit(n: int, significance: float) -> float:
    """Grubbs' critical value, in standard deviations from the mean.

    The furthest of `n` normal variables exceeds it with probability `significance` (two-sided).
    `n` is 3 or more.
    """
    t = t_quantile(1 - significance / n, n - 2)
    return (n - 1) / math.sqrt(n) * math.sqrt(t * t / (n - 2 + t * t))


def unranked(intervals: Mapping[str, Interval]) -> list[tuple[str, str]]:
    """Neighbours, sorted by value, whose intervals overlap, so that their order is not certain."""
    ordered = sorted(intervals, key=lambda name: intervals[name].value)
    return [
        (lower, higher)
        for lower, higher in pairwise(ordered)
        if intervals[lower].overlaps(intervals[higher])
    ]


def check_confidence(confidence: float) -> None:
    """Raise `StatisticsError` unless `confidence` is a share between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise StatisticsError(f"confidence: {confidence}, expected a share between 0 and 1")


def check_values(values: Sequence[float]) -> None:
    """Raise `StatisticsError` unless there are values and all are finite."""
    if not values:
        raise StatisticsError("no values: a statistic needs at least one run")
    if not all(math.isfinite(value) for value in values):
        raise StatisticsError("a value is not finite: expected a finite number from every run")


def significant(value: float, digits: int, most_decimals: int) -> str:
    """A number with that many significant digits and thousands separators."""
    if value == 0 or not math.isfinite(value):
        return f"{value + 0.0:g}"  # 0.0 + -0.0 is 0.0
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = format_number(value, min(most_decimals, decimals))
    return text.rstrip("0").rstrip(".") if "." in text else text


def number_text(value: object) -> str:
    """A value of a table in the terminal: five significant digits; `-` for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return significant(value, 5, most_decimals=8) if isinstance(value, float) else str(value)
