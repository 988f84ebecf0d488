"""The quantities of a run at each point: values, means, changes and sums over layers.

Each is computed once. Intervals have the run's confidence and stay within the bounds of the
quantity. A change is paired: it divides the values of two points with the same seed (or block), so
the effect of the seed on both points cancels out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from perpacket.analysis.statistics import (
    DEFAULT_CONFIDENCE,
    Interval,
    StatisticsError,
    mean,
    neighbour_correlation,
    paired_ratio,
)
from perpacket.errors import CorruptObservation
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import (
    Quantity,
    Row,
    Rows,
    Value,
    column,
    gain,
    present,
    quantity,
)

IDLE = "idle"
"""The layer of the idle processor. It is not a cost of packets."""


@dataclass(frozen=True)
class Estimates:
    """Every quantity of a run by point."""

    rows: Rows
    confidence: float = DEFAULT_CONFIDENCE
    in_time_order: Callable[[str], bool] = lambda point: False
    """Whether the runs of a point follow each other in time, so that neighbours are alike."""
    _cache: dict[tuple[str, ...], Interval | None] = field(default_factory=dict, repr=False)
    _correlations: dict[tuple[str, ...], float] = field(default_factory=dict, repr=False)

    def runs(self, point: str) -> int:
        """The number of runs of a point."""
        return len(self.rows.get(point, {}))

    def columns(self) -> list[str]:
        """The names of all columns of the rows, in their order."""
        rows = (row for own in self.rows.values() for row in own.values())
        return list(dict.fromkeys(name for row in rows for name in row))

    def values(self, point: str, quantity: str | Quantity) -> dict[int, float]:
        """A quantity, or a number of the result, in each run of a point that has it."""
        return self._values(point, as_quantity(quantity).value)

    def _values(self, point: str, value: Value) -> dict[int, float]:
        own = self.rows.get(point, {})
        values = {seed: value_or_none(value, own[seed]) for seed in sorted(own)}
        return {seed: number for seed, number in values.items() if number is not None}

    def mean(self, point: str, quantity: str | Quantity) -> Interval | None:
        """The mean of a quantity at a point; None if no run has it."""
        entry = as_quantity(quantity)
        return self._mean(point, entry, ("mean", entry.name, entry.unit), entry.value)

    def _mean(
        self, point: str, entry: Quantity, key: tuple[str, ...], value: Value
    ) -> Interval | None:
        """The mean of `value` at a point, within the bounds of `entry`; None without values."""

        def compute() -> Interval | None:
            values = self._values(point, value)
            if not values:
                return None
            alike = self._correlation(key, value) if self.in_time_order(point) else 0.0
            interval = mean(list(values.values()), self.confidence, correlation=alike)
            return interval.within(entry.least, entry.most)

        return self._cached((*key, "at", point), compute)

    def _correlation(self, key: tuple[str, ...], value: Value) -> float:
        """The correlation of neighbours of a quantity, from all points that follow in time."""
        if key not in self._correlations:
            self._correlations[key] = neighbour_correlation(
                list(self._values(point, value).values())
                for point in self.rows
                if self.in_time_order(point)
            )
        return self._correlations[key]

    def means(self, quantity: str | Quantity) -> dict[str, Interval]:
        """The mean of a quantity at every point that has it."""
        by_point = {point: self.mean(point, quantity) for point in self.rows}
        return {point: interval for point, interval in by_point.items() if interval is not None}

    def column_means(self, name: str) -> dict[str, Interval]:
        """The mean of a number of the result at every point that has it."""
        return self.means(column(name))

    def ratio(self, point: str, against: str, quantity: str | Quantity) -> Interval | None:
        """The paired ratio of a quantity at two points; None unless all values are positive."""
        entry = as_quantity(quantity)
        return self._cached(
            ("ratio", point, against, entry.name),
            lambda: self._ratio(self.values(point, entry), self.values(against, entry)),
        )

    def _ratio(self, own: Mapping[int, float], base: Mapping[int, float]) -> Interval | None:
        seeds = sorted(own.keys() & base.keys())
        pairs = [own[seed] for seed in seeds], [base[seed] for seed in seeds]
        try:
            return paired_ratio(*pairs, self.confidence)
        except StatisticsError:
            return None

    def gain(self, point: Point, quantity: str | Quantity) -> Interval | None:
        """The paired gain in a quantity of a point over its baseline, in per cent."""
        if point.against is None:
            return None
        ratio = self.ratio(point.name, point.against, quantity)
        return None if ratio is None else ratio.map(gain)

    def layers(self, event: str, group: str = "layers") -> list[str]:
        """The layers, or the members of another group, that have an event in any run.

        An event is for example `cycles_per_packet`. The list never has `idle`, which is no cost of
        packets.
        """
        names = []
        for name in self.columns():
            first, _, rest = name.partition(".")
            layer, _, last = rest.partition(".")
            if first == group and last == event and layer != IDLE:
                names.append(layer)
        return names

    def layer_sum(
        self, point: str, layers: Sequence[str], event: str, group: str = "layers"
    ) -> Interval | None:
        """The mean of an event summed over layers; a layer that a run lacks adds nothing."""
        summed = sum_of_layers(layers, event, group)
        entry = column(f"{group}.all.{event}")
        return self._mean(point, entry, ("sum", event, group, *layers), summed)

    def layer_ratio(
        self, point: str, against: str, layers: Sequence[str], event: str
    ) -> Interval | None:
        """The paired ratio of an event at two points, summed over layers."""
        summed = sum_of_layers(layers, event)
        return self._ratio(self._values(point, summed), self._values(against, summed))

    def _cached(
        self, key: tuple[str, ...], compute: Callable[[], Interval | None]
    ) -> Interval | None:
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]


def as_quantity(name: str | Quantity) -> Quantity:
    """The quantity of that name; a quantity is returned unchanged."""
    return quantity(name) if isinstance(name, str) else name


def sum_of_layers(layers: Sequence[str], event: str, group: str = "layers") -> Value:
    """The sum of an event over layers; None if a run has none of them."""
    names = [f"{group}.{layer}.{event}" for layer in layers]

    def summed(row: Row) -> float | None:
        values = [number for name in names if (number := present(row, name)) is not None]
        return sum(values) if values else None

    return summed


def value_or_none(value: Value, row: Row) -> float | None:
    """A quantity of a row; None if the row lacks a number that the quantity needs."""
    try:
        return value(row)
    except CorruptObservation:
        return None
