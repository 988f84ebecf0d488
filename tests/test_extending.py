"""The examples of docs/extending.md work as they are written."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perpacket_lab.analysis.analysis import Analysis
from perpacket_lab.show.charts import chart_style, drawing
from perpacket_lab.study import quantities
from perpacket_lab.study.figure import Figure

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"


def block(language: str, part: str) -> str:
    """The code block of a language that contains a text."""
    blocks: list[str] = re.findall(
        rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return next(one for one in blocks if part in one)


def test_the_quantity_of_the_page_has_an_entry_and_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, Any] = {}
    exec(block("python", "def resent_share"), vars(quantities) | {"__name__": "page"}, written)
    computed = {**quantities.COMPUTED, "resent_share": written["resent_share"]}
    monkeypatch.setattr(quantities, "COMPUTED", computed)
    (entry,) = tomllib.loads(block("toml", "resent_share"))["quantity"]
    (quantity,) = quantities.of_entry(entry)
    row = {"point": "a", "seed": 1, "retransmissions": 2.0, "packets": 400.0}
    assert quantity.value(row) == 0.5
    assert (quantity.least, quantity.most, quantity.unit) == (0, 100, "%")


def test_the_chart_of_the_page_draws_every_run(analysis: Analysis) -> None:
    module = ModuleType("strip")
    sys.modules["strip"] = module
    exec(block("python", 'KINDS = {"strip"'), vars(module))
    figure = Figure("strip", "Runs", "point", "requests_per_s")  # type: ignore[arg-type]
    plot = module.KINDS["strip"](figure, analysis)
    assert plot.description == "12 runs."
    for width in (chart_style.WIDE, chart_style.NARROW):
        svg = drawing.svg(plot.draw(width), identifier="a", title="b", description="c")
        assert "W-1024-P-N-FCFS-400" in svg
