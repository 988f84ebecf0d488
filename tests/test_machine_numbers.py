"""The microbenchmarks from Python, their studies, and the heat map that shows them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from perpacket.analysis.statistics import Interval
from perpacket.cli.options import Format
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.cli import study_output
from perpacket_lab.measure.bench import bench_runner as bench_rig
from perpacket_lab.measure.bench.bench_runner import BenchPlan, BenchRunner
from perpacket_lab.measure.plan import validated
from perpacket_lab.run import start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.show import html
from perpacket_lab.show.charts import drawing, heat_map
from perpacket_lab.study import library
from perpacket_lab.study.figure import Figure
from perpacket_lab.study.lengths import LENGTHS, Length
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import RunOutcome
from perpacket_lab.study.study import Study
from requirements import skip

QUICK = (("run.duration_s", "0.001"),)


@pytest.fixture(scope="module")
def needs_agent() -> None:
    from perpacket.measure import agent

    try:
        agent.find()
    except MachineLacks as error:
        skip("agent", error)


# The studies.


@pytest.mark.parametrize(("length", "largest"), [("default", 2**27), ("full", 2**29)])
def test_a_surface_has_every_stride_that_fits_a_block(length: Length, largest: int) -> None:
    points = library.find("memory-surface", length, ("surface",)).points
    factors = [point.factors for point in points]
    every = {f["stride_words"] for f in factors}
    assert max(map(int, every)) == 256

    def strides(operation: str) -> set[object]:
        """The numbers of the smallest working set."""
        smallest = {"operation": operation, "working_set_bytes": 512}
        return {f["stride_words"] for f in factors if smallest.items() <= f.items()}

    # 64 words: two of them are 32 apart at most, and 16 in either half.
    assert strides("load") == {stride for stride in every if int(stride) <= 32}
    assert strides("copy") == {stride for stride in every if int(stride) <= 16}
    for point in factors:
        blocks = 2 if point["operation"] == "copy" else 1
        words = int(point["working_set_bytes"]) // 8 // blocks
        assert 2 * int(point["stride_words"]) <= words
    sizes = [f["working_set_bytes"] for f in factors]
    assert {512, largest} <= set(sizes)


def test_rings_have_the_published_numbers_of_threads() -> None:
    members = {point.factors["members"] for point in library.find("switch-cost", "full").points}
    assert members == {2, 4, 8, 16, 32, 64, 128}


@pytest.mark.parametrize("name", ["memory-surface", "switch-cost"])
@pytest.mark.parametrize("length", LENGTHS)
def test_every_point_is_a_plan_and_its_command_has_the_factors(name: str, length: Length) -> None:
    class Here:
        name, address, cpus = "here", "127.0.0.1", (0, 3)

        def agent(self) -> str:
            return "agent"

    for point in library.find(name, length).points:
        plan = validated(BenchPlan, point)
        command = " ".join(plan.command(Here()))  # type: ignore[arg-type]
        assert '"cpu": 3' in command
        if plan.kind == "surface":
            size = point.factors["working_set_bytes"]
            assert f'"operations": "{point.factors["operation"]}"' in command
            assert f'"smallest": {size}, "largest": {size}, "no-chain": true' in command
        if plan.kind == "switch":
            kind = point.factors["kind"]
            assert f'"kinds": "{kind}", "members": {plan.members}, ' in command
            assert ('"pinned": "on"' in command) == (point.factors["placed"] == "pinned")


def test_working_sets_beyond_memory_are_left_out_with_the_reason() -> None:
    plans = {
        point.name: validated(BenchPlan, point)
        for point in library.find("memory-surface", "full", ("surface",)).points
    }
    left_out = bench_rig.too_large(plans, available_bytes=512 * 2**20)
    assert left_out.keys() == {name for name in plans if "-536870912b-" in name}
    assert "256 MiB" not in next(iter(left_out.values()))
    assert "512 MiB available" in next(iter(left_out.values()))


def test_edges_have_the_names_of_the_caches_that_end_there() -> None:
    rows = [
        {"level": 1, "working_set_bytes": 49152, "before_ns": 1.0, "after_ns": 3.5},
        {"level": None, "working_set_bytes": 4096, "before_ns": 3.5, "after_ns": 9.0},
    ]
    found = bench_rig.edges({"edges": rows})
    assert found["l1"] == {"working_set_bytes": 49152, "before_ns": 1.0, "after_ns": 3.5}
    assert "unnamed" in found
    surface = BenchPlan.model_validate({"bench.kind": "surface"})
    with pytest.raises(RunFailed, match="no surface"):
        surface.result({"surface": []})


# The real benchmarks, as short as possible.


def test_a_stride_that_the_benchmark_rejects_is_a_configuration_error(needs_agent: None) -> None:
    runner = BenchRunner()
    stride = Point("p", "surface", {}, (("bench.kind", "surface"), ("bench.stride_words", "3")))
    with (
        runner.set_up((stride,)),
        pytest.raises(ConfigurationError, match="--strides 3"),
    ):
        runner.prepare(stride, 1, timeline=False).run()


def test_the_driver_runs_each_kind_of_point(needs_agent: None, tmp_path: Path) -> None:
    surface = library.find("memory-surface")
    switched = library.find("switch-cost")
    wanted = {
        "load-8192b-4w": "mbytes_per_s",
        "chain-8192b": "latency_ns",
        "threads-2-0b-pinned": "ns_per_switch",
    }
    for study in (surface, switched):
        points = tuple(point for point in study.points if point.name in wanted)
        chosen = study.limited_to(points)
        directory = start.run(chosen, tmp_path / study.name, seeds=(1,), overrides=QUICK)
        printed = directory.environment()["testbed"]
        assert isinstance(printed, dict)
        assert printed["machine"]["page_bytes"] >= 4096
        for one in directory.read_observations():
            assert isinstance(one.result[wanted[one.point]], float)
            assert "working_set_bytes" not in one.result
        assert not directory.failures()


# The heat map.


class InventedRun:
    """A bandwidth that is the product of its levels."""

    def __init__(self, point: Point, seed: int) -> None:
        self.point, self.seed = point, seed

    def run(self) -> RunOutcome:
        across, down = (self.point.factors[name] for name in ("stride_words", "set_bytes"))
        assert isinstance(across, int)
        assert isinstance(down, int)
        return RunOutcome({"mbytes_per_s": float(down / across + self.seed)})

    def progress(self) -> tuple[int, int]:
        return 1, 1

    def cancel(self) -> None:
        """Do nothing, because the run takes no time."""


class InventedRunner:
    def prepare(self, point: Point, seed: int, timeline: bool) -> InventedRun:
        return InventedRun(point, seed)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, RunDirectory]:
    study = Study(
        name="invented",
        title="Invented",
        question="Which is the brightest?",
        points=tuple(
            Point(f"p-{size}-{stride}", "invented", {"stride_words": stride, "set_bytes": size})
            for size in (512, 2048, 2**20)
            for stride in (1, 16)
            if (size, stride) != (512, 16)
        ),
        seeds=(1, 2, 3),
        runner=InventedRunner(),
        figures=(
            Figure(
                "heat-map",
                "Bandwidth",
                "stride_words",
                "mbytes_per_s",
                series="set_bytes",
                x_title="stride (words)",
                y_title="MB/s",
            ),
        ),
    )
    return study, start.run(study, tmp_path_factory.mktemp("runs") / "run")


def test_every_cell_is_in_the_chart_and_in_its_table(
    run: tuple[Study, RunDirectory],
) -> None:
    study, directory = run
    page = html.write(analyze(study, directory), directory.path / "report.html").read_text()
    figure = re.search(r'<figure id="figure-1".*?</figure>', page, re.DOTALL)
    assert figure is not None
    table = re.search(r'<table id="figure-1-table".*?</table>', figure[0], re.DOTALL)
    assert table is not None
    assert [text for text in ("512 B", "2 KiB", "1 MiB") if f">{text}</th>" in table[0]] == [
        *("512 B", "2 KiB", "1 MiB")
    ]
    assert ">514<" in table[0]
    assert table[0].count("<td") == 6
    chart = figure[0].partition('<div class="narrow">')[0]
    fills = re.findall(r'<path[^>]*fill="(rgb\([^"]*\)|#[0-9a-f]{6})"', chart)
    assert len(set(fills)) >= 5, "five cells have five values"
    assert "highest 1,048,578 at 1 MiB and 1" in figure[0]
    assert 'role="img"' in chart


def test_colours_grow_lighter_with_the_value() -> None:
    """Cividis shows values by lightness alone, for readers who do not distinguish hues."""
    frame = pl.DataFrame({"x": ["1"] * 4, "row": list("abcd"), "value": [1.0, 10.0, 100.0, 1000.0]})
    chart = heat_map.heat_map(frame, x_title="x", row_title="row", value_title="v")
    svg = drawing.svg(chart, identifier="c", title="t", description="d")
    cells = re.findall(r'<path[^>]*fill="rgb\((\d+), (\d+), (\d+)\)"', svg)
    weights = (0.2126, 0.7152, 0.0722)
    light = [sum(w * int(part) for w, part in zip(weights, cell, strict=True)) for cell in cells]
    assert len(light) == 4
    assert light == sorted(light)


def test_levels_in_bytes_have_binary_prefixes() -> None:
    def text(name: str, level: float) -> str:
        return heat_map.level_text(name, level)

    assert [text("set_bytes", size) for size in (512, 1024, 1536, 3 * 2**20, 0)] == [
        *("512 B", "1 KiB", "1536 B", "3 MiB", "0 B")
    ]
    assert text("stride_words", 256) == "256"
    assert text("share", 0.5) == "0.5"


def test_a_cell_without_a_run_is_empty_in_the_table() -> None:
    table = heat_map.cell_table(
        "t", "c", "corner", ["1", "2"], {"a": {"1": Interval(7, 6, 8, 3, 0.95)}}
    )
    assert [cell.text for cell in table.rows[0]] == ["a", "7", ""]
    assert table.rows[0][1].bounds
    assert replace(table, identifier="u").columns == ("corner", "1", "2")


def test_without_published_values_no_table_is_printed(
    run: tuple[Study, RunDirectory], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study_output.conclude(analyze(*run), tmp_path / "report.html", Format.TABLE, quiet=False)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "note: these points have no published values" in printed.err
