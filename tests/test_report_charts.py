"""Charts are readable without colour, show the important points, and can be written to files."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from invented import of_frame
from perpacket_lab.analysis import offload, wording
from perpacket_lab.analysis.analysis import Analysis
from perpacket_lab.models.laws import PUBLISHED
from perpacket_lab.show import html
from perpacket_lab.show.charts import (
    beside,
    chart_style,
    curve,
    drawing,
    kinds,
    laws_curve,
    palette,
    stacks,
    timeline,
)
from perpacket_lab.study.figure import Figure
from perpacket_lab.study.point import Point
from perpacket_lab.study.published import Published
from perpacket_lab.study.quantities import SEVEN
from perpacket_lab.study.study import Study


def drawn(chart: chart_style.Chart) -> str:
    return drawing.svg(chart, identifier="chart", title="A < B", description="C & D")


def rows_beside(calibrated: Sequence[bool]) -> pl.DataFrame:
    count = len(calibrated)
    return pl.DataFrame(
        {
            "configuration": [f"W-{row}" for row in range(count)],
            "simulated": [float(row) for row in range(count)],
            "low": [row - 0.1 for row in range(count)],
            "high": [row + 0.1 for row in range(count)],
            "published_low": [row + 0.5 for row in range(count)],
            "published_high": [row + 0.5 for row in range(count)],
            "calibrated": list(calibrated),
        }
    )


def test_calibrated_values_differ_by_shape_not_only_by_colour() -> None:
    shapes = {
        flag: re.findall(
            r'd="(M[^"]+)"', drawn(beside.paper_beside(rows_beside([flag]), x_title="x"))
        )
        for flag in (True, False)
    }
    assert set(shapes[True]) != set(shapes[False])


def test_an_svg_escapes_its_title_and_description() -> None:
    svg = drawn(beside.paper_beside(rows_beside([True, False]), x_title="x < y"))
    assert "A &lt; B" in svg
    assert "C &amp; D" in svg
    assert "x &lt; y" in svg


@pytest.mark.parametrize(
    ("levels", "kind"), [([1, 32, 2048], "log"), ([0, 10, 40], None), ([400, 600, 800], None)]
)
def test_x_is_logarithmic_where_levels_span_a_wide_ratio(
    levels: list[int], kind: str | None
) -> None:
    frame = pl.DataFrame(
        {"x": levels, "y": [1.0] * 3, "low": [0.9] * 3, "high": [1.1] * 3, "series": ["a"] * 3}
    )
    specification = curve.curve(frame, x_title="x", y_title="y").to_dict()
    scales = [layer["encoding"]["x"]["scale"] for layer in specification["layer"]]
    assert {scale.get("type") for scale in scales} == {kind}


def test_thinning_a_timeline_keeps_its_peaks() -> None:
    steps = 50_000
    frame = pl.DataFrame(
        {"time_s": [s / 1000 for s in range(steps)],
         "queue_packets": [999 if s == 31_337 else 1 for s in range(steps)]}
    )  # fmt: skip
    specification = timeline.timeline(frame, columns=["queue_packets"]).to_dict()
    rows = [row for table in specification["datasets"].values() for row in table]
    assert len(rows) <= chart_style.WIDE
    assert max(row["high"] for row in rows) == 999


def test_every_layer_of_the_vocabulary_has_a_colour_and_unknown_ones_are_drawn() -> None:
    words = "user syscall socket tcp udp ip ethernet driver interrupt scheduler idle other"
    assert set(words.split()) <= set(palette.LAYER_TONES)
    frame = pl.DataFrame({"x": [1, 1], "layer": ["tcp", "tls"], "value": [10.0, 5.0]})
    chart = stacks.stacked_layers(frame, x_title="x", y_title="cycles per packet")
    assert ">tls<" in drawn(chart)


def test_a_stack_stands_beside_the_published_one_if_all_seven_regions_are_published(
    study: Study, analysis: Analysis
) -> None:
    layers = ("user", "syscall", "socket", "tcp", "ip", "ethernet", "driver", "other")
    columns = {f"layers.{layer}.cycles_per_packet": [100.0, 110.0] for layer in layers}
    rows = {"point": ["whole", "part"], "configuration": ["W", "W"], "seed": [1, 1], **columns}
    points = tuple(Point(name, "W", {"server": name}) for name in ("whole", "part"))
    published = tuple(
        Published(region, "Table 1", "s", point, f"cycles.{region}", "cycles/packet", value=250.0)
        for point, regions in (("whole", SEVEN), ("part", SEVEN[:3]))
        for region in regions
    )
    figure = Figure("stacked-layers", "Cycles", "server", "cycles_per_packet")
    changed = replace(study, points=points, published=published)
    invented = of_frame(changed, analysis, pl.DataFrame(rows))
    drawing = stacks.layers_of(figure, invented)
    assert drawing is not None
    assert drawing.description.endswith(
        ": 800 at whole and 880 at part. 1 bar of published values."
    )
    text = drawn(drawing.draw(chart_style.WIDE))
    assert ">whole, paper<" in text
    assert ">1,750<" in text
    assert ">part, paper<" not in text


MEASURED = pl.DataFrame(
    {
        "point": ["web-4c", "web-4c", "web-256c", "web-256c"],
        "configuration": ["file"] * 4,
        "seed": [1, 2, 1, 2],
        "layers.user.share": [0.5, 0.5, 0.25, 0.25],
        "layers.socket.share": [0.1, 0.12, 0.15, 0.17],
        "layers.tcp.share": [0.3, 0.28, 0.45, 0.43],
        "layers.other.share": [0.1, 0.1, 0.15, 0.15],
        "latency_us.response.p50": [40.0, 42.0, 900.0, 950.0],
        "latency_us.response.p99": [200.0, 210.0, 4000.0, 4400.0],
    }
)
"""Four runs with layers, in which the network's share is 0.4 and 0.6."""


@pytest.fixture
def measured(study: Study, analysis: Analysis) -> Analysis:
    """The analysis of these runs."""
    points = tuple(Point(f"web-{count}c", "file", {"connections": count}) for count in (4, 256))
    return of_frame(replace(study, points=points, published=()), analysis, MEASURED)


def test_the_models_curve_passes_through_what_was_published() -> None:
    for workload, percent, _, gain in PUBLISHED:
        assert offload.gain_percent(percent / 100) == pytest.approx(gain, abs=0.6), workload


def test_a_point_is_on_the_curve_at_its_networks_share(measured: Analysis) -> None:
    shares = measured.network_shares
    assert {name: share.value for name, share in shares.items()} == pytest.approx(
        {"web-4c": 0.4, "web-256c": 0.6}
    )
    plot = kinds.plot_of(Figure("laws", "Offload", "", "share"), measured)
    assert plot is not None
    assert (
        "connections 4: with a share of 40 %, the gain is at most 67 %" in plot.description.lower()
    )
    assert "connections 256: with a share of 60 %, the gain is at most 150 %" in plot.description
    specification = plot.draw(chart_style.WIDE).to_dict()
    rows = [row for table in specification["datasets"].values() for row in table]
    marks = {row["name"]: row for row in rows if "name" in row}
    assert marks["connections 256"]["gain"] == pytest.approx(150.0)
    # Every mark, published or of the run, is on the line of p = 1.
    whole = [row for row in rows if "p = 1" in row.get("offloaded", "")]
    line = {row["share"]: row["gain"] for row in whole}
    assert len(line) > 100
    assert all(line[share] == pytest.approx(100 * share / (100 - share)) for share in line)
    svg = drawn(plot.draw(chart_style.NARROW))
    assert ">connections 256<" in svg
    assert f">{laws_curve.PUBLISHED}<" in svg


def test_runs_without_layers_have_no_chart_of_offload(measured: Analysis) -> None:
    coarse = MEASURED.drop("layers.tcp.share", "layers.socket.share")
    found = of_frame(measured.study, measured, coarse)
    assert found.network_shares == {}
    assert kinds.plot_of(Figure("laws", "Offload", "", "share"), found) is None


def test_many_points_share_one_entry_of_the_legend() -> None:
    count = laws_curve.MOST_SHAPES + 1
    rows = {
        "name": [f"point {n}" for n in range(count)],
        "share": [0.1 + n / 20 for n in range(count)],
    }
    frame = pl.DataFrame(rows).with_columns(low=None, high=None)
    svg = drawn(laws_curve.laws_curve(frame))
    assert "point 3" not in svg
    assert ">measured<" in svg


def test_a_curve_of_several_columns_has_a_line_for_each(measured: Analysis) -> None:
    columns = "latency_us.response.p50,latency_us.response.p99"
    figure = Figure("curve", "Time", "connections", columns, y_title="time (µs)")
    plot = kinds.plot_of(figure, measured)
    assert plot is not None
    assert plot.description.startswith(
        "Median: 41 at 4, 925 at 256; 99th percentile: 205 at 4, 4,200 at 256."
    )
    svg = drawn(plot.draw(chart_style.WIDE))
    assert ">median<" in svg
    assert ">99th percentile<" in svg


def test_a_curve_over_names_has_a_row_for_each_level_and_column(measured: Analysis) -> None:
    columns = "latency_us.response.p50,latency_us.response.p99"
    points = tuple(
        replace(point, factors={"setting": name})
        for point, name in zip(measured.study.points, ("rps", "rfs"), strict=True)
    )
    named = of_frame(replace(measured.study, points=points), measured, MEASURED)
    plot = kinds.plot_of(Figure("curve", "Time", "setting", columns), named)
    assert plot is not None
    assert plot.description.startswith("Highest: rfs, 99th percentile with 4,200")
    svg = drawn(plot.draw(chart_style.WIDE))
    for name in ("rps", "rfs"):
        assert f"{name}, median" in svg
        assert f"{name}, 99th percentile" in svg


@pytest.fixture(scope="module")
def files(analysis: Analysis, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The charts of the invented study as files."""
    folder = tmp_path_factory.mktemp("charts") / "made" / "when missing"
    return html.write_charts(analysis, folder)


def test_every_chart_with_data_becomes_an_svg_and_a_png(files: list[Path], study: Study) -> None:
    names = [file.name for file in files]
    assert names[:2] == ["01-requests-per-second.svg", "01-requests-per-second.png"]
    assert len(names) == 2 * (len(study.figures) - 1), "one figure has no data"
    assert sorted(file.name for file in files[0].parent.iterdir()) == sorted(names)


def test_a_chart_in_a_file_does_not_depend_on_a_page(files: list[Path], study: Study) -> None:
    for file in files[::2]:
        text = file.read_text(encoding="utf-8")
        root = ET.fromstring(text)
        number = int(file.name[:2])
        shown = "".join(text for node in root.iter() if node.tag.endswith("}text")
                        for text in node.itertext())  # fmt: skip
        assert study.figures[number - 1].title in shown, "its title is in sight"
        assert "var(" not in text, "its colours are its own"
        assert f'fill="{palette.PAPER.light}"' in text, "so is its ground"
        fonts = set(re.findall(r'font-family="([^"]*)"', text))
        assert {font.partition(",")[0] for font in fonts} == {"Liberation Sans"}
        assert not re.findall(r'(?:href|src)="(?!#)', text)


def test_a_png_has_two_pixels_for_each_of_the_svg(files: list[Path]) -> None:
    for svg, png in zip(files[::2], files[1::2], strict=True):
        content = png.read_bytes()
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        box = ET.fromstring(svg.read_text(encoding="utf-8")).attrib["viewBox"].split()
        expected = [round(drawing.PNG_SCALE * float(size)) for size in box[2:]]
        assert list(struct.unpack(">II", content[16:24])) == pytest.approx(expected, abs=1)


def test_a_chart_for_dark_grounds_has_no_light_tone(analysis: Analysis, tmp_path: Path) -> None:
    study = replace(analysis.study, figures=analysis.study.figures[:1])
    svg, _ = html.write_charts(replace(analysis, study=study), tmp_path, dark=True)
    colours = set(re.findall(r'(?:fill|stroke)="(#[0-9a-fA-F]{6})"', svg.read_text()))
    assert palette.PAPER.dark in colours
    assert not colours & ({tone.light for tone in palette.TONES} - {t.dark for t in palette.TONES})


@pytest.mark.parametrize(
    ("shorthand", "words"),
    [
        ("W-0-N-N-FCFS-400", "World Cup, no handoff, 400 MIPS NIC"),
        ("S-256-P-L-T10-600", "SPECweb99 static, up to 256 connections on the NIC, "
         "host packets first, load control, handed off at send 10, 600 MIPS NIC"),
        ("W-4096-P-R-ORACLE-400", "World Cup, up to 4,096 connections on the NIC, "
         "host packets first, load control with active restore, chosen by an oracle, "
         "400 MIPS NIC"),
    ],
)  # fmt: skip
def test_a_configuration_can_be_read_without_knowing_the_shorthand(
    shorthand: str, words: str
) -> None:
    assert ", ".join(wording.point_parts(Point(shorthand, shorthand))) == words


@pytest.mark.parametrize(
    ("number", "text"), [(0.0, "0"), (2048.0, "2,048"), (5.5371, "5.537"), (0.46100, "0.461")]
)
def test_numbers_in_sentences_have_four_digits(number: float, text: str) -> None:
    assert wording.number(number) == text


def test_importing_the_report_imports_no_heavy_package() -> None:
    code = (
        "import sys, perpacket_lab.show.html\n"
        "heavy = {'altair', 'polars', 'jinja2', 'vl_convert', 'numpy'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_longest_name_limits_the_columns_of_a_legend() -> None:
    assert chart_style.legend_columns(chart_style.WIDE, ["a", "b"]) > 4
    assert chart_style.legend_columns(chart_style.WIDE, ["a", "x" * 40]) == 2
    assert chart_style.legend_columns(chart_style.NARROW, ["x" * 200]) == 1
