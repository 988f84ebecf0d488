"""Jobs in processes of this machine: a run that takes its process with it does not take the study.

Each worker is a process of its own with a pipe: it gets one job at a time, tells how far it is and
gives back what the job came to. When a worker dies (the kernel kills what takes too much memory),
its job is done again by another one, until it has killed `MOST_DEATHS`. When this process dies, a
worker finds its pipe broken and ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from perpacket.errors import PerpacketError, RunFailed
from perpacket.run.jobs import MOST_DEATHS, POLL_S, Finished, Job, Results, checked_workers, failure
from perpacket.run.ticking import ticking
from perpacket.study.runner import Outcome, Run

STOPPING_S = 5.0
"""How long a worker may take to end after it is asked to."""

Answer = tuple[int, int] | Outcome | PerpacketError
"""What a worker says: how far it is, or what the job came to."""


@dataclass
class _Worker:
    """One process, and the job it has."""

    process: BaseProcess
    channel: Connection
    job: Job | None = None
    progress: tuple[int, int] = (0, 0)


class ProcessExecutor:
    """Runs jobs in processes, which are started when they are needed."""

    def __init__(self, workers: int | None = None) -> None:
        """So many processes, one a core unless given; raises `ConfigurationError` below 1."""
        self.workers = checked_workers(workers)
        self._pool: list[_Worker] = []
        self._deaths: dict[tuple[str, int], int] = {}

    def check(self) -> None:
        """Processes can always be had."""

    def run(self, jobs: Sequence[Job]) -> Results:
        """Each job once, as it finishes, and None every `POLL_S` meanwhile."""
        waiting = deque(jobs)
        self._deaths.clear()
        try:
            while waiting or any(worker.job for worker in self._pool):
                yield from self._hand_out(waiting)
                ready = set(wait([worker.channel for worker in self._pool], POLL_S))
                for worker in [worker for worker in self._pool if worker.channel in ready]:
                    one = self._hear(worker, waiting)
                    if one is not None:
                        yield one
                yield None
        finally:
            self._end_all()

    def _hand_out(self, waiting: deque[Job]) -> Iterator[Finished]:
        """Give each idle worker a job; make workers while there are jobs for them.

        Gives back the jobs that cannot travel.
        """
        while waiting:
            idle = next((worker for worker in self._pool if worker.job is None), None)
            if idle is None:
                if len(self._pool) == self.workers:
                    return
                idle = _started()
                self._pool.append(idle)
            job = waiting.popleft()
            idle.job, idle.progress = job, (0, 0)
            try:
                idle.channel.send(job)
            except OSError:
                # It died idle: the end of its pipe says so to `_hear`, which takes the job back.
                continue
            except Exception as error:  # pickle raises what the job's parts raise
                idle.job = None
                yield Finished(job, failure(error))

    def _hear(self, worker: _Worker, waiting: deque[Job]) -> Finished | None:
        """What a worker says; when it has died, its job is done again before all others."""
        try:
            answer: Answer = worker.channel.recv()
        except (EOFError, OSError):
            return self._bury(worker, waiting)
        if isinstance(answer, tuple):
            worker.progress = answer
            return None
        job, worker.job = worker.job, None
        return None if job is None else Finished(job, answer)

    def _bury(self, worker: _Worker, waiting: deque[Job]) -> Finished | None:
        self._pool.remove(worker)
        worker.channel.close()
        _end(worker.process)
        job = worker.job
        if job is None:
            return None
        name = (job.point.name, job.seed)
        self._deaths[name] = self._deaths.get(name, 0) + 1
        if self._deaths[name] < MOST_DEATHS:
            waiting.appendleft(job)
            return None
        how = _how_it_ended(worker.process.exitcode)
        return Finished(
            job,
            RunFailed(
                f"{MOST_DEATHS} processes died of it, the last one {how}",
                hint="the kernel kills what takes too much memory: see its log, or give fewer "
                "--workers",
            ),
        )

    def _end_all(self) -> None:
        """End every worker, whatever it does, and wait until it is gone."""
        for worker in self._pool:
            worker.channel.close()
            worker.process.terminate()
        for worker in self._pool:
            _end(worker.process)
        self._pool.clear()

    def active(self) -> Sequence[tuple[int, int]]:
        """For each run under way what is done of it and what it is in all."""
        return [worker.progress for worker in self._pool if worker.job is not None]

    def describe(self) -> Mapping[str, object]:
        """The number of processes."""
        return {"kind": "processes", "workers": self.workers}


def _started() -> _Worker:
    # Not forked: a process that has threads, as this one may, must not be copied.
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=work, args=(its,), name="run", daemon=True)
    process.start()
    # Only the worker may hold its end: then its death ends the pipe.
    its.close()
    return _Worker(process, ours)


def _end(process: BaseProcess) -> None:
    """Wait for the end of a process, and kill it when it does not come."""
    process.join(STOPPING_S)
    if process.is_alive():
        process.kill()
        process.join()


def _how_it_ended(status: int | None) -> str:
    """An exit status in words."""
    if status is not None and status < 0:
        return f"by {signal.Signals(-status).name}"
    return f"with status {status}"


def work(channel: Connection) -> None:
    """A worker's life: jobs one after another, until its pipe ends."""
    # Ctrl-C goes to every process of the terminal; the one that began the study ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    speaker = _Speaker(channel)
    while True:
        try:
            job: Job = channel.recv()
        except (EOFError, OSError):
            return
        try:
            run = job.prepare()
            with ticking(POLL_S, partial(_tell, speaker, run)):
                answer: Answer = run.run()
        except BaseException as error:  # a panic of the core is no Exception
            answer = failure(error)
        speaker.say(answer)


def _tell(speaker: _Speaker, run: Run) -> None:
    speaker.say(run.progress())


@dataclass
class _Speaker:
    """A worker's end of the pipe, which its job and its progress share."""

    channel: Connection
    lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, answer: Answer) -> None:
        """Send it, or end: without its pipe a worker works for nobody."""
        try:
            with self.lock:
                self.channel.send(answer)
        except OSError:
            os._exit(1)
