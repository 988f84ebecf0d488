"""Puts a run's answer, drawings, tables and data into one HTML file that needs nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from perpacket.analysis.published_score import MOST_DISAGREEMENTS
from perpacket.show.charts import palette
from perpacket.show.wording import place, verdict_in_words, with_unit

if TYPE_CHECKING:
    from perpacket.analysis.findings import Finding
    from perpacket.analysis.published import Comparison
    from perpacket.analysis.published_score import Score
    from perpacket.show.charts.figures import Drawing
    from perpacket.show.tables import Table
    from perpacket.show.terms import Voice

TEMPLATE: Final = "page.html.j2"
STYLE: Final = "style.css"
SCRIPT: Final = "sort.js"
CODE: Final = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Page:
    """Everything a page shows, in the order it shows it."""

    version: str
    """Version of perpacket that wrote the page."""
    name: str
    title: str
    question: str
    source: str
    lead: str
    voice: Voice
    headline: str
    findings: list[Finding]
    findings_note: str
    scores: list[Score]
    disagreements: list[Comparison]
    drawings: list[Drawing]
    comparison: Table | None
    means: Table
    limits: list[str]
    commands: list[str]
    configuration: str
    """The text of the run's `config.toml`."""
    environment: Table
    raw: Table
    told: list[Table]
    """What a study without published figures tells of itself; empty for the others."""
    data: str
    """JSON fit for a script element."""
    contrasts: Table | None = None
    """Ways side by side, where a study has several."""
    notation: list[tuple[str, str]] = field(default_factory=list)
    """Parts of a configuration's name and what they mean; empty where names are no shorthand."""
    contests: list[Table] = field(default_factory=list)
    """Who is ahead and where that changes; empty where nothing competes."""
    prefix: str = ""
    """What this page's `id` attributes begin with, where a file holds several."""


def with_code(text: str) -> Markup:
    """The text, escaped, with what stands between backticks as code."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(text))))


def render(*pages: Page) -> str:
    """The pages as one HTML file; each has a prefix of its own where there are several.

    Every text is escaped; only our own drawings and data are markup.
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
