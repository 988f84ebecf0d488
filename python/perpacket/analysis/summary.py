"""What a user's study tells of a run: its quantities by point, effects, and what weakens them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from perpacket.analysis import factorial
from perpacket.analysis.effects import (
    Effects,
    Result,
    Results,
    confounding,
    effects_of,
    paired_values,
)
from perpacket.analysis.published_rows import (
    Rows,
    balance_warnings,
    chains,
    doubt_warnings,
    listed,
    replication_warnings,
    rows_of,
)
from perpacket.analysis.statistics import StatisticsError, mean, unranked
from perpacket.run.directory import RunDirectory
from perpacket.study.result_keys import quantity
from perpacket.study.study import Study

FINEST_RESOLUTION = 3
"""At this resolution a factor cannot be told from an interaction of two others."""


@dataclass(frozen=True, slots=True)
class TwoLevel:
    """A two-level design with what its factors are called and which point each run is."""

    design: factorial.Design
    points: tuple[str, ...]
    levels: str
    """The levels of each factor, lower and upper, in words."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Brings the observations of a user's study together."""

    two_level: TwoLevel | None = None

    def __call__(self, study: Study, directory: RunDirectory) -> Results:
        """Every quantity at every point, the effects, and remarks on both."""
        rows = rows_of(directory)
        confidence = directory.configuration.confidence
        told = tuple(self._results(study, rows, confidence))
        effects: tuple[Effects, ...] = ()
        lacks: list[str] = []
        if self.two_level is not None:
            found = [effects_or_lack(self.two_level, name, rows, confidence) for name in study.told]
            effects = tuple(one for one in found if isinstance(one, Effects))
            lacks = [one for one in found if isinstance(one, str)]
        remarks = [
            *_by_point(told),
            *unfinished(directory, rows),
            *overlaps(told),
            *lacks,
            *study.remarks,
        ]
        return Results(told, effects, tuple(remarks), confidence)

    def _results(self, study: Study, rows: Rows, confidence: float) -> Iterator[Result]:
        for point in study.points:
            own = rows.get(point.name, {})
            for number, name in enumerate(study.told):
                of = quantity(name)
                values = [
                    found for seed in sorted(own) if (found := of.value(own[seed])) is not None
                ]
                warnings = list(replication_warnings(values, of.unit))
                if 0 < len(values) < len(own):
                    warnings.append(f"{len(own) - len(values)} of {len(own)} runs gave no {name}")
                if number == 0:  # these are about the runs, not about one quantity
                    warnings += [*balance_warnings(own), *doubt_warnings(own)]
                interval = mean(values, confidence) if values else None
                yield Result(point.name, name, of.unit, interval, tuple(warnings))


def _by_point(told: tuple[Result, ...]) -> list[str]:
    """Each warning once, with the points and quantities it is about."""
    about: dict[str, list[str]] = {}
    for result in told:
        for warning in result.warnings:
            about.setdefault(warning, []).append(result.point)
        if result.interval is None:
            about.setdefault(f"no run gave {result.quantity}", []).append(result.point)
    return [f"{', '.join(dict.fromkeys(points))}: {text}" for text, points in about.items()]


def overlaps(told: tuple[Result, ...]) -> list[str]:
    """Points whose intervals overlap in a quantity: none is the better one."""
    found = []
    for name in dict.fromkeys(result.quantity for result in told):
        intervals = {
            result.point: result.interval
            for result in told
            if result.quantity == name
            and result.interval is not None
            and result.interval.is_bounded
        }
        found += [
            f"intervals of {name} overlap, each with its neighbour's, so no order is claimed: "
            f"{listed(group)}"
            for group in chains(unranked(intervals))
        ]
    return found


def unfinished(directory: RunDirectory, rows: Rows) -> list[str]:
    """The points that had all the runs they may have and whose interval is still too wide."""
    rule, seeds = directory.configuration.stopping, directory.configuration.seeds
    if rule is None:
        return []
    of = quantity(rule.quantity)
    wide = []
    for point, own in rows.items():
        values = [of.value(own[seed]) for seed in seeds if seed in own]
        if len(values) == len(seeds) and rule.runs_enough(values) is None:
            wide.append(point)
    if not wide:
        return []
    return [
        f"{', '.join(wide)}: {rule.quantity} is not known to {100 * rule.within:g} % after all "
        f"{len(seeds)} runs"
    ]


def effects_or_lack(two_level: TwoLevel, name: str, rows: Rows, confidence: float) -> Effects | str:
    """The effects on one quantity, or why they cannot be told."""
    of = quantity(name)
    values = {
        point: {seed: found for seed, row in own.items() if (found := of.value(row)) is not None}
        for point, own in rows.items()
    }
    missing = [point for point in two_level.points if not values.get(point)]
    if missing:
        return f"no effects on {name}: {', '.join(missing)} has no run that gave it"
    responses = paired_values(values, two_level.points)
    if not responses[0]:
        return f"no effects on {name}: no seed was run at every point"
    try:
        return effects_of(two_level.design, name, of.unit, responses, confidence)
    except StatisticsError as error:
        return f"no effects on {name}: {error}"


def design_remarks(two_level: TwoLevel) -> list[str]:
    """The levels of the factors, and what a fraction cannot tell apart."""
    design = two_level.design
    found = [f"an effect is half the change from the lower to the upper level: {two_level.levels}"]
    if design.resolution is not None:
        found.append(
            f"this is a part of the design, of resolution {design.resolution}: each effect stands "
            f"for the sum of those it is confounded with: {'; '.join(confounding(design))}"
        )
        if design.resolution < FINEST_RESOLUTION:
            found.append(
                "some factors always change together here and cannot be told from each other: give "
                "each a generator of its own"
            )
        elif design.resolution == FINEST_RESOLUTION:
            found.append("a factor cannot be told from interactions of two others here")
    return found


def renamed(design: factorial.Design, labels: dict[str, str]) -> factorial.Design:
    """The same design with short names for its factors."""
    return replace(
        design,
        factors=tuple(labels[name] for name in design.factors),
        generators={
            labels[name]: tuple(labels[part] for part in parts)
            for name, parts in design.generators.items()
        },
    )
