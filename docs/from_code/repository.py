"""Pages whose source is outside docs/."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

LINK = re.compile(r"\]\(([^)#:]+\.md)(#[^)]*)?\)")

PAGES = {
    "ARCHITECTURE.md": "docs/project/architecture.md",
    "CONTRIBUTING.md": "docs/project/contributing.md",
    "CHANGELOG.md": "docs/project/changelog.md",
    "benches/README.md": "docs/project/benchmarks.md",
    "README.md": "docs/index.md",
}
"""The page that shows each file of the repository."""


def with_links(text: str, source: str, page: str) -> str:
    """Return the text of a source file with its links relative to the page that shows it.

    Links in sources name files of the repository, so that they work in the repository too.
    """

    def resolve(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link.group(1)))
        anchor = link.group(2) or ""
        if target in PAGES:
            target, anchor = PAGES[target], ""
        return f"]({posixpath.relpath(target, posixpath.dirname(page))}{anchor})"

    return LINK.sub(resolve, text)


def page(root: Path, file: str) -> str:
    """Return a file of the repository for the page that shows it."""
    return with_links((root / file).read_text(encoding="utf-8"), file, PAGES[file])


def unlisted_pages(root: Path, folder: str, index: str) -> str:
    """List the pages of a folder that its index omits, in a hidden table of contents."""
    listed = (root / folder / index).read_text(encoding="utf-8").splitlines()
    names = sorted(page.stem for page in (root / folder).glob("*.md") if page.name != index)
    unlisted = "".join(f"{name}\n" for name in names if name not in listed)
    return f"```{{toctree}}\n:hidden:\n\n{unlisted}```\n" if unlisted else ""
