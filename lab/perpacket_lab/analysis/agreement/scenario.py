"""Two methods compared in one scenario, with the doubts about their runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perpacket_lab.analysis.doubts import doubt_warnings, replication_warnings
from perpacket_lab.analysis.methods import MethodComparison, Methods, MethodValue, compare
from perpacket_lab.study.quantities import Row

NOTABLY_IDLE = 0.05
"""A host that is idle for a larger share is not the only limit of throughput."""


@dataclass(frozen=True, slots=True)
class ComparedScenario:
    """One level of the factor that a question varies."""

    question: str
    title: str
    name: str
    level: float

    def compare(
        self,
        first: MethodValue,
        second: MethodValue,
        assumption: str,
        runs: Mapping[int, Row] | None = None,
    ) -> MethodComparison:
        """Compare two methods; `runs` are those of `first`."""
        values = [first.values[seed] for seed in sorted(first.values)]
        warnings = (*replication_warnings(values, "%"), *doubt_warnings(runs or {}))
        methods = Methods(self.question, self.level, first, second, assumption, warnings)
        return compare(self.title, self.name, methods)
