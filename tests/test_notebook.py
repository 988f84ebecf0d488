"""Notebooks display results, results become tables and charts, and errors name missing parts."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perpacket
from invented import BASELINE, HOSTILE, RATES
from perpacket.errors import ConfigurationError
from perpacket.profile_document import ProfileDocument
from perpacket.results import MeasuredProfile
from perpacket.show import markup
from perpacket_lab.analysis import run_comparison
from perpacket_lab.analysis.analysis import Analysis
from perpacket_lab.run import start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.show.notebook.simulated import SimulatedRun
from perpacket_lab.show.notebook.study_results import RunDifference, StudyRun
from perpacket_lab.study.study import Study

TOUR = Path(__file__).parents[1] / "examples" / "tour.py"
SHORT = (("run.warmup_packets", 2_000), ("run.packets", 6_000))

LAYERS = {
    "user": {"share": 0.5, "cpu_ns_per_packet": 2000.0},
    "socket": {"share": 0.1, "cpu_ns_per_packet": 400.0},
    "tcp": {"share": 0.15, "cpu_ns_per_packet": 600.0},
    "other": {"share": 0.25, "cpu_ns_per_packet": 1000.0},
}
"""The network has a third of the time without other programs: the gain is at most a half."""


def values(chart: Any, *names: str) -> list[Any]:
    """Rows of a chart's data that have all of these columns."""
    tables = chart.to_dict()["datasets"].values()
    rows = [row for table in tables for row in table if set(names) <= row.keys()]
    return [tuple(row[name] for name in names) for row in rows]


@pytest.fixture(scope="module")
def simulated() -> SimulatedRun:
    """A short run with its state over time."""
    return perpacket.simulate("W-1024-P-N-FCFS-400", overrides=SHORT, timeline=True)


def test_a_simulated_run_is_the_dict_of_the_simulator() -> None:
    from perpacket_lab import simulation

    run = simulation.Simulation("W-1024-P-N-FCFS-400", overrides=SHORT)
    first = dict(perpacket.simulate("W-1024-P-N-FCFS-400", overrides=SHORT))
    second = run.run()
    for timing in ("wall_s", "packets_per_wall_s"):
        del first[timing], second[timing]
    assert first == second


def test_a_simulated_run_has_a_table_and_charts(simulated: SimulatedRun) -> None:
    frame = simulated.to_polars()
    layers = simulated["layers"]
    assert isinstance(layers, Mapping)
    assert frame.height == 1
    assert frame["layers.tcp.cycles_per_packet"][0] == layers["tcp"]["cycles_per_packet"]
    drawn = dict(values(simulated.plot(), "layer", "value"))
    assert drawn["tcp"] == pytest.approx(layers["tcp"]["cycles_per_packet"])
    assert "idle" not in drawn
    assert simulated.timeline().height > 1
    assert {"vconcat"} <= simulated.plot("timeline").to_dict().keys()
    shown = simulated._repr_html_()
    assert "W-1024-P-N-FCFS-400, seed 1, simulated" in shown
    assert "cycles per packet: tcp" in shown


def test_an_error_names_what_a_simulated_run_lacks(simulated: SimulatedRun) -> None:
    plain = SimulatedRun(simulated)
    with pytest.raises(ConfigurationError, match="recorded no state over time"):
        plain.plot("timeline")
    with pytest.raises(ConfigurationError, match="'pie'"):
        plain.plot("pie")  # type: ignore[arg-type]


@pytest.fixture
def run(analysis: Analysis) -> StudyRun:
    """A run of the invented study."""
    return StudyRun(analysis)


def test_a_run_shows_its_findings_its_table_and_its_charts(
    run: StudyRun, run_directory: RunDirectory
) -> None:
    assert run.to_polars().equals(run_directory.observations())
    shown = run._repr_html_()
    assert "<script>" not in shown, "texts of a study are never markup"
    assert markup.heading(f"Handoff {HOSTILE}") in shown
    assert all(name in shown for name in RATES)
    assert "+15.0 %" in shown
    assert run.figures[2] == "Rates"
    for commands in (2, "Rates"):
        assert len(values(run.plot(commands), "x", "y", "series")) >= len(RATES)
    with pytest.raises(ConfigurationError, match="has no figure 'Rate'") as caught:
        run.plot("Rate")
    assert "Rates" in caught.value.hint
    with pytest.raises(ConfigurationError, match="nothing to draw"):
        run.plot("Nothing")


def test_published_values_are_beside_those_of_a_run(run: StudyRun) -> None:
    compared = run.comparisons()
    frame = compared.to_polars()
    assert frame.height == len(compared) == len(run.analysis.study.published)
    assert frame["simulated.value"][0] == pytest.approx(20_400.0)
    assert "used to calibrate" in compared._repr_html_()
    marks = values(compared.plot("request_rate"), "configuration", "published_low")
    assert (BASELINE, 20_600.0) in marks
    with pytest.raises(ConfigurationError, match="'goodput'"):
        compared.plot("goodput")


def test_two_runs_show_what_changed(
    run_directory: RunDirectory, study: Study, tmp_path: Path
) -> None:
    second = start.run(replace(study, seeds=(1, 2, 3)), tmp_path / "second")
    # The values of run A, and half of them in run B.
    for name in RATES:
        for seed in study.seeds:
            file = second.observation_path(name, seed)
            content = json.loads(file.read_text())
            content["result"]["requests_per_s"] /= 2
            file.write_text(json.dumps(content))
    changed = RunDifference(run_comparison.compare(run_directory, second, ["requests_per_s"]))
    assert len(changed) == len(RATES)
    frame = changed.to_polars()
    assert frame["interval.value"].to_list() == pytest.approx([0.5] * len(RATES))
    assert set(frame["change"]) == {"lower"}
    drawn = [ratio for _, ratio in values(changed.plot(), "name", "ratio")]
    assert drawn == pytest.approx([0.5] * len(RATES))
    assert "requests_per_s" in changed._repr_html_()
    with pytest.raises(ConfigurationError, match="no ratio of 'nothing'"):
        changed.plot("nothing")


def test_a_profile_has_its_network_share_and_the_gain_of_offload(tmp_path: Path) -> None:
    file = tmp_path / "web.json"
    file.write_text(json.dumps({"backend": "cpu-clock", "layers": LAYERS}))
    profile = perpacket.read_profile(file)
    assert profile.network_share == pytest.approx(1 / 3)
    assert profile.gain() == pytest.approx(1 / 2)
    assert profile.to_polars()["layer"].to_list() == list(LAYERS)
    assert dict(values(profile.plot(), "layer", "value"))["tcp"] == 600.0
    placed = {name: (share, gain) for name, share, gain
              in values(profile.plot("laws"), "name", "share", "gain")}  # fmt: skip
    assert placed["web.json"] == pytest.approx((100 / 3, 50.0))
    assert "the gain by offload is at most 50 %" in profile._repr_html_()


def test_a_profile_of_counters_is_drawn_in_shares() -> None:
    shares = {name: {"share": layer["share"]} for name, layer in LAYERS.items()}
    profile = MeasuredProfile(ProfileDocument.parse({"layers": shares}), "counted.json")
    assert dict(values(profile.plot(), "layer", "value"))["user"] == 0.5


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("", "cannot be read"), ("[]", "expected a JSON object"), ("{}", "expected layers")],
)
def test_an_error_names_a_file_that_is_not_a_profile(
    tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=f"x.json: {complaint}"):
        perpacket.read_profile(file)


def test_the_example_notebook_runs_and_its_results_agree() -> None:
    app = runpy.run_path(str(TOUR))["app"]
    outputs, names = app.run()
    assert len(names["run"].to_polars()) == 4 * 2
    assert names["gain"] == pytest.approx(0.5)
    shown = [output for output in outputs if hasattr(output, "_repr_html_")]
    assert any(isinstance(output, StudyRun) for output in shown)


def test_public_names_are_loaded_at_their_first_use() -> None:
    import subprocess
    import sys

    code = (
        "import sys, perpacket\n"
        "from perpacket import simulate, run_study, open_run, compare, read_profile\n"
        "heavy = {'altair', 'polars', 'jinja2', 'vl_convert', 'numpy'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert dir(perpacket) == sorted(perpacket.__all__)
    assert all(getattr(perpacket, name) for name in perpacket.__all__)


def test_an_idle_profile_has_no_gain() -> None:
    layers = {"idle": {"share": 1.0, "cpu_ns_per_packet": None}}
    shown = MeasuredProfile(ProfileDocument.parse({"layers": layers}), "idle.json")._repr_html_()
    assert "the gain by offload is at most 0 %" in shown
