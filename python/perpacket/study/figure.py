"""One figure of a report, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perpacket.study.point import Level, Point

FigureKind = Literal[
    "paper-beside",
    "stacked-layers",
    "curve",
    "timeline",
    "relative",
    "quantities-beside",
    "ways",
    "laws",
    "comparisons-beside",
    "heat-map",
    "effects",
]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the report, as data.

    | kind | x | y | series |
    |---|---|---|---|
    | `paper-beside` | ignored: one mark a configuration | quantity of the comparisons, as
      `request_rate` | |
    | `stacked-layers` | factor | event of the layers, as `cycles_per_packet` | |
    | `curve` | factor (numeric) | columns of the observations, comma-separated, one line each |
      factor, one line a level |
    | `timeline` | `time_s` | columns of the timeline, comma-separated | |
    | `relative` | factor (numeric) | quantities, comma-separated, one line each: each value over
      that at the first level, paired by seed | |
    | `quantities-beside` | ignored: one mark a quantity | quantities of one point's comparisons,
      comma-separated | |
    | `ways` | factor (numeric) | question of the contrasts, one line each way | |
    | `laws` | ignored: one mark a point | `share`, the layers' shares of the busy processor | |
    | `comparisons-beside` | ignored: one mark a comparison | quantities of the comparisons,
      comma-separated; those that belong to the whole study, not to a run, are drawn so | |
    | `heat-map` | factor (numeric) | column of the observations, as colour | factor
      (numeric): the rows |
    | `effects` | ignored: one bar an effect | quantity that the effects of a two-level design are
      on | |

    `where` keeps the observations whose factor (or `configuration`, or `point`) has that level.
    `title` is what the figure shows, `caption` what to look at.
    """

    kind: FigureKind
    title: str
    x: str
    y: str
    series: str | None = None
    where: Mapping[str, Level] = field(default_factory=dict)
    x_title: str = ""
    y_title: str = ""
    """Axis titles with units; empty where the column's name says it."""
    caption: str = ""

    def keeps(self, point: Point) -> bool:
        """Whether the figure is about a point."""
        levels = _levels(point)
        return all(levels.get(key) == level for key, level in self.where.items())

    def has_enough(self, points: tuple[Point, ...]) -> bool:
        """Whether these points are enough to draw it: an axis needs two levels."""
        kept = [point for point in points if self.keeps(point)]
        if self.kind in ("curve", "relative", "stacked-layers", "ways"):
            return len({_levels(point).get(self.x) for point in kept}) > 1
        return bool(kept)


def _levels(point: Point) -> Mapping[str, Level]:
    """What `where` and `x` may name."""
    return {"point": point.name, "configuration": point.configuration, **point.factors}
