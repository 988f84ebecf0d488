"""A Sphinx extension that generates the reference from the code.

    commands.py    the command line, from the Python front and from the agent's help
    documents.py   the JSON documents, from the Rust structures that are serialized
    docstrings.py  docstrings, for autodoc
    parameters.py  the simulator's parameters with value, unit and source
    quantities.py  quantities, and the keys of the documents of studies
    schemas.py     files of users and of run directories
    repository.py  pages whose source is outside docs/
    kept_runs.py   the pages of published documents, from kept runs (`make pages`)

A page requests a part with a comment on a line of its own:

    <!-- from code: parameters lab/crates/simulate/data/common.toml -->

The extension inserts Markdown after the comment before Sphinx parses the page. Generated parts then
have headings, links and entries in the search, as written text has. The pages of the reference
contain their parts, so that the repository's reader finds them. `make reference` writes them again:
all text from such a comment to `<!-- end of the part -->`.
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

GENERATORS: dict[str, Callable[..., str]] = {
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
    "unlisted-pages": repository.unlisted_pages,
}
"""The kinds of parts; functions take the repository's root and the comment's arguments."""

BUILT_ONLY = ("module",)
"""Kinds of parts that only Sphinx can make."""

END = "<!-- end of the part -->"

COMMENT = re.compile(
    rf"^(<!-- from code: (\S+)(.*) -->)$(?:\n\n(?:(?!<!-- from code:)[\s\S])*?^{END}$)?",
    re.MULTILINE,
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", insert_parts)
    app.connect("env-get-outdated", pages_with_parts)
    app.connect("autodoc-process-docstring", translate_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def insert_parts(app: Sphinx, document: str, source: list[str]) -> None:
    """Insert the parts that a page requests, and resolve its links."""
    page = f"docs/{document}.md"
    source[0] = COMMENT.sub(generate, repository.with_links(source[0], page, page))


def generate(comment: re.Match[str]) -> str:
    """Generate the part of a comment; raise `KeyError` for an unknown kind."""
    return GENERATORS[comment.group(2)](ROOT, *comment.group(3).split())


def complete(text: str) -> str:
    """The text of a page with the parts that its comments request."""

    def part(comment: re.Match[str]) -> str:
        if comment.group(2) in BUILT_ONLY:
            return comment.group()
        return f"{comment.group(1)}\n\n{generate(comment).strip()}\n\n{END}"

    return COMMENT.sub(part, text)


def pages_with_parts(app: Sphinx, environment: BuildEnvironment, *changes: set[str]) -> list[str]:
    """List the pages with generated parts: Sphinx does not notice changes of their sources."""
    return [
        name
        for name in sorted(environment.found_docs)
        if "<!-- from code:" in Path(environment.doc2path(name)).read_text(encoding="utf-8")
    ]


def translate_docstring(
    app: Sphinx, what: str, name: str, described: object, options: object, lines: list[str]
) -> None:
    """Translate a docstring from Markdown to reStructuredText."""
    lines[:] = docstrings.translate(lines)
