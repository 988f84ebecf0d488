"""Who is ahead at each level, and where the winner changes: the first lines and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perpacket.analysis.findings import MOST_FINDINGS, Finding
from perpacket.show.tables import Cell, Table
from perpacket.show.wording import number, plural, typographic, with_unit

if TYPE_CHECKING:
    from perpacket.analysis.contests import Contested, Crossing, Standing

NOBODY = "nobody is clearly ahead"
NO_CROSSING = "no change of the winner can be claimed"
UNDECIDED = "undecided"
NOTE = (
    "The winner of each contest, or who overtakes whom. A lead is claimed only where intervals "
    "(95 %) do not overlap."
)


def findings(contests: Sequence[Contested]) -> list[Finding]:
    """A line a crossing at the front; one a contest without any."""
    found = [finding for one in contests for finding in _findings_of(one)]
    return found[:MOST_FINDINGS]


def _findings_of(one: Contested) -> Iterator[Finding]:
    title, axis = one.contest.title, one.contest.along_title
    for crossing in one.crossings:
        where = f"overtakes {crossing.before} between {between(crossing)} {axis}"
        if crossing.position is not None:
            where += f", about {typographic(str(crossing.position))}"
        if crossing.may_stay:
            where += f"; all along, {' or '.join(crossing.may_stay)} may be ahead"
        yield Finding(crossing.after, "", f"{title}: {where}", "", "")
    if one.crossings:
        return
    clear = [standing for standing in one.standings if not standing.not_told_apart]
    leaders = {standing.leader for standing in clear}
    levels = f"{len(clear)} of {plural(len(one.standings), 'level')}"
    if len(leaders) == 1:
        yield Finding(leaders.pop(), "", f"{title}: clearly ahead at {levels}", "", "")
    else:
        yield Finding(UNDECIDED, "", f"{title}: somebody is clearly ahead at {levels}", "", "")


def tables(contests: Sequence[Contested]) -> list[Table]:
    """Both tables; none where nothing competes."""
    return [crossing_table(contests), standing_table(contests)] if contests else []


def standing_table(contests: Sequence[Contested]) -> Table:
    """Who is ahead at each level of each contest, and who cannot be told apart from it."""
    return Table(
        identifier="standings",
        caption="Who is ahead at each level; who is not clearly behind, because the intervals "
        "overlap, stands beside",
        columns=("Contest", "Level", "Ahead", "Value", "Not told apart"),
        numeric=(False, True, False, True, False),
        rows=tuple(_standing_row(one, standing) for one in contests for standing in one.standings),
    )


def _standing_row(one: Contested, standing: Standing) -> tuple[Cell, ...]:
    value, _, bounds = typographic(str(standing.value)).partition(" ")
    return (
        Cell(one.contest.title, look="quantity"),
        Cell(number(standing.level), remark=one.contest.along_title, sort=standing.level),
        Cell(standing.leader if not standing.not_told_apart else NOBODY),
        Cell(with_unit(value, one.unit), remark=bounds, sort=standing.value.value),
        Cell(
            ", ".join((standing.leader, *standing.not_told_apart))
            if standing.not_told_apart
            else "",
            remark="; ".join(standing.doubts),
        ),
    )


def crossing_table(contests: Sequence[Contested]) -> Table:
    """Who overtakes whom at the front; a contest without a crossing says so."""
    return Table(
        identifier="crossings",
        caption="Who overtakes whom at the front: one is clearly ahead of the other before, and "
        "behind after; where the lines cross is told when they do in every block",
        columns=("Contest", "Ahead before", "Ahead after", "Between", "Crossing", "The winner"),
        numeric=(False, False, False, False, True, False),
        rows=tuple(row for one in contests for row in _crossing_rows(one)),
    )


def _crossing_rows(one: Contested) -> Iterator[tuple[Cell, ...]]:
    title = Cell(one.contest.title, look="quantity")
    for crossing in one.crossings:
        yield (
            title,
            Cell(crossing.before),
            Cell(crossing.after),
            Cell(between(crossing), remark=one.contest.along_title, sort=crossing.low),
            _position(crossing),
            Cell(f"may stay {' or '.join(crossing.may_stay)}" if crossing.may_stay else "changes"),
        )
    if not one.crossings:
        yield (title, Cell(NO_CROSSING), *[Cell("")] * 4)


def between(crossing: Crossing) -> str:
    """The two levels that a crossing stands between."""
    return f"{number(crossing.low)} and {number(crossing.high)}"


def _position(crossing: Crossing) -> Cell:
    if crossing.position is None:
        return Cell("", remark="not in every block")
    value, _, bounds = str(crossing.position).partition(" ")
    return Cell(value, remark=bounds, sort=crossing.position.value)
