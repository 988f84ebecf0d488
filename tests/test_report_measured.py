"""The page of a measured study explains its own numbers; the runs are invented."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from invented import of_frame
from perpacket.analysis.statistics import Interval
from perpacket_lab.analysis.analysis import Analysis
from perpacket_lab.analysis.published_comparison import compare
from perpacket_lab.show import tables, terminal
from perpacket_lab.show.charts import kinds
from perpacket_lab.show.charts.chart_style import Plot
from perpacket_lab.study import library
from perpacket_lab.study.figure import Figure
from perpacket_lab.study.study import Study


def forwarded() -> pl.DataFrame:
    """One run of each TCP point: 100 times its configuration's number, in each column."""
    chosen = library.find("router", only=("tcp-kernel",)).points
    values = [100.0 * float(point.factors["configuration"]) for point in chosen]
    return pl.DataFrame(
        {
            "point": [point.name for point in chosen],
            "forwarded_mbps": values,
            "layers.ip.cpu_ns_per_forwarded_packet": values,
        }
    )


def plot(analysis: Analysis, kind: str, y: str) -> Plot:
    """The first figure of the router's study that is of a kind and shows a column."""
    study = library.find("router")
    figure = next(one for one in study.figures if (one.kind, one.y) == (kind, y))
    found = kinds.plot_of(figure, of_frame(study, analysis, forwarded()))
    assert found is not None
    return found


def test_each_of_the_eight_configurations_is_on_the_axis(analysis: Analysis) -> None:
    text = plot(analysis, "curve", "forwarded_mbps").description
    assert text.count("100 at 1, 800 at 8") == 3


def test_the_layers_of_one_configuration_are_not_added_to_those_of_another(
    analysis: Analysis,
) -> None:
    text = plot(analysis, "stacked-layers", "cpu_ns_per_forwarded_packet").description
    assert text.endswith("100 at 1 and 800 at 8.")


def test_a_figure_selects_by_factor_where_the_factor_has_the_name_configuration() -> None:
    eighth = Figure("curve", "", "bytes", "forwarded_mbps", where={"configuration": 8})
    stored = {
        point.factors["configuration"]
        for point in library.find("router").points
        if eighth.selects(point)
    }
    assert stored == {8}


@pytest.mark.parametrize(
    ("name", "column", "heading"),
    [
        ("switch-cost", "ns_per_switch", "Context switch (ns)"),
        ("memory-surface", "mbytes_per_s", "Bandwidth (MB/s)"),
        ("router", "throughput_pps", "Highest rate without loss (frames/s)"),
        ("double-buffer", "lateness_us.p99", "Lateness, 99th percentile (µs)"),
    ],
)
def test_the_table_of_configurations_has_the_quantities_of_the_study(
    analysis: Analysis, name: str, column: str, heading: str
) -> None:
    study = library.find(name)
    table = tables.means_table(of_frame(study, analysis, runs_of(study, column, [7.0, 7.0])))
    assert table.columns[2:] == (heading,)
    assert table.rows[0][2].text == "7.00"


def runs_of(study: Study, column: str, values: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"point": [study.points[0].name] * len(values), column: values})


def test_the_interval_of_a_share_is_between_0_and_100(analysis: Analysis) -> None:
    study = library.find("double-buffer")
    table = tables.means_table(
        of_frame(study, analysis, runs_of(study, "server_idle", [0.0, 0.02]))
    )
    assert table.columns[2:] == ("Server idle (%)",)
    assert table.rows[0][2].bounds.startswith("[0,")


def test_rows_of_one_quantity_name_the_start_of_each_change() -> None:
    study = library.find("router")
    peaks = [row for row in study.published if row.quantity == "forwarded increase"]
    found = [compare(row, row.point, Interval(1, 0, 2, 3, 0.95), (), "Change") for row in peaks]
    text = [terminal.quantity_text(row) for row in found]
    assert len(set(text)) > 1
    assert text[0] == "Change from kernel-1-65536b"
    value = replace(found[0], reference=replace(peaks[0], judged="value"))
    assert terminal.quantity_text(value) == "Change"
