"""The parts of the reference that are made from the code: a Sphinx extension.

    commands.py    the command line, from the Python front and from the agent's help
    documents.py   the JSON documents, from the Rust structures they are written from
    docstrings.py  docstrings, for autodoc
    parameters.py  the simulator's parameters with value, unit and source
    quantities.py  quantities, and the keys of the documents of studies
    schemas.py     files that people write and runs leave
    repository.py  pages that lie elsewhere in the repository

A page asks for a part with a comment of its own on a line, which readers of the source do not see:

    <!-- from code: parameters crates/simulate/data/common.toml -->

The comment is replaced by Markdown before the page is parsed, so that what is made has headings,
links and a place in the search like what is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from from_code import commands, docstrings, documents, parameters, quantities, repository, schemas

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).parents[2]

MAKERS: dict[str, Callable[..., str]] = {
    "commands": commands.front,
    "agent": commands.agent_verbs,
    "document": documents.table,
    "parameters": parameters.table,
    "quantities": quantities.named,
    "result-numbers": quantities.columns,
    "study-documents": quantities.study_documents,
    "event-sets": parameters.event_sets,
    "module": docstrings.module,
    "about": schemas.about,
    "schema": schemas.schema,
    "page": repository.page,
    "section": repository.section,
    "pages-left": repository.pages_left,
}
"""What can be asked for; each takes the repository's root and the words of the comment."""

COMMENT = re.compile(r"^<!-- from code: (\S+)(.*?) -->$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", replace)
    app.connect("env-get-outdated", always_anew)
    app.connect("autodoc-process-docstring", translate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def replace(app: Sphinx, document: str, source: list[str]) -> None:
    """Put what a page asks for into its text, and turn its links."""
    shown = f"docs/{document}.md"
    source[0] = COMMENT.sub(made, repository.turned(source[0], shown, shown))


def made(comment: re.Match[str]) -> str:
    """The Markdown that a comment asks for; raises `KeyError` for what nobody makes."""
    return MAKERS[comment.group(1)](ROOT, *comment.group(2).split())


def always_anew(app: Sphinx, environment: BuildEnvironment, *changes: set[str]) -> list[str]:
    """Pages with parts from the code, which Sphinx cannot know to have changed."""
    return [
        name
        for name in sorted(environment.found_docs)
        if "<!-- from code:" in Path(environment.doc2path(name)).read_text(encoding="utf-8")
    ]


def translate(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Hand autodoc a docstring in its own language."""
    lines[:] = docstrings.translated(lines)
