"""A column over two factors: a cell for each pair of levels, its colour the value.

The scale of colours is cividis (Nuñez, Anderton and Renslow, PLoS ONE 2018), which grows lighter
with the value for everybody alike, colour-blind or not, and in print. A cell says nothing but its
colour: a table of the same cells stands beside each chart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import altair as alt
import polars as pl

from perpacket.show.charts import chart_style
from perpacket.show.charts.chart_style import WIDE
from perpacket.show.tables import Cell, Table
from perpacket.show.wording import number, typographic

if TYPE_CHECKING:
    from perpacket.analysis.statistics import Interval

SCHEME: Final = "cividis"

LOGARITHMIC_FROM_RATIO: Final = 8.0
"""Beyond this ratio of largest to smallest value, equal steps of colour hide the small end."""

ROW_PX: Final = 22
LEGEND_PX: Final = 220

PREFIXES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def level_text(name: str, level: float) -> str:
    """A level as an axis names it: bytes with a binary prefix where that is exact."""
    whole = int(level) if level == int(level) else level
    if name.endswith("_bytes") and isinstance(whole, int):
        for size, prefix in PREFIXES:
            if whole and whole % size == 0:
                return f"{whole // size} {prefix}"
        return f"{whole} B"
    return f"{whole:g}"


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
        # The ends are told as they are, and what lies in the middle of the colours.
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
            (Cell(name, look="name"), *(_cell(cells.get(column)) for column in columns))
            for name, cells in rows.items()
        ),
    )


def _cell(interval: Interval | None) -> Cell:
    if interval is None:
        return Cell("")
    bounds = typographic(str(interval)).partition(" ")[2] if interval.is_bounded else ""
    return Cell(number(interval.value), remark=bounds, sort=interval.value)
