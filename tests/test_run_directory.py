"""A stopped run resumes, counts no observation twice, and has the same bytes with any executor.

No simulator is needed: the runner of these tests computes its numbers from the point and the seed.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perpacket.errors import (
    ConfigurationError,
    CorruptObservation,
    Interrupted,
    MissingStudy,
    RunFailed,
    StudyError,
)
from perpacket.whole_file import write_whole
from perpacket_lab import api
from perpacket_lab.run import configuration_file, environment, observation_file, start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.run.progress import Progress
from perpacket_lab.run.simulated_runs import execute
from perpacket_lab.run.threads import ThreadExecutor
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import RunOutcome
from perpacket_lab.study.study import Study

SEEDS = (1, 2, 3)
POINTS = tuple(
    Point(
        name=f"W-{connections}",
        configuration=f"W-{connections}-P-N-FCFS-400",
        factors={"connections": connections, "order": "host first"},
        overrides=(("run.packets", "1000"),),
        against=None if connections == 0 else "W-0",
        timeline=connections == 1024,
    )
    for connections in (0, 256, 1024)
)


@dataclass
class FakeRun:
    """A run that takes no time, or waits to be cancelled."""

    point: Point
    seed: int
    timeline: bool
    body: Callable[[Point, int], None]
    cancelled: threading.Event = field(default_factory=threading.Event)

    def run(self) -> RunOutcome:
        self.body(self.point, self.seed)
        if self.cancelled.is_set():
            raise Interrupted("cancelled")
        rate = 1000.0 * self.seed + len(self.point.name)
        return RunOutcome(
            result={"requests_per_s": rate, "layers": {"tcp": {"cycles_per_packet": rate / 7}}},
            timing={"wall_s": time.monotonic()},
            timeline={"time_s": [0.0, 1.0], "soft_limit": [4096, 4064]} if self.timeline else None,
        )

    def progress(self) -> tuple[int, int]:
        return 500, 1000

    def cancel(self) -> None:
        self.cancelled.set()


@dataclass
class FakeRunner:
    """Prepares fake runs and stores them."""

    body: Callable[[Point, int], None] = lambda point, seed: None
    prepared: list[FakeRun] = field(default_factory=list)

    def prepare(self, point: Point, seed: int, timeline: bool) -> FakeRun:
        run = FakeRun(point, seed, timeline, self.body)
        self.prepared.append(run)
        return run


def make_study(runner: FakeRunner | None = None) -> Study:
    return Study(
        name="fake",
        title="A fake study",
        question="Does the machinery work?",
        points=POINTS,
        seeds=SEEDS,
        runner=runner or FakeRunner(),
    )


def deterministic_parts(directory: RunDirectory) -> dict[str, object]:
    """Every observation file without its timing."""
    parts = {}
    for file in sorted((directory.path / "observations").iterdir()):
        content = json.loads(file.read_text())
        del content["timing"]
        parts[file.name] = content
    return parts


def begin(path: Path) -> RunDirectory:
    """A run directory without observations."""
    configuration = configuration_file.resolve(make_study(), "1.2.3")
    return RunDirectory.create(path, configuration, environment.describe())


def test_results_are_the_same_bytes_with_one_worker_and_with_four(tmp_path: Path) -> None:
    one = start.run(make_study(), tmp_path / "one", executor=ThreadExecutor(1))
    four = start.run(make_study(), tmp_path / "four", executor=ThreadExecutor(4))
    assert deterministic_parts(one) == deterministic_parts(four)
    assert len(deterministic_parts(one)) == len(POINTS) * len(SEEDS)
    assert (one.path / "config.toml").read_bytes() == (four.path / "config.toml").read_bytes()


def test_the_table_has_a_row_for_each_run_with_factors_and_dotted_names(tmp_path: Path) -> None:
    table = start.run(make_study(), tmp_path / "run").observations()
    assert table.height == len(POINTS) * len(SEEDS)
    assert {"point", "configuration", "seed", "connections", "order"} <= set(table.columns)
    assert {"requests_per_s", "layers.tcp.cycles_per_packet", "timing.wall_s"} <= set(table.columns)
    assert table.select("point", "seed").is_unique().all()


def test_each_observation_of_a_run_is_read_and_checked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def counted(file: Path, *arguments: Any) -> observation_file.RunObservation:
        read.append(file)
        return original(file, *arguments)

    original = observation_file.read
    monkeypatch.setattr(observation_file, "read", counted)
    made = api.run_study(make_study(), tmp_path / "run")
    assert made.analysis.run.observed == len(POINTS) * len(SEEDS)
    assert (tmp_path / "run" / "observations.parquet").is_file()
    files = [file for file in read if file.exists()]
    assert sorted(files) == sorted((tmp_path / "run" / "observations").iterdir())


def test_an_observation_that_changed_is_read_again(tmp_path: Path) -> None:
    directory = start.run(make_study(), tmp_path / "run")
    file = directory.observation_path("W-0", 1)
    before = directory.read_observations()
    content = json.loads(file.read_text())
    content["result"]["requests_per_s"] = 1.5
    write_whole(file, json.dumps(content))
    after = directory.read_observations()
    assert [row.result for row in before[1:]] == [row.result for row in after[1:]]
    assert after[0].result["requests_per_s"] == 1.5


def test_the_timeline_is_stored_only_for_the_first_seed(tmp_path: Path) -> None:
    directory = start.run(make_study(), tmp_path / "run")
    assert directory.timelines() == [("W-1024", 1)]
    assert directory.timeline("W-1024", 1).columns == ["time_s", "soft_limit"]


def test_resuming_runs_only_missing_observations(tmp_path: Path) -> None:
    directory = start.run(make_study(), tmp_path / "run")
    whole = deterministic_parts(directory)
    directory.observation_path("W-256", 2).unlink()
    directory.observation_path("W-0", 3).unlink()
    runner = FakeRunner()
    found = RunDirectory.open(directory.path)
    assert start.resume(make_study(runner), found) == 2
    assert {(run.point.name, run.seed) for run in runner.prepared} == {("W-256", 2), ("W-0", 3)}
    assert deterministic_parts(found) == whole


def test_an_interrupted_study_covers_every_point_before_it_repeats_one(tmp_path: Path) -> None:
    order = [(point.name, seed) for point, seed in begin(tmp_path / "run").missing()]
    assert order[:3] == [("W-0", 1), ("W-256", 1), ("W-1024", 1)]


def test_an_incomplete_file_of_a_killed_run_is_not_an_observation(tmp_path: Path) -> None:
    directory = begin(tmp_path / "run")
    leftover = directory.path / "observations" / "W-0.seed-1.json.part"
    leftover.write_text('{"schema": 1, "stu')
    assert execute(directory, FakeRunner(), ThreadExecutor()) == len(POINTS) * len(SEEDS)
    assert not leftover.exists()


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda text: text[: len(text) // 2], "damaged"),
        (lambda text: "", "damaged"),
        (lambda text: "[]", "expected a JSON object"),
        (lambda text: text.replace('"requests_per_s": 2005.0', '"requests_per_s": NaN'), "NaN"),
        (lambda text: text.replace("2005.0", "-Infinity"), "-Infinity is not a finite number"),
        (lambda text: text.replace("2005.0", "1e999"), "1e999 is not a finite number"),
        (lambda text: text.replace('"seed": 2', '"seed": 7'), "seed is 7, expected 2"),
        (lambda text: text.replace("FCFS-400", "FCFS-800"), "configuration is"),
        (lambda text: text.replace("1000", "2000", 1), "overrides"),
    ],
)
def test_a_damaged_observation_is_named_and_not_changed(
    tmp_path: Path, damage: Callable[[str], str], complaint: str
) -> None:
    directory = start.run(make_study(), tmp_path / "run")
    file = directory.observation_path("W-256", 2)
    file.write_text(damage(file.read_text()))
    before = file.read_bytes()
    for use in (directory.observations, lambda: start.resume(make_study(), directory)):
        with pytest.raises(CorruptObservation, match=complaint) as caught:
            use()
        assert file.name in str(caught.value)
        assert "move it away" in caught.value.hint
    assert file.read_bytes() == before


def test_a_failure_names_its_point_and_finished_runs_stay(tmp_path: Path) -> None:
    def fail(point: Point, seed: int) -> None:
        if (point.name, seed) == ("W-256", 2):
            raise ValueError("the wheel came off")

    with pytest.raises(RunFailed, match="point W-256, seed 2: the wheel came off"):
        start.run(make_study(FakeRunner(fail)), tmp_path / "run", executor=ThreadExecutor(1))
    directory = RunDirectory.open(tmp_path / "run")
    assert len(directory.read_observations()) == 4
    assert start.resume(make_study(), directory) == 5


def test_ctrl_c_cancels_active_runs_stores_finished_ones_and_hints_at_resume(
    tmp_path: Path,
) -> None:
    runner = FakeRunner()

    def wait_when_late(point: Point, seed: int) -> None:
        if seed == 2:
            next(
                run for run in runner.prepared if (run.point, run.seed) == (point, seed)
            ).cancelled.wait(30)

    runner.body = wait_when_late
    directory = begin(tmp_path / "run")

    def interrupt(state: Progress) -> None:
        if state.finished == len(POINTS):
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="3 of 9 observations are in") as caught:
        execute(directory, runner, ThreadExecutor(2), interrupt)
    assert f"perpacket study resume {directory.path}" in caught.value.hint
    assert {run.seed for run in runner.prepared if run.cancelled.is_set()} == {2}
    assert len(directory.read_observations()) == 3
    assert execute(directory, FakeRunner(), ThreadExecutor()) == 6


def test_progress_counts_active_runs_and_ends_complete(tmp_path: Path) -> None:
    seen: list[Progress] = []
    start.run(make_study(), tmp_path / "run", executor=ThreadExecutor(2), on_progress=seen.append)
    assert seen[-1].finished == seen[-1].total == len(POINTS) * len(SEEDS)
    assert seen[-1].share == 1.0
    assert seen[-1].remaining_s == 0.0
    assert seen[-1].latest is not None


def test_two_processes_cannot_write_to_one_run(tmp_path: Path) -> None:
    directory = begin(tmp_path / "run")
    with directory.locked(), pytest.raises(RunFailed, match="another perpacket"):
        execute(directory, FakeRunner(), ThreadExecutor())


def test_a_directory_that_is_not_empty_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("precious")
    with pytest.raises(ConfigurationError, match="exists already") as caught:
        start.run(make_study(), tmp_path / "run")
    assert "resume" in caught.value.hint
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["mine.txt"]


def test_an_impossible_point_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    class Refusing(FakeRunner):
        def prepare(self, point: Point, seed: int, timeline: bool) -> FakeRun:
            raise ConfigurationError("nic.mips is 0", "nic.mips", "0", "give 1 or more")

    with pytest.raises(ConfigurationError, match=r"nic\.mips is 0") as caught:
        start.run(make_study(Refusing()), tmp_path / "run")
    assert caught.value.hint == "give 1 or more"
    assert not (tmp_path / "run").exists()


def test_another_version_cannot_resume_a_run(tmp_path: Path) -> None:
    directory = begin(tmp_path / "run")
    with pytest.raises(ConfigurationError, match=r"begun by perpacket 1\.2\.3"):
        start.resume(make_study(), directory)


def test_the_configuration_file_has_every_run(tmp_path: Path) -> None:
    directory = start.run(
        make_study(), tmp_path / "run", seeds=(4, 9), overrides=(("nic.lowat", '1"2\\'),)
    )
    read = RunDirectory.open(directory.path).configuration
    assert read == directory.configuration
    assert read.seeds == (4, 9)
    assert read.points[1].overrides == (("run.packets", "1000"), ("nic.lowat", '1"2\\'))
    assert read.points[1].factors == POINTS[1].factors


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("    1,\n    2,\n    3,\n", "", "seeds"),
        ("schema = 1", "schema = 2", "schema"),
        ('study = "fake"', 'studdy = "fake"', "stud"),
        ("[[point]]", "[[point", "cannot be read"),
        ('name = "W-256"', 'name = "W-0"', "two points"),
        ('against = "W-0"', 'against = "X"', "not a point"),
    ],
)
def test_an_invalid_configuration_file_is_an_error_with_file_and_key(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    file = begin(tmp_path / "run").path / "config.toml"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        RunDirectory.open(tmp_path / "run")
    assert str(file) in str(caught.value)
    assert "run the study again" in caught.value.hint


def test_a_run_with_no_workers_makes_no_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="workers = 0"):
        start.run(make_study(), tmp_path / "run", executor=ThreadExecutor(0))
    assert not (tmp_path / "run").exists()


def test_leftovers_of_a_run_that_never_began_do_not_block_a_new_one(tmp_path: Path) -> None:
    path = begin(tmp_path / "run").path
    (path / "config.toml").rename(path / "config.toml.part")
    (path / "environment.json.part").write_text("{")
    assert start.run(make_study(), path).missing() == []

    other = begin(tmp_path / "other").path
    (other / "config.toml").unlink()
    (other / "observations" / "W-0.seed-1.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="exists already"):
        start.run(make_study(), other)


def test_a_run_without_its_environment_file_is_still_read(tmp_path: Path) -> None:
    directory = begin(tmp_path / "run")
    (directory.path / "environment.json").unlink()
    assert directory.environment() == {}


def test_an_error_names_the_file_that_cannot_be_written_and_not_its_temporary_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "taken").mkdir()
    for file in (tmp_path / "taken", tmp_path / "absent" / "report.html"):
        with pytest.raises(OSError, match=file.name) as caught:
            write_whole(file, "text")
        assert caught.value.filename == str(file)


def test_a_directory_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MissingStudy, match="is no run directory"):
        RunDirectory.open(tmp_path)


def test_the_environment_describes_the_machine_and_not_its_owner() -> None:
    facts = environment.describe()
    assert facts["cores_usable"]
    assert isinstance(facts["lacks"], list)
    text = json.dumps(facts)
    assert str(Path.home()) not in text
    assert str(Path(__file__).parent) not in text


@pytest.mark.parametrize(
    ("point", "complaint"),
    [
        (Point("W 0", "W"), "expected letters"),
        (Point("../W", "W"), "expected letters"),
        (Point("W", "W", against="X"), "not a point"),
    ],
)
def test_points_with_invalid_names_or_unknown_baselines_are_errors(
    point: Point, complaint: str
) -> None:
    with pytest.raises(StudyError, match=complaint):
        Study("s", "t", "q", (point,), (1,), FakeRunner())


def test_a_time_out_of_git_is_not_reported_as_no_checkout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never_ends(command: list[str], timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", never_ends)
    facts = environment.describe()
    assert facts["git"] == "not known: timed out"
    assert "not a git checkout" not in str(facts["lacks"])


def test_the_package_lists_its_public_names() -> None:
    import perpacket

    assert set(perpacket.__all__) <= set(dir(perpacket))
