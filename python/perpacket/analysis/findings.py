"""What a run says, in sentences: made from its numbers by rules, so that they cannot disagree.

The rules, in order:

1. a study with baselines reports what each point gains over its own, paired by seed; where that
   is too much for a first screen, those that the document states too, the best and the worst;
2. a study that is compared with nothing reports what a packet costs, where most of it goes, and
   what offload could gain at most, before the courses of rule 3;
3. a study without baselines reports how each line of its figures goes from its first level to
   its last, each figure's first line before any figure's second; lines over their first level are
   paired by block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from perpacket.analysis import means, relative
from perpacket.analysis.offload import gain_percent, network_shares
from perpacket.show.wording import (
    factor_in_words,
    in_words,
    number,
    points_in_words,
    sentence_case,
    signed,
    signed_interval,
    statistic_in_words,
    typographic,
    with_unit,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from perpacket.analysis.published import Comparison, Published
    from perpacket.analysis.statistics import Interval
    from perpacket.study.study import Figure, Point, Study

# What gains are counted in, and the quantities in which a document states them, with their sign.
GAIN_COLUMN: Final = "requests_per_s"
GAIN_NOUN: Final = "requests per second"
PUBLISHED_GAINS: Final = {"gain_request_rate": 1, "loss": -1}
PUBLISHED_RATE: Final = "request_rate"

MOST_PERCENT: Final = 1000
"""A bound beyond this says no more than that nothing is known upwards."""

MOST_FINDINGS: Final = 8
"""What a first screen holds."""

MOST_LAYERS: Final = 3
"""So many layers are named as those that cost most."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer: a number, its interval, what it is of, and what the paper says."""

    value: str
    bounds: str
    subject: str
    name: str
    """The point's name; empty where the subject is a line of a figure."""
    paper: str
    remark: str = ""
    """What must be known of the paper's number, as that it was used to calibrate."""


def findings(
    study: Study, observations: pl.DataFrame, comparisons: Sequence[Comparison]
) -> list[Finding]:
    """What the run found: gains where points have baselines, else the course of its figures."""
    gains = _gains(study, observations)
    if gains:
        return [
            _gain_finding(study, point, gain, comparisons)
            for point, gain in _chosen(gains, comparisons)
        ]
    tellers = {"curve": _courses, "relative": _changes}
    if not study.published:
        tellers |= {"stacked-layers": _costs, "laws": _offload}
    courses = [
        tellers[figure.kind](study, figure, observations, comparisons)
        for figure in study.figures
        if figure.kind in tellers
    ]
    return _first_of_each(courses)


def _first_of_each(courses: list[list[Finding]]) -> list[Finding]:
    """As many lines as a screen holds: every figure's first, then every second, none twice."""
    told: set[tuple[str, str, str]] = set()
    kept: set[Finding] = set()
    for turn in zip_longest(*courses):
        for finding in turn:
            if finding is None or len(kept) == MOST_FINDINGS:
                continue
            # The same points may be a line of two figures: only their numbers tell.
            numbers = (finding.value, finding.bounds, finding.subject.partition(": ")[2])
            if numbers not in told:
                told.add(numbers)
                kept.add(finding)
    return [finding for course in courses for finding in course if finding in kept]


def findings_note(study: Study, observations: pl.DataFrame, found: Sequence[Finding]) -> str:
    """What the numbers of the findings are, and which were left out; empty without findings."""
    gains = _gains(study, observations)
    if found and study.is_measured:
        return (
            "Changes from the first level to the last, or from the one the document starts at; "
            "those with an interval are paired by block (95 %)."
        )
    if not found or not gains:
        return ""
    baselines = list(dict.fromkeys(str(point.against) for point, _ in gains))
    if len(baselines) > 1:
        baselines = ["the baseline of the same workload"]
    note = (
        f"Change in {GAIN_NOUN} against {baselines[0]}, paired by seed, with the "
        f"{100 * gains[0][1].confidence:.0f} % interval."
    )
    if len(found) < len(gains):
        note += f" {len(found)} of {len(gains)}; all are in the table of configurations."
    return note


def lead(study: Study, observations: pl.DataFrame) -> str:
    """The answer in one sentence: the best and the worst gain; empty without baselines."""
    gains = _gains(study, observations)
    if len(gains) < 2:
        return ""
    worst, best = (choose(gains, key=lambda pair: pair[1].value) for choose in (min, max))
    ends = [
        f"{' '.join(signed_interval(gain))} at {end} ({point.name})"
        for end, (point, gain) in (("worst", worst), ("best", best))
    ]
    return f"{sentence_case(GAIN_NOUN)} change by {' and by '.join(ends)}."


def _gains(study: Study, observations: pl.DataFrame) -> list[tuple[Point, Interval]]:
    """The gain of each point over its baseline, in the study's order."""
    found = []
    for point in study.points:
        gain = means.gain_percent(observations, point, GAIN_COLUMN)
        if gain is not None:
            found.append((point, gain))
    return found


def _chosen(
    gains: list[tuple[Point, Interval]], comparisons: Sequence[Comparison]
) -> list[tuple[Point, Interval]]:
    """All gains where they fit on a screen, else those worth most there, in the study's order.

    First those that the document states too, then the best and the worst of all, then the best of
    each baseline.
    """
    if len(gains) <= MOST_FINDINGS:
        return gains
    by_name = {point.name: gain.value for point, gain in gains}
    wanted = [point.name for point, _ in gains if _published_gain(point, comparisons) is not None]
    wanted += [max(by_name, key=by_name.__getitem__), min(by_name, key=by_name.__getitem__)]
    for baseline in dict.fromkeys(point.against for point, _ in gains):
        group = [point.name for point, _ in gains if point.against == baseline]
        wanted.append(max(group, key=by_name.__getitem__))
    kept = set(list(dict.fromkeys(wanted))[:MOST_FINDINGS])
    return [(point, gain) for point, gain in gains if point.name in kept]


def _gain_finding(
    study: Study, point: Point, gain: Interval, comparisons: Sequence[Comparison]
) -> Finding:
    value, bounds = signed_interval(gain)
    subject = sentence_case(points_in_words(study.points)[point.name])
    if gain.is_bounded and gain.contains(0.0):
        subject += ": no difference can be claimed"
    paper, remark = _published_gain(point, comparisons) or (
        ("no figure in the paper", "") if study.published else ("", "")
    )
    return Finding(value, bounds, subject, point.name, paper, remark)


def _published_gain(point: Point, comparisons: Sequence[Comparison]) -> tuple[str, str] | None:
    """What the document says of the same gain, in its words or from the rates it prints."""
    published = [row.published for row in comparisons]
    for figure in published:
        sign = PUBLISHED_GAINS.get(figure.quantity)
        if figure.point == point.name and figure.against == point.against and sign is not None:
            if figure.value is not None:
                return f"paper {signed(sign * figure.value)}", _calibrated(figure)
            lost = "loss of " if sign < 0 else ""
            text = with_unit(figure.text, figure.unit)
            return f"paper {lost}{text}", _calibrated(figure)
    rate = _published_rate(published, point.name)
    base = _published_rate(published, point.against)
    if rate is not None and base is not None and rate.value and base.value:
        percent = 100 * (rate.value / base.value - 1)
        return f"paper {signed(percent)}", f"from its rates, {_calibrated(rate, base)}".rstrip(", ")
    return None


def _published_rate(published: Sequence[Published], point: str | None) -> Published | None:
    held = [row for row in published if (row.point, row.quantity) == (point, PUBLISHED_RATE)]
    return held[0] if held else None


def _calibrated(*figures: Published) -> str:
    """Whether all of the figures, or some, were used to calibrate; empty for none."""
    used = [figure.calibration for figure in figures]
    if not any(used):
        return ""
    return "used to calibrate" if all(used) else "one of them used to calibrate"


def _costs(
    study: Study, figure: Figure, observations: pl.DataFrame, comparisons: Sequence[Comparison]
) -> list[Finding]:
    """What all layers cost at the first level and the last, and where most of it goes there."""
    columns = means.layer_columns(observations, figure.y)
    columns.pop("idle", None)
    sums = means.per_point_sum(observations, list(columns.values()))
    held = [point for point in points_of(study, figure) if point.name in sums]
    if not held:
        return []
    first, last = held[0], held[-1]
    parts = {
        layer: own[last.name].value / sums[last.name].value
        for layer, column in columns.items()
        if last.name in (own := means.per_point(observations, column)) and sums[last.name].value
    }
    greatest = sorted(parts, key=parts.__getitem__, reverse=True)[:MOST_LAYERS]
    where = ", ".join(
        f"{in_words(layer)} {100 * parts[layer]:.0f}\N{NO-BREAK SPACE}%" for layer in greatest
    )
    unit = figure.y_title or in_words(figure.y)
    subject = f"{figure.title}: {unit}, {sums[last.name]}"
    change = _change(sums[first.name].value, sums[last.name].value)
    if first is last or change is None:
        return [Finding(number(sums[last.name].value), "", f"{subject}; most in {where}", "", "")]
    axis = figure.x_title or in_words(figure.x)
    subject = (
        f"{figure.title}: {unit} from {sums[first.name]} to {sums[last.name]} with {axis} from "
        f"{first.factors.get(figure.x, first.name)} to {last.factors.get(figure.x, last.name)}; "
        f"there most in {where}"
    )
    return [Finding(grown(change), "", typographic(subject), "", "")]


def _offload(
    study: Study, figure: Figure, observations: pl.DataFrame, comparisons: Sequence[Comparison]
) -> list[Finding]:
    """What offload could gain at the last point, from the network's share of the processor."""
    shares = network_shares(observations, figure.y)
    held = [point for point in points_of(study, figure) if point.name in shares]
    if not held:
        return []
    share = shares[held[-1].name]
    gain = share.map(gain_percent)
    value, bounds = signed_interval(gain)
    if gain.is_bounded and gain.high >= MOST_PERCENT:
        bounds = f"{bounds.partition(',')[0]}, over +{MOST_PERCENT:,}]"
    words = points_in_words(study.points)[held[-1].name]
    percent = share.map(lambda part: 100 * min(1.0, max(0.0, part)))
    subject = (
        f"{figure.title}, {words}: the network has {percent.text(1)}\N{NO-BREAK SPACE}% of the "
        "busy processor, and a NIC that did all of it would free no more"
    )
    return [Finding(value, bounds, subject, "", "")]


def _courses(
    study: Study, figure: Figure, observations: pl.DataFrame, comparisons: Sequence[Comparison]
) -> list[Finding]:
    """For each line of a curve, its change from the first level to the last."""
    columns = figure.y.split(",")
    return [
        finding
        for column in columns
        for finding in _column_courses(
            study,
            replace(figure, y=column, title=f"{figure.title}, {statistic_in_words(column)}")
            if len(columns) > 1
            else figure,
            observations,
            comparisons,
        )
    ]


def _column_courses(
    study: Study, figure: Figure, observations: pl.DataFrame, comparisons: Sequence[Comparison]
) -> list[Finding]:
    """The lines of one column."""
    interval_of = means.per_point(observations, figure.y)
    published = means.published_in(comparisons, interval_of)
    lines: dict[object, list[Point]] = {}
    for point in points_of(study, figure):
        x = point.factors.get(figure.x)
        if point.name in interval_of and isinstance(x, int | float):
            lines.setdefault(point.factors.get(figure.series or ""), []).append(point)
    found = []
    for level, points in lines.items():
        points.sort(key=lambda point: float(point.factors[figure.x]))
        first, last = points[0], points[-1]
        change = _change(interval_of[first.name].value, interval_of[last.name].value)
        if change is None or first is last:
            continue
        line = f", {factor_in_words(figure.series, level)}" if figure.series else ""
        measure = f", {figure.y_title}" if figure.y_title else ""
        subject = (
            f"{figure.title}{line}{measure}: "
            f"from {interval_of[first.name]} to {interval_of[last.name]} "
            f"with {figure.x_title or in_words(figure.x)} from {first.factors[figure.x]} "
            f"to {last.factors[figure.x]}"
        )
        rows = (published.get(first.name), published.get(last.name))
        paper, remark = _published_course(*rows)
        found.append(Finding(grown(change), "", typographic(subject), "", paper, remark))
    return found


def _changes(
    study: Study, figure: Figure, observations: pl.DataFrame, comparisons: Sequence[Comparison]
) -> list[Finding]:
    """For each quantity of a figure, its change from the first level to the last, paired."""
    found = []
    points = points_of(study, figure)
    for line in relative.lines(study, figure, points, observations, comparisons):
        first, last = line.start, line.steps[-1]
        change = last.ratio.map(lambda ratio: 100 * (ratio - 1))
        value, bounds = signed_interval(change)
        if change.is_bounded and change.high >= MOST_PERCENT:
            bounds = f"{bounds.partition(',')[0]}, over +{MOST_PERCENT:,}]"
        along = figure.title.partition(": ")[2] or figure.title
        subject = (
            f"{line.title}, {along}: from {with_unit(line.first, line.unit)} with "
            f"{figure.x_title or in_words(figure.x)} from {first.factors[figure.x]} "
            f"to {last.point.factors[figure.x]}"
        )
        if change.is_bounded and change.contains(0.0):
            subject += ": no change can be claimed"
        paper = ""
        if last.published is not None and last.published.published.value is not None:
            paper = f"paper {signed(last.published.published.value)}"
        remark = last.published.verdict_text if paper and last.published is not None else ""
        found.append(Finding(value, bounds, subject, "", paper, remark))
    return found


def grown(percent: float) -> str:
    """A change in per cent, or how many times as much where that says it shorter."""
    return signed(percent) if percent < MOST_PERCENT else f"× {1 + percent / 100:,.0f}"


def _change(first: float, last: float) -> float | None:
    """Per cent from the first to the last; None where the first is no base for one."""
    return 100 * (last / first - 1) if first > 0 and math.isfinite(last) else None


def _published_course(first: Comparison | None, last: Comparison | None) -> tuple[str, str]:
    """The published values at both ends of a line, and whether both were used to calibrate."""
    if first is None or last is None:
        return "", ""
    text = f"{first.published.text} and {last.published.text}"
    mark = _calibrated(first.published, last.published)
    return f"paper {with_unit(text, first.published.unit)}", mark


def points_of(study: Study, figure: Figure) -> list[Point]:
    """The points that a figure's `where` keeps, in the study's order."""
    return [point for point in study.points if figure.keeps(point)]
