"""What the page of a measured study tells of its own numbers, drawn from invented runs."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import polars as pl
import pytest

from perpacket.analysis.published import judge
from perpacket.analysis.statistics import Interval
from perpacket.cli import study_output
from perpacket.run.directory import RunDirectory
from perpacket.show import tables
from perpacket.show.charts import figures
from perpacket.study import library
from perpacket.study.library import router
from perpacket.study.study import Figure, Study

NO_DIRECTORY = cast("RunDirectory", None)
"""Charts of observations ask nothing of the directory that they came from."""


def forwarded() -> pl.DataFrame:
    """One run of each TCP point: 100 times its configuration's number, in each column."""
    chosen = router.points(full=False, experiments=("tcp-kernel",))
    values = [100.0 * float(point.factors["configuration"]) for point in chosen]
    return pl.DataFrame(
        {
            "point": [point.name for point in chosen],
            "forwarded_mbps": values,
            "layers.ip.cpu_ns_per_forwarded_packet": values,
        }
    )


def sketch(kind: str, y: str) -> figures.Sketch:
    """The first figure of the router's study that is of a kind and shows a column."""
    study = library.find_measured("router")
    figure = next(one for one in study.figures if (one.kind, one.y) == (kind, y))
    found = figures.sketch_of(figure, figures.Material(study, NO_DIRECTORY, forwarded(), []))
    assert found is not None
    return found


def test_each_of_the_eight_configurations_is_a_place_on_the_axis() -> None:
    told = sketch("curve", "forwarded_mbps").description
    assert told.count("100 at 1, 800 at 8") == len(router.MESSAGES_BYTES)


def test_the_layers_of_one_configuration_are_not_added_to_those_of_another() -> None:
    told = sketch("stacked-layers", "cpu_ns_per_forwarded_packet").description
    assert told.endswith("100 at 1 and 800 at 8.")


def test_a_figure_is_about_the_factors_level_where_it_is_named_as_the_points_shorthand() -> None:
    eighth = Figure("curve", "", "bytes", "forwarded_mbps", where={"configuration": 8})
    kept = {point.factors["configuration"] for point in router.points(False) if eighth.keeps(point)}
    assert kept == {8}


@pytest.mark.parametrize(
    ("name", "column", "heading"),
    [
        ("switch-cost", "ns_per_switch", "Context switch (ns)"),
        ("memory-surface", "mbytes_per_s", "Bandwidth (MB/s)"),
        ("router", "throughput_pps", "Highest rate without loss (frames/s)"),
        ("double-buffer", "lateness_us.p99", "Lateness, 99 % (µs)"),
    ],
)
def test_the_table_of_configurations_has_what_the_study_is_about(
    name: str, column: str, heading: str
) -> None:
    study = library.find_measured(name)
    table = tables.means_table(study, runs_of(study, column, [7.0, 7.0]))
    assert table.columns[2:] == (heading,)
    assert table.rows[0][2].text == "7.00"


def runs_of(study: Study, column: str, values: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"point": [study.points[0].name] * len(values), column: values})


def test_a_share_is_told_to_lie_between_nothing_and_all() -> None:
    study = library.find_measured("double-buffer")
    table = tables.means_table(study, runs_of(study, "server_idle", [0.0, 0.02]))
    assert table.columns[2:] == ("Server idle (%)",)
    assert table.rows[0][2].remark.startswith("[0,")


def test_rows_of_one_quantity_say_what_each_change_is_from() -> None:
    study = library.find_measured("router")
    peaks = [row for row in study.published if row.quantity == "forwarded increase"]
    found = [judge(row, row.point, Interval(1, 0, 2, 3, 0.95), (), "Change") for row in peaks]
    told = [study_output.told(row) for row in found]
    assert len(set(told)) > 1
    assert told[0] == "Change from kernel-1-65536b"
    value = replace(found[0], published=replace(peaks[0], judged="value"))
    assert study_output.told(value) == "Change"
