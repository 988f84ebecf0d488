"""The findings of a run: sentences made from its numbers by rules.

The rules, in order:

1. a study of changes reports the effect of the best changes together, and the cheapest and the most
   expensive change under each load;
2. a study with contests reports which competitor overtakes which;
3. a study that compares methods reports their largest differences;
4. a study with baselines reports the gain of each point over its baseline, paired by seed; where
   there are too many points, it reports the published gains, the best and the worst;
5. any other study reports the change of each line of its figures from the first level to the last.
   The first lines of all figures come before their second lines. Without published values the study
   also reports the cost of a packet by layer, and an upper bound of the gain by offload.

A change is reported as not distinguishable if its interval contains zero or is too wide to show its
size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from perpacket.analysis.claim import NOT_DISTINGUISHABLE, Relation, Verdict, judge
from perpacket.analysis.statistics import Interval
from perpacket_lab.analysis import relative
from perpacket_lab.analysis.conclusions import conclusions_of, paragraph
from perpacket_lab.analysis.contests import ContestResult, Crossing
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.factor_effects import Summary
from perpacket_lab.analysis.methods import MethodComparison
from perpacket_lab.analysis.offload import gain_percent, network_shares
from perpacket_lab.analysis.published_comparison import Comparison
from perpacket_lab.analysis.terms import Terms, terms_of
from perpacket_lab.analysis.tried_changes import Change, ChangeSet
from perpacket_lab.analysis.wording import (
    factor_in_words,
    in_words,
    number,
    plural,
    points_in_words,
    sentence_case,
    signed,
    signed_interval,
    statistic_in_words,
    typographic,
    with_unit,
)
from perpacket_lab.study.published import Published
from perpacket_lab.study.quantities import COLUMNS, QUANTITIES, gain

if TYPE_CHECKING:
    from perpacket_lab.study.figure import Figure
    from perpacket_lab.study.point import Point
    from perpacket_lab.study.study import Study

GAIN_COLUMN: Final = COLUMNS["requests_per_s"]
"""The quantity of gains over a baseline."""

GAIN_NOUN: Final = "requests per second"

PUBLISHED_GAINS: Final = {"gain_request_rate": 1, "loss": -1}
"""The published quantities that state such gains, with their sign."""

PUBLISHED_RATE: Final = "request_rate"

MANY_TIMES: Final = 11.0
"""A change by this ratio (+1,000 %) or more is printed as a multiple."""

WIDEST_RATIO: Final = 4.0
"""The largest ratio of an interval's bounds; a wider interval does not show a change's size."""

WIDEST_GAIN_PERCENT: Final = 100.0
"""The widest interval, in percentage points, that shows the size of a gain by offload."""

MOST_FINDINGS: Final = 8
"""The number of findings on the first screen of a report."""

MOST_METHOD_FINDINGS: Final = 5
"""The number of differences of methods on the first screen; each needs a sentence."""

MOST_LAYERS: Final = 3
"""The number of most expensive layers that a finding names."""

MOST_EFFECTS: Final = 4
"""The number of effects in the sentence at the top of the report."""

NO_LEADER: Final = "no clear leader"


@dataclass(frozen=True, slots=True)
class Finding:
    """A number with its interval, its subject and the published number."""

    value: str
    bounds: str
    subject: str
    point: str = ""
    """The point's name; empty if the subject is not one point."""
    published: str = ""
    remark: str = ""
    """A remark on the published number, for example that it was used to calibrate."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of a run, a sentence before them and a note below."""

    lead: str
    rows: tuple[Finding, ...]
    note: str


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """The parts of an analysis from which findings are made."""

    study: Study
    estimates: Estimates
    comparisons: Sequence[Comparison] = ()
    contests: Sequence[ContestResult] = ()
    methods: Sequence[MethodComparison] = ()
    summary: Summary | None = None
    changes: Sequence[ChangeSet] = ()

    @property
    def confidence_text(self) -> str:
        """The confidence of the intervals, as `95 %`."""
        return f"{100 * self.estimates.confidence:g} %"


def findings_of(evidence: RunEvidence) -> Findings:
    """The findings of a run, by the first rule that applies."""
    if evidence.changes:
        return _change_findings(evidence)
    lead = lead_of(evidence)
    if evidence.contests:
        note = (
            "Each line has the leader of a contest, or a change of its leader. A competitor leads "
            f"another where the {evidence.confidence_text} interval of their paired differences "
            "excludes zero."
        )
        rows = [row for contest in evidence.contests for row in _contest_rows(contest)]
        return Findings(lead, tuple(rows[:MOST_FINDINGS]), note)
    if evidence.methods and (rows := _method_rows(evidence.methods)):
        note = (
            "The largest differences in percentage points, each with its interval "
            f"({evidence.confidence_text}) and the assumption that most likely causes it."
        )
        return Findings(lead, tuple(rows), note)
    gains = gains_of(evidence)
    if gains:
        rows = [_gain_row(evidence, *gain) for gain in _most_relevant(gains, evidence.comparisons)]
        return Findings(lead, tuple(rows), _gain_note(evidence, gains, len(rows)))
    return _line_findings(evidence, lead)


def lead_of(evidence: RunEvidence) -> str:
    """The document's conclusions, the best and the worst gain, or the effects that explain most.

    Empty for other studies.
    """
    if tested := paragraph(conclusions_of(evidence.comparisons)):
        return tested
    gains = gains_of(evidence)
    if len(gains) > 1:
        worst, best = (choose(gains, key=lambda pair: pair[1].value) for choose in (min, max))
        ends = [
            f"{' '.join(change_text(ratio))} at {end} ({point.name})"
            for end, (point, ratio) in (("worst", worst), ("best", best))
        ]
        return f"Change in {GAIN_NOUN}: {', '.join(ends)}."
    return effects_lead(evidence.summary, terms_of(evidence.study))


def effects_lead(summary: Summary | None, terms: Terms) -> str:
    """The effects that explain most of the first quantity."""
    if summary is None or not summary.effects:
        return ""
    first = summary.effects[0]
    named = [
        f"{row.subject} explains {100 * row.detail.share:.0f} %"
        for row in first.rows
        if row.detail.share is not None and row.verdict.is_shown
    ]
    rest = f"the spread of {terms.replications} is {100 * first.error_share:.0f} %"
    if not named:
        return f"No factor has a significant effect on {first.quantity}: of its variation, {rest}."
    return f"Of the variation of {first.quantity}, {', '.join(named[:MOST_EFFECTS])}; {rest}."


def change_text(ratio: Interval) -> tuple[str, str]:
    """A ratio as a change and its bounds, or `not distinguishable` and the bounds.

    If the interval shows a direction, but is too wide to show a size, the value is the direction.
    """
    change = ratio.map(gain)
    value, bounds = signed_interval(change)
    verdict = judge(ratio, Relation.RATIO)
    is_wide = ratio.is_bounded and ratio.high > WIDEST_RATIO * ratio.low
    if is_wide or verdict is Verdict.NOT_DISTINGUISHABLE:
        if ratio.high >= MANY_TIMES:
            bounds = f"{bounds.partition(',')[0]}, over +{gain(MANY_TIMES):,.0f} %]"
        return str(verdict), bounds
    if ratio.value >= MANY_TIMES:
        bounds = f"[× {ratio.low:,.0f}, × {ratio.high:,.0f}]" if ratio.is_bounded else bounds
        return f"× {ratio.value:,.0f}", bounds
    return value, bounds


def _change_findings(evidence: RunEvidence) -> Findings:
    """The best changes together, then for each load the cheapest and the dearest change."""
    together, best, worst = [], [], []
    cheaper_count = dearer_count = count = 0
    for change in evidence.changes:
        chosen = [row for row in change.rows if row.detail.is_chosen and row.detail.applied]
        together += [_change_row(row) for row in chosen]
        rows = [row for row in change.rows if row.detail.applied and not row.detail.is_chosen]
        if not rows:
            continue
        dearer = [row for row in rows if row.verdict is Verdict.HIGHER]
        cheaper = [row for row in rows if row.verdict is Verdict.LOWER]
        count += len(rows)
        cheaper_count += len(cheaper)
        dearer_count += len(dearer)
        worst += [_change_row(max(dearer, key=ratio_of))] if dearer else []
        if cheaper:
            best.append(_change_row(min(cheaper, key=ratio_of)))
            continue
        subject = f"Of {plural(len(rows), 'change')}, none is shown to save processor time"
        subject += f": {rows[0].detail.load}" if rows[0].detail.load else ""
        best.append(Finding(NOT_DISTINGUISHABLE, "", subject))
    loads = len(
        {
            row.detail.load
            for change in evidence.changes
            for row in change.rows
            if not row.detail.is_chosen
        }
    )
    lead = (
        f"{plural(count, 'trial')} of changes under {plural(loads, 'load')}: in "
        f"{cheaper_count} a unit of work became cheaper, in {dearer_count} dearer, and "
        f"{count - cheaper_count - dearer_count} are {NOT_DISTINGUISHABLE} from no change."
    )
    note = (
        "Change in processor time per request, or per KiB in bulk sending, paired by block. With "
        f"{evidence.confidence_text} confidence, all intervals of a load contain their true values."
    )
    return Findings(lead, tuple([*together, *best, *worst][:MOST_FINDINGS]), note)


def ratio_of(row: Change) -> float:
    """The cost with a change divided by the cost without it."""
    return row.interval.value


def _change_row(row: Change) -> Finding:
    """A change with its cost, and the layers that it changes most."""
    title = " and ".join(row.detail.applied)
    layers = ", ".join(
        f"{in_words(layer)} {signed(shift.value, 'µs')}"
        for layer, shift in row.detail.layers[:MOST_LAYERS]
    )
    subject = (
        f"{', '.join(filter(None, (title, row.detail.where)))}: processor time per {row.unit} from "
        f"{row.detail.before} to {row.detail.changed} µs" + (f"; {layers}" if layers else "")
    )
    return Finding(*change_text(row.interval), typographic(subject), row.detail.point.name)


def _contest_rows(contest: ContestResult) -> Iterator[Finding]:
    """A finding for each crossing of leaders, or one finding if there is no crossing."""
    title, axis = contest.contest.title, contest.contest.along_title
    for crossing in contest.crossings:
        where = f"overtakes {crossing.before} between {between(crossing)} {axis}"
        if crossing.position is not None:
            where += f", about {typographic(str(crossing.position))}"
        if crossing.may_stay:
            where += f"; {' or '.join(crossing.may_stay)} may lead at both"
        yield Finding(crossing.after, "", f"{title}: {where}")
    if contest.crossings:
        return
    clear = [level for level in contest.levels if not level.not_distinguishable]
    leaders = {level.leader for level in clear}
    count = f"{len(clear)} of {plural(len(contest.levels), 'level')}"
    if len(leaders) == 1:
        yield Finding(leaders.pop(), "", f"{title}: leads at {count}")
    else:
        yield Finding(NO_LEADER, "", f"{title}: a competitor leads at {count}")


def between(crossing: Crossing) -> str:
    """The two levels of a crossing."""
    return f"{number(crossing.low)} and {number(crossing.high)}"


def _method_rows(methods: Sequence[MethodComparison]) -> list[Finding]:
    """The largest difference of each question, then the largest others, by question."""
    differing = sorted(
        (row for row in methods if row.verdict.is_shown),
        key=lambda row: -abs(row.interval.value),
    )
    first = {row.detail.question: row for row in reversed(differing)}
    chosen = [*first.values(), *(row for row in differing if first[row.detail.question] is not row)]
    kept = {id(row) for row in chosen[:MOST_METHOD_FINDINGS]}
    return [_method_row(row) for row in methods if id(row) in kept]


def _method_row(row: MethodComparison) -> Finding:
    value, bounds = signed_interval(row.interval, "")
    methods = f"{row.detail.second.method} over {row.detail.first.method}"
    subject = f"{row.quantity}, {row.subject}: {methods}"
    return Finding(value, bounds, subject, "", f"Assumed: {typographic(row.remark)}")


def gains_of(evidence: RunEvidence) -> list[tuple[Point, Interval]]:
    """The ratio of each point to its baseline, in the study's order."""
    gains = []
    for point in evidence.study.points:
        if point.against is not None:
            ratio = evidence.estimates.ratio(point.name, point.against, GAIN_COLUMN)
            if ratio is not None:
                gains.append((point, ratio))
    return gains


def _most_relevant(
    gains: list[tuple[Point, Interval]], comparisons: Sequence[Comparison]
) -> list[tuple[Point, Interval]]:
    """All gains if they fit on a screen, else the most relevant, in the study's order.

    Published gains are the most relevant, then the best and the worst, then the best for each
    baseline.
    """
    if len(gains) <= MOST_FINDINGS:
        return gains
    by_name = {point.name: ratio.value for point, ratio in gains}
    wanted = [point.name for point, _ in gains if _published_gain(point, comparisons) is not None]
    wanted += [max(by_name, key=by_name.__getitem__), min(by_name, key=by_name.__getitem__)]
    for baseline in dict.fromkeys(point.against for point, _ in gains):
        group = [point.name for point, _ in gains if point.against == baseline]
        wanted.append(max(group, key=by_name.__getitem__))
    kept = set(list(dict.fromkeys(wanted))[:MOST_FINDINGS])
    return [gain for gain in gains if gain[0].name in kept]


def _gain_row(evidence: RunEvidence, point: Point, ratio: Interval) -> Finding:
    study = evidence.study
    value, bounds = change_text(ratio)
    subject = sentence_case(points_in_words(study.points)[point.name])
    published, remark = _published_gain(point, evidence.comparisons) or (
        ("no figure in the paper", "") if study.published else ("", "")
    )
    return Finding(value, bounds, subject, point.name, published, remark)


def _gain_note(evidence: RunEvidence, gains: list[tuple[Point, Interval]], shown: int) -> str:
    baselines = list(dict.fromkeys(str(point.against) for point, _ in gains))
    if len(baselines) > 1:
        baselines = ["the baseline of the same workload"]
    note = (
        f"Change in {GAIN_NOUN} against {baselines[0]}, paired by seed, with the "
        f"{evidence.confidence_text} interval."
    )
    if shown < len(gains):
        note += f" {shown} of {len(gains)}; all are in the table of configurations."
    return note


def _published_gain(point: Point, comparisons: Sequence[Comparison]) -> tuple[str, str] | None:
    """The published gain of a point, stated or computed from published rates, and a remark."""
    published = [row.reference for row in comparisons]
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
    matching = (row for row in published if (row.point, row.quantity) == (point, PUBLISHED_RATE))
    return next(matching, None)


def _calibrated(*figures: Published) -> str:
    """A remark if all or some of the figures were used to calibrate; else empty."""
    used = [figure.calibration for figure in figures]
    if not any(used):
        return ""
    return "used to calibrate" if all(used) else "one of them used to calibrate"


def _line_findings(evidence: RunEvidence, lead: str) -> Findings:
    """The change along each line of the study's figures."""
    rules = {"curve": _curve_rows, "relative": _relative_rows}
    if not evidence.study.published:
        rules |= {"stacked-layers": _cost_rows, "laws": _offload_rows}
    by_figure = [
        rules[figure.kind](evidence, figure)
        for figure in evidence.study.figures
        if figure.kind in rules
    ]
    rows = _first_screen(by_figure)
    note = (
        "Changes from the first level, or from the level where the document starts, to the last, "
        f"paired by {terms_of(evidence.study).replication}, with the {evidence.confidence_text} "
        "interval."
    )
    return Findings(lead, tuple(rows), note if rows else "")


def _first_screen(by_figure: list[list[Finding]]) -> list[Finding]:
    """The first finding of every figure, then the second of every figure, up to one screen."""
    seen: set[tuple[str, str, str]] = set()
    kept: set[Finding] = set()
    for group in zip_longest(*by_figure):
        for finding in group:
            if finding is None or len(kept) == MOST_FINDINGS:
                continue
            # Two figures may have the same line under different titles.
            numbers = (finding.value, finding.bounds, finding.subject.partition(": ")[2])
            if numbers not in seen:
                seen.add(numbers)
                kept.add(finding)
    return [finding for group in by_figure for finding in group if finding in kept]


def _cost_rows(evidence: RunEvidence, figure: Figure) -> list[Finding]:
    """The cost of all layers at the first and the last level, and the most expensive layers."""
    estimates, layers = evidence.estimates, evidence.estimates.layers(figure.y)
    points = figure_points(evidence.study, figure)
    sums = {
        point.name: total
        for point in points
        if (total := estimates.layer_sum(point.name, layers, figure.y)) is not None
    }
    shown = [point for point in points if point.name in sums]
    if not shown:
        return []
    first, last = shown[0], shown[-1]
    unit = figure.y_title or in_words(figure.y)
    where = f"most in {_most_expensive(estimates, last.name, layers, figure.y)}"
    ratio = estimates.layer_ratio(last.name, first.name, layers, figure.y)
    if first is last or ratio is None:
        subject = f"{figure.title}: {unit}, {sums[last.name]}; {where}"
        return [Finding(number(sums[last.name].value), "", subject)]
    axis = figure.x_title or in_words(figure.x)
    subject = (
        f"{figure.title}: {unit} from {sums[first.name]} to {sums[last.name]} with {axis} from "
        f"{first.factors.get(figure.x, first.name)} to {last.factors.get(figure.x, last.name)}; "
        f"there {where}"
    )
    return [Finding(*change_text(ratio), typographic(subject))]


def _most_expensive(estimates: Estimates, point: str, layers: Sequence[str], event: str) -> str:
    """The layers with the largest shares of an event at a point."""
    whole = estimates.layer_sum(point, layers, event)
    own = {layer: estimates.layer_sum(point, [layer], event) for layer in layers}
    parts = {
        layer: each.value / whole.value
        for layer, each in own.items()
        if each is not None and whole is not None and whole.value
    }
    greatest = sorted(parts, key=parts.__getitem__, reverse=True)[:MOST_LAYERS]
    return ", ".join(
        f"{in_words(layer)} {100 * parts[layer]:.0f}\N{NO-BREAK SPACE}%" for layer in greatest
    )


def _offload_rows(evidence: RunEvidence, figure: Figure) -> list[Finding]:
    """The upper bound of the gain by offload at the last point, from the network's share."""
    shares = network_shares(evidence.estimates, figure.y)
    points = [point for point in figure_points(evidence.study, figure) if point.name in shares]
    if not points:
        return []
    share = shares[points[-1].name]
    change = share.map(gain_percent)
    value, bounds = signed_interval(change)
    if change.is_bounded and change.high - change.low > WIDEST_GAIN_PERCENT:
        value, bounds = NOT_DISTINGUISHABLE, ""
    words = points_in_words(evidence.study.points)[points[-1].name]
    percent = share.map(lambda part: 100 * part)
    subject = (
        f"{figure.title}, {words}: the network uses {percent.text(1)}\N{NO-BREAK SPACE}% of the "
        "busy processor; a NIC that does all this work frees at most this share"
    )
    return [Finding(value, bounds, subject)]


def _curve_rows(evidence: RunEvidence, figure: Figure) -> list[Finding]:
    """The change of each line of a curve from the first level to the last."""
    columns = figure.y.split(",")
    if len(columns) == 1:
        return _column_rows(evidence, figure)
    return [
        finding
        for column in columns
        for finding in _column_rows(
            evidence,
            replace(figure, y=column, title=f"{figure.title}, {statistic_in_words(column)}"),
        )
    ]


def _column_rows(evidence: RunEvidence, figure: Figure) -> list[Finding]:
    """The lines of one column."""
    means = evidence.estimates.column_means(figure.y)
    published = published_in(evidence.comparisons, figure.y)
    lines: dict[object, list[Point]] = {}
    for point in figure_points(evidence.study, figure):
        if point.name in means and isinstance(point.factors.get(figure.x), int | float):
            lines.setdefault(point.factors.get(figure.series or ""), []).append(point)
    rows = []
    for level, points in lines.items():
        points.sort(key=lambda point: float(point.factors[figure.x]))
        first, last = points[0], points[-1]
        ratio = evidence.estimates.ratio(last.name, first.name, figure.y)
        if ratio is None or first is last:
            continue
        line = f", {factor_in_words(figure.series, level)}" if figure.series else ""
        measure = f", {figure.y_title}" if figure.y_title else ""
        subject = (
            f"{figure.title}{line}{measure}: from {means[first.name]} to {means[last.name]} "
            f"with {figure.x_title or in_words(figure.x)} from {first.factors[figure.x]} "
            f"to {last.factors[figure.x]}"
        )
        ends = _published_ends(published.get(first.name), published.get(last.name))
        rows.append(Finding(*change_text(ratio), typographic(subject), "", *ends))
    return rows


def _relative_rows(evidence: RunEvidence, figure: Figure) -> list[Finding]:
    """The change of each quantity of a figure from its first level to its last."""
    rows = []
    points = figure_points(evidence.study, figure)
    for line in relative.lines(figure, points, evidence.estimates, evidence.comparisons):
        first, last = line.start, line.steps[-1]
        along = figure.title.partition(": ")[2] or figure.title
        subject = (
            f"{line.title}, {along}: from {with_unit(line.first, line.unit)} with "
            f"{figure.x_title or in_words(figure.x)} from {first.factors[figure.x]} "
            f"to {last.point.factors[figure.x]}"
        )
        published = remark = ""
        if last.published is not None and last.published.reference.value is not None:
            published = f"paper {signed(last.published.reference.value)}"
            remark = last.published.verdict_text
        rows.append(Finding(*change_text(last.ratio), subject, "", published, remark))
    return rows


def published_in(comparisons: Sequence[Comparison], column: str) -> dict[str, Comparison]:
    """The published value of each point for a number of the result."""
    rows = [
        row
        for row in comparisons
        if row.reference.against is None
        and row.value is not None
        and (quantity := QUANTITIES.get(row.reference.quantity)) is not None
        and quantity.column == column
    ]
    return {row.reference.point: row for row in reversed(rows)}


def _published_ends(first: Comparison | None, last: Comparison | None) -> tuple[str, str]:
    """The published values at both ends of a line, and whether both were used to calibrate."""
    if first is None or last is None:
        return "", ""
    text = f"{first.reference.text} and {last.reference.text}"
    mark = _calibrated(first.reference, last.reference)
    return f"paper {with_unit(text, first.reference.unit)}", mark


def figure_points(study: Study, figure: Figure) -> list[Point]:
    """The points that a figure's `where` selects, in the study's order."""
    return [point for point in study.points if figure.selects(point)]
