"""An analysis, its parts and a run comparison as JSON documents."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from perpacket.analysis.claim import Verdict
from perpacket.analysis.ratios import ratio_fields
from perpacket_lab.show import change_tables
from perpacket_lab.show.result_tables import method_verdict

if TYPE_CHECKING:
    from pathlib import Path

    from perpacket.analysis.ratios import RuleResult
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.contests import ContestResult
    from perpacket_lab.analysis.factor_effects import FactorEffects, SummaryRow
    from perpacket_lab.analysis.methods import MethodComparison, MethodValue
    from perpacket_lab.analysis.published_comparison import Comparison
    from perpacket_lab.analysis.run_comparison import RunComparison
    from perpacket_lab.study.point import Point
    from perpacket_lab.study.study import Study

KEYS: Final = "document_keys.toml"
"""The file with the keys of these documents, from which docs/reference/documents.md is made."""

NOT_SIMULATED: Final = "not simulated"
"""The verdict on a published value that the run does not have, in any kind of run."""

SCHEMA: Final = 1
"""Version of the documents that the verbs of `perpacket study` print."""


def keys() -> dict[str, str]:
    """Every key of these documents, with its meaning."""
    return tomllib.loads((files(__package__) / KEYS).read_text(encoding="utf-8"))


def analysis(analysis: Analysis, report: Path) -> dict[str, object]:
    """A run with its comparisons or its summary, and its contests and methods."""
    study = analysis.study
    content: dict[str, object] = {
        "schema": SCHEMA,
        "study": study.name,
        "run_directory": str(analysis.run.path),
        "report": str(report),
        "observations": analysis.run.observed,
        "missing": analysis.run.missing,
    }
    if study.is_measured:
        content["failures"] = [asdict(failure) for failure in analysis.run.failures]
    if analysis.summary is None:
        own = analysis.terms.adjective
        content["comparisons"] = [comparison(row, own) for row in analysis.comparisons]
    else:
        content["results"] = [summary_row(row) for row in analysis.summary.rows]
        content["effects"] = [effects(each) for each in analysis.summary.effects]
        content["remarks"] = list(analysis.summary.remarks)
    if analysis.conclusions:
        own = analysis.terms.adjective
        content["comparisons"] = [comparison(row, own) for row in analysis.comparisons]
        content["conclusions"] = [
            {
                "conclusion": conclusion.text,
                "verdict": str(conclusion.verdict),
                "because": conclusion.evidence,
            }
            for conclusion in analysis.conclusions
        ]
    if analysis.changes:
        content["changes"] = [
            row for change in analysis.changes for row in change_tables.documents(change)
        ]
    if analysis.methods:
        content["contrasts"] = [method_comparison(row) for row in analysis.methods]
    if analysis.contests:
        content["contests"] = [contest(result) for result in analysis.contests]
    content["findings"] = [asdict(row) for row in analysis.findings.rows]
    return content


def study_summary(study: Study) -> dict[str, object]:
    """The name, the texts and the sizes of a study."""
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


def point(point: Point) -> dict[str, object]:
    """A point of a study."""
    return {
        "name": point.name,
        "configuration": point.configuration,
        "factors": dict(point.factors),
        "overrides": dict(point.overrides),
        "against": point.against,
    }


def comparison(row: Comparison, own: str) -> dict[str, object]:
    """A published value beside the run's. The run's value has the key `simulated` or `measured`.

    `own` is this key.
    """
    published = row.reference
    return {
        "figure": published.figure,
        "where": published.where,
        "configuration": row.configuration,
        "point": published.point,
        "against": published.against,
        "quantity": published.quantity,
        "unit": published.unit,
        "published": {"value": published.value, "min": published.minimum, "max": published.maximum},
        own: None if row.value is None else row.value.as_dict(),
        "calibration": published.calibration,
        "verdict": NOT_SIMULATED if row.verdict is Verdict.NO_VALUE else str(row.verdict),
        "standing": str(row.standing),
        "note": published.note,
        "difference": row.detail.size,
        "difference_unit": row.detail.unit,
        "warnings": list(row.warnings),
    }


def summary_row(row: SummaryRow) -> dict[str, object]:
    """The mean of a quantity at a point."""
    return {
        "point": row.subject,
        "quantity": row.quantity,
        "unit": row.unit,
        "interval": None if row.value is None else row.value.as_dict(),
        "warnings": list(row.detail),
    }


def effects(effects_of_quantity: FactorEffects) -> dict[str, object]:
    """The effects of all factors on one quantity."""
    rows = [
        {
            "effect": row.subject,
            "interval": row.interval.as_dict(),
            "share": row.detail.share,
            "confounded": list(row.detail.confounded),
        }
        for row in effects_of_quantity.rows
    ]
    return {
        "quantity": effects_of_quantity.quantity,
        "unit": effects_of_quantity.unit,
        "effects": rows,
        "error_share": effects_of_quantity.error_share,
        "replications": effects_of_quantity.replications,
    }


def contest(result: ContestResult) -> dict[str, object]:
    """A contest with its levels and crossings."""
    definition = result.contest
    return {
        "title": definition.title,
        "competitor": definition.competitor,
        "along": definition.along,
        "where": dict(definition.where),
        "quantity": definition.quantity,
        "unit": result.unit,
        "lower_wins": definition.lower_wins,
        "standings": [
            {
                "level": level.level,
                "leader": level.leader,
                "value": level.value.as_dict(),
                "not_told_apart": list(level.not_distinguishable),
                "doubts": list(level.doubts),
            }
            for level in result.levels
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
            for crossing in result.crossings
        ],
    }


def method_comparison(row: MethodComparison) -> dict[str, object]:
    """Two methods for one number, in per cent; the difference is in percentage points."""
    return {
        "question": row.detail.question,
        "title": row.quantity,
        "scenario": row.subject,
        "level": row.detail.level,
        "unit": "%",
        "first": _method(row.detail.first),
        "second": _method(row.detail.second),
        "difference": None if row.value is None else row.value.as_dict(),
        "verdict": method_verdict(row),
        "assumption": row.remark or None,
        "warnings": list(row.detail.warnings),
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
        "ratios": [ratio_fields(ratio) for ratio in compared.ratios],
        "remarks": list(compared.remarks),
        "rules": [_rule(rule) for rule in compared.rules],
    }


def _rule(result: RuleResult) -> dict[str, object]:
    return {
        "rule": str(result.rule),
        "broken_at": [ratio.subject for ratio in result.broken],
        "certain_at": [ratio.subject for ratio in result.certain],
        "unjudged_at": list(result.unjudged),
    }
