"""The results of a run beside its document, as a Markdown page with charts: for repositories.

The page has a heading for each table, figure and section of the document, in this order, so that a
reader of the document finds its figure 5. Text is escaped for tables alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from perpacket.show import terminal
from perpacket.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from perpacket.analysis.analysis import Analysis
    from perpacket.analysis.published import Comparison

ORDER: Final = ("Table", "Figure", "Section")
"""Kinds of places in a document, in the order of the page."""


def write(analysis: Analysis, file: Path) -> list[Path]:
    """Write the page, and its charts into the folder of the same name; return the files.

    Raises `OSError` naming the file that cannot be written.
    """
    from perpacket.show.charts.export import export

    charts = export(analysis, file.with_suffix(""), forms=("svg",))
    write_whole(file, "\n".join(page(analysis, file, charts)))
    return [file, *charts]


def page(analysis: Analysis, file: Path, charts: Sequence[Path]) -> Iterator[str]:
    """The lines of the page."""
    study, facts = analysis.study, analysis.run
    yield f"# {study.title}\n"
    if study.source:
        yield f"The document: {study.source}\n"
    yield f"{study.question}\n"
    if analysis.headline:
        yield f"**{analysis.headline}**\n"
    machine = facts.environment
    rows = [
        ("command", "; ".join(f"`{command}`" for command in facts.commands)),
        ("runs", f"{facts.observed} of {facts.planned}"),
        (
            "time",
            f"{facts.began:%Y-%m-%d %H:%M} UTC, {facts.took.total_seconds() / 60:.1f} minutes",
        ),
        ("machine", f"{machine.get('cpu')}, {machine.get('cores')} processors"),
        ("kernel", str(machine.get("kernel"))),
        ("perpacket", f"{machine.get('perpacket')}, commit {machine.get('git')}"),
    ]
    yield from table(("run", ""), rows)
    yield from compared(analysis)
    for one in terminal.tables_of(analysis):
        if not analysis.comparisons or "onclusion" in one.title:
            yield f"## {one.title}\n"
            yield from table(one.headings, one.rows)
    if charts:
        yield "## Charts\n"
    by_stem = {chart.stem: chart for chart in charts}
    for number, figure in enumerate(study.figures, 1):
        found = [chart for stem, chart in by_stem.items() if stem.startswith(f"{number:02}-")]
        for chart in found:
            yield f"![{figure.title}]({file.stem}/{chart.name})\n"
            if figure.caption:
                yield f"{figure.caption}\n"
    if analysis.limits:
        yield "## Limits\n"
        yield "".join(f"- {limit}\n" for limit in analysis.limits)


def compared(analysis: Analysis) -> Iterator[str]:
    """A table for each place in the document that has published values."""
    terms = analysis.terms
    names = [point.configuration for point in analysis.study.points]
    groups: dict[str, list[Comparison]] = {}
    for row in analysis.comparisons:
        groups.setdefault(place_of(row.published.where), []).append(row)
    for place in sorted(groups, key=rank):
        yield f"## {place}\n"
        yield from table(
            ("published result", "where", "unit", "published", terms.adjective, "verdict"),
            (
                (
                    row.published.statement or terminal.quantity_text(row),
                    row.configuration
                    if names.count(row.configuration) == 1
                    else row.published.point,
                    row.published.unit,
                    row.published.text + (" c" if row.published.calibration else ""),
                    row.simulated_text,
                    row.verdict_text if row.simulated is not None else terms.no_value,
                )
                for row in groups[place]
            ),
        )
    if any(row.published.calibration for row in analysis.comparisons):
        yield "c: a value that parameters were fitted to.\n"


def place_of(where: str) -> str:
    """`Figure 4` of `3.3, Figure 4`, and `Section 5.1` of `5.1`."""
    named = re.findall(r"(?:Table|Figure) [\w.]+", where)
    return ", ".join(named) or f"Section {where}"


def rank(place: str) -> tuple[int, list[int], str]:
    """The order of a place: tables, figures, sections; then by number."""
    kind = place.split(" ", 1)[0]
    return ORDER.index(kind), [int(digits) for digits in re.findall(r"\d+", place)], place


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table, with an empty line after it."""
    for line in (headings, ["---"] * len(headings), *rows):
        yield f"| {' | '.join(map(cell, line))} |"
    yield ""


def cell(text: str) -> str:
    """A text as a cell: one line, with bars escaped."""
    return re.sub(r"\s+", " ", text).strip().replace("|", r"\|")
