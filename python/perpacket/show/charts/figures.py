"""The figures of a study, drawn: each kind of figure and the function that selects its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from perpacket.show.charts import (
    beside,
    chart_style,
    curve,
    drawing,
    effects,
    heat_map,
    laws,
    stacks,
    timeline,
)
from perpacket.show.charts.chart_style import Plot

if TYPE_CHECKING:
    from perpacket.analysis.analysis import Analysis
    from perpacket.show.tables import Table
    from perpacket.study.figure import Figure

KINDS: Final[Mapping[str, Callable[[Figure, Analysis], Plot | None]]] = {
    "paper-beside": beside.points_beside,
    "quantities-beside": beside.quantities_beside,
    "comparisons-beside": beside.comparisons_beside,
    "curve": curve.curves,
    "relative": curve.relative_curves,
    "ways": curve.method_curves,
    "stacked-layers": stacks.layers_of,
    "timeline": timeline.state_over_time,
    "laws": laws.points_on_curve,
    "heat-map": heat_map.cells_of,
    "effects": effects.bars_of,
}
"""Every kind of figure. The function returns None where the run has nothing to draw."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure of the page: both widths as SVG, or the reason why there is none."""

    identifier: str
    title: str
    caption: str
    description: str
    """What the chart shows, in a sentence; also the text for readers who do not see it."""
    wide: str = ""
    narrow: str = ""
    table: Table | None = None
    """The same numbers for readers who cannot distinguish the chart's colours."""


def draw(analysis: Analysis, prefix: str = "") -> list[Drawing]:
    """Every figure of the study, in its order; `prefix` starts their identifiers."""
    return [
        _drawing(f"{prefix}figure-{number}", figure, analysis)
        for number, figure in enumerate(analysis.study.figures, 1)
    ]


def plot_of(figure: Figure, analysis: Analysis) -> Plot | None:
    """A figure at any width; None where the run has nothing to draw."""
    return KINDS[figure.kind](figure, analysis)


def _drawing(identifier: str, figure: Figure, analysis: Analysis) -> Drawing:
    plot = plot_of(figure, analysis)
    if plot is None:
        reason = "Nothing to draw: this run has no observation that the figure shows."
        return Drawing(identifier, figure.title, figure.caption, reason)
    wide, narrow = (
        drawing.svg(
            plot.draw(width),
            identifier=f"{identifier}-{name}",
            title=figure.title,
            description=plot.description,
        )
        for name, width in (("wide", chart_style.WIDE), ("narrow", chart_style.NARROW))
    )
    table = plot.table and replace(plot.table, identifier=f"{identifier}-table")
    return Drawing(identifier, figure.title, figure.caption, plot.description, wide, narrow, table)
