"""The table of a measured run's report with the change most worth trying at each point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpacket.show.advice_tables import percent
from perpacket.show.table import Cell, Table

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis

MOST_POINTS = 8
"""The largest number of points whose advice a report shows."""


def run_table(analysis: Analysis) -> Table | None:
    """The change most worth trying at the points of a measured run; None if there is none."""
    if not analysis.study.is_measured:
        return None
    from perpacket_lab.analysis import advice_of_run as of_run

    suggestions = of_run.suggestions(analysis.run.path, analysis.study.points)[:MOST_POINTS]
    if not suggestions:
        return None
    return Table(
        identifier="cheaper",
        caption="The change with the largest bound at each point, as a share of processor time",
        columns=("Point", "Change", "Evidence", "At most", "Risk"),
        numeric=(False, False, False, True, False),
        rows=tuple(
            (
                Cell(point.name, css="name"),
                Cell(f"{advice.change.name}={advice.value}"),
                Cell(advice.evidence),
                Cell(
                    "" if advice.bound is None else percent(advice.bound.share),
                    sort=advice.rank[0],
                ),
                Cell(advice.risk),
            )
            for point, advice in suggestions
        ),
    )
