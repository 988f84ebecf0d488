"""Charts say what they show without colour, keep what matters, and become files."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

import polars as pl
import pytest

from perpacket.experiment.study import Point
from perpacket.report import charts, drawing, look, palette, stacks, timeline, wording


def drawn(chart: look.Chart) -> str:
    return drawing.svg(chart, identifier="chart", title="A < B", description="C & D")


def beside(calibrated: Sequence[bool]) -> pl.DataFrame:
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
        flag: re.findall(r'd="(M[^"]+)"', drawn(charts.paper_beside(beside([flag]), x_title="x")))
        for flag in (True, False)
    }
    assert set(shapes[True]) != set(shapes[False])


def test_an_svg_escapes_its_title_and_description() -> None:
    svg = drawn(charts.paper_beside(beside([True, False]), x_title="x < y"))
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
    specification = charts.curve(frame, x_title="x", y_title="y").to_dict()
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
    assert len(rows) <= look.WIDE
    assert max(row["high"] for row in rows) == 999


def test_every_layer_of_the_vocabulary_has_a_colour_and_unknown_ones_are_drawn() -> None:
    words = "user syscall socket tcp udp ip ethernet driver interrupt scheduler idle other"
    assert set(words.split()) <= set(palette.LAYER_TONES)
    frame = pl.DataFrame({"x": [1, 1], "layer": ["tcp", "tls"], "value": [10.0, 5.0]})
    chart = stacks.stacked_layers(frame, x_title="x", y_title="cycles per packet")
    assert ">tls<" in drawn(chart)


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


def test_importing_the_report_draws_nothing_in() -> None:
    code = (
        "import sys, perpacket.report\n"
        "heavy = {'altair', 'polars', 'jinja2', 'vl_convert', 'numpy'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
