"""The scorecard is computed from kept runs by the rules beside its conclusions."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from perpacket.analysis.statistics import Interval
from perpacket_lab.analysis import peaks, session_shares
from perpacket_lab.analysis.analysis import Analysis
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.published_comparison import Comparison, Standing, compare
from perpacket_lab.analysis.scorecard import ScorecardCell, number_of, scorecard_of
from perpacket_lab.study import library
from perpacket_lab.study.published import Published
from perpacket_lab.study.published_file import read
from perpacket_lab.study.scorecard_file import METHODS, contradictions, documents

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from from_code import kept_runs, scorecard_pages  # noqa: E402


@dataclass(frozen=True)
class InventedAnalysis:
    """The part of an analysis that a comparison of several runs reads."""

    estimates: Estimates


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
    for file, text in scorecard_pages.texts(analyses, kept_runs.kept_logs()).items():
        assert file.read_text(encoding="utf-8") == text, f"`make pages` makes {file.name} again"
    readme = scorecard_pages.README.read_text(encoding="utf-8")
    assert all(f"(docs/documents/{one.page}.md)" in readme for one in documents())
    for document in documents():
        page = (scorecard_pages.FOLDER / f"{document.page}.md").read_text()
        assert all(one.claim in page for one in document.conclusion)
        assert all(f"({study}.md" in page for study in document.studies)
        assert page.index("conclusion") < page.index("## Tables and figures")
        for number, _ in enumerate(document.conclusion, 1):
            assert page.count(f"[{number}](#conclusion-{number})") == 1
            assert page.count(f"### Conclusion {number}\n") == 1
            scorecard = (scorecard_pages.FOLDER / "scorecard.md").read_text()
            assert f"[{number}]({document.page}.md#conclusion-{number})" in scorecard


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
    cells = [one.cells["simulated"] for one in scorecard_of(document, analyses, {})]
    assert sum(cell.standing is not Standing.UNTESTED for cell in cells) == 7


def test_the_documents_contradict_themselves_in_36_places() -> None:
    assert sum(len(contradictions(one.name)) for one in documents()) == 36


def test_the_longest_sessions_of_a_log_are_judged_by_the_published_bounds() -> None:
    log = {"result": {"session_packets": {"top_tenth_share": 0.61, "bottom_half_share": 0.2}}}
    rows = session_shares.of_day_6({session_shares.LOG: log})
    assert [row.standing for row in rows] == [Standing.HOLDS, Standing.FAILS]
    assert number_of(rows[0]) == "61.0 %"
    assert session_shares.of_day_6({}) == []


def test_peaks_are_judged_in_per_cent_of_the_bound_of_memory() -> None:
    """With 5,000 MB/s, each byte takes a fifth of a nanosecond, five times: 8,000 Mb/s."""
    study, column, point = peaks.BANDWIDTH
    assert peaks.bound_mbps(5000.0) == pytest.approx(8000.0)
    runs = {
        study: {point: [4950.0, 5000.0, 5050.0]},
        "media-servers": {"slow": [70.0, 70.0, 70.0], "fast": [798.0, 800.0, 802.0]},
        "web-servers": {"copied": [1200.0, 1200.0, 1200.0], "mapped": [16000.0, 16000.0, 16010.0]},
    }
    columns = {study: column, **{name: own for _, name, own, _ in peaks.SERVERS}}
    analyses = {
        name: InventedAnalysis(
            Estimates(
                {
                    point: {
                        block: {"point": point, "seed": block, columns[name]: value}
                        for block, value in enumerate(values)
                    }
                    for point, values in points.items()
                }
            )
        )
        for name, points in runs.items()
    }
    rows = peaks.of_bounds(analyses)  # type: ignore[arg-type]
    assert [(row.reference.point, row.standing) for row in rows] == [
        ("fast", Standing.HOLDS),
        ("mapped", Standing.FAILS),
    ]
    assert rows[0].value is not None
    assert rows[0].value.value == pytest.approx(10.0)
    assert rows[0].value.low < 9.9
    assert rows[0].value.high > 10.1
    assert peaks.of_bounds({}) == []


def test_a_computed_conclusion_has_the_claims_of_its_function() -> None:
    document = next(each for each in documents() if each.name == "osdi06")
    log = {"result": {"session_packets": {"top_tenth_share": 0.7, "bottom_half_share": 0.05}}}
    rows = scorecard_of(document, {}, {session_shares.LOG: log})
    (cell,) = [each.cells["measured"] for each in rows if each.cells["measured"].rows]
    assert cell.text == "**holds** (2 of 2 values): 70.0 %"
