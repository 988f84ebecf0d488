"""A machine of the simulator from a recording, and how well `linux-6.1` predicts misses."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from perpacket.cli import app
from perpacket.errors import ConfigurationError
from perpacket_lab.emulate import footprint as footprints

ROOT = Path(__file__).parents[1]
RECORDING = ROOT / "lab" / "crates" / "emulate" / "tests" / "data" / "bulk.rec"
MACHINE = ROOT / "lab" / "crates" / "simulate" / "data" / "machines" / "linux-6.1.toml"
PAGE = ROOT / "docs" / "emulation-footprint.md"

spec = importlib.util.spec_from_file_location(
    "footprint_prediction", ROOT / "benches" / "footprint_prediction.py"
)
assert spec
assert spec.loader
prediction = importlib.util.module_from_spec(spec)
spec.loader.exec_module(prediction)

TOLERANCE = 0.03
"""The share by which a simulated number on the page may differ from a run, besides its last
digit."""


def test_a_recording_becomes_a_machine_of_the_simulators_operations(
    capfd: pytest.CaptureFixture[str],
) -> None:
    command = ["emulate", "footprint", str(RECORDING), "--name", "mine"]
    assert app.run(command) == 0
    machine = tomllib.loads(capfd.readouterr().out)
    assert machine["machine"]["name"]["value"] == "mine"
    kept = tomllib.loads(MACHINE.read_text())
    assert machine["machine"].keys() == kept["machine"].keys()
    assert machine["layers"].keys() == kept["layers"].keys()
    found = footprints.footprint(RECORDING)
    for own in found["operations"]:
        layer, task = own["operation"].split(".")
        table = machine["layers"][layer][task]
        expected = round(own["instructions"] / own["packets"])
        assert table["instructions"]["value"] == expected, own["operation"]
    touches = machine["layers"]["tcp"]["output"]["touches"]["value"]
    lines = sum(
        int(end) - int(start) for start, end in re.findall(r"code (\d+)\.\.(\d+)", str(touches))
    )
    (output,) = [one for one in found["operations"] if one["operation"] == "tcp.output"]
    assert lines == sum(output["code_lines"]) > 100


def test_a_truncated_recording_is_an_error_that_names_the_byte(tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(RECORDING.read_bytes()[:100_000])
    with pytest.raises(ConfigurationError, match="truncated at byte 100000"):
        footprints.footprint(part)


@pytest.mark.parametrize("lines", range(1, 65))
def test_the_parts_of_a_connection_have_all_its_lines_in_powers_of_two(lines: int) -> None:
    parts = footprints.connection_parts(lines)
    for structure, count in parts.items():
        assert count & (count - 1) == 0 or count == footprints.PARTS[structure]
    touched = footprints.connection_touches(parts, 0, lines)
    ranges = re.findall(r"(\d+)\.\.(\d+)", " ".join(touched))
    assert sum(int(end) - int(start) for start, end in ranges) == min(lines, sum(parts.values()))
    assert sum(parts.values()) >= lines


def test_the_lines_of_both_directions_are_one_range() -> None:
    operations = {
        name: {"connection_lines": 1.5} for name in (*footprints.SEND, *footprints.RECEIVE)
    }
    ranges = footprints.connection_ranges(operations, both=4.0)
    assert ranges["user.write"] == (0, 2)
    assert ranges["driver.send"] == (8, 9)
    assert ranges["driver.receive"] == (5, 6)
    assert ranges["tcp.input"] == (10, 11)
    sent = {line for name in footprints.SEND for line in range(*ranges[name])}
    received = {line for name in footprints.RECEIVE for line in range(*ranges[name])}
    assert len(sent & received) == 4


def rows() -> list[tuple[int, int, float, float]]:
    """The check on the page: connections, KiB, emulated and simulated misses per packet."""
    section = PAGE.read_text()
    cells = re.findall(r"^\| (\d+) \| (\d+) KiB \| ([\d.]+) \| ([\d.]+) \|", section, re.MULTILINE)
    return [(int(n), int(kib), float(emulated), float(own)) for n, kib, emulated, own in cells]


@pytest.mark.parametrize("row", rows()[::3], ids=lambda row: f"{row[0]}c-{row[1]}k")
def test_the_page_has_the_simulated_misses(row: tuple[int, int, float, float]) -> None:
    connections, kib, _, printed = row
    own = prediction.simulated(connections, kib)
    assert own == pytest.approx(printed, rel=TOLERANCE, abs=0.01)


def test_the_page_counts_the_predictions_within_fifteen_per_cent() -> None:
    within = [abs(own / emulated - 1) <= 0.15 for _, _, emulated, own in rows()]
    text = " ".join(PAGE.read_text().split())
    assert f"{sum(within)} of {len(within)} predictions are within 15 %" in text
