"""A report needs no other file, is accessible, and its texts agree with its numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from invented import HOSTILE, RATES, Outline
from perpacket_lab.analysis.analysis import Analysis, analyze
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.show import html as report
from perpacket_lab.show import tables
from perpacket_lab.show.charts import palette
from perpacket_lab.show.html import data
from perpacket_lab.study.study import Study


def test_the_page_makes_no_request(html: str, outline: Outline) -> None:
    assert not outline.all("link", "img", "iframe", "object", "embed", "base")
    for element in outline.elements:
        for name in ("src", "xlink:href", "srcset", "data", "action"):
            assert name not in element.attributes
        target = element.attributes.get("href") or "#"
        assert target.startswith("#") or element.tag == "a"
    style = outline.all("style")[0].text
    assert "url(" not in style
    assert "@import" not in style
    assert not re.findall(r"url\((?!#)", html)


def test_the_page_reads_the_same_without_scripts(outline: Outline) -> None:
    scripts = outline.all("script")
    kinds = [script.attributes.get("type") for script in scripts]
    assert kinds == ["application/json", None], "data, and one script that sorts"
    assert all("main" in row.parents for row in outline.all("tr"))


def test_texts_of_a_study_are_never_markup(html: str, outline: Outline) -> None:
    assert "<script>alert" not in html
    for text in (outline.all("h1")[0].text, outline.all("title")[0].text):
        assert HOSTILE in text
    assert any(HOSTILE in caption.text for caption in outline.all("figcaption"))


def test_every_configuration_is_there_with_its_numbers(outline: Outline) -> None:
    rows = [row.text for row in outline.all("tr")]
    for name in RATES:
        assert sum(row.strip().startswith(name) for row in rows) >= 1 + 3, "its means and its runs"


def test_every_value_used_to_calibrate_is_marked(
    study: Study, analysis: Analysis, outline: Outline
) -> None:
    table = tables.comparison_table(analysis)
    for row, figure in zip(table.rows, study.published, strict=True):
        assert ("used to calibrate" in row[-1].text) is figure.calibration
    marked = [cell for cell in outline.all("td") if cell.attributes.get("class") == "calibrated"]
    assert len(marked) == sum(figure.calibration for figure in study.published)


def test_tables_have_captions_and_headed_rows_and_columns(outline: Outline) -> None:
    count = len(outline.all("table"))
    assert count == len(outline.all("caption")) >= 4
    for heading in outline.all("th"):
        assert heading.attributes["scope"] == ("col" if "thead" in heading.parents else "row")
    scrolled = [e for e in outline.all("div") if e.attributes.get("class") == "scroll"]
    assert len(scrolled) == count, "a wide table scrolls in its own box"
    assert all(box.attributes.get("tabindex") == "0" for box in scrolled), "by keyboard too"


def test_headings_go_down_one_level_at_a_time(outline: Outline) -> None:
    levels = [int(heading.tag[1]) for heading in outline.all("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_chart_is_named_and_described(study: Study, outline: Outline) -> None:
    ids = [e.attributes["id"] for e in outline.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids)), "no id is used twice"
    drawn = outline.all("svg")
    with_data = len(study.figures) - 1
    assert len(drawn) == 2 * with_data, "for a desk and for a phone"
    for svg in drawn:
        assert svg.attributes["role"] == "img"
        labels = str(svg.attributes["aria-labelledby"]).split()
        named = {e.attributes.get("id"): e for e in outline.all("title", "desc")}
        assert all(named[label].text.strip() for label in labels)


def test_a_figure_without_data_has_a_reason(outline: Outline) -> None:
    captions = [caption.text for caption in outline.all("figcaption")]
    assert sum("Nothing to draw" in caption for caption in captions) == 1


def test_charts_use_the_colours_of_the_page(html: str) -> None:
    for svg in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL):
        assert not re.findall(r'(?:fill|stroke)="#', svg), "a fixed colour fails on dark pages"


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("tone", [palette.INK, palette.MUTED, palette.GOOD, palette.BAD])
def test_text_has_contrast_on_light_and_dark_pages(tone: palette.Tone) -> None:
    for theme in ("light", "dark"):
        for ground in (palette.PAPER, palette.FAINT):
            pair = sorted(luminance(getattr(each, theme)) for each in (tone, ground))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5


def test_the_data_inside_the_page_are_all_the_runs_with_all_digits(
    study: Study, run_directory: RunDirectory, outline: Outline
) -> None:
    script = next(e for e in outline.all("script") if e.attributes.get("id") == "perpacket-data")
    content = json.loads(script.text)
    frame = run_directory.observations()
    assert content["observations"]["columns"] == frame.columns
    assert [tuple(row) for row in content["observations"]["rows"]] == frame.rows()
    assert len(content["comparisons"]) == len(study.published)
    assert len(content["timelines"]["W-4096-P-L-FCFS-800.seed-1"]["rows"]) == 2000


def test_texts_cannot_end_the_data_element() -> None:
    text = data.script_json({"name": "</script><!--\u2028"})
    assert "<" not in text
    assert json.loads(text) == {"name": "</script><!--\u2028"}


def test_data_too_large_for_the_page_are_left_out_and_named(
    analysis: Analysis,
) -> None:
    many = pl.DataFrame({f"column_{i}": [i / 7] * 2000 for i in range(100)})
    text, left_out = data.embedded(replace(analysis, observations=many, comparisons=()))
    assert len(text) < data.MOST_OBSERVATION_BYTES + data.MOST_TIMELINE_BYTES
    assert any("observations/" in sentence for sentence in left_out)
    table = tables.raw_table(many, analysis.terms)
    assert len(table.rows) * len(table.columns) <= tables.MOST_RAW_CELLS
    assert "of 100 columns" in table.caption


def test_a_page_stays_below_three_megabytes(html: str) -> None:
    assert len(html.encode()) < 3_000_000


def test_the_same_run_produces_the_same_page(
    study: Study, run_directory: RunDirectory, html: str, tmp_path: Path
) -> None:
    again = report.write(analyze(study, run_directory), tmp_path / "again.html")
    assert again.read_text(encoding="utf-8") == html
