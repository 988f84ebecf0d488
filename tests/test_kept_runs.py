"""The pages of documents are those of the kept runs and of this tree's published values."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perpacket_lab.show import markdown
from perpacket_lab.study.scorecard_file import documents

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from from_code import kept_runs  # noqa: E402

ARCHIVES = sorted(kept_runs.RUNS.glob(f"*{kept_runs.SUFFIX}"))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_a_page_equals_the_one_made_from_its_kept_run(archive: Path, tmp_path: Path) -> None:
    page = kept_runs.page_file(archive)
    charts = sorted(page.with_suffix("").glob("*.svg"))
    analysis = kept_runs.analysis_of(kept_runs.unpacked(archive, tmp_path))
    made = "\n".join(markdown.page(analysis, page, charts, kept_runs.remarks_of(analysis)))
    assert page.read_text() == made, "`make pages` makes the pages again"
    assert all(f"({page.stem}/{chart.name})" in made for chart in charts)
    assert analysis.run.commands[0].split()[:4] == ["perpacket", "study", "run", page.stem]


def test_a_page_exists_for_kept_runs_only() -> None:
    others = {"index", "scorecard", *(document.page for document in documents())}
    pages = {path.stem for path in kept_runs.DOCUMENTS.glob("*.md")} - others
    assert pages == {path.name.removesuffix(kept_runs.SUFFIX) for path in ARCHIVES} != set()


def test_the_index_links_every_page() -> None:
    index = (kept_runs.DOCUMENTS / "index.md").read_text()
    assert all(f"({kept_runs.page_file(archive).name})" in index for archive in ARCHIVES)
