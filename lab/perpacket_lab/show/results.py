"""Frames and charts of results of the operator's floor, which imports neither polars nor altair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from perpacket_lab.show.charts.laws_curve import laws_curve
from perpacket_lab.show.charts.stacks import stacked_layers

if TYPE_CHECKING:
    from perpacket_lab.show.charts.chart_style import Chart


def frame(records: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    """Rows of data as a data frame."""
    return pl.DataFrame(records, infer_schema_length=None)


def layer_bar(
    name: str, costs: Mapping[str, float], *, x_title: str, y_title: str, width: int
) -> Chart:
    """A bar of costs by layer."""
    rows = [{"x": name, "layer": layer, "value": value} for layer, value in costs.items()]
    return stacked_layers(pl.DataFrame(rows), x_title=x_title, y_title=y_title, width=width)


def laws_point(name: str, share: float, *, width: int) -> Chart:
    """A profile's share of the network on the curve of LAWS."""
    point = pl.DataFrame({"name": [name], "share": [share]}).with_columns(low=None, high=None)
    return laws_curve(point, width=width)
