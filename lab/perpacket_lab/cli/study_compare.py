"""`perpacket study compare`: compares two runs of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perpacket.analysis import ratios
from perpacket.cli import output, progress
from perpacket.cli.failure import CheckFailed
from perpacket.cli.options import Format, FormatOption, QuietOption

EPILOG = (
    "Example: perpacket study compare before after --quantity requests_per_s "
    '--fail-if "requests_per_s < 0.97"'
)


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="The directory of a run.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The run that is compared with it.")],
    quantities: Annotated[
        list[str] | None,
        typer.Option(
            "--quantity",
            metavar="NAME",
            help="A number of the results, or a quantity such as ns.TCP; may be repeated. Default: "
            "the study's summary.",
        ),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help='End with status 1 if the rule matches a ratio B/A, as "requests_per_s < 0.97". '
            "It matches if the whole interval of the ratio satisfies it, or if a point of A has no "
            "ratio. May be repeated.",
        ),
    ] = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Print the ratio B/A of each quantity at each point, with its interval and verdict."""
    from perpacket_lab.analysis import run_comparison
    from perpacket_lab.run.directory import RunDirectory
    from perpacket_lab.show import json, terminal

    rules = [ratios.read_rule(text, "requests_per_s < 0.97") for text in fail_if or []]
    runs = RunDirectory.open(first), RunDirectory.open(second)
    study = runs[0].study()
    compared = run_comparison.compare(
        *runs,
        quantities or (),
        summary=study.summary,
        rules=rules,
        in_time_order=study.is_measured,
    )
    if output_format is Format.JSON:
        output.write_json(json.run_comparison(compared))
    else:
        output.write_rows(terminal.run_comparison_table(compared))
    for remark in (*compared.remarks, *(note for rule in compared.rules for note in rule.notes)):
        progress.note(f"note: {remark}", quiet)
    failures = [text for rule in compared.rules for text in rule.failures]
    if failures:
        raise CheckFailed("; ".join(failures))
