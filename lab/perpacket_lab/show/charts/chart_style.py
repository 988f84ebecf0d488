"""The style of all charts: widths, fonts, dashes, legends and axes.

A chart has two widths, `WIDE` for a screen or paper and `NARROW` for a phone, with text of the same
size. What a colour shows is always shown by a shape, a dash or the order too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import altair as alt

from perpacket_lab.analysis.wording import column_in_words
from perpacket_lab.show.charts import palette

if TYPE_CHECKING:
    from perpacket.show.table import Table
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.study.figure import Figure
    from perpacket_lab.study.point import Level, Point

ItemT = TypeVar("ItemT")
Chart = alt.LayerChart | alt.VConcatChart
ChartT = TypeVar("ChartT", alt.LayerChart, alt.VConcatChart)

WIDE: Final = 800
NARROW: Final = 350

# Liberation Sans has Arial's metrics: text fits on machines with either.
FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
FONT_SIZE_PX: Final = 12
TITLE_SIZE_PX: Final = 15
"""The title's font in a file; inside a page the title is a heading."""
ROW_PX: Final = 24
PADDING_PX: Final = 8
"""The margin around a chart, because a browser may draw text wider than the renderer measured."""

LEGEND_MARGIN_PX: Final = 60
"""The symbol of a legend's entry and the margins around its label."""

DASHES: Final = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3], [4, 1], [1, 3], [10, 2, 2, 2])


CHARACTER_PX: Final = 7.2
"""Mean width of a character of running text at 12 px: 7.1 in DejaVu Sans, rounded up."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart at any width, and a description of it."""

    draw: Callable[[int], Chart]
    description: str
    table: Table | None = None


Select = Callable[["Figure", "Analysis"], Plot | None]
"""A function that makes the plot of a figure from an analysis, or None without data."""


def level_of(point: Point, name: str) -> Level | None:
    """A point's level of a factor; `point` and `configuration` are names of factors too."""
    levels = {"configuration": point.configuration, "point": point.name, **point.factors}
    return levels.get(name)


def titles_of(figure: Figure) -> tuple[str, str]:
    """The titles of both axes, in words."""
    return (
        figure.x_title or column_in_words(figure.x),
        figure.y_title or column_in_words(figure.y),
    )


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` pixels."""
    return wrap(text, max(12, int(width / CHARACTER_PX))) or [""]


def names_px(names: Sequence[str]) -> int:
    """The approximate width of the longest name of a row, with its margins."""
    return int(20 + CHARACTER_PX * max(len(name) for name in names))


def row_axis(width: int, *, grid: bool = True) -> alt.Axis:
    """The axis of rows with names, at most half as wide as the chart."""
    return alt.Axis(labelLimit=width // 2, ticks=False, domain=False, grid=grid, labelPadding=8)


def cycled(items: Sequence[ItemT], count: int) -> list[ItemT]:
    """`count` items; after the last item, the first follows again."""
    return list(islice(cycle(items), count))


def legend_columns(width: int, names: Sequence[str]) -> int:
    """The columns of a legend that fit beside each other with the longest of these names."""
    longest = max(len(line) for name in names for line in name.split("\n"))
    return max(1, (width - 60) // (50 + 7 * longest))


def legend_name(name: str, width: int) -> str:
    """A name in lines that fit in a legend of a chart of that width."""
    return "\n".join(wrapped(name, width - LEGEND_MARGIN_PX))


def legend(width: int, columns: int, **options: Any) -> alt.Legend:
    """A legend above the chart. Labels may have several lines and are never cut."""
    return alt.Legend(
        orient="top",
        direction="horizontal",
        columns=columns,
        labelLimit=width,
        labelExpr=r"split(datum.label, '\n')",
        **options,
    )


def mark_channels(
    field: str, styles: Mapping[str, tuple[str, str, str]], legend: alt.Legend
) -> dict[str, Any]:
    """The encodings of marks with one legend: shape, fill and stroke by the values of a field."""
    names = list(styles)
    channels: dict[str, Any] = {}
    for index, channel in enumerate((alt.Shape, alt.Fill, alt.Stroke)):
        scale = alt.Scale(domain=names, range=[style[index] for style in styles.values()])
        channels[channel.__name__.lower()] = channel(
            f"{field}:N", sort=names, title=None, scale=scale, legend=legend
        )
    return channels


def line_legend(width: int, columns: int) -> alt.Legend:
    """A legend for lines. Its opaque symbols are long enough to show the dashes."""
    line = {"symbolType": "stroke", "symbolSize": 500, "symbolStrokeWidth": 2, "symbolOpacity": 1}
    return legend(width, columns, **line)


def layered(*charts: alt.Chart) -> alt.LayerChart:
    """The charts as layers, the first at the bottom."""
    return cast("alt.LayerChart", alt.layer(*charts))


def fitted(chart: alt.LayerChart, width: int, height: int) -> alt.LayerChart:
    """The chart at its outer width, labels included; `height` is that of the inner rectangle."""
    sizing = alt.AutoSizeParams(type="fit-x", contains="padding")
    return styled(chart.properties(width=width, height=height, autosize=sizing))


def styled(chart: ChartT) -> ChartT:
    """The chart with the report's fonts and colours of lines."""
    text = {
        "labelColor": palette.INK.light,
        "titleColor": palette.MUTED.light,
        "labelFontSize": FONT_SIZE_PX,
        "titleFontSize": FONT_SIZE_PX,
        "titleFontWeight": "normal",
    }
    lines = {
        "gridColor": palette.RULE.light,
        "domainColor": palette.MUTED.light,
        "tickColor": palette.MUTED.light,
    }
    styled_chart: ChartT = (
        chart.configure(background="transparent", font=FONT, padding=PADDING_PX)
        .configure_view(stroke=None)
        .configure_axis(titlePadding=10, **text, **lines)
        .configure_legend(offset=10, **text)
        .configure_title(
            anchor="start", color=palette.INK.light, fontSize=TITLE_SIZE_PX, offset=14, dy=-2
        )
    )
    return styled_chart
