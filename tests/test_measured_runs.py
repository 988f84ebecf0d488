"""Measured runs execute one by one in random order within blocks, and resume after a stop.

No server is needed: the runner of these tests invents its numbers, fails or waits.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from patience import PATIENCE_S
from perpacket.errors import ConfigurationError, Interrupted, MachineLacks, RunFailed
from perpacket_lab.run import configuration_file, measured_runs, start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.run.progress import Progress
from perpacket_lab.study import stopping
from perpacket_lab.study.point import Point
from perpacket_lab.study.published import Published
from perpacket_lab.study.runner_interfaces import RunOutcome, SetupDescription
from perpacket_lab.study.stopping import Stopping
from perpacket_lab.study.study import Study

POINTS = tuple(
    Point(f"web-{connections}c", "web", {"connections": connections})
    for connections in (1, 4, 16, 64, 256, 1024)
)
SEEDS = (1, 2, 3)


@dataclass
class FakeRun:
    """A run that calls the runner's `body` and counts itself."""

    runner: FakeMeasuredRunner
    point: Point
    seed: int

    def run(self) -> RunOutcome:
        self.runner.running += 1
        assert self.runner.is_set_up
        assert self.runner.running == 1, "two measured runs at once measure each other"
        assert threading.current_thread() is threading.main_thread()
        self.runner.ran.append((self.point.name, self.seed))
        try:
            self.runner.body(self.point, self.seed)
        finally:
            self.runner.running -= 1
        return RunOutcome({"requests_per_s": 100.0 * self.seed}, raw={"profile": {"samples": 7}})

    def progress(self) -> tuple[int, int]:
        return 0, 1000

    def cancel(self) -> None:
        """Do nothing, because the run takes no time."""


@dataclass
class FakeMeasuredRunner:
    """A runner without machines; the test sets its `setup` and its `body`."""

    body: Callable[[Point, int], None] = lambda point, seed: None
    setup: SetupDescription = field(default_factory=lambda: SetupDescription({"network": "veth"}))
    ran: list[tuple[str, int]] = field(default_factory=list)
    running: int = 0
    is_set_up: bool = False

    @property
    def parameters(self) -> frozenset[str]:
        return frozenset()

    def prepare(self, point: Point, seed: int, timeline: bool) -> FakeRun:
        if "wrong" in dict(point.overrides):
            raise ConfigurationError(f"point {point.name}: wrong = 1 cannot be used")
        return FakeRun(self, point, seed)

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        self.is_set_up = True
        try:
            yield self.setup
        finally:
            self.is_set_up = False


def make_study(runner: FakeMeasuredRunner) -> Study:
    return Study("fake", "A study", "What?", POINTS, SEEDS, runner=runner, measured_runner=runner)


def run(runner: FakeMeasuredRunner, path: Path) -> RunDirectory:
    return start.run(make_study(runner), path)


def blocks(ran: list[tuple[str, int]]) -> list[list[str]]:
    """The points of each block in the order in which they ran."""
    return [[name for name, seed in ran if seed == block] for block in SEEDS]


def test_every_block_has_every_point_once_in_its_own_order(tmp_path: Path) -> None:
    runner = FakeMeasuredRunner()
    run(runner, tmp_path / "run")
    assert [seed for _, seed in runner.ran] == sorted(seed for _, seed in runner.ran)
    names = [point.name for point in POINTS]
    assert all(sorted(block) == sorted(names) for block in blocks(runner.ran))
    assert len({tuple(block) for block in [*blocks(runner.ran), names]}) == 4


def test_the_order_depends_only_on_the_seed(tmp_path: Path) -> None:
    first, second = FakeMeasuredRunner(), FakeMeasuredRunner()
    run(first, tmp_path / "first")
    run(second, tmp_path / "second")
    assert first.ran == second.ran


def test_a_grouped_order_has_the_points_of_a_configuration_together() -> None:
    points = [Point(f"{kind}-{n}", kind) for n in range(4) for kind in ("file", "stream", "surge")]
    orders = [measured_runs.order(points, seed, "grouped") for seed in range(20)]
    for order in orders:
        groups = [point.configuration for point in order]
        assert sum(a != b for a, b in itertools.pairwise(groups)) == 2
        assert sorted(order, key=points.index) == points
    assert len({order[0].name for order in orders}) > 6


def test_a_resumed_study_continues_in_its_first_order(tmp_path: Path) -> None:
    def interrupt(point: Point, seed: int) -> None:
        if len(stopped.ran) == 8:
            raise KeyboardInterrupt

    stopped, whole = FakeMeasuredRunner(interrupt), FakeMeasuredRunner()
    run(whole, tmp_path / "whole")
    with pytest.raises(Interrupted, match="7 of 18 observations are in") as caught:
        run(stopped, tmp_path / "run")
    assert "perpacket study resume" in caught.value.hint
    resumed = FakeMeasuredRunner()
    directory = RunDirectory.open(tmp_path / "run")
    assert start.resume(make_study(resumed), directory) == 11
    assert stopped.ran[:7] + resumed.ran == whole.ran
    assert directory.missing() == []
    assert start.resume(make_study(FakeMeasuredRunner()), directory) == 0


def test_a_failed_run_stops_no_other_and_resume_repeats_it(tmp_path: Path) -> None:
    def fail(point: Point, seed: int) -> None:
        if (point.name, seed) == ("web-16c", 2):
            raise RunFailed("the server on host died in the middle of the run, with status -11")

    directory = run(FakeMeasuredRunner(fail), tmp_path / "run")
    assert [(failure.point, failure.seed) for failure in directory.failures()] == [("web-16c", 2)]
    assert "died in the middle" in directory.failures()[0].reason
    assert directory.missing() == [(POINTS[2], 2)]
    again = FakeMeasuredRunner()
    assert start.resume(make_study(again), directory) == 1
    assert again.ran == [("web-16c", 2)]
    assert directory.failures() == []
    assert not list((directory.path / "failures").iterdir())


def test_a_row_of_failures_ends_the_study(tmp_path: Path) -> None:
    def fail(point: Point, seed: int) -> None:
        raise MachineLacks("perf_event_paranoid is 4")

    runner = FakeMeasuredRunner(fail)
    with pytest.raises(RunFailed, match=r"5 runs in a row failed.*perf_event_paranoid is 4"):
        run(runner, tmp_path / "run")
    assert len(runner.ran) == 5
    assert len(RunDirectory.open(tmp_path / "run").failures()) == 5


def test_failures_between_good_runs_do_not_end_the_study(tmp_path: Path) -> None:
    def fail(point: Point, seed: int) -> None:
        if len(runner.ran) % 3:
            raise RunFailed("now and then")

    runner = FakeMeasuredRunner(fail)
    directory = run(runner, tmp_path / "run")
    assert len(runner.ran) == len(POINTS) * len(SEEDS)
    assert len(directory.failures()) == 12


def test_an_invalid_parameter_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="wrong = 1"):
        start.run(make_study(FakeMeasuredRunner()), tmp_path / "run", overrides=(("wrong", "1"),))
    assert not (tmp_path / "run").exists()


def test_points_that_cannot_run_here_are_left_out_with_the_reason(tmp_path: Path) -> None:
    reason = "no latency can be added: loopback has none"
    left_out = {point.name: reason for point in POINTS[:2]}
    runner = FakeMeasuredRunner(
        setup=SetupDescription({"network": "loopback"}, {"limits": ["one host"]}, left_out)
    )
    directory = run(runner, tmp_path / "run")
    assert {point.name for point in directory.configuration.points} == {
        point.name for point in POINTS[2:]
    }
    assert directory.environment()["testbed"] == {
        "network": "loopback",
        "limits": ["one host"],
        "left_out": [f"web-1c, web-4c: {reason}"],
    }


def test_a_study_that_cannot_run_here_is_an_error_and_writes_nothing(tmp_path: Path) -> None:
    left_out = {point.name: "no network" for point in POINTS}
    with pytest.raises(MachineLacks, match="no network"):
        run(FakeMeasuredRunner(setup=SetupDescription({}, {}, left_out)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_study_is_not_resumed_on_another_testbed(tmp_path: Path) -> None:
    directory = run(FakeMeasuredRunner(), tmp_path / "run")
    directory.observation_path("web-1c", 1).unlink()
    other = FakeMeasuredRunner(setup=SetupDescription({"network": "loopback"}))
    with pytest.raises(ConfigurationError, match="begun with network veth, now it is loopback"):
        start.resume(make_study(other), directory)
    assert other.ran == []


def test_complete_reports_of_programs_are_stored_beside_the_observation(tmp_path: Path) -> None:
    directory = run(FakeMeasuredRunner(), tmp_path / "run")
    assert json.loads(directory.raw_path("web-4c", 3, "profile").read_text()) == {"samples": 7}


def test_progress_counts_stored_observations_and_ends_complete(tmp_path: Path) -> None:
    seen: list[Progress] = []
    study = make_study(FakeMeasuredRunner(lambda point, seed: time.sleep(0.02)))
    start.run(study, tmp_path / "run", on_progress=seen.append)
    assert seen[-1].share == 1.0
    assert (seen[-1].finished, seen[-1].total) == (18, 18)
    assert seen[-1].remaining_s == 0


def test_a_study_limited_to_some_points_has_their_figures() -> None:
    rows = tuple(
        Published(f"paper/{number}", "1", "rate", point.name, "request_rate", "req/s", 1.0)
        for number, point in enumerate(POINTS)
    )
    growth = replace(rows[0], against=POINTS[5].name)
    study = replace(make_study(FakeMeasuredRunner()), published=(*rows, growth)).limited_to(
        POINTS[:2]
    )
    assert (study.points, study.published) == (POINTS[:2], rows[:2])


KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from patience import PATIENCE_S
from test_measured_runs import FakeMeasuredRunner, make_study, start

def body(point, seed):
    # The fifth run waits until the test kills this process.
    if len(list((Path(sys.argv[1]) / "observations").glob("*.json"))) == 4:
        print("waiting", flush=True)
        time.sleep(PATIENCE_S)

start.run(make_study(FakeMeasuredRunner(body)), Path(sys.argv[1]))
"""


def test_a_killed_study_resumes_and_counts_no_run_twice(tmp_path: Path) -> None:
    path = tmp_path / "run"
    folder = str(Path(__file__).parent)
    command = [sys.executable, "-c", KILLED, str(path), folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=PATIENCE_S)
    directory = RunDirectory.open(path)
    stored = len(directory.read_observations())
    assert stored == 4
    before = {file.name: file.read_bytes() for file in (path / "observations").glob("*.json")}
    runner = FakeMeasuredRunner()
    assert start.resume(make_study(runner), directory) == 18 - stored
    assert len(runner.ran) == len(set(runner.ran)) == 18 - stored
    assert not {f"{name}.seed-{seed}.json" for name, seed in runner.ran} & before.keys()
    assert all((path / "observations" / name).read_bytes() == text for name, text in before.items())


def test_a_new_directory_plans_the_blocks_that_run(tmp_path: Path) -> None:
    configuration = configuration_file.resolve(make_study(FakeMeasuredRunner()), "1.2.3")
    directory = RunDirectory.create(tmp_path / "run", configuration, {})
    planned = [point.name for point, seed in measured_runs.remaining(directory) if seed == 2]
    assert planned == [point.name for point in measured_runs.order(POINTS, 2)]


def test_points_run_in_the_order_of_the_file_with_order_as_written(tmp_path: Path) -> None:
    runner = FakeMeasuredRunner()
    start.run(replace(make_study(runner), order="as-written"), tmp_path / "run")
    assert blocks(runner.ran) == [[point.name for point in POINTS]] * len(SEEDS)


def test_blocks_repeat_points_whose_interval_is_too_wide(tmp_path: Path) -> None:
    def fail(point: Point, seed: int) -> None:
        if (point.name, seed) == ("web-16c", 2):
            raise RunFailed("the server died")

    rule = Stopping("requests_per_s", within=1.5, least=2)
    seeds = tuple(range(1, 9))
    runner = FakeMeasuredRunner(fail)
    study = replace(make_study(runner), stopping=rule, seeds=seeds)
    directory = start.run(study, tmp_path / "run")
    values = [100.0 * seed for seed in seeds]
    independent = stopping.runs_enough(rule, values)
    # Runs that drift are alike, so a measured point needs more of them.
    enough = stopping.runs_enough(replace(rule, in_time_order=True), values)
    assert independent is not None
    assert enough is not None
    assert 2 < independent < enough < 8
    expected = {point.name: list(seeds[:enough]) for point in POINTS}
    found: dict[str, list[int]] = {point.name: [] for point in POINTS}
    for one in directory.read_observations():
        found[one.point].append(one.seed)
    # One run failed: without it the stopping rule cannot judge that point.
    assert found == expected | {"web-16c": [1]}
    assert len(runner.ran) == len(set(runner.ran))
    again = FakeMeasuredRunner()
    assert (
        start.resume(replace(study, measured_runner=again, runner=again), directory) == enough - 1
    )
    assert directory.missing() == []
    assert {name for name, _ in again.ran} == {"web-16c"}


def test_a_fault_in_a_run_fails_only_that_run_with_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(point: Point, seed: int) -> None:
        if (point.name, seed) == ("web-16c", 2):
            raise KeyError("layers")

    runner = FakeMeasuredRunner(fail)
    directory = run(runner, tmp_path / "run")
    assert len(runner.ran) == len(POINTS) * len(SEEDS)
    (failure,) = directory.failures()
    assert failure.reason == "KeyError: 'layers': this is a fault of perpacket"
    err = capfd.readouterr().err
    assert "Traceback" in err
    assert "in fail" in err


def test_a_row_of_failures_is_counted_over_the_batches_of_a_rule(tmp_path: Path) -> None:
    """The first batch ends with three failures, and the next begins with three."""

    def fail(point: Point, seed: int) -> None:
        if seed > 2 or (seed == 2 and point in POINTS[3:]):
            raise RunFailed("the server died")

    runner = FakeMeasuredRunner(fail)
    rule = Stopping("requests_per_s", within=1e-6, least=2)
    study = replace(make_study(runner), stopping=rule, seeds=tuple(range(1, 9)), order="as-written")
    with pytest.raises(RunFailed, match="5 runs in a row failed"):
        start.run(study, tmp_path / "run")
    assert len(runner.ran) == 2 * len(POINTS) + 2
