"""A column of the results over two factors: a cell for each pair of levels, coloured by its value.

The colour scale is cividis (Nuñez, Anderton and Renslow, PLoS ONE 2018). Its lightness grows with
the value, also for colour-blind readers and in print. Each chart has a table of the same cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import altair as alt
import polars as pl

from perpacket.show.table import Cell, Table
from perpacket_lab.analysis.findings import figure_points
from perpacket_lab.analysis.wording import in_words, number, typographic
from perpacket_lab.show.charts import chart_style
from perpacket_lab.show.charts.chart_style import WIDE, Plot, Select, level_of, titles_of

if TYPE_CHECKING:
    from perpacket.analysis.statistics import Interval
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.study.figure import Figure

SCHEME: Final = "cividis"

LOGARITHMIC_FROM_RATIO: Final = 8.0
"""From this ratio of largest to smallest value on, the scale is logarithmic. A linear scale would
show small values as one colour."""

ROW_PX: Final = 22
LEGEND_PX: Final = 220

PREFIXES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def level_text(name: str, level: float) -> str:
    """A level as an axis label: bytes have a binary prefix if it is exact."""
    whole = int(level) if level == int(level) else level
    if name.endswith("_bytes") and isinstance(whole, int):
        for size, prefix in PREFIXES:
            if whole and whole % size == 0:
                return f"{whole // size} {prefix}"
        return f"{whole} B"
    return f"{whole:g}"


def cells_of(figure: Figure, analysis: Analysis) -> Plot | None:
    """A column's mean over two factors, in the order of their levels."""
    means = analysis.estimates.column_means(figure.y)
    cells: dict[tuple[float, float], Interval] = {}
    for point in figure_points(analysis.study, figure):
        levels = (level_of(point, figure.series or ""), level_of(point, figure.x))
        down, across = (level if isinstance(level, int | float) else None for level in levels)
        if point.name in means and down is not None and across is not None:
            cells[down, across] = means[point.name]
    if not cells:
        return None
    name = figure.series or ""
    downs = sorted({down for down, _ in cells})
    acrosses = sorted({across for _, across in cells})
    row_of = {down: level_text(name, down) for down in downs}
    column_of = {across: level_text(figure.x, across) for across in acrosses}
    frame = pl.DataFrame(
        [
            {"x": column_of[across], "row": row_of[down], "value": float(cells[down, across].value)}
            for down in downs
            for across in acrosses
            if (down, across) in cells
        ]
    )
    best, worst = (choose(cells, key=lambda cell: cells[cell].value) for choose in (max, min))
    x_title, value_title = titles_of(figure)
    # The levels have units, so the title needs none.
    row_title = in_words(name.removesuffix("_bytes"))
    ends = [
        f"{word} {number(cells[cell].value)} at {row_of[cell[0]]} and {column_of[cell[1]]}"
        for word, cell in (("highest", best), ("lowest", worst))
    ]
    table = cell_table(
        "",
        f"{figure.title}: {value_title}",
        f"{row_title}, by {x_title}",
        list(column_of.values()),
        {
            row_of[down]: {column_of[a]: cells[down, a] for a in acrosses if (down, a) in cells}
            for down in downs
        },
    )
    return Plot(
        lambda width: heat_map(
            frame, x_title=x_title, row_title=row_title, value_title=value_title, width=width
        ),
        f"{value_title}, {' and '.join(ends)}.",
        table,
    )


def heat_map(
    frame: pl.DataFrame, *, x_title: str, row_title: str, value_title: str, width: int = WIDE
) -> alt.LayerChart:
    """A rectangle for each pair of levels, coloured by its value.

    Columns: `x` and `row` (the levels as text, in the order of the table), `value` (a number). The
    colours are logarithmic when the values are positive and span a ratio of 8.
    """
    columns = frame["x"].unique(maintain_order=True).to_list()
    rows = frame["row"].unique(maintain_order=True).to_list()
    least, most = frame["value"].min(), frame["value"].max()
    assert isinstance(least, float)
    assert isinstance(most, float)
    logarithmic = least > 0 and most / least >= LOGARITHMIC_FROM_RATIO
    scale = alt.Scale(scheme=SCHEME, type="log" if logarithmic else "linear", domain=[least, most])
    legend = alt.Legend(
        orient="top",
        direction="horizontal",
        gradientLength=min(LEGEND_PX, width - 40),
        format=".2~s" if most >= 1000 else ".2~r",
        title=value_title,
        titleLimit=width,
        # The ends and the middle of the scale.
        values=[least, math.sqrt(least * most) if logarithmic else (least + most) / 2, most],
    )
    axis = alt.Axis(labelAngle=0, labelOverlap="greedy", ticks=False, domain=False, grid=False)
    cells = (
        alt.Chart(frame)
        .mark_rect()
        .encode(
            x=alt.X("x:O", sort=columns, title=x_title, axis=axis),
            y=alt.Y(
                "row:O", sort=rows, title=row_title, axis=chart_style.row_axis(width, grid=False)
            ),
            color=alt.Color("value:Q", scale=scale, legend=legend),
        )
    )
    return chart_style.fitted(chart_style.layered(cells), width, height=max(3, len(rows)) * ROW_PX)


def cell_table(
    identifier: str,
    caption: str,
    corner: str,
    columns: Sequence[str],
    rows: Mapping[str, Mapping[str, Interval]],
) -> Table:
    """The same cells as a table: a row and a column for each level, with intervals."""
    return Table(
        identifier=identifier,
        caption=caption,
        columns=(corner, *columns),
        numeric=(False, *[True] * len(columns)),
        rows=tuple(
            (Cell(name, css="name"), *(_cell(cells.get(column)) for column in columns))
            for name, cells in rows.items()
        ),
    )


def _cell(interval: Interval | None) -> Cell:
    if interval is None:
        return Cell("")
    bounds = typographic(str(interval)).partition(" ")[2] if interval.is_bounded else ""
    return Cell(number(interval.value), bounds=bounds, sort=interval.value)


KINDS: Final[Mapping[str, Select]] = {"heat-map": cells_of}
"""The kinds of figures that this module draws."""
