"""The time of other programs is neither the server's cost nor the kernel's."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from perpacket.errors import RunFailed
from perpacket_lab.analysis.doubts import disturbance, disturbed
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.offload import network_shares
from perpacket_lab.measure.plan import validated
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.measure.web.web_summary import RunReports, summarize
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.run.observation_file import RunObservation, to_row
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import QUANTITIES
from test_measurement import FILE

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from from_code import kept_runs  # noqa: E402

POINT = Point("web", "file", {})

SHARES = {"user": 0.1, "tcp": 0.2, "driver": 0.1, "other": 0.6}
"""The layer `other` has 0.5 of other programs and 0.1 of the kernel: the server's own busy time is
half of the busy time, and a fifth of it is the server's user code."""

RESULT = {
    "layers": {
        name: {"share": share, "low": 0.0, "high": 1.0, "cpu_ns_per_segment": 1000 * share}
        for name, share in SHARES.items()
    },
    "categories": {"other_programs": {"share": 0.5}, "server_program": {"share": 0.05}},
    "parts": {
        "perl": {"share": 0.1},
        "other programs": {"share": 0.0},
        "kernel": {"share": 0.6},
        "network": {"share": 0.2},
    },
    "server_idle": 0.2,
}


def row(result: dict[str, object]) -> dict[str, object]:
    return to_row(POINT, RunObservation("web", 1, result, {}))


@pytest.mark.parametrize(
    ("name", "percent"),
    [
        ("cpu_share.kernel", 80),
        ("cpu_share.network", 40),
        ("cpu_share.network and driver", 60),
        ("cpu_share.server", 10),
        ("cpu_share.perl", 20),
        ("cpu_share.idle", 20),
        ("busy_share.Stack", 60),
        ("busy_share.Other", 20),
        ("offload_gain", 150),
    ],
)
def test_shares_are_of_the_servers_own_busy_time(name: str, percent: float) -> None:
    assert QUANTITIES[name].value(row(RESULT)) == pytest.approx(percent)


def test_the_layer_and_the_part_of_other_programs_are_their_own() -> None:
    found = row(RESULT)
    assert found["layers.other.share"] == pytest.approx(0.1)
    assert found["layers.other.cpu_ns_per_segment"] == pytest.approx(100)
    assert found["layers.other_programs.share"] == 0.5
    assert found["parts.kernel.share"] == pytest.approx(0.1)
    assert found["parts.other programs.share"] == 0.5
    router = row(RESULT | {"router_user": 0.5})
    assert router["layers.other.share"] == pytest.approx(0.6)
    shares = network_shares(Estimates({"web": {1: found}}))
    assert shares["web"].value == pytest.approx(0.6)


def test_the_parts_of_a_profile_have_other_programs_apart_from_the_kernel() -> None:
    profile = {
        "window_s": 1.0,
        "packets": {"sent": 100, "received": 100},
        "layers": {name: {"share": share, "cpu_s": share} for name, share in SHARES.items()},
        "categories": {"other_programs": {"share": 0.5}},
        "parts": {"costs": {"perl": {"share": 0.1}}},
        "lost": 0,
    }
    load = {"requests": 10, "requests_per_s": 10.0, "content_mbps": 1.0}
    reports = RunReports(profile, [load], None, None, 0.0, 0.5)
    parts = summarize(validated(WebPlan, FILE), reports)["parts"]
    assert isinstance(parts, dict)
    assert {name: part["share"] for name, part in parts.items()} == pytest.approx(
        {"perl": 0.1, "other programs": 0.5, "kernel": 0.1, "network": 0.2, "driver": 0.1}
    )
    assert row({"layers": {}, "parts": parts})["parts.kernel.share"] == pytest.approx(0.1)


def test_a_point_is_disturbed_if_others_had_over_5_percent_of_all_processor_time() -> None:
    busy = row(RESULT)
    idle = row(RESULT | {"server_idle": 0.95})
    assert disturbed({"busy": {1: busy}, "idle": {1: idle}}) == {"busy": pytest.approx(40)}
    assert disturbance({"busy": {1: busy}, "idle": {1: idle}}).startswith(
        "Other programs used 40 % of the server's processors at 1 of 2 points"
    )
    assert disturbance({"idle": {1: idle}}) == ""


def disturb(run: RunDirectory, points: Collection[str]) -> None:
    """Give another program a third of the time at some points of a run."""
    for file in (run.path / "observations").glob("*.json"):
        content = json.loads(file.read_text())
        if content["point"] in points:
            content["result"]["categories"] = {"other_programs": {"share": 0.33}}
            content["result"].setdefault("layers", {})["other"] = {"share": 0.4}
            content["result"]["server_idle"] = 0.1
            file.write_text(json.dumps(content))


def test_disturbed_points_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a copy of the kept run of double buffering."""
    run = kept_runs.unpacked(kept_runs.RUNS / "double-buffer.tar.xz", tmp_path / "run")
    monkeypatch.setattr(kept_runs, "RUNS", tmp_path / "kept")
    names = [point.name for point in run.configuration.points]
    disturb(run, names[:1])
    kept = kept_runs.analysis_of(kept_runs.unpacked(kept_runs.keep(run), tmp_path / "again"))
    assert set(kept.estimates.rows) == set(names[1:])
    (remark,) = kept_runs.without_points(kept)
    assert remark.endswith(f"processors: {names[0]}")
    assert not kept_runs.reasons_against(kept)
    disturb(run, names)
    with pytest.raises(RunFailed, match="not kept: Other programs used 30 % of the server's"):
        kept_runs.keep(run)
