"""Every kind of figure that a study may name has a chart."""

from __future__ import annotations

from typing import get_args

from perpacket_lab.show.charts import kinds
from perpacket_lab.study.figure import FigureKind


def test_every_kind_of_figure_has_a_chart_and_every_chart_a_kind() -> None:
    assert set(kinds.kinds()) == set(get_args(FigureKind))
