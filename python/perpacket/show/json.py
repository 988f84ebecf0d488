"""An analysis, its parts and a run comparison as JSON documents."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from perpacket.analysis.analysis import Analysis
    from perpacket.analysis.contests import ContestResult
    from perpacket.analysis.methods import MethodComparison, MethodValue
    from perpacket.analysis.published import Comparison
    from perpacket.analysis.run_comparison import RuleResult, RunComparison
    from perpacket.study.point import Point
    from perpacket.study.study import Study

SCHEMA: Final = 1
"""Version of the documents that the verbs of `perpacket study` print."""


KEYS: Final = {
    "schema": "Version of this document.",
    "study": "Name of the study.",
    "run_directory": "Directory of the run.",
    "report": "File of the HTML report.",
    "observations": "Number of observations there are.",
    "missing": "Number of observations that are missing.",
    "failures[]": "Runs without an observation; in measured studies only.",
    "failures[].point": "Name of the point.",
    "failures[].seed": "Seed of the block.",
    "failures[].reason": "Why it failed.",
    "comparisons[]": "Published values beside the run's; absent in a study of your own.",
    "comparisons[].figure": "Identifier of the published figure.",
    "comparisons[].where": "Section, table or figure of the document.",
    "comparisons[].configuration": "Configuration of the point.",
    "comparisons[].point": "Name of the point.",
    "comparisons[].against": "The point that a change is relative to; null without one.",
    "comparisons[].quantity": "Named quantity.",
    "comparisons[].unit": "Unit of the published value and of the run's.",
    "comparisons[].published": "The published `value`, or bounds `min` and `max`.",
    "comparisons[].simulated": "Interval of a simulated run.",
    "comparisons[].measured": "Interval of a measured run.",
    "comparisons[].calibration": "Whether the value was used to calibrate.",
    "comparisons[].verdict": "Whether they agree.",
    "comparisons[].difference": "Distance from the published value, in `difference_unit`.",
    "comparisons[].difference_unit": "`points`, `%` of the published value, or its unit.",
    "comparisons[].warnings[]": "Doubts about the runs.",
    "results[]": "The summary of a study of your own: a quantity at a point.",
    "results[].point": "Name of the point.",
    "results[].quantity": "Key of the quantity.",
    "results[].unit": "Its unit.",
    "results[].interval": "Interval of its mean; null where no run has it.",
    "results[].warnings[]": "Doubts about the runs.",
    "effects[]": "Effects of a two-level design on a quantity.",
    "effects[].quantity": "Key of the quantity.",
    "effects[].unit": "Its unit.",
    "effects[].effects[]": "The effects, the mean first.",
    "effects[].effects[].effect": "The factors of the effect.",
    "effects[].effects[].interval": "Half the change from the lower to the upper level.",
    "effects[].effects[].share": "Share of the variation it explains, 0 to 1; null for the mean.",
    "effects[].effects[].confounded[]": "Effects that cannot be separated from it.",
    "effects[].error_share": "Share that no effect explains.",
    "effects[].replications": "Runs of each point.",
    "remarks[]": "Doubts about the summary.",
    "contrasts[]": "Two methods for one number.",
    "contrasts[].question": "Key of the question.",
    "contrasts[].title": "The number in words.",
    "contrasts[].scenario": "The scenario in words.",
    "contrasts[].level": "The scenario's value on its axis.",
    "contrasts[].unit": "`%`.",
    "contrasts[].first": "A method (`way`), its `runs` and its interval.",
    "contrasts[].second": "The other method.",
    "contrasts[].difference": "Interval of second minus first, in percentage points.",
    "contrasts[].verdict": "Whether they agree.",
    "contrasts[].assumption": "The most likely cause of a difference.",
    "contrasts[].warnings[]": "Doubts about the runs.",
    "contests[]": "Competitors compared along a factor.",
    "contests[].title": "The contest in words.",
    "contests[].competitor": "Factor whose levels compete.",
    "contests[].along": "Factor along which they are compared.",
    "contests[].where": "Levels of the other factors.",
    "contests[].quantity": "Named quantity.",
    "contests[].unit": "Its unit.",
    "contests[].lower_wins": "Whether the lowest value leads.",
    "contests[].standings[]": "The leader at each level.",
    "contests[].standings[].level": "The level.",
    "contests[].standings[].leader": "The competitor with the best mean.",
    "contests[].standings[].value": "Interval of its mean.",
    "contests[].standings[].not_told_apart[]": "Competitors not distinguishable from it.",
    "contests[].standings[].doubts[]": "Doubts about their runs.",
    "contests[].crossings[]": "One leader overtakes another between two levels.",
    "contests[].crossings[].before": "The leader at the first level.",
    "contests[].crossings[].after": "The leader at the second.",
    "contests[].crossings[].low": "The first level.",
    "contests[].crossings[].high": "The second level.",
    "contests[].crossings[].position": "Interval of where they cross; null if not in every block.",
    "contests[].crossings[].may_stay[]": "Competitors that may lead at both levels.",
    "findings[]": "The findings that the report begins with.",
    "findings[].value": "The number, or `not distinguishable`.",
    "findings[].bounds": "Its interval.",
    "findings[].subject": "What it is of.",
    "findings[].point": "Name of the point; empty where it is not one point.",
    "findings[].published": "The published number.",
    "findings[].remark": "About the published number.",
    "study.name": "Name of the study.",
    "study.title": "Its title.",
    "study.question": "Its question.",
    "study.source": "The document it is compared with.",
    "study.seeds[]": "Its seeds.",
    "study.points": "Number of points, in `study list`.",
    "study.points[]": "Its points, in `study show`.",
    "study.points[].name": "Name of the point.",
    "study.points[].configuration": "Its configuration.",
    "study.points[].factors": "Its level of each factor.",
    "study.points[].overrides": "Its parameters.",
    "study.points[].against": "Its baseline.",
    "study.published_figures": "Number of published values.",
    "compare.first": "Directory of the first run.",
    "compare.second": "Directory of the second run.",
    "compare.ratios[]": "A quantity at a point, the second run over the first.",
    "compare.ratios[].point": "Name of the point.",
    "compare.ratios[].quantity": "Key of the quantity.",
    "compare.ratios[].first": "Mean of the first run.",
    "compare.ratios[].second": "Mean of the second run.",
    "compare.ratios[].ratio": "Interval of the ratio; null where a value is not positive.",
    "compare.ratios[].paired": "Whether runs of the same seed are paired.",
    "compare.ratios[].verdict": "Whether it changed.",
    "compare.remarks[]": "Points that were not compared, and doubts.",
    "compare.rules[]": "The rules of `--fail-if`.",
    "compare.rules[].rule": "The rule.",
    "compare.rules[].broken_at[]": "Points whose ratio satisfies it.",
    "compare.rules[].certain_at[]": "Points whose whole interval satisfies it: these fail.",
    "compare.rules[].unjudged_at[]": "Points without a ratio: these fail too.",
}
"""Every key of these documents and what it means; docs/reference/documents.md is made from it."""


def analysis(found: Analysis, report: Path) -> dict[str, object]:
    """A run with its comparisons or its summary, and its contests and methods."""
    study = found.study
    content: dict[str, object] = {
        "schema": SCHEMA,
        "study": study.name,
        "run_directory": str(found.run.path),
        "report": str(report),
        "observations": found.run.observed,
        "missing": found.run.missing,
    }
    if study.is_measured:
        content["failures"] = [asdict(one) for one in found.run.failures]
    if found.summary is None:
        own = found.terms.adjective
        content["comparisons"] = [comparison(row, own) for row in found.comparisons]
    else:
        content["results"] = [row.as_dict() for row in found.summary.rows]
        content["effects"] = [each.as_dict() for each in found.summary.effects]
        content["remarks"] = list(found.summary.remarks)
    if found.methods:
        content["contrasts"] = [method_comparison(row) for row in found.methods]
    if found.contests:
        content["contests"] = [contest(one) for one in found.contests]
    content["findings"] = [asdict(row) for row in found.findings.rows]
    return content


def study_summary(study: Study) -> dict[str, object]:
    """A study in short."""
    return {
        "schema": SCHEMA,
        "name": study.name,
        "title": study.title,
        "question": study.question,
        "source": study.source,
        "seeds": list(study.seeds),
        "points": len(study.points),
        "published_figures": len(study.published),
    }


def point(one: Point) -> dict[str, object]:
    """A point of a study."""
    return {
        "name": one.name,
        "configuration": one.configuration,
        "factors": dict(one.factors),
        "overrides": dict(one.overrides),
        "against": one.against,
    }


def comparison(row: Comparison, own: str) -> dict[str, object]:
    """A published value beside the run's, under the key `own`: `simulated` or `measured`."""
    published = row.published
    return {
        "figure": published.figure,
        "where": published.where,
        "configuration": row.configuration,
        "point": published.point,
        "against": published.against,
        "quantity": published.quantity,
        "unit": published.unit,
        "published": {"value": published.value, "min": published.minimum, "max": published.maximum},
        own: None if row.simulated is None else row.simulated.as_dict(),
        "calibration": published.calibration,
        "verdict": str(row.verdict),
        "difference": row.difference,
        "difference_unit": row.difference_unit,
        "warnings": list(row.warnings),
    }


def contest(one: ContestResult) -> dict[str, object]:
    """A contest with its levels and crossings."""
    asked = one.contest
    return {
        "title": asked.title,
        "competitor": asked.competitor,
        "along": asked.along,
        "where": dict(asked.where),
        "quantity": asked.quantity,
        "unit": one.unit,
        "lower_wins": asked.lower_wins,
        "standings": [
            {
                "level": level.level,
                "leader": level.leader,
                "value": level.value.as_dict(),
                "not_told_apart": list(level.not_distinguishable),
                "doubts": list(level.doubts),
            }
            for level in one.levels
        ],
        "crossings": [
            {
                "before": crossing.before,
                "after": crossing.after,
                "low": crossing.low,
                "high": crossing.high,
                "position": None if crossing.position is None else crossing.position.as_dict(),
                "may_stay": list(crossing.may_stay),
            }
            for crossing in one.crossings
        ],
    }


def method_comparison(row: MethodComparison) -> dict[str, object]:
    """Two methods for one number, in per cent; the difference is in percentage points."""
    return {
        "question": row.question,
        "title": row.title,
        "scenario": row.scenario,
        "level": row.level,
        "unit": "%",
        "first": _method(row.first),
        "second": _method(row.second),
        "difference": None if row.difference is None else row.difference.as_dict(),
        "verdict": str(row.verdict),
        "assumption": row.assumption or None,
        "warnings": list(row.warnings),
    }


def _method(value: MethodValue) -> dict[str, object]:
    interval = value.interval
    return {
        "way": value.method,
        "runs": value.runs,
        **({"value": None} if interval is None else interval.as_dict()),
    }


def run_comparison(compared: RunComparison) -> dict[str, object]:
    """The ratios of two runs and the rules applied to them."""
    return {
        "schema": SCHEMA,
        "first": compared.first,
        "second": compared.second,
        "ratios": [ratio.as_dict() for ratio in compared.ratios],
        "remarks": list(compared.remarks),
        "rules": [_rule(one) for one in compared.rules],
    }


def _rule(one: RuleResult) -> dict[str, object]:
    return {
        "rule": str(one.rule),
        "broken_at": [ratio.point for ratio in one.broken],
        "certain_at": [ratio.point for ratio in one.certain],
        "unjudged_at": list(one.unjudged),
    }
