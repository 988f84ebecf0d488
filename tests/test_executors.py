"""Threads, processes and a cluster produce the same bytes, and a worker's death loses no run."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest

import perpacket
from patience import PATIENCE_S
from perpacket.cli import app
from perpacket.errors import ConfigurationError, Interrupted, MachineLacks, RunFailed
from perpacket_lab.run import configuration_file, processes, start
from perpacket_lab.run.cluster import ClusterExecutor, WorkerCheck, perform
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.run.jobs import Finished, Job
from perpacket_lab.run.processes import MOST_DEATHS, ProcessExecutor
from perpacket_lab.run.progress import Progress
from perpacket_lab.run.simulated_runs import execute
from perpacket_lab.run.threads import ThreadExecutor
from perpacket_lab.study import library
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import RunOutcome
from perpacket_lab.study.study import Study
from travelling import TravellingRunner

POINTS = tuple(Point(name, "bulk", {"name": name}) for name in ("a", "b", "c"))
SEEDS = (1, 2, 3)


def study(runner: TravellingRunner) -> Study:
    return Study("fake", "A study", "Does it travel?", POINTS, SEEDS, runner)


def begin(path: Path, runner: TravellingRunner) -> RunDirectory:
    """A run directory without observations."""
    configuration = configuration_file.resolve(study(runner), perpacket.__version__)
    return RunDirectory.create(path, configuration, {})


def results(directory: RunDirectory) -> dict[str, bytes]:
    """The text of every observation without its timing, which is the last key."""
    files = sorted((directory.path / "observations").iterdir())
    return {file.name: file.read_bytes().partition(b'"timing"')[0] for file in files}


def test_threads_and_processes_produce_the_same_bytes(tmp_path: Path) -> None:
    runner = TravellingRunner()
    threads = start.run(study(runner), tmp_path / "threads", executor=ThreadExecutor(3))
    processes = start.run(study(runner), tmp_path / "processes", executor=ProcessExecutor(2))
    assert results(threads) == results(processes)
    assert len(results(threads)) == len(POINTS) * len(SEEDS)
    where = {observation.timing["process"] for observation in processes.read_observations()}
    assert os.getpid() not in where
    assert {row.timing["process"] for row in threads.read_observations()} == {os.getpid()}
    assert processes.environment()["executor"] == {"kind": "processes", "workers": 2}


def test_a_run_whose_process_dies_is_repeated(tmp_path: Path) -> None:
    runner = TravellingRunner(tmp_path, deadly_once="b-2")
    died = begin(tmp_path / "died", runner)
    assert execute(died, runner, executor=ProcessExecutor(2)) == len(POINTS) * len(SEEDS)
    assert (tmp_path / "b-2").exists()
    whole = start.run(study(TravellingRunner()), tmp_path / "whole")
    assert results(died) == results(whole)


def test_a_run_that_kills_every_process_is_named_and_others_continue(tmp_path: Path) -> None:
    runner = TravellingRunner(deadly="a-2")
    directory = begin(tmp_path / "run", runner)
    with pytest.raises(RunFailed, match="point a, seed 2") as caught:
        execute(directory, runner, executor=ProcessExecutor(1))
    assert f"{MOST_DEATHS} processes with this run died, the last one by SIGKILL" in str(
        caught.value
    )
    assert {row.seed for row in directory.read_observations()} == {1}


def test_a_failure_in_a_process_is_reported_as_in_a_thread(tmp_path: Path) -> None:
    reports = []
    for executor in (ThreadExecutor(1), ProcessExecutor(1)):
        runner = TravellingRunner(failing="c-1")
        directory = begin(tmp_path / type(executor).__name__, runner)
        with pytest.raises(RunFailed) as caught:
            execute(directory, runner, executor=executor)
        reports.append(str(caught.value))
        assert len(directory.read_observations()) == 2
    assert reports == ["point c, seed 1: c-1 cannot be run"] * 2


def test_ctrl_c_ends_the_processes_and_stores_finished_runs(tmp_path: Path) -> None:
    runner = TravellingRunner(hold_s=0.1)
    directory = begin(tmp_path / "run", runner)
    executor = ProcessExecutor(2)

    def interrupt(state: Progress) -> None:
        if state.finished >= 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="of 9 observations are in"):
        execute(directory, runner, executor=executor, on_progress=interrupt)
    assert executor.active() == []
    remaining = len(directory.read_observations())
    assert 2 <= remaining < len(POINTS) * len(SEEDS)
    assert start.resume(study(TravellingRunner()), directory) == 9 - remaining


def test_a_job_is_pickled_and_another_version_rejects_it() -> None:
    job = Job(TravellingRunner(), POINTS[0], 1, timeline=False)
    assert pickle.loads(pickle.dumps(job)) == job
    answer = perform(replace(job, version="0.0.1"))
    assert isinstance(answer, ConfigurationError)
    assert perpacket.__version__ in str(answer)
    assert "0.0.1" in str(answer)
    assert isinstance(pickle.loads(pickle.dumps(answer)), ConfigurationError)
    assert pickle.loads(pickle.dumps(answer)).hint == answer.hint


def test_a_measured_study_never_runs_on_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="one point at a time on its own hosts"):
        start.run(
            library.find("breakdown"), tmp_path / "run", executor=ClusterExecutor("tcp://[::1]:1")
        )
    assert not (tmp_path / "run").exists()


def test_an_invalid_address_is_an_error() -> None:
    for address in ("127.0.0.1:8786", "tcp://127.0.0.1", "here"):
        with pytest.raises(ConfigurationError, match="expected the address of a scheduler"):
            ClusterExecutor(address)


@pytest.mark.usefixtures("fake_core")
def test_without_the_extra_the_command_to_get_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    run = ["study", "run", "osdi06", "--cluster", "tcp://[::1]:1", "--output"]
    assert app.run([*run, str(tmp_path / "run")]) == 3
    assert "pip install 'perpacket[cluster]'" in capfd.readouterr().err
    assert not (tmp_path / "run").exists()


@contextmanager
def dask(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Dask's programs, which finds the runs of these tests."""
    paths = [str(Path(perpacket.__file__).parents[1]), str(Path(__file__).parent)]
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler's address, and its workers, each a process with one thread."""
    from distributed import Client

    file = folder / "scheduler.json"
    with ExitStack() as stack:
        here = ("--host", "127.0.0.1", "--port", "0")
        stack.enter_context(dask("scheduler", *here, "--scheduler-file", str(file)))
        until_s = time.monotonic() + PATIENCE_S
        while not file.exists() or not file.read_text().endswith("}"):
            assert time.monotonic() < until_s, "the scheduler does not start"
            time.sleep(0.05)
        address = str(json.loads(file.read_text())["address"])
        one = ("--nthreads", "1", "--no-nanny", "--local-directory", str(folder))
        started = [stack.enter_context(dask("worker", address, *one)) for _ in range(workers)]
        with Client(address, timeout=PATIENCE_S, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=PATIENCE_S)
        yield address, started


def test_a_cluster_produces_the_same_bytes_when_a_worker_dies(tmp_path: Path) -> None:
    runner = TravellingRunner(hold_s=0.1)
    with cluster(tmp_path, 2) as (address, workers):
        executor = ClusterExecutor(address)

        def kill(state: Progress) -> None:
            if state.finished >= 3 and workers[0].poll() is None:
                workers[0].send_signal(signal.SIGKILL)
                workers[0].wait()

        there = start.run(study(runner), tmp_path / "there", executor=executor, on_progress=kill)
        assert workers[0].returncode == -signal.SIGKILL
        assert workers[1].poll() is None
        # No executor repeats a stored observation.
        assert start.resume(study(runner), there, executor=executor) == 0
        where = {observation.timing["process"] for observation in there.read_observations()}
        assert where <= {worker.pid for worker in workers}

        failing = TravellingRunner(failing="b-1")
        with pytest.raises(RunFailed, match="point b, seed 1: b-1 cannot be run"):
            start.run(study(failing), tmp_path / "failing", executor=ClusterExecutor(address))
    here = start.run(study(TravellingRunner()), tmp_path / "here")
    assert results(there) == results(here)
    assert len(results(there)) == len(POINTS) * len(SEEDS)
    assert there.environment()["executor"] == {"kind": "cluster", "workers": 2}


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perpacket_lab.run.cluster.CONNECT_S", 0.2)
    with pytest.raises(
        MachineLacks, match=r"no scheduler answers at tcp://127\.0\.0\.1:1"
    ) as caught:
        ClusterExecutor("tcp://127.0.0.1:1").check()
    assert "dask scheduler" in caught.value.hint


class Unsendable(TravellingRunner):
    """Prepares runs, and cannot be pickled."""

    def __reduce__(self) -> str:
        raise TypeError("a lock cannot be copied")


def test_a_job_that_cannot_be_pickled_is_a_failed_job() -> None:
    point = Point("p", "web")
    jobs = [Job(Unsendable(), point, 1, False), Job(TravellingRunner(), point, 2, False)]
    found = {one.job.seed: one.outcome for one in ProcessExecutor(1).run(jobs) if one is not None}
    assert isinstance(found[1], RunFailed)
    assert "a lock cannot be copied" in str(found[1])
    assert isinstance(found[2], RunOutcome)


def test_a_living_worker_with_a_closed_pipe_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STOPPING_S", 0.2)
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=time.sleep, args=(600,), daemon=True)
    process.start()
    its.close()
    worker = processes._Worker(process, ours, Job(TravellingRunner(), Point("p", "web"), 1, False))
    executor = ProcessExecutor(1)
    executor._pool.append(worker)
    waiting: deque[Job] = deque()
    assert executor._receive(worker, waiting) is None
    assert not process.is_alive()
    assert [job.seed for job in waiting] == [1]


def test_the_reason_of_a_failure_is_reported_before_others_are_stopped_by_it() -> None:
    executor = ThreadExecutor(1)
    stopped_when_told: list[bool] = []

    class Recorded(SimpleQueue[Finished]):
        def put(self, item: Finished, block: bool = True, timeout: float | None = None) -> None:
            stopped_when_told.append(executor._stopped)

    job = Job(TravellingRunner(failing="p-1"), Point("p", "web"), 1, False)
    executor._perform(job, Recorded())
    assert stopped_when_told == [False]
    assert executor._stopped


class CountedWorkers:
    """A cluster's client that has only the numbers of workers."""

    def __init__(self, *counts: int) -> None:
        self.counts = list(counts)

    def nthreads(self) -> dict[str, int]:
        return {f"worker {n}": 1 for n in range(self.counts.pop(0))}


def test_a_remark_reports_the_wait_for_a_cluster_without_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("perpacket_lab.run.cluster.CHECK_INTERVAL_S", 0.0)
    printed: list[str] = []
    worker_check = WorkerCheck(
        ClusterExecutor("tcp://127.0.0.1:1", printed.append), CountedWorkers(2, 0, 0, 1, 1)
    )
    for _ in range(5):
        worker_check.check()
    assert len(printed) == 2
    assert "has no worker left: waiting" in printed[0]
    assert printed[1].endswith("has workers again")
