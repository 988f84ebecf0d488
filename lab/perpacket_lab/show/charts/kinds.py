"""The figures of a study, drawn.

A module of this package that draws figures lists their kinds in `KINDS`; `select_of` finds them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from perpacket_lab.show import charts
from perpacket_lab.show.charts import chart_style, drawing
from perpacket_lab.show.charts.chart_style import Plot, Select

if TYPE_CHECKING:
    from perpacket.show.table import Table
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.study.figure import Figure


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure of the page: SVG in both widths, or the reason why there is none."""

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
    drawings = [
        (figure, _drawing(f"{prefix}figure-{number}", figure, analysis))
        for number, figure in enumerate(analysis.study.figures, 1)
    ]
    return [drawing for figure, drawing in drawings if drawing.wide or not figure.optional]


def plot_of(figure: Figure, analysis: Analysis) -> Plot | None:
    """The plot of a figure; None if the run has nothing to draw."""
    return kinds()[figure.kind](figure, analysis)


@cache
def kinds() -> dict[str, Select]:
    """Every kind of figure, with the function that selects its rows."""
    kinds: dict[str, Select] = {}
    for module in iter_modules(charts.__path__, f"{charts.__name__}."):
        kinds |= getattr(import_module(module.name), "KINDS", {})
    return kinds


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
