"""The scorecard is computed from kept runs by the rules beside its conclusions."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from perpacket.analysis.statistics import Interval
from perpacket_lab.analysis.analysis import Analysis
from perpacket_lab.analysis.published_comparison import Comparison, Standing, compare
from perpacket_lab.analysis.scorecard import ScorecardCell, scorecard_of
from perpacket_lab.study import library
from perpacket_lab.study.published import Published
from perpacket_lab.study.published_file import read
from perpacket_lab.study.scorecard_file import METHODS, contradictions, documents

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from from_code import kept_runs, scorecard_pages  # noqa: E402


@pytest.fixture(scope="module")
def analyses(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Analysis]:
    return kept_runs.analyses_of(tmp_path_factory.mktemp("kept"))


def row(value: float, published: float, against: str | None = None) -> Comparison:
    stated = Published("f", "1", "s", "p", "q", "%", value=published, against=against)
    return compare(stated, "", Interval(value, value - 1, value + 1, 5, 0.95))


@pytest.mark.parametrize(
    ("rows", "standing", "text"),
    [
        ((row(21, 20), row(40, 40)), Standing.HOLDS, "**holds** (2 of 2 values): 21.0 [20.0"),
        ((row(21, 20), row(80, 40)), Standing.IN_PART, "**holds in part** (1 of 2 values)"),
        ((row(80, 20), row(80, 40)), Standing.FAILS, "**does not hold** (0 of 2 values): 80"),
        ((row(80, 20, "base"),), Standing.IN_PART, "**holds in part**: 80.0 [79.0, 81.0] %; pub"),
        ((), None, ""),
    ],
)
def test_a_conclusion_holds_if_all_its_values_do(
    rows: tuple[Comparison, ...], standing: Standing | None, text: str
) -> None:
    cell = ScorecardCell(rows)
    assert cell.standing is standing
    assert cell.text.startswith(text)


def test_a_method_that_cannot_test_a_conclusion_has_its_reason() -> None:
    cell = ScorecardCell(reason="no counters")
    assert cell.standing is Standing.UNTESTED
    assert cell.text == "cannot be tested here: no counters"


def test_every_conclusion_names_published_rows_of_todays_studies() -> None:
    found = documents()
    assert sum(len(one.conclusion) for one in found) in range(27, 34)
    for document in found:
        for one in document.conclusion:
            for rows in filter(None, map(one.rows_of, METHODS)):
                assert rows.study in document.studies
                folder = library.HERE / rows.study.replace("-", "_")
                published = {row.id for row in read(folder / "published.toml").figure}
                for pattern in rows.rows:
                    name = f"{document.name}/{pattern}"
                    assert any(fnmatchcase(figure, name) for figure in published), name


def test_the_pages_and_the_readme_are_those_of_the_kept_runs(
    analyses: Mapping[str, Analysis],
) -> None:
    for file, text in scorecard_pages.texts(analyses).items():
        assert file.read_text(encoding="utf-8") == text, f"`make pages` makes {file.name} again"
    readme = scorecard_pages.README.read_text(encoding="utf-8")
    assert all(f"(docs/documents/{one.page}.md)" in readme for one in documents())
    for document in documents():
        page = (scorecard_pages.FOLDER / f"{document.page}.md").read_text()
        assert all(one.claim in page for one in document.conclusion)
        assert all(f"({study}.md" in page for study in document.studies)
        assert page.index("conclusion") < page.index("## Tables and figures")


def test_tables_2_and_3_of_tr05_450_were_predicted(analyses: Mapping[str, Analysis]) -> None:
    """The simulator's best result: most values that it predicted blind hold within 25 %."""
    study = "tr05-450-simulated"
    blind = [
        row
        for row in analyses[study].comparisons
        if "predicted before comparison" in row.reference.note
        and row.reference.where in ("Table 2", "Table 3")
        and not row.reference.calibration
    ]
    assert len(blind) > 100
    assert sum(one.standing is Standing.HOLDS for one in blind) > len(blind) / 2
    (document,) = [one for one in documents() if one.name == "tr05-450"]
    cells = [one.cells["simulated"] for one in scorecard_of(document, analyses)]
    assert sum(cell.standing is not Standing.UNTESTED for cell in cells) == 7


def test_the_documents_contradict_themselves_in_36_places() -> None:
    assert sum(len(contradictions(one.name)) for one in documents()) == 36
