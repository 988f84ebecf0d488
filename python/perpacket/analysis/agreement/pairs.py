"""Two methods compared at one level of an axis, with the doubts about their runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perpacket.analysis.doubts import doubt_warnings, replication_warnings
from perpacket.analysis.methods import MethodComparison, MethodValue, compare_methods
from perpacket.study.quantities import Row

NOTABLY_IDLE = 0.05
"""A host that is idle for more than this share waits for another: it alone is not the limit."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One level of one question's axis."""

    question: str
    title: str
    scenario: str
    level: float

    def beside(
        self,
        first: MethodValue,
        second: MethodValue,
        assumption: str,
        runs: Mapping[int, Row] | None = None,
    ) -> MethodComparison:
        """Two methods at this level; `runs` are those of `first`."""
        values = [first.values[seed] for seed in sorted(first.values)]
        warnings = (*replication_warnings(values, "%"), *doubt_warnings(runs or {}))
        return compare_methods(
            self.question,
            self.title,
            self.scenario,
            self.level,
            first,
            second,
            assumption,
            warnings,
        )
