"""`perpacket profile compare`: compares two profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from perpacket import lab
from perpacket.analysis.profile_comparison import Unit
from perpacket.cli import output, progress
from perpacket.cli.destination import check_destination
from perpacket.cli.fail_if import end_by_rules
from perpacket.cli.failure import ExitStatus
from perpacket.cli.options import Format, FormatOption, QuietOption, SvgOption

EPILOG = (
    "Example: perpacket profile --every 1s --duration 60s --format json > before.json, later the "
    "same with > after.json, then perpacket profile compare before.json after.json "
    "--fail-if 'total > 1.05'"
)

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run(arguments: Sequence[str]) -> int:
    """Run the verb with the arguments after `profile compare`."""
    status = app(args=list(arguments), prog_name="perpacket profile compare", standalone_mode=False)
    return status if isinstance(status, int) else ExitStatus.DONE


@app.command(epilog=EPILOG)
def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="JSON of `perpacket profile`.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The profile compared with it.")],
    per: Annotated[Unit, typer.Option(help="What the cost is divided by.")] = Unit.PACKET,
    paired: Annotated[
        bool,
        typer.Option(
            "--paired",
            help="The windows were measured at the same times, as on a canary and its neighbour.",
        ),
    ] = False,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="A rule about the ratio B/A of the total, of a layer, or of a kind of work as "
            "kind.NAME; for example 'total > 1.05'. Exit status 1 if the whole interval matches, 5 "
            "if a part does. May be repeated.",
        ),
    ] = None,
    svg: SvgOption = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Print the ratio B/A of each layer's cost, with its interval.

    Prints the traffic first, because a ratio of costs means little if the packets differ.
    """
    from perpacket import api
    from perpacket.analysis import ratios
    from perpacket.show import comparison_tables as shown

    if svg is not None:
        lab.require("--svg")
        check_destination("--svg", svg)
    rules = [ratios.read_rule(text) for text in fail_if or []]
    compared = api.compare_profiles(first, second, unit=per, paired=paired, rules=rules).compared
    if output_format is Format.JSON:
        output.write_json(shown.document(compared))
    else:
        for table in shown.tables(compared):
            output.write_rows(table)
        output.write_line(shown.headline(compared))
    if svg is not None:
        charts = lab.load("show.charts.profile_difference", "--svg")
        charts.write_flame_graph(compared, svg)
    for note in compared.notes:
        progress.note(f"note: {note}", quiet)
    end_by_rules(compared.judged, quiet, "record more windows")
