"""The results of a run beside a published document, as a Markdown page with charts.

The page has headings for the tables, then the figures, then the sections of the document, so that
a reader of the document finds its figure 5. Text is escaped only in tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from perpacket.show.table import Table
from perpacket.whole_file import write_whole
from perpacket_lab.analysis.doubts import disturbance
from perpacket_lab.analysis.published_comparison import Standing
from perpacket_lab.analysis.wording import plural
from perpacket_lab.show import terminal
from perpacket_lab.study.published_file import places_in

if TYPE_CHECKING:
    from pathlib import Path

    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.published_comparison import Comparison
    from perpacket_lab.study.figure import Figure

ORDER: Final = ("Table", "Figure", "Section")
"""Kinds of places in a document, in the order of the page."""


def write(analysis: Analysis, file: Path, remarks: Sequence[str] = ()) -> list[Path]:
    """Write the page, and its charts into the folder of the same name; return the files.

    `remarks` are sentences on the run, printed before its results.

    Raises `OSError` naming the file that cannot be written.
    """
    from perpacket_lab.show.charts.export import export

    charts = export(analysis, file.with_suffix(""), forms=("svg",))
    write_whole(file, "\n".join(page(analysis, file, charts, remarks)))
    return [file, *charts]


def page(
    analysis: Analysis, file: Path, charts: Sequence[Path], remarks: Sequence[str] = ()
) -> Iterator[str]:
    """The lines of the page."""
    study, facts = analysis.study, analysis.run
    yield f"# {study.title}\n"
    if study.source:
        yield f"The document: {study.source}\n"
    yield f"{study.question}\n"
    if analysis.headline:
        yield f"**{analysis.headline}**\n"
    for remark in filter(None, (disturbance(analysis.estimates.rows), *remarks)):
        yield f"> {remark}.\n"
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
    yield from table(Table.of_texts("", ("run", ""), rows))
    drawn = {
        figure.title: chart
        for number, figure in enumerate(study.figures, 1)
        for chart in charts
        if chart.stem.startswith(f"{number:02}-")
    }
    yield from places(analysis, file, drawn)
    for shown in terminal.tables_of(analysis):
        if not analysis.comparisons or "onclusion" in shown.caption:
            yield f"## {shown.caption}\n"
            yield from table(shown)
    placed = {title for place in study.places for title in place.charts}
    others = [figure for figure in study.figures if figure.title in drawn.keys() - placed]
    if others:
        yield "## Charts\n"
    for figure in others:
        yield from chart_lines(figure, file, drawn[figure.title])
    if analysis.limits:
        yield "## Limits\n"
        yield "".join(f"- {limit}\n" for limit in analysis.limits)


def places(analysis: Analysis, file: Path, drawn: Mapping[str, Path]) -> Iterator[str]:
    """Links to the tables, figures and sections of the document, then each with its results.

    `drawn` are the charts by title.
    """
    named = {place.name: place for place in analysis.study.places}
    rows: dict[str, list[Comparison]] = {name: [] for name in named}
    for row in analysis.comparisons:
        for name in places_in(row.reference.where):
            rows.setdefault(name, []).append(row)
    in_order = sorted(rows, key=rank)
    if named:
        contents_table = Table.of_texts(
            "",
            ("of the document", "shows", "here"),
            (
                (
                    f"[{name}](#{anchor(name)})",
                    place.title,
                    contents(rows[name], len(drawn.keys() & set(place.charts))),
                )
                for name in in_order
                if (place := named.get(name)) is not None
            ),
        )
        yield from table(contents_table)
    figures = {figure.title: figure for figure in analysis.study.figures}
    for name in in_order:
        yield f"## {name}\n"
        place = named.get(name)
        if place is not None:
            yield f"{place.title}.\n"
            if place.reason:
                yield f"{place.reason}\n"
        if rows[name]:
            yield from table(terminal.comparison_table(analysis, rows[name]))
        for title in place.charts if place is not None else ():
            if title in drawn:
                yield from chart_lines(figures[title], file, drawn[title])
    if any(row.reference.calibration for row in analysis.comparisons):
        yield "c: a value that parameters were fitted to.\n"


def contents(rows: Sequence[Comparison], charts: int) -> str:
    """The content of the page for a place: what holds, and its charts, or the reason for none."""
    judged = [row for row in rows if row.is_judged]
    holding = sum(row.standing is Standing.HOLDS for row in judged)
    parts = [f"{holding} of {len(judged)} hold"] if judged else []
    parts += [plural(charts, "chart")] if charts else []
    return ", ".join(parts) or "the reason for no result"


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it: `figure-410` of `Figure 4.10`."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def chart_lines(figure: Figure, file: Path, chart: Path) -> Iterator[str]:
    """A chart and its caption."""
    yield f"![{figure.title}]({file.stem}/{chart.name})\n"
    if figure.caption:
        yield f"{figure.caption}\n"


def rank(place: str) -> tuple[int, list[int], str]:
    """The order of a place: tables, figures, sections; then by number."""
    kind = place.split(" ", 1)[0]
    return ORDER.index(kind), [int(digits) for digits in re.findall(r"\d+", place)], place


def table(content: Table) -> Iterator[str]:
    """A table, with an empty line after it."""
    for line in (content.columns, ["---"] * len(content.columns), *content.texts()):
        yield f"| {' | '.join(map(cell, line))} |"
    yield ""


def cell(text: str) -> str:
    """A text as a cell: one line, with bars escaped."""
    return re.sub(r"\s+", " ", text).strip().replace("|", r"\|")
