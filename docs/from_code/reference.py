"""Writes the generated parts of the reference into its pages: `make reference`."""

from __future__ import annotations

from pathlib import Path

from from_code import complete

PAGES = Path(__file__).parents[1] / "reference"


def write() -> None:
    """Write every page of the reference again."""
    for page in sorted(PAGES.glob("*.md")):
        page.write_text(complete(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
