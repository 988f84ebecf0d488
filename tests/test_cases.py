"""Advice is right on the cases of tests/cases, and the page has their score."""

from __future__ import annotations

from pathlib import Path

import pytest

import case_score


@pytest.mark.parametrize("folder", case_score.folders(), ids=lambda folder: str(folder.name))
def test_a_case_has_the_right_answer(folder: Path) -> None:
    result = case_score.run(folder)
    assert not result.false
    assert not result.missing
    assert result.is_right, result.answers


def test_the_page_has_the_score() -> None:
    results = [case_score.run(folder) for folder in case_score.folders()]
    assert case_score.page(results) == case_score.PAGE.read_text(encoding="utf-8")
