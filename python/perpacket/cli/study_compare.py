"""`perpacket study compare`: what changed from one run of a study to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import output, progress
from perpacket.cli.failure import CheckFailed
from perpacket.cli.options import Format, FormatOption, QuietOption

if TYPE_CHECKING:
    from perpacket.analysis.run_comparison import Compared, Rule

SCHEMA = 1
"""Version of the JSON it prints."""

EPILOG = (
    "Example: perpacket study compare before after --quantity requests_per_s "
    '--fail-if "requests_per_s < 0.97"'
)


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="The directory of a run.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The one that is compared with it.")],
    quantities: Annotated[
        list[str] | None,
        typer.Option(
            "--quantity",
            metavar="NAME",
            help="A number of the results, or a quantity such as ns.TCP; may be repeated. What the "
            "study is told in unless given.",
        ),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help='A ratio B/A that must not be, as "requests_per_s < 0.97": then the exit status '
            "is 1. May be repeated; asked of the ratio's value at every point of A, and failed "
            "where there is none.",
        ),
    ] = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Print the ratio B/A of each quantity at each point, with its interval and what it says."""
    from perpacket.analysis import run_comparison
    from perpacket.run.directory import RunDirectory
    from perpacket.study import library

    rules = [run_comparison.read_rule(text) for text in fail_if or []]
    runs = RunDirectory.open(first), RunDirectory.open(second)
    named = [rule.quantity for rule in rules] + list(quantities or [])
    confidence = runs[0].configuration.confidence
    wished = () if quantities else library.of_run(runs[0].configuration).told
    compared = run_comparison.compare(*runs, named, confidence, wished)
    broken = [
        (rule, ratio) for rule in rules for ratio in compared.ratios if rule.is_broken_by(ratio)
    ]
    if output_format is Format.JSON:
        output.write_json(
            {
                "schema": SCHEMA,
                "first": str(first),
                "second": str(second),
                "ratios": [ratio.as_dict() for ratio in compared.ratios],
                "remarks": list(compared.remarks),
                "rules": [describe(rule, compared) for rule in rules],
            }
        )
    else:
        write(compared, confidence)
    for remark in compared.remarks:
        progress.note(f"note: {remark}", quiet)
    failed = [
        f"{rule}: at {ratio.point} it is {ratio.text}"
        + ("" if rule.is_certain(ratio) else ", which may be chance")
        for rule, ratio in broken
    ]
    failed += [f"{rule}: {reason}" for rule in rules if (reason := rule.unjudged(compared))]
    if failed:
        raise CheckFailed(
            "; ".join(failed), hint="more replications (or blocks) narrow the intervals"
        )


def describe(rule: Rule, compared: Compared) -> dict[str, object]:
    """A rule for JSON: where it is broken, where for certain, and where nobody can tell."""
    broken = [ratio for ratio in compared.ratios if rule.is_broken_by(ratio)]
    return {
        "rule": str(rule),
        "broken_at": [ratio.point for ratio in broken],
        "certain_at": [ratio.point for ratio in broken if rule.is_certain(ratio)],
        "unjudged_at": list(compared.unjudged.get(rule.quantity, ())),
    }


def write(compared: Compared, confidence: float) -> None:
    """A row for each point and quantity."""
    rows = [
        (
            ratio.point,
            ratio.quantity,
            output.number_text(ratio.first),
            output.number_text(ratio.second),
            ratio.text,
            str(ratio.change),
        )
        for ratio in compared.ratios
    ]
    headings = ("point", "quantity", "A", "B", "B/A", "verdict")
    title = f"B over A [{100 * confidence:g} % interval]"
    output.write_table(title, headings, rows, right=headings[2:5])
