"""The limits of a run: those that its data show, and those that its study states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from perpacket_lab.analysis.doubts import by_point, disturbance, unbalanced
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.factor_effects import Summary
from perpacket_lab.analysis.methods import MethodComparison
from perpacket_lab.analysis.published_comparison import Comparison
from perpacket_lab.analysis.published_rows import warnings_of
from perpacket_lab.analysis.terms import Terms
from perpacket_lab.analysis.wording import plural, sentence_case
from perpacket_lab.run.directory import Failure
from perpacket_lab.study.point import first_names
from perpacket_lab.study.stopping import Stopping
from perpacket_lab.study.study import Study

FEW_SEEDS: Final = 5
"""With fewer replications, Student's t is so large that intervals hide most differences."""


def limits_of(
    study: Study,
    estimates: Estimates,
    terms: Terms,
    *,
    seeds: int,
    planned: int,
    comparisons: Sequence[Comparison] = (),
    methods: Sequence[MethodComparison] = (),
    rankings: Sequence[str] = (),
    summary: Summary | None = None,
    stopping: Stopping | None = None,
    failures: Sequence[Failure] = (),
    environment: Mapping[str, object] | None = None,
) -> list[str]:
    """The limits as sentences. Limits that may change a result come first."""
    runs = sum(len(own) for own in estimates.rows.values())
    warnings = [(row.subject, text) for row in methods for text in row.detail.warnings]
    limits = []
    if names := [f"{point} with seed {seed}" for point, seed in unbalanced(estimates.rows)]:
        limits.append(f"Packets do not balance, so do not use: {first_names(names)}.")
    if disturbed := disturbance(estimates.rows):
        limits.append(f"{disturbed}.")
    if runs < planned:
        limits.append(
            f"The run is not complete: {runs} of {planned} runs exist. "
            "`perpacket study resume` runs the others."
        )
    for text, points in by_point([*warnings, *warnings_of(comparisons)]).items():
        limits.append(f"{sentence_case(first_names(points))}: {text}.")
    limits += [f"{sentence_case(text)}." for text in rankings]
    limits += [f"{sentence_case(remark)}." for remark in summary.remarks] if summary else []
    limits += _stopping(stopping)
    limits += [
        f"Failed: {failure.point}, block {failure.seed}: {failure.reason}." for failure in failures
    ]
    limits += _testbed(environment or {})
    limits += _path(study, estimates)
    if seeds == 1:
        limits.append(f"One {terms.replication} shows no spread: there are no intervals.")
    elif seeds < FEW_SEEDS:
        limits.append(
            f"Intervals of {seeds} {terms.replications} are wide. More {terms.replications} make "
            "them narrower."
        )
    limits.append(terms.interval)
    missing = [row for row in comparisons if row.value is None]
    if missing:
        limits.append(f"{plural(len(missing), 'published value')} could not be computed here.")
    return limits + [text for text in study.limits if text not in limits]


def _stopping(rule: Stopping | None) -> list[str]:
    """The effect of a stopping rule on intervals."""
    if rule is None:
        return []
    return [
        f"Each point ran until the interval of {rule.quantity} was within {100 * rule.within:g} %. "
        "Such a rule prefers intervals that are narrow by chance, so they contain the true value "
        "a little less often than stated."
    ]


def _path(study: Study, estimates: Estimates) -> Iterator[str]:
    """The goodput of senders without a rate, in a study whose other senders have one."""
    rates = {
        point.name: float(parameters.get("load.rate_mbps", 0))
        for point in study.points
        if (parameters := dict(point.overrides)).get("load.kind") == "stream"
    }
    means = estimates.column_means("goodput_mbps") if any(rates.values()) else {}
    for name, rate in rates.items():
        if rate == 0 and name in means:
            yield f"{sentence_case(name)}: path and sender carry {means[name]} Mb/s, and no more."


def _testbed(environment: Mapping[str, object]) -> Iterator[str]:
    """The points that the testbed left out, and the limits of its machines."""
    testbed = environment.get("testbed")
    if not isinstance(testbed, Mapping):
        return
    for name, text in (("left_out", "Left out: {}"), ("limits", "{}"), ("could_not", "{}")):
        reasons = testbed.get(name)
        for reason in reasons if isinstance(reasons, list) else []:
            yield f"{sentence_case(text.format(str(reason).rstrip('.')))}."
