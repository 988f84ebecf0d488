"""The chart of changes: the ratio of the cost of a unit of work with a change to that without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from perpacket_lab.analysis.wording import sentence_case
from perpacket_lab.show.change_tables import OPEN, WORDS, figure_table, word_of
from perpacket_lab.show.charts import ratios
from perpacket_lab.show.charts.chart_style import Plot, Select

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.tried_changes import Change
    from perpacket_lab.study.figure import Figure


def rows_of(figure: Figure, analysis: Analysis) -> Plot | None:
    """A row for each change of the figure, with its interval.

    A load for which no best changes were chosen has a row only in the figure's table.
    """
    changes = next((change for change in analysis.changes if change.figure == figure), None)
    rows = (
        [row for row in changes.rows if row.detail.applied or not row.detail.is_chosen]
        if changes
        else []
    )
    if changes is None or not rows:
        return None
    frame = pl.DataFrame(
        [
            {"name": row.subject, "ratio": row.interval.value, **row.interval.bounds()}
            for row in rows
        ],
        schema=ratios.SCHEMA,
    )
    return Plot(
        lambda width: ratios.ratios(frame, title=figure.x_title, width=width),
        described(rows),
        figure_table(changes),
    )


def described(rows: Sequence[Change]) -> str:
    """The rows by verdict: `Cheaper: gro=on. Not distinguishable: tso=off; mtu=9000.`."""
    parts = []
    for words in (*WORDS.values(), OPEN):
        names = [row.subject for row in rows if word_of(row) is words]
        parts += [f"{sentence_case(words[0])}: {'; '.join(names)}."] if names else []
    return " ".join(parts)


KINDS: Final[Mapping[str, Select]] = {"changes": rows_of}
"""The kinds of figures that this module draws."""
