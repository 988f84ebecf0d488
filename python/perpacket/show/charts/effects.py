"""The effects of a two-level design on one quantity: a bar for each, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import altair as alt
import polars as pl

from perpacket.show.charts import chart_style, palette
from perpacket.show.charts.chart_style import WIDE

if TYPE_CHECKING:
    from perpacket.analysis.effects import EffectRow, Effects

SCHEMA: Final = {
    "effect": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "verdict": pl.String,
}

SHOWN: Final = "interval leaves out zero"
NOT_SHOWN: Final = "may be zero"

MOST_BARS: Final = 16
"""Those that explain most; the table has them all."""


def told(effects: Effects) -> list[EffectRow]:
    """The effects in the order of what they explain, without the mean, which explains nothing."""
    return [row for row in effects.rows if row.share is not None]


def rows_of(rows: Sequence[EffectRow]) -> pl.DataFrame:
    """The table of `effect_bars`."""
    return pl.DataFrame(
        [
            {
                "effect": row.effect,
                "value": row.interval.value,
                "low": row.interval.low if row.interval.is_bounded else None,
                "high": row.interval.high if row.interval.is_bounded else None,
                "verdict": SHOWN if row.is_significant else NOT_SHOWN,
            }
            for row in rows[:MOST_BARS]
        ],
        schema=SCHEMA,
    )


def described(rows: Sequence[EffectRow]) -> str:
    """What the chart shows: the effects that are there, and how many are not drawn."""
    shown = [f"{row.effect} {row.interval}" for row in rows[:MOST_BARS] if row.is_significant]
    text = f"Effects that are there: {'; '.join(shown)}." if shown else "No effect is shown."
    rest = len(rows) - MOST_BARS
    return f"{text} {rest} smaller ones are in the table alone." if rest > 0 else text


def effect_bars(frame: pl.DataFrame, *, x_title: str, width: int = WIDE) -> alt.LayerChart:
    """A bar from zero for each effect, filled where its interval leaves out zero, open elsewhere.

    Columns: `effect` (text, in the order of the table), `value`, `low`, `high` (the interval's
    ends, null where it has none), `verdict` (`SHOWN` or `NOT_SHOWN`).
    """
    names = frame["effect"].to_list()
    verdicts = [one for one in (SHOWN, NOT_SHOWN) if one in frame["verdict"].to_list()]
    fills = {SHOWN: palette.BLUE.light, NOT_SHOWN: palette.PAPER.light}
    columns = chart_style.legend_columns(width, verdicts)
    fill = alt.Fill(
        "verdict:N",
        title=None,
        scale=alt.Scale(domain=verdicts, range=[fills[one] for one in verdicts]),
        legend=chart_style.legend(width, columns, symbolStrokeColor=palette.BLUE.light),
    )
    y = alt.Y("effect:N", sort=names, title=None, axis=chart_style.row_axis(width))
    ticks = alt.Axis(tickCount=8 if width >= WIDE else 4, labelOverlap="greedy")
    title = chart_style.wrapped(x_title, width - chart_style.names_px(names))
    bars = (
        alt.Chart(frame)
        .mark_bar(stroke=palette.BLUE.light, strokeWidth=1.25, height={"band": 0.55})
        .encode(x=alt.X("value:Q", title=title, axis=ticks), y=y, fill=fill)
    )
    intervals = (
        alt.Chart(frame.drop_nulls(["low", "high"]))
        .mark_rule(color=palette.INK.light, strokeWidth=1.5)
        .encode(x=alt.X("low:Q"), x2="high:Q", y=y)
    )
    return chart_style.fitted(
        chart_style.layered(bars, intervals), width, max(2, len(names)) * chart_style.ROW_PX
    )
