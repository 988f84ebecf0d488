"""The study `what-if`: its pairs, its choice of the best, its output, and a known cost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest

from patience import PATIENCE_S
from perpacket.advise import catalogue, journal
from perpacket.analysis.claim import Verdict
from perpacket.errors import ConfigurationError, MachineLacks
from perpacket_lab import what_if
from perpacket_lab.analysis import tried_changes
from perpacket_lab.analysis.agreement import change_ratios
from perpacket_lab.analysis.analysis import Analysis, analyze
from perpacket_lab.emulate import runner as emulated
from perpacket_lab.measure import hosts
from perpacket_lab.measure.plan import validated
from perpacket_lab.measure.web import peers, web_programs
from perpacket_lab.run import start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.show import html, terminal
from perpacket_lab.show import json as json_documents
from perpacket_lab.show.charts import ratios
from perpacket_lab.study import library, load
from perpacket_lab.study.lengths import LENGTHS, Length
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import RunOutcome, SetupDescription
from perpacket_lab.study.study import Study
from perpacket_lab.what_if import WhatIfPlan
from probes import need
from test_printed_keys import undocumented

COSTS = {"nft-rules=200": 1.4, "access-log=off": 0.8, "open-file-cache=on": 0.9, "tso=off": 1.1}
"""The effect of each change in the invented runs. Other changes have no effect."""


@dataclass
class InventedRun:
    """A run with the costs of `COSTS`. Its block makes all points slower by one factor."""

    runner: InventedRunner
    point: Point
    seed: int

    def run(self) -> RunOutcome:
        self.runner.ran.append((self.point.name, self.seed))
        plan = validated(WhatIfPlan, self.point)
        applied = what_if.split(plan.changes)
        if plan.changes == tried_changes.BEST:
            applied = self.runner.chosen[self.point.name]
        # Blocks differ by far more than changes do; two runs of a block differ a little.
        cost = 40.0 * 2**self.seed * (1 + 0.001 * ((self.seed * 7 + len(self.point.name)) % 5))
        for text in applied:
            cost *= COSTS.get(text, 1.0)
        unit = "request" if plan.is_web else "KiB"
        layers = {
            "tcp": {"cpu_us_per_unit": 0.75 * cost},
            "user": {"cpu_us_per_unit": 0.25 * cost},
        }
        found: dict[str, object] = {
            "changes": what_if.SEPARATOR.join(applied),
            "cost": {"unit": unit, "cpu_us_per_unit": cost, "cpu_ns_per_packet": 500 * cost},
            "layers": layers,
        }
        return RunOutcome(found)

    def progress(self) -> tuple[int, int]:
        return 0, 1000

    def cancel(self) -> None:
        """Nothing waits."""


class InventedRunner:
    """The runner of the study without machines; the choice of the best is the real one."""

    parameters: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.ran: list[tuple[str, int]] = []
        self.chosen: dict[str, tuple[str, ...]] = {}

    def prepare(self, point: Point, seed: int, timeline: bool) -> InventedRun:
        return InventedRun(self, point, seed)

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        plans = {point.name: validated(WhatIfPlan, point) for point in points}
        yield SetupDescription({}, second_stage=what_if.second_stage(points, plans, self.chosen))


def invented(length: Length = "quick") -> tuple[Study, InventedRunner]:
    """The study with that runner."""
    runner = InventedRunner()
    return replace(library.find("what-if", length), measured_runner=runner), runner


@pytest.fixture(name="made", scope="module")
def made_fixture(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A finished run of the quick length."""
    study, _ = invented()
    return start.run(study, tmp_path_factory.mktemp("what-if") / "run")


@pytest.fixture(name="found")
def found_fixture(made: RunDirectory) -> Analysis:
    """The analysis of that run."""
    return analyze(invented()[0], made)


@pytest.mark.parametrize("length", LENGTHS)
def test_every_change_of_the_study_is_in_the_catalogue_and_has_a_run_without_it(
    length: Length,
) -> None:
    points = {point.name: point for point in library.find("what-if", length).points}
    for point in points.values():
        plan = validated(WhatIfPlan, point)
        if plan.changes == tried_changes.BEST or not what_if.split(plan.changes):
            continue
        for text in what_if.split(plan.changes):
            change = catalogue.find(text)[0]
            assert change.action == "try"
            assert change.setting is not None or what_if.option_of(text, plan) is not None, text
        without = points[str(point.against)]
        assert validated(WhatIfPlan, without) == plan.unchanged


def test_a_change_is_paired_with_the_unchanged_run_of_its_block(found: Analysis) -> None:
    rows = {row.detail.point.name: row for one in found.changes for row in one.rows}
    known = rows["bulk-nft-rules=200"]
    assert known.interval.contains(COSTS["nft-rules=200"])
    # The blocks differ by a factor of 128, the ratios do not.
    assert known.interval.high / known.interval.low < 1.02
    assert known.verdict == Verdict.HIGHER
    assert rows["bulk-nothing"].verdict == Verdict.NOT_DISTINGUISHABLE
    assert rows["nginx-612-access-log=off"].verdict == Verdict.LOWER
    assert [layer for layer, _ in rows["nginx-612-access-log=off"].detail.layers] == []
    assert known.unit == "KiB"


def test_the_intervals_of_a_load_are_corrected_for_the_number_of_its_changes(
    found: Analysis,
) -> None:
    alone = next(one for one in found.changes if one.figure.series and len(one.rows) > 1)
    row = alone.rows[0]
    own = found.estimates.ratio(
        row.detail.point.name, str(row.detail.point.against), alone.figure.y
    )
    assert own is not None
    assert row.interval.low < own.low < own.high < row.interval.high
    assert row.interval.confidence == pytest.approx(1 - 0.05 / len(alone.rows))


def test_the_best_are_chosen_from_the_run_and_measured_after_all_others(tmp_path: Path) -> None:
    study, runner = invented()
    directory = start.run(study, tmp_path / "run")
    later = [name.endswith(("-best", "-beside")) for name, _ in runner.ran]
    assert later == sorted(later)
    assert sum(later) == 2 * len(study.seeds)
    assert runner.chosen == {"nginx-612-best": ("access-log=off", "open-file-cache=on")}
    (together,) = tried_changes.change_sets(study, analyze(study, directory).estimates)[0].rows
    assert together.detail.applied == ("access-log=off", "open-file-cache=on")
    assert together.interval.contains(0.8 * 0.9)


def test_a_resumed_study_keeps_the_choice_of_its_earlier_runs(tmp_path: Path) -> None:
    study, _ = invented()
    directory = start.run(study, tmp_path / "run")
    directory.observation_path("nginx-612-best", study.seeds[-1]).unlink()
    # A run of a single change that is missing could change the choice.
    directory.observation_path("nginx-612-open-file-cache=on", study.seeds[0]).unlink()
    again, runner = invented()
    COSTS["open-file-cache=on"] = 3.0
    try:
        start.resume(again, directory)
    finally:
        COSTS["open-file-cache=on"] = 0.9
    assert runner.chosen["nginx-612-best"] == ("access-log=off", "open-file-cache=on")


def test_the_cheapest_three_are_chosen_with_one_value_of_each_change() -> None:
    points, plans = [], {}
    rows: dict[str, dict[int, Mapping[str, object]]] = {}
    ratios = {
        "": 1.0, "batch=50us": 0.7, "batch=100us": 0.6, "tso=off": 0.9, "gro=on": 0.8,
        "quickack=1": 0.95, "mtu=9000": 1.2, "nothing": 0.5,
    }  # fmt: skip
    scenario = {"load.kind": "file", "load.size_bytes": "612"}
    for text, ratio in {**ratios, "best": 1.0}.items():
        overrides = tuple({**scenario, "trial.changes": text}.items())
        against = "unchanged" if text else None
        point = Point(text or "unchanged", "file", {}, overrides, against)
        points.append(point)
        plans[point.name] = validated(WhatIfPlan, point)
        if text != "best":
            rows[point.name] = {
                seed: {what_if.COST: seed * ratio * (1 + 0.001 * seed)} for seed in range(1, 9)
            }
    chosen = what_if.choices(points, plans, frozenset({"best"}), rows)
    assert chosen == {"best": ("batch=100us", "gro=on", "tso=off")}
    with pytest.raises(ConfigurationError, match="no change was measured under its load"):
        what_if.choices(points, plans, frozenset({"best"}), {})


def test_the_user_code_of_other_programs_is_not_a_cost_and_requests_are_of_the_window() -> None:
    layers = {"tcp": {"cpu_ns_per_segment": 1000.0}, "other": {"cpu_ns_per_segment": 3000.0}}
    result = {
        "window_s": 2.0, "segments_per_s": 500.0, "packets_per_s": 400.0, "layers": layers,
        "categories": {"other_programs": {"cpu_s": 0.002}},
    }  # fmt: skip
    frames = 500
    profile = {
        "bytes": {"sent": 1000.0 * 100 + what_if.HEADER_BYTES * frames},
        "packets": {"sent": frames},
    }
    # A response has 200 bytes: 500 requests in the window. The load's own window does not matter.
    found = what_if.costs(result, profile, [{"requests": 40.0, "bytes": 8000.0}])
    assert found["cost"] == {
        "unit": "request",
        "cpu_us_per_unit": pytest.approx(2.0 + 6.0 - 4.0),
        "packets_per_unit": pytest.approx(1.6),
        "cpu_ns_per_packet": pytest.approx(2500.0),
    }
    bulk = what_if.costs(result, profile, [{"segments": 3.0}])["cost"]
    assert isinstance(bulk, dict)
    assert (bulk["unit"], bulk["packets_per_unit"]) == ("KiB", pytest.approx(800 / (1e5 / 1024)))


def test_the_terminal_the_document_and_the_page_have_every_ratio(
    found: Analysis, tmp_path: Path
) -> None:
    matrix, together = terminal.tables_of(found)
    text = {row[0]: row for row in matrix.texts()}
    assert matrix.columns == ("Change", "bulk sending", "612 B, nginx", "Published")
    assert text["nft-rules=200"][1].endswith(" dearer")
    assert text["nothing"][1].endswith(" not distinguishable")
    assert text["access-log=off"][2].endswith(" cheaper")
    assert "34 % [12, 52]" in text["nft-rules=200"][3]
    assert together.texts()[0][:2] == ["612 B, nginx", "access-log=off, open-file-cache=on"]
    document = json_documents.analysis(found, tmp_path / "report.html")
    assert not undocumented(document)
    rows = document["changes"]
    assert isinstance(rows, list)
    assert {row["point"] for row in rows} == {
        point.name for point in found.study.points if point.against is not None
    }
    page = html.write(found, tmp_path / "report.html").read_text()
    for name in ("access-log=off", "best together", "not distinguishable", "34 % [12, 52]"):
        assert name in page
    assert page.count("<svg") == 2 * len(found.study.figures)


def test_the_findings_report_what_pays_and_where_nothing_does(found: Analysis) -> None:
    subjects = [finding.subject for finding in found.findings.rows]
    values = [finding.value for finding in found.findings.rows]
    assert subjects[0].startswith("access-log=off and open-file-cache=on, 612 B, nginx")
    assert any("none is shown to save" in one and "bulk" in one for one in subjects)
    assert Verdict.NOT_DISTINGUISHABLE in values
    assert "not distinguishable from no change" in found.findings.lead


def test_a_wide_interval_does_not_hide_the_others() -> None:
    frame = pl.DataFrame(
        [
            {"name": "wide", "ratio": 3.0, "low": 0.01, "high": 900.0},
            {"name": "narrow", "ratio": 0.9, "low": 0.8, "high": 1.1},
        ],
        schema=ratios.SCHEMA,
    )
    low, high = ratios.ratios(frame, title="ratio").to_dict()["layer"][0]["encoding"]["x"]["scale"][
        "domain"
    ]
    assert 0 < low < 0.9
    assert 3.0 < high < 7.0


def test_directives_of_nginx_replace_those_of_the_template() -> None:
    text = peers.NGINX.format(
        workers=1, masks="1", descriptors=64, group="nogroup", folder="/f", address="a", port=80,
        root="/r",
    )  # fmt: skip
    options = "open_file_cache off; worker_processes 2; multi_accept on; access_log {folder}/log;"
    changed = peers.with_directives(text, options)
    assert "open_file_cache off;" in changed
    assert "max=10000" not in changed
    assert changed.startswith("worker_processes 2;")
    assert changed.count("worker_processes") == 1
    assert re.search(r"events \{\nmulti_accept on;", changed)
    assert peers.with_directives(text, "") == text


def test_options_of_serve_web_replace_ours() -> None:
    @dataclass
    class SomeHost:
        address: str = "10.0.0.1"
        cpus: tuple[int, ...] = (0,)

        def agent(self) -> str:
            return "agent"

    point = Point("p", "file", {}, (("load.kind", "file"), ("trial.changes", "")))
    plan = what_if.with_options(validated(WhatIfPlan, point), ["io-uring=on", "batch=100us"])
    command = web_programs.serve_web(SomeHost(), plan, "/r")  # type: ignore[arg-type]
    (options,) = json.loads(command[-1]).values()
    assert (options["architecture"], options["coalesce"]) == ("uring", "100us")


def test_a_host_without_a_namespace_has_no_setting_to_change() -> None:
    with hosts.loopback() as bed, pytest.raises(MachineLacks, match="no network namespace"):
        what_if.settings_of("tso=off", bed)


@pytest.mark.parametrize("length", LENGTHS)
def test_the_changes_of_the_emulated_way_are_possible_there(length: Length) -> None:
    study = library.find("what-if", length, only=("emulated",))
    refused = {}
    for point in study.points:
        try:
            emulated.changes_of(emulated.plan_of(point))
        except ConfigurationError as error:
            refused[point.name] = str(error)
    # An option of one server is none of the other, so the study leaves some points out.
    assert all("an emulated machine cannot have this change" in why for why in refused.values())
    assert len(refused) < len(study.points) / 2
    assert any(point.name.endswith("nft-rules=200") for point in study.points)


def test_a_change_that_was_measured_and_emulated_is_compared() -> None:
    rows: dict[str, dict[int, Mapping[str, object]]] = {}
    points = []
    for stage, column, ratio in (
        ("alone", "cost.cpu_us_per_unit", 1.30),
        ("emulated", "instructions_per_request", 1.31),
    ):
        for change, cost in (("unchanged", 1.0), ("nft-rules=200", ratio)):
            factors = {"stage": stage, "change": change, "load": "web"}
            name = f"{stage}-{change}"
            against = None if change == "unchanged" else f"{stage}-unchanged"
            points.append(Point(name, "file", factors, (), against))
            rows[name] = {
                seed: {column: seed * cost * (1 + 0.001 * (seed % 2))} for seed in range(1, 9)
            }
    (compared,) = change_ratios.compare(points, rows)
    assert compared.subject == "nft-rules=200, web"
    assert compared.interval.contains(1.0)
    assert compared.detail.first.interval is not None
    assert compared.detail.first.interval.contains(30.0)
    assert not change_ratios.compare(points[:2], rows)


STUDY = """
name = "known-cost"
kind = "measured"
runner = "what-if"
replications = {blocks}
[scenario]
"load.kind" = "file"
"load.connections" = 32
"load.size_bytes" = 612
"run.duration_s" = 0.4
"run.warmup_s" = 0.2
"profile.frequency_hz" = 1999
"trial.changes" = "{{change}}"
[[experiment]]
point = "plain"
levels = {{ change = "nothing" }}
[[experiment]]
point = "{{change}}"
against = "plain"
[experiment.factors]
change = ["nft-rules=200", "rx-usecs=50"]
[[figure]]
kind = "changes"
title = "A known cost"
x = "change"
y = "cost.cpu_us_per_unit"
"""


@pytest.fixture(name="live")
def live_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small study; skips without namespaces."""
    need("netns")
    monkeypatch.setenv("PERPACKET_JOURNAL", str(tmp_path / "journal"))
    return tmp_path


def command(*words: str) -> list[str]:
    """A command line of perpacket."""
    return [sys.executable, "-m", "perpacket.cli", "study", *words]


def test_a_change_is_applied_restored_and_listed_where_it_cannot_be(live: Path) -> None:
    (live / "study.toml").write_text(STUDY.format(blocks=1))
    words = command("run", str(live / "study.toml"), "--output", str(live / "run"))
    done = subprocess.run(
        [*words, "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert "left out: rx-usecs=50: rx-usecs=50" in done.stderr
    directory = RunDirectory.open(live / "run")
    assert {one.point: one.result["changes"] for one in directory.read_observations()} == {
        "plain": "",
        "nft-rules=200": "nft-rules=200",
    }
    assert not journal.path().exists()
    assert "changes" in json.loads(done.stdout)


def test_a_study_of_one_load_has_one_column(tmp_path: Path) -> None:
    text = STUDY.format(blocks=8).replace("rx-usecs=50", "tso=off")
    runner = InventedRunner()
    study = replace(load.build(text, Path("mine.toml")), measured_runner=runner)
    found = analyze(study, start.run(study, tmp_path / "run"))
    (table,) = terminal.tables_of(found)
    assert table.columns == ("Change", "ratio", "Published")
    assert [row[0] for row in table.texts()] == ["nft-rules=200", "tso=off"]
    assert found.findings.lead.startswith("2 trials of changes under 1 load: in 0 a unit")
    assert found.findings.rows[1].subject.startswith("nft-rules=200: processor time")


@pytest.mark.full
def test_a_known_cost_is_found(live: Path) -> None:
    (live / "study.toml").write_text(STUDY.format(blocks=12))
    words = command("run", str(live / "study.toml"), "--output", str(live / "run"), "--quiet")
    subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE_S)
    directory = RunDirectory.open(live / "run")
    (one,) = analyze(directory.study(), directory).changes[0].rows
    # Other programs may hide it in the sum, but not in the layer where it is.
    shifts = dict(one.detail.layers)
    assert shifts["ip"].low > 0
    assert one.verdict != Verdict.LOWER


@pytest.mark.full
def test_a_killed_study_is_undone_and_resumes(live: Path) -> None:
    (live / "study.toml").write_text(STUDY.format(blocks=4))
    words = command("run", str(live / "study.toml"), "--output", str(live / "run"), "--quiet")
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until_s = time.monotonic() + PATIENCE_S
    wanted = live / "run" / "observations"
    while time.monotonic() < until_s and len(list(wanted.glob("*.json"))) < 3:
        assert process.poll() is None
        time.sleep(0.05)
    assert journal.path().exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    while time.monotonic() < until_s and journal.path().exists():
        time.sleep(0.05)
    assert not journal.path().exists(), "the guardian restores the settings"
    subprocess.run(
        command("resume", str(live / "run"), "--quiet"),
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert not RunDirectory.open(live / "run").missing()
    assert not journal.path().exists()
