"""One figure of a report, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perpacket_lab.study.point import Level, Point

FigureKind = Literal[
    "paper-beside",
    "stacked-layers",
    "stacked-parts",
    "curve",
    "timeline",
    "relative",
    "quantities-beside",
    "ways",
    "laws",
    "comparisons-beside",
    "heat-map",
    "effects",
    "changes",
]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the report, as data.

    | kind | x | y | series |
    |---|---|---|---|
    | `paper-beside` | ignored; a mark for each configuration | quantity of the comparisons, as
      `request_rate` | |
    | `stacked-layers` | factor | event of the layers, as `cycles_per_packet` | |
    | `stacked-parts` | factor | `share`, of the busy processor, by part of an application | |
    | `curve` | factor | columns of the observations, comma-separated, a line for each, or a row for
      each level and column if the levels are names | factor, a line for each level |
    | `timeline` | `time_s` | columns of the timeline, comma-separated | |
    | `relative` | factor (numeric) | quantities, comma-separated, a line for each: the ratio to
      the first level, paired by seed | |
    | `quantities-beside` | ignored; a mark for each quantity | quantities of one point's
      comparisons, comma-separated | |
    | `ways` | factor (numeric) | question of the method comparisons, a line for each method | |
    | `laws` | ignored; a mark for each point | `share`, of the busy processor, by layer | |
    | `comparisons-beside` | ignored; a mark for each comparison | quantities of the comparisons of
      the whole study, comma-separated | |
    | `heat-map` | factor (numeric) | column of the observations, as colour | factor
      (numeric): the rows |
    | `effects` | ignored; a bar for each effect | response of the two-level design | |
    | `changes` | factor, a row for each level | quantity at each point, divided by that at its
      baseline | factor: the loads |

    `where` selects the points whose factor (or `configuration`, or `point`) has that level.
    `title` describes the content, `caption` explains it.
    """

    kind: FigureKind
    title: str
    x: str
    y: str
    series: str | None = None
    where: Mapping[str, Level] = field(default_factory=dict)
    x_title: str = ""
    y_title: str = ""
    """Axis titles with units; if empty, the column's name in words."""
    caption: str = ""
    optional: bool = False
    """Whether reports omit it where the run has no data for it, as without counters."""

    def selects(self, point: Point) -> bool:
        """Whether the figure shows a point."""
        levels = _levels(point)
        return all(levels.get(key) == level for key, level in self.where.items())

    def has_enough(self, points: tuple[Point, ...]) -> bool:
        """Whether these points are enough to draw the figure: an axis needs two levels."""
        selected = [point for point in points if self.selects(point)]
        if self.kind in ("curve", "relative", "stacked-layers", "stacked-parts", "ways"):
            return len({_levels(point).get(self.x) for point in selected}) > 1
        return bool(selected)


def _levels(point: Point) -> Mapping[str, Level]:
    """The names and levels that `where` and `x` may use."""
    return {"point": point.name, "configuration": point.configuration, **point.factors}
