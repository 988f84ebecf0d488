"""The page of a run: findings, charts, tables and data in one HTML file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from perpacket import __version__
from perpacket_lab.analysis.published_score import MOST_DISAGREEMENTS
from perpacket_lab.analysis.wording import NOTATION, SHORTHAND, place, verdict_in_words, with_unit
from perpacket_lab.show import change_tables, cheaper_table, result_tables, tables
from perpacket_lab.show.charts import kinds, palette
from perpacket_lab.show.html import data

if TYPE_CHECKING:
    from perpacket.show.table import Table
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.show.charts.kinds import Drawing

TEMPLATE: Final = "page.html.j2"
STYLE: Final = "style.css"
SCRIPT: Final = "sort.js"
CODE: Final = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Page:
    """An analysis with its drawings and tables."""

    analysis: Analysis
    drawings: list[Drawing]
    comparison: Table | None
    methods: Table | None
    means: Table
    environment: Table
    raw: Table
    summary: list[Table]
    contests: list[Table]
    cheaper: Table | None
    """The change most worth trying at each point; None if there is none."""
    data: str
    """JSON for a script element."""
    left_out: list[str]
    """Sentences on the data that `data` lacks."""
    notation: list[tuple[str, str]]
    """The parts of a configuration's shorthand and their meanings; empty without shorthand."""
    prefix: str = ""
    """The prefix of this page's `id` attributes, for a file with several pages."""
    version: str = __version__

    @property
    def limits(self) -> list[str]:
        """The limits of the run and of the data in the page."""
        return [*self.analysis.limits, *self.left_out]

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.analysis.study.name


def page_of(analysis: Analysis, prefix: str = "") -> Page:
    """The page of an analysis; its identifiers begin with `prefix`."""
    comparisons, points = analysis.comparisons, analysis.study.points
    payload, left_out = data.embedded(analysis)
    shorthand = any(SHORTHAND.fullmatch(point.configuration) for point in points)
    return Page(
        analysis=analysis,
        drawings=kinds.draw(analysis, prefix),
        comparison=tables.comparison_table(analysis) if comparisons else None,
        methods=result_tables.method_table(analysis),
        means=tables.means_table(analysis),
        environment=tables.environment_table(analysis.run.environment),
        raw=tables.raw_table(analysis.observations, analysis.terms),
        summary=[*change_tables.tables_of(analysis), *result_tables.summary_tables(analysis)],
        contests=result_tables.contest_tables(analysis.contests),
        cheaper=cheaper_table.run_table(analysis),
        data=payload,
        left_out=left_out,
        notation=list(NOTATION) if shorthand else [],
        prefix=prefix,
    )


def with_code(text: str) -> Markup:
    """The text, escaped, with parts between backticks as code."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(text))))


def render(*pages: Page) -> str:
    """The pages as one HTML file. Several pages must have different prefixes.

    Every text is escaped, except drawings, data, style and script.
    """
    folder = files(__package__)
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["code"] = with_code
    environment.filters["place"] = place
    environment.filters["unit"] = with_unit
    environment.filters["verdict"] = verdict_in_words
    template = environment.from_string((folder / TEMPLATE).read_text(encoding="utf-8"))
    return template.render(
        pages=pages,
        style=Markup((folder / STYLE).read_text(encoding="utf-8")),
        script=Markup((folder / SCRIPT).read_text(encoding="utf-8")),
        light=Markup(palette.variables(dark=False)),
        dark=Markup(palette.variables(dark=True)),
        markup=Markup,
        most_disagreements=MOST_DISAGREEMENTS,
    )
