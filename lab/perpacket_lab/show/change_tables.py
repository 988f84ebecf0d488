"""The changes that a study tried: tables, and the JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from perpacket.analysis.claim import NOT_DISTINGUISHABLE, Verdict
from perpacket.show.table import Cell, Table
from perpacket_lab.analysis.wording import in_words, typographic
from perpacket_lab.show.tables import interval_cell

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.tried_changes import Change, ChangeSet

WORDS: Final = {
    Verdict.LOWER: ("cheaper", "verdict-agrees"),
    Verdict.HIGHER: ("dearer", "verdict-outside"),
}
OPEN: Final = (NOT_DISTINGUISHABLE, "verdict-not-simulated")
"""The verdicts as a word, and as a class of the style sheet."""

ONE_LOAD: Final = "ratio"
"""The column of a study without a factor for its loads."""

NOTHING_CHOSEN: Final = "none was clearly cheaper"


def published(name: str) -> tuple[str, str]:
    """The magnitude that the source of a change states, and the source; empty for none."""
    from perpacket.advise import catalogue

    change = catalogue.load().get(name.partition("=")[0])
    if change is None or not change.source.figure:
        return "", ""
    return change.source.figure, change.source.title


def published_cell(name: str) -> Cell:
    """The magnitude that the source of a change states."""
    figure, title = published(name)
    return Cell(figure, remark=title)


def matrix(analysis: Analysis) -> tuple[list[str], list[str], dict[tuple[str, str], Change]]:
    """The loads, the changes, and the result of each pair that was tried."""
    rows = [row for change in analysis.changes for row in change.rows if not row.detail.is_chosen]
    loads = list(dict.fromkeys(row.detail.load or ONE_LOAD for row in rows))
    names = list(dict.fromkeys(row.subject for row in rows))
    return loads, names, {(row.subject, row.detail.load or ONE_LOAD): row for row in rows}


def together(analysis: Analysis) -> list[Change]:
    """The results of several changes at once, a row for each load."""
    return [row for change in analysis.changes for row in change.rows if row.detail.is_chosen]


def tables_of(analysis: Analysis) -> list[Table]:
    """The table of changes and loads, and that of the best together; none without changes."""
    loads, names, changes = matrix(analysis)
    tables = []
    if names:
        tables.append(
            Table(
                identifier="changes",
                caption="Processor time of a request (of a KiB in bulk sending) with each change, "
                "divided by that without. Empty: not tried under that load.",
                columns=("Change", *loads, "Published"),
                numeric=(False, *[True] * len(loads), False),
                rows=tuple(
                    (
                        Cell(name, css="name"),
                        *(_ratio_cell(changes.get((name, load))) for load in loads),
                        published_cell(name),
                    )
                    for name in names
                ),
            )
        )
    whole = together(analysis)
    if whole:
        columns = ("Load", "Changes", "As it was (µs)", "Together (µs)", "Ratio", "Layers (µs)")
        tables.append(
            Table(
                identifier="together",
                caption="The best changes together, in blocks of their own",
                columns=columns,
                numeric=(False, False, True, True, True, False),
                rows=tuple(
                    (
                        Cell(row.subject),
                        Cell(", ".join(row.detail.applied) or NOTHING_CHOSEN, css="name"),
                        interval_cell(row.detail.before),
                        interval_cell(row.detail.changed),
                        _ratio_cell(row),
                        Cell(layers_text(row)),
                    )
                    for row in whole
                ),
            )
        )
    return tables


def figure_table(changes: ChangeSet) -> Table:
    """The rows of a figure, with the numbers that do not fit in the chart."""
    return Table(
        identifier="",
        caption="Ratios of processor time with their intervals, and the layers whose time is shown "
        "to differ",
        columns=("Change", "Of a unit", "Of a packet", "Layers (µs a unit)", "Published"),
        numeric=(False, True, True, False, False),
        rows=tuple(
            (
                Cell(row.subject, css="name"),
                _ratio_cell(row),
                interval_cell(row.detail.packet_ratio),
                Cell(layers_text(row)),
                published_cell(row.subject),
            )
            for row in changes.rows
        ),
    )


def _ratio_cell(row: Change | None) -> Cell:
    if row is None:
        return Cell("")
    cell = interval_cell(row.interval)
    bounds = cell.bounds.replace(" ", "\N{NO-BREAK SPACE}")
    word, css = word_of(row)
    return Cell(cell.text, f"{bounds} {word}", sort=cell.sort, css=css)


def word_of(row: Change) -> tuple[str, str]:
    """The verdict on a change, as in `WORDS`."""
    return WORDS.get(row.verdict, OPEN)


def layers_text(row: Change) -> str:
    """The layers whose time per unit is shown to differ, as `TCP -1.2 [-1.8, -0.6]`."""
    return "; ".join(
        f"{in_words(layer)} {typographic(str(shift))}" for layer, shift in row.detail.layers
    )


def documents(changes: ChangeSet) -> Iterator[dict[str, object]]:
    """The rows of a figure for JSON."""
    for row in changes.rows:
        figure, title = published(row.subject)
        packet_ratio = row.detail.packet_ratio
        yield {
            "point": row.detail.point.name,
            "against": row.detail.point.against,
            "load": row.detail.where or None,
            "applied": list(row.detail.applied),
            "unit": row.unit,
            "before_us": row.detail.before.as_dict(),
            "changed_us": row.detail.changed.as_dict(),
            "ratio": row.interval.as_dict(),
            "packet_ratio": None if packet_ratio is None else packet_ratio.as_dict(),
            "verdict": word_of(row)[0],
            "layers": [
                {"layer": layer, "change_us": shift.as_dict()} for layer, shift in row.detail.layers
            ],
            "published": {"figure": figure or None, "source": title or None},
        }
