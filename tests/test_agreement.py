"""Equal methods agree, different ones differ, and points that cannot be measured are omitted.

No server and no simulator is needed: the invented runs follow the models' equations, or depart from
them by a known amount.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from perpacket.analysis.claim import Verdict
from perpacket.cli import app
from perpacket.errors import MachineLacks
from perpacket_lab.analysis.agreement import emulated_scenario as emulated_agreement
from perpacket_lab.analysis.agreement.handoff_gain import INPUT_CONNECTIONS
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.analysis.methods import (
    AGREEING,
    MethodComparison,
    Methods,
    MethodValue,
    compare,
)
from perpacket_lab.emulate.runner import plan_of
from perpacket_lab.measure.plan import parameters_of, validated
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.models import handoff
from perpacket_lab.run import configuration_file, start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.show.result_tables import method_verdict_text
from perpacket_lab.study import library
from perpacket_lab.study.lengths import LENGTHS, Length
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import Divided, RunOutcome, SetupDescription
from perpacket_lab.study.study import Study

SEEDS = (1, 2, 3)
COSTS = handoff.Costs(40e-6, 15e-6, 15e-6, 30e-6)
ON_NIC = {0: 0.0, 512: 0.2, 1024: 0.4, 4096: 0.9}
"""The share of the work that the NIC does, by its number of connections."""

GROWTH = 1.1
"""The cost of a simulated request at many connections over its cost at few."""


def numbers(point: Point) -> tuple[str, int, int, int]:
    """The question, the size, the connections, and the connections on the NIC."""
    size, connections, on_nic = (
        int(point.factors[name]) for name in ("size_bytes", "connections", "nic_connections")
    )
    return str(point.factors["question"]), size, connections, on_nic


def jittered(value: float, seed: int) -> float:
    """The value with a deviation of some per cent that depends on the seed."""
    return value * (1 + seed / 100)


def measured(point: Point, seed: int) -> dict[str, object]:
    """A server whose cost is linear in the segments, half busy with 4 connections."""
    question, size, connections, _ = numbers(point)
    segments = 6 + 2 * -(-size // 1460)
    stack, whole = 1000 + 500 * segments, 3000 + 800 * segments
    busy = min(1.0, connections / 8) if question == "connections" else 1.0
    rate = jittered(2000 * busy, seed)
    layers = {"tcp": stack, "user": (whole - stack) / 4, "interrupt": 3 * (whole - stack) / 4}
    return {
        "requests_per_s": rate,
        "server_idle": 1 - busy,
        "client_idle": 0.5,
        "window_s": 2.0,
        "profiled_requests": 2.0 * rate,
        "segments_per_s": rate * segments,
        "segments_per_packet": 1.0,
        "layers": {
            name: {"cpu_ns_per_segment": jittered(cost / segments, seed)}
            for name, cost in layers.items()
        },
        "doubts": {"client_limited": seed == 2 and size == 509},
    }


def simulated(point: Point, seed: int) -> dict[str, object]:
    """A host that follows the handoff model; its requests cost more with more connections."""
    question, _, connections, on_nic = numbers(point)
    rate = jittered(
        20_000 / (GROWTH if connections > 64 and question == "connections" else 1), seed
    )
    host_idle = nic_idle = share = 0.0
    if question == "handoff":
        share = ON_NIC[on_nic]
        rate = float(handoff.throughput(COSTS, share))
        host_idle = 1 - rate * (COSTS.host_s - share * COSTS.saved_s)
        nic_idle = 1 - rate * (COSTS.nic_host_s + share * COSTS.nic_extra_s)
    cycles = {"tcp": 1500.0, "ip": 500.0, "driver": 1000.0, "user": 1000.0, "syscall": 1000.0}
    instructions = {name: cost / 2 for name, cost in cycles.items()} | {"tcp": 1750.0}
    return {
        "requests_per_s": rate,
        "packets_per_s": 14 * rate,
        "host_idle": host_idle,
        "nic_idle": nic_idle,
        "nic_packet_share": share,
        "drops": 7,
        "layers": {
            name: {
                "cycles_per_packet": jittered(cost, seed),
                "instructions_per_packet": jittered(instructions[name], seed),
            }
            for name, cost in cycles.items()
        },
    }


def emulated(point: Point, seed: int) -> dict[str, object]:
    """A kernel with half of its instructions in the stack, two in five of them in TCP."""
    instructions = {
        "tcp": 2000.0,
        "ip": 1500.0,
        "driver": 1500.0,
        "user": 2000.0,
        "syscall": 3000.0,
    }
    return {
        "layers": {
            name: {"instructions_per_packet": jittered(cost, seed)}
            for name, cost in instructions.items()
        }
    }


WAYS = {"measured": measured, "simulated": simulated, "emulated": emulated}


@dataclass
class Invented:
    """A run of one method: measured, simulated or emulated."""

    point: Point
    seed: int
    log: list[str]

    def run(self) -> RunOutcome:
        way = str(self.point.factors["way"])
        self.log.append(way)
        return RunOutcome(WAYS[way](self.point, self.seed))

    def progress(self) -> tuple[int, int]:
        return 0, 1000

    def cancel(self) -> None:
        """Do nothing, because the run takes no time."""


@dataclass
class Runner:
    """Prepares runs, and can set up a testbed."""

    log: list[str] = field(default_factory=list)
    lack: str = ""
    way: str = "measured"

    @property
    def parameters(self) -> frozenset[str]:
        return parameters_of(WebPlan)

    def prepare(self, point: Point, seed: int, timeline: bool) -> Invented:
        return Invented(point, seed, self.log)

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        assert {point.factors["way"] for point in points} == {self.way}
        if self.lack:
            raise MachineLacks(self.lack)
        yield SetupDescription({self.way: "here"}, {"limits": [f"limit of {self.way}"]})


def invented(runner: Runner, *only: str, lack: str = "") -> Study:
    """The study with invented runs; `lack` is what the emulator lacks."""
    emulator = Runner(runner.log, lack, "emulated")
    study = library.find("agreement", only=only)
    emulated = {point.name for point in study.points if point.factors["way"] == "emulated"}
    divided = Divided(runner, emulator, frozenset(emulated))
    return replace(study, runner=runner, measured_runner=divided)


def by_pair(contrasts: list[MethodComparison]) -> dict[tuple[str, str, str], MethodComparison]:
    """The comparisons by scenario and methods."""
    return {
        (row.subject, row.detail.first.method, row.detail.second.method): row for row in contrasts
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return start.run(invented(Runner()), tmp_path_factory.mktemp("a") / "run", seeds=SEEDS)


@pytest.fixture(scope="module")
def contrasts(run: RunDirectory) -> dict[tuple[str, str, str], MethodComparison]:
    return by_pair(list(analyze(run.study(), run).methods))


def test_a_method_that_follows_a_model_agrees_with_it(
    contrasts: Mapping[tuple[str, str, str], MethodComparison],
) -> None:
    for pair in (
        ("files of 4,096 B", "measured", "line through two sizes, measured"),
        ("64 connections", "measured", "bound by the server, measured"),
        ("512 connections", "measured", "bound by the server, measured"),
        ("1,024 connections on the NIC", "simulated", "partial handoff"),
        ("4,096 connections on the NIC", "simulated", "partial handoff"),
    ):
        row = contrasts[pair]
        assert row.verdict in AGREEING, pair
        assert row.value is not None
        assert row.value.value == pytest.approx(0, abs=1e-9)
        assert not row.remark
    half_busy = contrasts["64 connections", "measured", "bound by the server, measured"]
    assert half_busy.detail.second.interval is not None
    assert half_busy.detail.second.interval.value == pytest.approx(200)


def test_a_method_that_departs_from_a_model_differs_by_that_amount_with_the_violated_assumption(
    contrasts: Mapping[tuple[str, str, str], MethodComparison],
) -> None:
    row = contrasts["512 connections", "simulated", "bound by the server, simulated"]
    assert row.verdict.is_shown
    assert row.value is not None
    assert row.value.value == pytest.approx(100 - 100 / GROWTH)
    assert method_verdict_text(row) == "differ by +9.1 points"
    assert "it changes by +10.0 % at 512" in row.remark

    row = contrasts["4,096 connections on the NIC", "simulated", "LAWS"]
    # gamma = 2/3 of a stack share of 0.6; 30 us of the NIC for 24 us of the host.
    gained = min(1 / (1 - 0.9 * 0.6), 1 / (0.6 * 0.9 * 30 / 24)) - 1
    assert row.detail.second.interval is not None
    assert row.detail.second.interval.value == pytest.approx(100 * gained)
    assert row.verdict.is_shown
    assert "drops 7 packets" in row.remark

    row = contrasts["files of 509 B", "measured", "simulated"]
    assert row.verdict.is_shown
    assert row.remark.startswith("that only the server and its stack use the processor")
    assert any("the clients were nearly busy" in warning for warning in row.detail.warnings)


def test_the_inputs_of_a_model_are_not_compared_with_it(
    contrasts: Mapping[tuple[str, str, str], MethodComparison],
) -> None:
    inputs = f"{INPUT_CONNECTIONS} connections on the NIC"
    assert (inputs, "simulated", "LAWS") in contrasts
    assert (inputs, "simulated", "partial handoff") not in contrasts
    ends = [pair for pair in contrasts if pair[2].startswith("line") and "4,096" not in pair[0]]
    assert ends == []


def test_simulations_run_before_anything_is_measured(tmp_path: Path) -> None:
    runner = Runner()
    study = invented(runner, "share")
    start.run(study, tmp_path / "run", seeds=SEEDS)
    assert runner.log[:9] == ["simulated"] * 9
    assert sorted(runner.log[9:]) == ["emulated"] * 9 + ["measured"] * 9


def test_an_emulation_is_compared_with_shares_of_time_and_of_simulated_instructions(
    contrasts: Mapping[tuple[str, str, str], MethodComparison],
) -> None:
    files = "files of 4,096 B"
    stack = contrasts[files, "simulated instructions", "emulated"]
    assert stack.detail.first.interval is not None
    assert stack.detail.first.interval.value == pytest.approx(100 * 2500 / 3500)
    assert stack.detail.second.interval is not None
    assert stack.detail.second.interval.value == pytest.approx(50)
    assert stack.verdict.is_shown
    assert stack.remark == (
        "that a kernel of 2003 divides its instructions as today's: "
        "TCP: 50 % simulated, 20 % emulated"
    )
    layer = contrasts[f"TCP, {files}", "measured", "emulated"]
    segments = 6 + 2 * 3
    share = 100 * (1000 + 500 * segments) / (3000 + 800 * segments)
    assert layer.value is not None
    assert layer.value.value == pytest.approx(20 - share)
    assert layer.detail.question == "layers"
    assert "an instruction takes the same time in every layer" in layer.remark


def test_misses_that_a_processor_counts_are_compared_with_those_of_modelled_caches() -> None:
    def row(way: str, seed: int, counts: dict[str, float | None]) -> dict[str, object]:
        return {"way": way, "point": way} | {
            f"layers.{layer}.{key}": None if count is None else jittered(count, seed)
            for layer in ("tcp", "user")
            for key, count in counts.items()
        }

    counted: dict[str, float | None] = {
        "l1d_misses_per_packet": 10.0,
        "llc_misses_per_packet": None,
    }
    modelled: dict[str, float | None] = {
        "l1d_misses_per_packet": 15.0,
        "l1i_misses_per_packet": 40.0,
        "l2_misses_per_packet": 2.0,
    }
    rows = {
        "here": {seed: row("measured", seed, counted) for seed in SEEDS},
        "there": {seed: row("emulated", seed, modelled) for seed in SEEDS},
    }
    names = {"measured": {509: "here"}, "emulated": {509: "there", 4096: "absent"}}
    (found,) = emulated_agreement.compare_misses(rows, names)
    assert found.subject == "L1 data cache, files of 509 B"
    assert found.detail.first.interval is not None
    assert found.detail.first.interval.value == pytest.approx(100)
    assert found.value is not None
    assert found.value.value == pytest.approx(50, abs=0.1)
    assert found.verdict.is_shown
    assert found.remark.endswith("20.4 misses per packet measured, 30.6 emulated")


def test_without_an_emulated_machine_all_else_runs_and_the_note_has_the_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = Runner()
    study = invented(runner, "share", lack="no emulated machine is prepared")
    directory = start.run(study, tmp_path / "run", seeds=SEEDS)
    assert set(runner.log) == {"simulated", "measured"}
    assert directory.missing() == []
    rows = by_pair(list(analyze(directory.study(), directory).methods))
    assert not [pair for pair in rows if "emulated" in pair]
    assert start.resume(study, directory) == 0
    assert app.run(["study", "report", str(directory.path)]) == 0
    assert "no emulated machine is prepared" in capfd.readouterr().err


def test_without_any_machine_a_study_that_only_measures_and_emulates_names_the_first_reason() -> (
    None
):
    points = library.find("agreement", only=("share",)).points
    first, second = Runner(lack="perf is forbidden"), Runner(lack="no QEMU", way="emulated")
    named = frozenset(point.name for point in points if point.factors["way"] == "emulated")
    some = tuple(point for point in points if point.factors["way"] != "simulated")
    with (
        pytest.raises(MachineLacks, match="perf is forbidden"),
        Divided(first, second, named).set_up(some),
    ):
        pass
    with Divided(Runner(), second, named).set_up(some) as setup:
        assert setup.identity == {"measured": "here"}
        assert set(setup.left_out) == named
    with Divided(Runner(), Runner(way="emulated"), named).set_up(some) as setup:
        assert setup.identity == {"measured": "here", "emulated": "here"}
        assert setup.facts == {"limits": ["limit of measured", "limit of emulated"]}


def test_without_measurement_the_simulations_run_and_the_note_has_the_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = Runner(lack="perf is forbidden")
    directory = start.run(invented(runner, lack="no QEMU"), tmp_path / "run", seeds=SEEDS)
    assert set(runner.log) == {"simulated"}
    assert directory.missing() == []
    study = directory.study()
    rows = by_pair(list(analyze(study, directory).methods))
    assert rows["files of 509 B", "measured", "simulated"].verdict is Verdict.NO_VALUE
    assert rows["4,096 connections on the NIC", "simulated", "LAWS"].verdict.is_shown
    assert start.resume(replace(study, runner=runner, measured_runner=runner), directory) == 0
    assert app.run(["study", "report", str(directory.path)]) == 0
    out, err = capfd.readouterr()
    assert "left out" in out
    assert "perf is forbidden" in err


def test_resume_runs_missing_points_of_both_kinds(tmp_path: Path) -> None:
    runner = Runner()
    study = invented(runner, "connections")
    directory = start.run(study, tmp_path / "run", seeds=SEEDS)
    for point in (study.points[0], study.points[-1]):
        directory.observation_path(point.name, 2).unlink()
    runner.log = []
    assert start.resume(study, directory) == 2
    assert runner.log == ["simulated", "measured"]


def test_each_kind_of_point_accepts_its_own_parameters() -> None:
    study = library.find("agreement")
    given = (("run.duration_s", "1"), ("run.packets", "5000"), ("nic.lowat", "128"))
    for point in configuration_file.resolve(study, "1", (), given).points:
        parameters = dict(point.overrides)
        if point.factors["way"] == "measured":
            assert validated(WebPlan, point).duration_s == 1
            assert "run.packets" not in parameters
        elif point.factors["way"] == "emulated":
            assert not plan_of(point).keep_alive
            assert not {"run.packets", "run.duration_s", "nic.lowat"} & parameters.keys()
        else:
            assert (parameters["run.packets"], parameters["nic.lowat"]) == ("5000", "128")
            assert "run.duration_s" not in parameters


@pytest.mark.parametrize("length", LENGTHS)
def test_an_opened_run_has_its_length_and_experiments(length: Length) -> None:
    study = library.find("agreement", length, only=("share", "handoff"))
    found = configuration_file.study_of(
        configuration_file.resolve(study, "1", (1,), (("run.packets", "9"),))
    )
    assert found.points == study.points
    assert found.command.endswith("--only share,handoff")
    assert found.simulated == study.simulated


def test_the_default_length_measures_for_four_minutes_at_most() -> None:
    study = library.find("agreement")
    points = [point for point in study.points if point.factors["way"] == "measured"]
    assert sum(validated(WebPlan, point).expected_s for point in points) * len(study.seeds) <= 240


def test_the_verb_and_the_page_show_the_comparisons_of_methods(
    run: RunDirectory, capfd: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["study", "report", str(run.path), "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["comparisons"] == []
    laws = [row for row in found["contrasts"] if row["second"]["way"] == "LAWS"]
    assert len(laws) == 3
    assert set(laws[0]["difference"]) == {"value", "low", "high", "n", "confidence"}
    page = (run.path / "report.html").read_text()
    assert "How far the methods agree" in page
    assert page.count("<svg") == 2 * page.count('<figure id="figure-') == 6
    assert "LAWS over simulated" in page
    assert "perpacket study run agreement --replications 3" in page


def test_verdicts_follow_from_the_intervals() -> None:
    def verdict(first: list[float], second: list[float], runs: str = "b") -> Verdict:
        sides = [
            MethodValue(name, name, dict(enumerate(values)))
            for name, values in (("a", first), (runs, second))
        ]
        return compare("t", "s", Methods("q", 1.0, sides[0], sides[1], "why")).verdict

    assert verdict([10, 11, 12], [10.5, 11, 11.5]) in AGREEING
    assert verdict([10, 11, 12], [20, 21, 22]).is_shown
    assert verdict([10, 60, 90], [10, 11, 12]) is Verdict.TOO_WIDE
    assert verdict([10], [20]) is Verdict.NO_INTERVAL
    assert verdict([10, 11], []) is Verdict.NO_VALUE
    # Methods with the same runs are paired: a small constant difference counts.
    assert verdict([10, 50, 90], [11, 51.01, 91], runs="a").is_shown
