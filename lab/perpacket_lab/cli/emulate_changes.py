"""`perpacket emulate --change`: compares emulations with and without changes of the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from perpacket.cli import output, progress
from perpacket.cli.options import Format

if TYPE_CHECKING:
    from perpacket_lab.emulate.session import Guest
    from perpacket_lab.emulate.settings import Settings

ChangeOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Emulate also with this change of `perpacket trial`, such as nft-rules=200, and "
        "compare. `nothing` changes nothing. May be repeated: each change is tried alone.",
    ),
]


def compare_changes(
    settings: Settings,
    guest: Guest,
    changes: list[str],
    output_format: Format,
    workers: int,
    on_stage: Callable[[str], None],
    quiet: bool,
) -> None:
    """Emulate without a change and with each one, and print the comparisons."""
    from perpacket_lab import api
    from perpacket_lab.show import emulation_comparison_tables as shown

    with progress.of_share(quiet) as report:
        compared = api.emulate_changes(
            settings, guest, changes, workers=workers, on_stage=on_stage, on_progress=report
        )
    if output_format is Format.JSON:
        output.write_json(shown.changes_document(compared))
        return
    for text, comparison in compared.items():
        output.write_line(f"A: without a change; B: with {text}")
        for table in shown.tables(comparison):
            output.write_rows(table)
    output.write_rows(shown.changes_table(compared))
    for note in dict.fromkeys(note for one in compared.values() for note in one.notes):
        progress.note(f"note: {note}", quiet)
