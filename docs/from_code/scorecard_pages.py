"""The scorecard: a page of its own, a page for each document, and the table in the README.

All are made from the kept runs, by the rules of `scorecard.toml` and `analysis.scorecard`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perpacket.show.table import Table
from perpacket_lab.analysis import session_shares
from perpacket_lab.analysis.published_comparison import Standing
from perpacket_lab.analysis.scorecard import COMPUTED, number_of, scorecard_of
from perpacket_lab.analysis.wording import plural, with_unit
from perpacket_lab.show import markdown, terminal
from perpacket_lab.study.published_file import places_in
from perpacket_lab.study.scorecard_file import (
    METHODS,
    Document,
    DocumentFigure,
    contradictions,
    documents,
)

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.published_comparison import Comparison
    from perpacket_lab.analysis.scorecard import ScorecardRow
    from perpacket_lab.analysis.session_shares import Log

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs" / "documents"
README: Final = ROOT / "README.md"
MARKED: Final = re.compile(r"(<!-- scorecard -->\n).*?(<!-- end of the scorecard -->)", re.S)

RULE: Final = """\
A row is a conclusion that the document would be cited for, in a sentence of ours. A cell is
computed from kept runs. The number of a row links to the published values that decide on it. The
first of them is printed, with its 95 % interval.

- A value **holds** if the run's mean is within 25 % of it. The interval must not be wider than
  twice that, or the value cannot be tested.
- A change with the published direction and another size **holds in part**. If the document prints
  only the direction, the direction decides.
- A bound ("over 80 %") holds if the interval reaches it. A maximum that the document reached ("up
  to 25 %") is a value.
- A conclusion **holds** if all its values do, and **does not hold** if none does, not even in part.
  Otherwise it holds in part.
- **Cannot be tested here** has its reason. An empty cell: the method does not apply.
- \\* marks a run in which other programs had over 5 % of the server's processors. It awaits a
  quiet machine.
"""


def texts(analyses: Mapping[str, Analysis], logs: Mapping[str, Log]) -> dict[Path, str]:
    """The text of each file that has a part of the scorecard, and the charts of documents."""
    cards = [(document, scorecard_of(document, analyses, logs)) for document in documents()]
    files = {FOLDER / "scorecard.md": "\n".join(_scorecard(cards))}
    for document, rows in cards:
        claims = {each.name: COMPUTED[each.claims](analyses, logs) for each in document.figure}
        page = "\n".join(_document(document, rows, analyses, claims))
        files[FOLDER / f"{document.page}.md"] = page
        for each in document.figure:
            files[FOLDER / chart_of(document, each)] = _drawn(each, claims[each.name], logs)
    summary = "\n".join(markdown.table(_summary(cards))).strip()
    readme = README.read_text(encoding="utf-8")
    files[README] = MARKED.sub(lambda match: f"{match[1]}\n{summary}\n\n{match[2]}", readme)
    return files


def write(analyses: Mapping[str, Analysis], logs: Mapping[str, Log]) -> None:
    """Write all of them."""
    for file, text in texts(analyses, logs).items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")


def chart_of(document: Document, figure: DocumentFigure) -> str:
    """The file of a chart of the document's own page."""
    return f"{document.page}/{markdown.anchor(figure.name)}.svg"


def _drawn(figure: DocumentFigure, claims: Sequence[Comparison], logs: Mapping[str, Log]) -> str:
    """The curve of a log's sessions, or the claims as marks, as an SVG file."""
    from perpacket_lab.analysis.terms import MEASURED
    from perpacket_lab.show.charts import beside, chart_style, drawing, session_curve

    if figure.log:
        curve = logs[figure.log]["result"]["session_curve"]
        return session_curve.svg(figure.log, curve, session_shares.PUBLISHED_CURVE)
    records = [beside.record_of(row.quantity, row.value, row) for row in claims if row.value]
    plot = beside.plot_of(records, "% of the bound", figure.title, MEASURED)
    return drawing.standalone(
        plot.draw(chart_style.WIDE), title=figure.title, description=plot.description
    )


def page_of(study: str) -> str:
    """The page of the document of a study; empty if it has none."""
    return next((f"{each.page}.md" for each in documents() if study in each.studies), "")


def _scorecard(cards: list[tuple[Document, list[ScorecardRow]]]) -> Iterator[str]:
    yield "# What the documents conclude, and what holds here\n"
    yield from markdown.table(_summary(cards, ""))
    for document, rows in cards:
        yield f"## {document.title}\n"
        yield f"[{document.citation}]({document.page}.md)\n"
        yield from _conclusions(document, rows, f"{document.page}.md")
    yield "## How a cell is computed\n"
    yield RULE


def _conclusions(document: Document, rows: list[ScorecardRow], page: str = "") -> Iterator[str]:
    """The conclusions of a document, with a column for each method that has a cell.

    The number of a row links to the values that decide on it, in the document's page.
    """
    methods = [method for method in METHODS if any(row.cells[method].text for row in rows)]
    yield from markdown.table(
        Table.of_texts(
            "",
            ("", "conclusion", "where", "published", *methods),
            [
                (
                    f"[{number}]({page}#conclusion-{number})",
                    *(row.conclusion.claim, row.conclusion.where, row.conclusion.published),
                    *(row.cells[method].text for method in methods),
                )
                for number, row in enumerate(rows, 1)
            ],
        )
    )
    for reason in dict.fromkeys(document.cannot.values()):
        names = " and ".join(name for name, own in document.cannot.items() if own == reason)
        yield f"Empty cells of {names} values cannot be tested here: {reason}.\n"


def _values(rows: list[ScorecardRow], analyses: Mapping[str, Analysis]) -> Iterator[str]:
    """The values that decide on each conclusion, by method, with links to them."""
    yield "## The values behind each conclusion\n"
    for number, row in enumerate(rows, 1):
        yield f"### Conclusion {number}\n"
        yield f"{row.conclusion.claim}\n"
        values = [
            (
                method
                if source is None or source.study not in analyses
                else f"[{method}]({source.study}.md#{markdown.anchor(place)})",
                terminal.noted(
                    value.reference.statement or value.quantity or "the model's result",
                    value.reference.note,
                ),
                value.reference.point,
                with_unit(value.reference.text, value.reference.unit),
                number_of(value),
                str(value.standing),
            )
            for method in METHODS
            for source in (row.conclusion.rows_of(method),)
            for value in row.cells[method].rows
            for place in places_in(value.reference.where)[:1]
        ]
        if values:
            headings = ("method", "value", "point", "published", "here", "verdict")
            yield from markdown.table(Table.of_texts("", headings, values))
        else:
            yield "No value decides on it.\n"


def _summary(
    cards: list[tuple[Document, list[ScorecardRow]]], folder: str = "docs/documents/"
) -> Table:
    """How many conclusions of each document hold, by method."""
    return Table.of_texts(
        "",
        ("document", "conclusions", *METHODS, "studies"),
        [
            (
                f"[*{document.title}*]({folder}{document.page}.md), {document.citation}",
                str(len(rows)),
                *(_counts(rows, method) for method in METHODS),
                ", ".join(f"`{study}`" for study in document.studies),
            )
            for document, rows in cards
        ],
    )


def _counts(rows: list[ScorecardRow], method: str) -> str:
    """`2 hold, 3 in part, 1 not`: the conclusions that a method tests."""
    standings = [row.cells[method].standing for row in rows]
    words = {Standing.HOLDS: "hold", Standing.IN_PART: "in part", Standing.FAILS: "not"}
    counts = {word: standings.count(each) for each, word in words.items()}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _document(
    document: Document,
    rows: list[ScorecardRow],
    analyses: Mapping[str, Analysis],
    claims: Mapping[str, Sequence[Comparison]],
) -> Iterator[str]:
    yield f"# {document.title}\n"
    rules = "The rules are [on the scorecard](scorecard.md#how-a-cell-is-computed)."
    yield f"{document.citation}. A row's number leads to the values that decide on it. {rules}\n"
    yield from _conclusions(document, rows)
    yield "## Tables and figures, in the document's order\n"
    yield from markdown.table(_places(document, analyses, claims))
    for figure in document.figure:
        yield f"### {figure.name}\n"
        yield from markdown.table(_claims(claims[figure.name]))
        yield f"![{figure.title}]({chart_of(document, figure)})\n"
        yield f"{figure.caption}\n"
    yield from _values(rows, analyses)
    yield "## Where the document contradicts itself\n"
    slips = [(slip.where, slip.printed, slip.follows) for slip in contradictions(document.name)]
    yield from markdown.table(Table.of_texts("", ("where", "printed", "what follows"), slips))
    runs = [
        f"[{analyses[name].study.title}]({name}.md), {analyses[name].terms.adjective}"
        for name in document.studies
        if name in analyses
    ]
    yield f"The runs: {'; '.join(runs)}.\n"


def _claims(claims: Sequence[Comparison]) -> Table:
    """Comparisons of several runs, or of a log."""
    return Table.of_texts(
        "",
        ("published result", "published", "measured", "verdict"),
        [
            (
                terminal.noted(row.quantity, row.reference.note),
                with_unit(row.reference.text, row.reference.unit),
                number_of(row),
                str(row.standing),
            )
            for row in claims
        ],
    )


def _places(
    document: Document,
    analyses: Mapping[str, Analysis],
    claims: Mapping[str, Sequence[Comparison]],
) -> Table:
    """Each table and figure with the result of the best method that has it, and the others."""
    titles: dict[str, str] = {}
    shown: dict[str, list[str]] = {}
    for name in document.studies:
        analysis = analyses.get(name)
        for place in analysis.study.places if analysis is not None else ():
            assert analysis is not None
            titles.setdefault(place.name, place.title)
            links = shown.setdefault(place.name, [])
            own = [
                row for row in analysis.comparisons if place.name in places_in(row.reference.where)
            ]
            judged = [row for row in own if row.is_judged]
            drawn = {figure.title for figure in analysis.study.figures} & set(place.charts)
            if judged or drawn:
                holding = sum(row.standing is Standing.HOLDS for row in judged)
                parts = [f"{holding} of {len(judged)} hold"] if judged else []
                parts += [plural(len(drawn), "chart")] if drawn else []
                target = f"{name}.md#{markdown.anchor(place.name)}"
                links.append(f"[{analysis.terms.adjective}]({target}): {', '.join(parts)}")
    for figure in document.figure:
        titles.setdefault(figure.name, figure.title)
        standing = [row.standing is Standing.HOLDS for row in claims[figure.name]]
        link = f"[measured](#{markdown.anchor(figure.name)})"
        text = f"{link}: {sum(standing)} of {len(standing)} hold, 1 chart"
        shown.setdefault(figure.name, []).insert(0, text)
    order = sorted(titles, key=markdown.rank)
    rows = [
        (name, titles[name], shown[name][0] if shown[name] else "none", "; ".join(shown[name][1:]))
        for name in order
    ]
    return Table.of_texts("", ("of the document", "shows", "best method", "others"), rows)
