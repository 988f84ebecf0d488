"""Who is ahead where competitors are compared, computed from the observations of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perpacket.analysis.contests import Contest, Contested, contested
from perpacket.analysis.published_rows import DOUBTS, rows_of
from perpacket.run.directory import RunDirectory
from perpacket.study.quantities import QUANTITIES, Row
from perpacket.study.study import ContestFunction, Study


def doubts_of(rows: Mapping[int, Row]) -> tuple[str, ...]:
    """What casts doubt on any run of a point."""
    seen = (
        text
        for name, text in DOUBTS.items()
        if any(row.get(f"doubts.{name}") is True for row in rows.values())
    )
    return tuple(seen)


def contests_of(contests: Sequence[Contest]) -> ContestFunction:
    """What computes these contests of a study."""

    def compute(study: Study, directory: RunDirectory) -> list[Contested]:
        rows = rows_of(directory)
        doubts = {name: doubts_of(own) for name, own in rows.items()}
        found = []
        for contest in contests:
            quantity = QUANTITIES[contest.quantity]
            values = {
                name: {
                    seed: value
                    for seed, row in sorted(own.items())
                    if (value := quantity.value(row)) is not None
                }
                for name, own in rows.items()
            }
            one = contested(
                contest,
                study.points,
                values,
                title=quantity.title,
                unit=quantity.unit,
                doubts=doubts,
            )
            if len(one.standings) > 1:
                found.append(one)
        return found

    return compute
