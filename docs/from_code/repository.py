"""Pages that lie elsewhere in the repository: their home stays there, readers find them here."""

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
"""Where in these documents a file of the repository is shown."""

README_SECTIONS = {"#words": "docs/concepts.md"}
"""Where in these documents a section of the README is shown."""


def turned(text: str, home: str, shown: str) -> str:
    """A text with its links made good where it is shown; both are files of the repository.

    In the sources links lead to files, so that they work wherever sources are read.
    """

    def turn(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(home), link.group(1)))
        anchor = link.group(2) or ""
        if target in PAGES:
            target, anchor = README_SECTIONS.get(anchor, PAGES[target]), ""
        return f"]({posixpath.relpath(target, posixpath.dirname(shown))}{anchor})"

    return LINK.sub(turn, text)


def page(root: Path, file: str) -> str:
    """A file of the repository, for the page that shows it."""
    return turned((root / file).read_text(encoding="utf-8"), file, PAGES[file])


def section(root: Path, file: str, *words: str) -> str:
    """What stands under a heading of a file, until the next heading of its level."""
    text = (root / file).read_text(encoding="utf-8")
    heading = f"## {' '.join(words)}\n"
    if heading not in text:
        raise ValueError(f"{file} has no section {' '.join(words)}")
    return text.partition(heading)[2].partition("\n## ")[0].strip() + "\n"


def pages_left(root: Path, folder: str, index: str) -> str:
    """A hidden table of the pages of a folder that its index gives no place: a new page has one."""
    said = (root / folder / index).read_text(encoding="utf-8").splitlines()
    names = sorted(page.stem for page in (root / folder).glob("*.md") if page.name != index)
    left = "".join(f"{name}\n" for name in names if name not in said)
    return f"```{{toctree}}\n:hidden:\n\n{left}```\n" if left else ""
