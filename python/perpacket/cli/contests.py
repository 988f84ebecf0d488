"""Who is ahead and where that changes, as the study verbs print it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpacket.cli import output

if TYPE_CHECKING:
    from perpacket.analysis.contests import Contested


def print_contests(contests: Sequence[Contested]) -> None:
    """Where the winner changes, then who is ahead at each level; nothing without contests."""
    if not contests:
        return
    crossings = [
        (
            one.contest.title,
            crossing.before,
            crossing.after,
            f"{output.number_text(crossing.low)} to {output.number_text(crossing.high)}",
            "not in every block" if crossing.position is None else str(crossing.position),
            f"may stay {' or '.join(crossing.may_stay)}" if crossing.may_stay else "changes",
        )
        for one in contests
        for crossing in one.crossings
    ]
    if crossings:
        names = ("contest", "ahead before", "ahead after", "between", "crossing [95 % interval]")
        output.write_table(
            "Where the winner changes", (*names, "winner"), crossings, right=names[3:]
        )
    else:
        output.write_line("Where the winner changes: no change can be claimed")
    standings = [
        (
            one.contest.title,
            output.number_text(standing.level),
            standing.leader,
            f"{standing.value} {one.unit}",
            ", ".join(standing.not_told_apart) or "clearly ahead of all",
        )
        for one in contests
        for standing in one.standings
    ]
    headings = ("contest", "level", "best mean", "value [95 % interval]", "not told apart from")
    output.write_table("Who is ahead", headings, standings, right=("level", headings[3]))


def describe_contest(one: Contested) -> dict[str, object]:
    """A contest for JSON."""
    contest = one.contest
    return {
        "title": contest.title,
        "competitor": contest.competitor,
        "along": contest.along,
        "where": dict(contest.where),
        "quantity": contest.quantity,
        "unit": one.unit,
        "lower_wins": contest.lower_wins,
        "standings": [
            {
                "level": standing.level,
                "leader": standing.leader,
                "value": standing.value.as_dict(),
                "not_told_apart": list(standing.not_told_apart),
                "doubts": list(standing.doubts),
            }
            for standing in one.standings
        ],
        "crossings": [
            {
                "before": crossing.before,
                "after": crossing.after,
                "low": crossing.low,
                "high": crossing.high,
                "position": None if crossing.position is None else crossing.position.as_dict(),
                "may_stay": list(crossing.may_stay),
            }
            for crossing in one.crossings
        ],
    }
