"""The Markdown page of a run: a heading for each place of the document, its charts, its limits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perpacket.show.table import Table
from perpacket_lab.analysis.analysis import Analysis
from perpacket_lab.show import markdown
from perpacket_lab.study import published_file


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ("Table 1", ["Table 1"]),
        ("3.3, Figure 4", ["Figure 4"]),
        ("4.6.4, Figure 4.17; Table 4.4", ["Figure 4.17", "Table 4.4"]),
        ("5.1, 5.3", ["Section 5.1", "Section 5.3"]),
    ],
)
def test_a_result_is_below_its_table_or_figure_or_section(where: str, place: list[str]) -> None:
    assert published_file.places_in(where) == place


def test_places_are_in_the_documents_order() -> None:
    places = ["Section 5.1", "Figure 10", "Table 2", "Figure 9", "Table 1"]
    expected = ["Table 1", "Table 2", "Figure 9", "Figure 10", "Section 5.1"]
    assert sorted(places, key=markdown.rank) == expected


def test_the_page_has_every_published_result_and_links_to_files(
    analysis: Analysis, tmp_path: Path
) -> None:
    file = tmp_path / "invented.md"
    written = markdown.write(analysis, file)
    text = file.read_text()
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(written)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert {tmp_path / link for link in links} == set(written) - {file}
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert {
        published_file.places_in(row.reference.where)[0] for row in analysis.comparisons
    } <= set(headings)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for row in analysis.comparisons:
        assert any(row.text in line and row.strict_text in line for line in rows)
    assert f"`{analysis.run.commands[0]}`" in text
    assert all(f"- {limit}" in text for limit in analysis.limits)


def test_a_bar_in_a_cell_is_escaped() -> None:
    lines = list(markdown.table(Table.of_texts("", ("a",), [("x | y\nz",)])))
    assert lines == ["| a |", "| --- |", r"| x \| y z |", ""]
