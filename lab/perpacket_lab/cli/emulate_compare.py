"""`perpacket emulate compare`: compares two saved emulations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perpacket.cli import output, progress
from perpacket.cli.destination import check_destination
from perpacket.cli.fail_if import end_by_rules
from perpacket.cli.options import Format, FormatOption, QuietOption, SvgOption


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="A file that `emulate --save` wrote.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The emulation compared with it.")],
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="A rule about the ratio B/A, for example 'instructions_per_request > 1.01' or "
            "'instructions_per_packet.tcp > 1.02'. Exit status 1 if the whole interval matches, 5 "
            "if a part does. May be repeated.",
        ),
    ] = None,
    svg: SvgOption = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Print the ratio B/A of each layer's instructions, and the functions that changed most."""
    from perpacket.analysis import ratios
    from perpacket_lab.analysis import emulation_comparison
    from perpacket_lab.show import emulation_comparison_tables as shown
    from perpacket_lab.show.charts.profile_difference import write_flame_graph

    if svg is not None:
        check_destination("--svg", svg)
    example = "instructions_per_request > 1.01"
    rules = [ratios.read_rule(text, example) for text in fail_if or []]
    sides = emulation_comparison.read(first), emulation_comparison.read(second)
    comparison = emulation_comparison.compare(*sides, rules)
    if output_format is Format.JSON:
        output.write_json(shown.document(comparison))
    else:
        for table in shown.tables(comparison):
            output.write_rows(table)
        output.write_line(shown.headline(comparison))
    if svg is not None:
        functions = emulation_comparison.costs_by_layer(comparison.functions)
        write_flame_graph(comparison.by_unit[comparison.unit], svg, functions)
    for note in comparison.notes:
        progress.note(f"note: {note}", quiet)
    end_by_rules(comparison.judged, quiet, "emulate with more --replications")
