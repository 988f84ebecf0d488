"""The summary of a run of a user's study."""

from __future__ import annotations

from collections.abc import Iterator

from perpacket.analysis.claim import Claim, Relation, Verdict
from perpacket.analysis.statistics import StatisticsError, unranked
from perpacket_lab.analysis.doubts import (
    balance_warnings,
    by_point,
    chains,
    doubt_warnings,
    replication_warnings,
)
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.factor_effects import (
    FactorEffects,
    Summary,
    SummaryRow,
    effects_of,
    paired_values,
)
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.study import stopping
from perpacket_lab.study.designs import TwoLevelDesign
from perpacket_lab.study.point import first_names
from perpacket_lab.study.quantities import quantity
from perpacket_lab.study.study import Study


def summarize(study: Study, directory: RunDirectory, estimates: Estimates) -> Summary:
    """Every quantity of the study's summary at every point, the effects, and remarks on both."""
    rows = tuple(_rows(study, estimates))
    results = []
    if study.design is not None:
        results = [effects_or_reason(study.design, name, estimates) for name in study.summary]
    remarks = [
        *_remarks_of_rows(rows),
        *_wide_intervals(directory, estimates),
        *_overlaps(rows),
        *(row for row in results if isinstance(row, str)),
        *study.remarks,
    ]
    effects = tuple(row for row in results if isinstance(row, FactorEffects))
    return Summary(rows, effects, tuple(remarks), estimates.confidence)


def _rows(study: Study, estimates: Estimates) -> Iterator[SummaryRow]:
    for point in study.points:
        own = estimates.rows.get(point.name, {})
        for number, name in enumerate(study.summary):
            entry = quantity(name)
            values = list(estimates.values(point.name, entry).values())
            warnings = list(replication_warnings(values, entry.unit))
            if 0 < len(values) < len(own):
                warnings.append(f"{len(own) - len(values)} of {len(own)} runs have no {name}")
            if number == 0:  # these warnings concern the runs, so one row of a point has them
                warnings += [*balance_warnings(own), *doubt_warnings(own)]
            interval = estimates.mean(point.name, entry)
            verdict = Verdict.NO_VALUE if interval is None else Verdict.NOT_JUDGED
            yield Claim(
                subject=point.name,
                quantity=name,
                unit=entry.unit,
                value=interval,
                reference=None,
                relation=Relation.ITSELF,
                verdict=verdict,
                remark="; ".join(warnings),
                detail=tuple(warnings),
            )


def _remarks_of_rows(rows: tuple[SummaryRow, ...]) -> list[str]:
    """Each warning once, with its points."""
    warnings = [(row.subject, text) for row in rows for text in row.detail]
    warnings += [(row.subject, f"no run has {row.quantity}") for row in rows if row.value is None]
    return [f"{', '.join(points)}: {text}" for text, points in by_point(warnings).items()]


def _overlaps(rows: tuple[SummaryRow, ...]) -> list[str]:
    """Sentences on points whose intervals of a quantity overlap, so their order is open."""
    overlaps = []
    for name in dict.fromkeys(row.quantity for row in rows):
        intervals = {
            row.subject: row.value
            for row in rows
            if row.quantity == name and row.value is not None and row.value.is_bounded
        }
        overlaps += [
            f"neighbouring intervals of {name} overlap, so the order is not shown: "
            f"{first_names(group)}"
            for group in chains(unranked(intervals))
        ]
    return overlaps


def _wide_intervals(directory: RunDirectory, estimates: Estimates) -> list[str]:
    """The points whose interval is still too wide after all their runs."""
    rule, seeds = directory.configuration.stopping, directory.configuration.seeds
    if rule is None:
        return []
    wide = []
    for point in estimates.rows:
        values = estimates.values(point, rule.quantity)
        in_order = [values.get(seed) for seed in seeds if seed in estimates.rows[point]]
        if len(in_order) == len(seeds) and stopping.runs_enough(rule, in_order) is None:
            wide.append(point)
    if not wide:
        return []
    return [
        f"{', '.join(wide)}: after all {len(seeds)} runs, the interval of {rule.quantity} is "
        f"wider than {100 * rule.within:g} %"
    ]


def effects_or_reason(
    two_level: TwoLevelDesign, name: str, estimates: Estimates
) -> FactorEffects | str:
    """The effects on one quantity, or the reason why there are none."""
    values = {point: estimates.values(point, name) for point in two_level.points}
    missing = [point for point in two_level.points if not values[point]]
    if missing:
        return f"no effects on {name}: no run of {', '.join(missing)} has it"
    responses = paired_values(values, two_level.points)
    if not responses[0]:
        return f"no effects on {name}: no seed was run at every point"
    unit = quantity(name).unit
    try:
        return effects_of(two_level.design, name, unit, responses, estimates.confidence)
    except StatisticsError as error:
        return f"no effects on {name}: {error}"
