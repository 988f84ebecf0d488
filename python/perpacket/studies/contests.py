"""Who is ahead where competitors are compared, computed from the observations of a run."""

from __future__ import annotations

from collections.abc import Sequence

from perpacket.experiment.contest import Contest, Contested, contested
from perpacket.experiment.run_directory import RunDirectory
from perpacket.experiment.study import ContestFunction, Study
from perpacket.studies.comparison import doubt_warnings, rows_of
from perpacket.studies.quantities import QUANTITIES


def contests_of(contests: Sequence[Contest]) -> ContestFunction:
    """What computes these contests of a study."""

    def compute(study: Study, directory: RunDirectory) -> list[Contested]:
        rows = rows_of(directory)
        doubts = {name: tuple(doubt_warnings(own)) for name, own in rows.items()}
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
