"""The effects of a two-level design on one quantity: a bar for each, with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import altair as alt
import polars as pl

from perpacket_lab.show.charts import chart_style, palette
from perpacket_lab.show.charts.chart_style import WIDE, Plot, Select

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.factor_effects import EffectRow
    from perpacket_lab.study.figure import Figure

SCHEMA: Final = {
    "effect": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "verdict": pl.String,
}

SHOWN: Final = "interval excludes zero"
NOT_SHOWN: Final = "may be zero"

MOST_BARS: Final = 16
"""The number of effects in the chart. The table has all effects."""


def bars_of(figure: Figure, analysis: Analysis) -> Plot | None:
    """The effects of a two-level design on a quantity; those that explain the most are first."""
    effects = analysis.summary.effects if analysis.summary else ()
    effects_of_figure = next((effect for effect in effects if effect.quantity == figure.y), None)
    # The mean explains no variation.
    rows = (
        [row for row in effects_of_figure.rows if row.detail.share is not None]
        if effects_of_figure
        else []
    )
    if effects_of_figure is None or not rows:
        return None
    unit = f" ({effects_of_figure.unit})" if effects_of_figure.unit else ""
    x_title = f"effect on {figure.y}{unit}"
    return Plot(
        lambda width: effect_bars(rows_of(rows), x_title=x_title, width=width), described(rows)
    )


def rows_of(rows: Sequence[EffectRow]) -> pl.DataFrame:
    """The table of `effect_bars`."""
    return pl.DataFrame(
        [
            {
                "effect": row.subject,
                "value": row.interval.value,
                **row.interval.bounds(),
                "verdict": SHOWN if row.verdict.is_shown else NOT_SHOWN,
            }
            for row in rows[:MOST_BARS]
        ],
        schema=SCHEMA,
    )


def described(rows: Sequence[EffectRow]) -> str:
    """The effects that the chart shows, and how many are not drawn."""
    shown = [f"{row.subject} {row.interval}" for row in rows[:MOST_BARS] if row.verdict.is_shown]
    text = "No interval excludes zero."
    if shown:
        text = f"Effects whose interval excludes zero: {'; '.join(shown)}."
    rest = len(rows) - MOST_BARS
    return f"{text} The table has {rest} smaller effects." if rest > 0 else text


def effect_bars(frame: pl.DataFrame, *, x_title: str, width: int = WIDE) -> alt.LayerChart:
    """A bar from zero for each effect, filled if its interval excludes zero, else open.

    Columns: `effect` (text, in the order of the table), `value`, `low`, `high` (the interval's
    ends, null if it has none), `verdict` (`SHOWN` or `NOT_SHOWN`).
    """
    names = frame["effect"].to_list()
    verdicts = [verdict for verdict in (SHOWN, NOT_SHOWN) if verdict in frame["verdict"].to_list()]
    fills = {SHOWN: palette.BLUE.light, NOT_SHOWN: palette.PAPER.light}
    columns = chart_style.legend_columns(width, verdicts)
    fill = alt.Fill(
        "verdict:N",
        title=None,
        scale=alt.Scale(domain=verdicts, range=[fills[verdict] for verdict in verdicts]),
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


KINDS: Final[Mapping[str, Select]] = {"effects": bars_of}
"""The kinds of figures that this module draws."""
