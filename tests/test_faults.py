"""Killed studies resume; full disks and damaged or foreign files are errors."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import killed
from patience import PATIENCE_S
from perpacket.errors import ConfigurationError, CorruptObservation
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.run import start, table_file
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.run.threads import ThreadExecutor
from perpacket_lab.study import load

STUDY = """
name = "short"
kind = "simulated"
replications = 3
until = "4 %"
until_quantity = "packets_per_s"
replications_most = 6
scenario.configuration = "W-0-N-N-FCFS-400"
scenario.run.warmup_packets = 200
scenario.run.packets = 2000
factors.nic.mips = [300, 400, 500, 600]
factors.machine.l2.size_kib = [256, 512]
"""

KILLS = 20
SEED = 20_061_106
"""Seed of the random moments at which the test kills the study."""

LATEST = 0.2
"""The latest moment, as a share of the time of the whole study."""


def results(directory: RunDirectory) -> dict[str, bytes]:
    """Every observation file's bytes, without the timing, which depends on the machine."""
    found = {}
    for file in (directory.path / "observations").iterdir():
        text, timing, _ = file.read_bytes().rpartition(b'"timing"')
        assert timing, f"{file.name} has no timing"
        found[file.name] = text
    return found


def write_study(folder: Path, text: str = STUDY) -> Path:
    file = folder / "short.toml"
    file.write_text(text)
    return file


@contextmanager
def nursery(study: Path) -> Iterator[subprocess.Popen[str]]:
    """The process whose children run the study."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("killed.py")), str(study)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def run_for(process: subprocess.Popen[str], path: Path, duration_s: float) -> bool:
    """Let a child run or resume the study, then kill it; returns whether it still ran."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{path}\n")
    process.stdin.flush()
    child = int(process.stdout.readline())
    time.sleep(duration_s)
    with suppress(ProcessLookupError):  # it ended before
        os.kill(child, signal.SIGKILL)
    status = int(process.stdout.readline())
    assert status in (0, signal.SIGKILL), f"the study failed with wait status {status}"
    return status == signal.SIGKILL


def test_a_study_killed_at_random_moments_and_resumed_equals_an_uninterrupted_one(
    tmp_path: Path,
) -> None:
    study = write_study(tmp_path)
    began_s = time.monotonic()
    whole = start.run(load.load(study), tmp_path / "whole", executor=ThreadExecutor(killed.WORKERS))
    latest_s = LATEST * (time.monotonic() - began_s)
    expected = results(whole)
    moments = random.Random(SEED)
    kills = runs = 0
    paths = [tmp_path / "run-0"]
    with nursery(study) as process:
        while kills < KILLS:
            runs += 1
            assert runs < 40 * KILLS, "the study always ends before it is killed"
            if run_for(process, paths[-1], moments.uniform(0, latest_s)):
                kills += 1
            else:
                paths.append(tmp_path / f"run-{len(paths)}")
    for path in paths:
        if (path / "config.toml").exists():
            directory = RunDirectory.open(path)
            start.resume(directory.study(), directory)
        else:
            directory = start.run(load.load(study), path)
        assert results(directory) == expected
        assert directory.missing() == []
        # No run is lost or repeated: one row for each file, and each seed once at each point.
        table = directory.to_polars()
        assert table.height == len(expected)
        assert table.select("point", "seed").is_unique().all()
        assert not list(path.rglob("*.part"))
        again = RunDirectory.open(path)
        assert start.resume(again.study(), again) == 0


def begun(tmp_path: Path) -> RunDirectory:
    """A small study that was run to its end."""
    text = STUDY.replace("[300, 400, 500, 600]", "[300, 400]").replace('"4 %"', '"99 %"')
    study = load.load(write_study(tmp_path, text))
    return start.run(study, tmp_path / "run")


FULL = """
import resource, sys
from perpacket_lab.analysis.analysis import analyze
from perpacket.cli import app

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
raise SystemExit(app.run(sys.argv[2:]))
"""
"""A command line that cannot write files longer than its first argument, as on a full disk."""


def on_full_disk(size_bytes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Without -B, the interpreter would write half of a module's compiled file, and load it later.
    command = [sys.executable, "-B", "-c", FULL, str(size_bytes), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_full_disk_is_an_error_and_loses_only_runs_in_flight(tmp_path: Path) -> None:
    directory = begun(tmp_path)
    expected = results(directory)
    lost = sorted((directory.path / "observations").iterdir())[:3]
    for file in lost:
        file.unlink()
    stored = {file.name: file.read_bytes() for file in (directory.path / "observations").iterdir()}
    smallest = min(map(len, stored.values()))
    done = on_full_disk(smallest // 2, "study", "resume", str(directory.path))
    assert done.returncode == 4
    assert "file too large" in done.stderr.lower()
    assert str(directory.path) in done.stderr
    assert "hint: " in done.stderr
    assert {
        file.name: file.read_bytes() for file in (directory.path / "observations").iterdir()
    } == stored
    assert start.resume(directory.study(), directory) == len(lost)
    assert results(directory) == expected


def test_a_disk_that_is_full_from_the_start_leaves_no_files(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    done = on_full_disk(64, "study", "run", str(study), "--output", str(tmp_path / "run"))
    assert done.returncode == 4
    assert "environment.json" in done.stderr
    directory = start.run(load.load(study), tmp_path / "run")
    assert directory.missing() == []


def test_a_table_is_complete_or_absent(tmp_path: Path) -> None:
    directory = begun(tmp_path)
    file = tmp_path / "table.parquet"
    table_file.write(directory, file)
    before = file.read_bytes()
    arguments = ["study", "export", str(directory.path), "--output", str(file)]
    done = on_full_disk(len(before) // 2, *arguments)
    assert done.returncode == 4
    assert "table.parquet" in done.stderr
    assert file.read_bytes() == before
    assert not file.with_name("table.parquet.part").exists()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"schema": 1', '"schema": 2', "its schema is 2, this perpacket reads 1"),
        ('"result": {', '"result": {,', "damaged"),
    ],
)
def test_a_damaged_or_foreign_observation_is_named_and_not_written_over(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    directory = begun(tmp_path)
    files = sorted((directory.path / "observations").iterdir())
    files[0].unlink()
    files[1].write_text(files[1].read_text().replace(old, new, 1))
    before = {file.name: file.read_bytes() for file in files[1:]}
    study = directory.study()
    uses = (
        lambda: start.resume(study, directory),
        lambda: table_file.write(directory, directory.path / "observations.parquet"),
        lambda: analyze(study, directory),
    )
    for use in uses:
        with pytest.raises(CorruptObservation, match=complaint) as caught:
            use()
        assert files[1].name in str(caught.value)
        assert caught.value.hint
    assert {
        file.name: file.read_bytes() for file in (directory.path / "observations").iterdir()
    } == before


@pytest.mark.parametrize("name", ["config.toml", "study.toml"])
def test_a_run_of_an_unknown_schema_is_named_and_not_written_over(
    tmp_path: Path, name: str
) -> None:
    path = begun(tmp_path).path
    file = path / name
    file.write_text(file.read_text().replace("schema = 1", "schema = 2"))
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match="schema") as caught:
        RunDirectory.open(path).study()
    assert name in str(caught.value)
    assert file.read_bytes() == before


def test_the_table_has_its_schema(tmp_path: Path) -> None:
    directory = begun(tmp_path)
    import polars

    file = tmp_path / "table.parquet"
    table = table_file.write(directory, file)
    printed = polars.read_parquet_metadata(file)
    assert printed[table_file.SCHEMA_KEY] == str(table_file.SCHEMA)
    assert printed[table_file.STUDY_KEY] == directory.configuration.study
    assert table.equals(directory.to_polars())


def test_a_text_where_other_runs_have_a_number_is_damage(tmp_path: Path) -> None:
    directory = begun(tmp_path)
    point = directory.configuration.points[0].name
    seed = next(one.seed for one in directory.read_observations() if one.point == point)
    file = directory.observation_path(point, seed)
    content = json.loads(file.read_text())
    content["result"]["requests_per_s"] = "abc"
    file.write_text(json.dumps(content))
    with pytest.raises(CorruptObservation, match=r"requests_per_s is 'abc', expected a number"):
        directory.read_observations()


def test_a_damaged_environment_is_an_error_with_a_hint(tmp_path: Path) -> None:
    directory = begun(tmp_path)
    (directory.path / "environment.json").write_text("{")
    with pytest.raises(CorruptObservation, match=r"environment\.json") as caught:
        directory.environment()
    assert "move it away" in caught.value.hint


def test_lost_folders_of_a_run_are_made_again(tmp_path: Path) -> None:
    directory = begun(tmp_path)
    for name in ("observations", "raw"):
        shutil.rmtree(directory.path / name)
    with directory.locked():
        assert directory.observation_path("a", 1).parent.is_dir()
    assert directory.read_observations() == []
