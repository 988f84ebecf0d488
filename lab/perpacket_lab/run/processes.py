"""Runs jobs in processes of this machine: a crash in one run does not end the study.

Each worker is a process with a pipe. A worker receives one job at a time, and sends its progress
and its outcome. When a worker dies, as when the kernel kills a process that uses too much memory,
another worker repeats its job. After `MOST_DEATHS` deaths the job has failed. When this process
dies, the pipes of the workers close and the workers end.
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
from perpacket_lab.run.jobs import POLL_S, Finished, Job, Results, checked_workers, failure
from perpacket_lab.run.ticking import ticking
from perpacket_lab.study.runner_interfaces import Run, RunOutcome

MOST_DEATHS = 3
"""After this many deaths of workers with the same job, the job is the likely cause."""

STOPPING_S = 5.0
"""The time between SIGTERM and SIGKILL to a worker."""

Message = tuple[int, int] | RunOutcome | PerpacketError
"""A message of a worker: its progress, or the outcome of its job."""


@dataclass
class _Worker:
    """One process with its job."""

    process: BaseProcess
    channel: Connection
    job: Job | None = None
    progress: tuple[int, int] = (0, 0)


class ProcessExecutor:
    """Runs jobs in processes, and starts a process when a job needs it."""

    def __init__(self, workers: int | None = None) -> None:
        """At most `workers` processes; `checked_workers` checks the number and has the default."""
        self.workers = checked_workers(workers)
        self._pool: list[_Worker] = []
        self._deaths: dict[tuple[str, int], int] = {}

    def check(self) -> None:
        """Do nothing: processes are always available."""

    def run(self, jobs: Sequence[Job]) -> Results:
        """Yield each job once, when it finishes, and None every `POLL_S`."""
        waiting = deque(jobs)
        self._deaths.clear()
        try:
            while waiting or any(worker.job for worker in self._pool):
                yield from self._send_jobs(waiting)
                ready = set(wait([worker.channel for worker in self._pool], POLL_S))
                for worker in [worker for worker in self._pool if worker.channel in ready]:
                    ended = self._receive(worker, waiting)
                    if ended is not None:
                        yield ended
                yield None
        finally:
            self._end_all()

    def _send_jobs(self, waiting: deque[Job]) -> Iterator[Finished]:
        """Send a job to each idle worker, and start workers while jobs wait.

        Yields the jobs that cannot be pickled.
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
                # The worker died. `_receive` finds its closed pipe and requeues the job.
                continue
            except Exception as error:  # pickle raises every kind of error
                idle.job = None
                yield Finished(job, failure(error))

    def _receive(self, worker: _Worker, waiting: deque[Job]) -> Finished | None:
        """Receive the message of a worker. The job of a dead worker is the next in the queue."""
        try:
            message: Message = worker.channel.recv()
        except (EOFError, OSError):
            return self._remove_dead(worker, waiting)
        if isinstance(message, tuple):
            worker.progress = message
            return None
        job, worker.job = worker.job, None
        return None if job is None else Finished(job, message)

    def _remove_dead(self, worker: _Worker, waiting: deque[Job]) -> Finished | None:
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
                f"{MOST_DEATHS} processes with this run died, the last one {how}",
                hint="the kernel kills a process that uses too much memory: read its log, or use "
                "fewer --workers",
            ),
        )

    def _end_all(self) -> None:
        """Terminate every worker and wait for its end."""
        for worker in self._pool:
            worker.channel.close()
            worker.process.terminate()
        for worker in self._pool:
            _end(worker.process)
        self._pool.clear()

    def active(self) -> Sequence[tuple[int, int]]:
        """The progress of each active run: done and total."""
        return [worker.progress for worker in self._pool if worker.job is not None]

    def describe(self) -> Mapping[str, object]:
        """The number of processes."""
        return {"kind": "processes", "workers": self.workers}


def _started() -> _Worker:
    # Spawn, because a process with threads must not be forked.
    context = multiprocessing.get_context("spawn")
    channel, worker_end = context.Pipe()
    process = context.Process(target=work, args=(worker_end,), name="run", daemon=True)
    process.start()
    # Close this copy of the worker's end, so that the worker's death closes the pipe.
    worker_end.close()
    return _Worker(process, channel)


def _end(process: BaseProcess) -> None:
    """Wait for the end of a process, and kill it after `STOPPING_S`."""
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
    """Run jobs one after another until the pipe ends; the main function of a worker."""
    # Ctrl-C signals every process of the terminal. The process of the study ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sender = _Sender(channel)
    while True:
        try:
            job: Job = channel.recv()
        except (EOFError, OSError):
            return
        try:
            run = job.prepare()
            with ticking(POLL_S, partial(sender.send_progress, run)):
                message: Message = run.run()
        except BaseException as error:  # a panic of the simulator is not an Exception
            message = failure(error)
        sender.send(message)


@dataclass
class _Sender:
    """A worker's end of the pipe; the outcome and the progress come from two threads."""

    channel: Connection
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, message: Message) -> None:
        """Send a message. A closed pipe means that the study has ended: then end this process."""
        try:
            with self.lock:
                self.channel.send(message)
        except OSError:
            os._exit(1)

    def send_progress(self, run: Run) -> None:
        """Send the progress of a run."""
        self.send(run.progress())
