"""Replications brought together: each point's mean of a column, and its gains."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from perpacket.analysis.statistics import Interval, StatisticsError, mean, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from perpacket.analysis.published import Comparison
    from perpacket.study.study import Point


def per_point(observations: pl.DataFrame, column: str) -> dict[str, Interval]:
    """The mean of a column over each point's runs; points without a number are left out.

    Rates, times and counts are nothing at least: an interval of few runs is cut there.
    """
    if column not in observations.columns or not observations[column].dtype.is_numeric():
        return {}
    held = observations.select("point", column).drop_nulls().filter(_finite(column))
    groups = held.group_by("point", maintain_order=True).agg(column)
    return {point: _mean_of(values) for point, values in groups.iter_rows()}


def _mean_of(values: Sequence[float]) -> Interval:
    least = 0.0 if min(values) >= 0 else -math.inf
    return mean(values).within(least, math.inf)


def _finite(column: str) -> pl.Expr:
    import polars as pl

    return pl.col(column).cast(pl.Float64).is_finite()


def per_point_sum(observations: pl.DataFrame, columns: Sequence[str]) -> dict[str, Interval]:
    """The mean of the sum of several columns; a layer that a run did not have adds nothing."""
    if not columns:
        return {}
    import polars as pl

    held = observations.filter(pl.any_horizontal(pl.col(*columns).is_not_null()))
    summed = held.select("point", pl.sum_horizontal(*columns).alias("sum"))
    return per_point(summed, "sum")


def layer_columns(observations: pl.DataFrame, event: str) -> dict[str, str]:
    """The column of an event (`cycles_per_packet`) for each layer that the table has."""
    found = {}
    for column in observations.columns:
        parts = column.split(".")
        if len(parts) == 3 and parts[0] == "layers" and parts[2] == event:
            found[parts[1]] = column
    return found


def gain_percent(observations: pl.DataFrame, point: Point, column: str) -> Interval | None:
    """How many per cent a point has more of a column than its baseline, paired by seed.

    None when it has no baseline, or when a run of either gave nothing above zero.
    """
    if point.against is None or column not in observations.columns:
        return None
    import polars as pl

    values = observations.select("point", "seed", column).drop_nulls()
    own = values.filter(pl.col("point") == point.name)
    base = values.filter(pl.col("point") == point.against)
    pairs = own.join(base, on="seed", suffix="_base").sort("seed")
    try:
        ratio = paired_ratio(pairs[column].to_list(), pairs[f"{column}_base"].to_list())
    except StatisticsError:
        return None
    return ratio.map(lambda value: 100 * (value - 1))


def published_in(
    comparisons: Sequence[Comparison], means: dict[str, Interval]
) -> dict[str, Comparison]:
    """The published value of each point, for the quantity that a column's means are of.

    A quantity is the column's when each of its simulated values is the mean of the column at the
    same point. That is read from the numbers, so that a figure needs to name only the column.
    """
    by_quantity: dict[str, list[Comparison]] = {}
    for row in comparisons:
        if row.published.against is None and row.simulated is not None:
            by_quantity.setdefault(row.published.quantity, []).append(row)
    for rows in by_quantity.values():
        if all(_is_mean(row, means.get(row.published.point)) for row in rows):
            return {row.published.point: row for row in reversed(rows)}
    return {}


def _is_mean(row: Comparison, mean_of_column: Interval | None) -> bool:
    """Whether a simulated value is that mean, up to the rounding of sums; zero proves nothing."""
    if row.simulated is None or mean_of_column is None or mean_of_column.value == 0:
        return False
    return abs(row.simulated.value - mean_of_column.value) <= 1e-9 * abs(mean_of_column.value)
