"""The contests of a study as the function that studies still name."""

from __future__ import annotations

from collections.abc import Sequence

from perpacket.analysis.contests import ContestResult, results_of
from perpacket.analysis.published_rows import estimates_of
from perpacket.run.directory import RunDirectory
from perpacket.study.contest import Contest
from perpacket.study.study import ContestFunction, Study


def contests_of(contests: Sequence[Contest]) -> ContestFunction:
    """The function that computes these contests of a study."""

    def compute(study: Study, directory: RunDirectory) -> list[ContestResult]:
        return results_of(contests, study.points, estimates_of(study, directory))

    return compute
