"""Jobs and the interface of executors. A job is one run of one point, and can be pickled.

    threads.py      runs jobs in threads of this process
    processes.py    runs jobs in processes of this machine, which may die
    cluster.py      runs jobs on the workers of a Dask cluster, which may die too

An executor returns the outcome of each job and writes no file. The process that locks the run
directory stores the observations, so that a job that ran twice has one observation.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

import perpacket
from perpacket.errors import ConfigurationError, PerpacketError, RunFailed
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import Run, Runner, RunOutcome

POLL_S = 0.2
"""The interval between reports of progress, in seconds."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run to be executed. It can be pickled if its runner can."""

    runner: Runner
    point: Point
    seed: int
    timeline: bool
    version: str = perpacket.__version__
    """The version of perpacket that started the study; no other version may run the job."""

    def prepare(self) -> Run:
        """The run; raises `ConfigurationError` when the point or the version cannot be run."""
        if self.version != perpacket.__version__:
            raise versions_differ("a worker", perpacket.__version__, self.version)
        return self.runner.prepare(self.point, self.seed, self.timeline)


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished job with its outcome, or the reason why it has none."""

    job: Job
    outcome: RunOutcome | PerpacketError


Results = Generator[Finished | None, None, None]
"""Each job when it finishes, and None after each `POLL_S` without one."""

ItemT = TypeVar("ItemT")


def polled(finished: SimpleQueue[ItemT], count: int) -> Iterator[ItemT | None]:
    """`count` items of a queue as they arrive, and None after each `POLL_S` without one."""
    while count:
        try:
            item = finished.get(timeout=POLL_S)
        except Empty:
            yield None
            continue
        count -= 1
        yield item


class Executor(Protocol):
    """Runs jobs, several at the same time."""

    def check(self) -> None:
        """Raise `MachineLacks` or `ConfigurationError` when the executor cannot run any job.

        The caller checks this before it writes anything.
        """
        ...

    def run(self, jobs: Sequence[Job]) -> Results:
        """Yield each job once, when it finishes, and None at least every `POLL_S`.

        The caller then reports progress. Closing the iterator stops the active runs. Raises
        `RunFailed` when the executor can run no more jobs.
        """
        ...

    def active(self) -> Sequence[tuple[int, int]]:
        """The progress of each active run: done and total."""
        ...

    def describe(self) -> Mapping[str, object]:
        """The executor's kind and size, for `environment.json`."""
        ...


def failure(error: BaseException) -> PerpacketError:
    """The error as a `PerpacketError` with a message, which can be pickled."""
    if isinstance(error, PerpacketError):
        return error
    return RunFailed(str(error) or type(error).__name__)


def versions_differ(worker: str, its_version: str, expected: str) -> ConfigurationError:
    """The error for a worker with another version of perpacket."""
    return ConfigurationError(
        f"{worker} has perpacket {its_version}, this is {expected}: "
        "one table must not mix versions",
        parameter="perpacket",
        value=its_version,
        hint=f"install perpacket {expected} there",
    )


def default_workers() -> int:
    """One worker for each core that this process may use."""
    return len(os.sched_getaffinity(0))


def checked_workers(workers: int | None) -> int:
    """The number of workers, by default `default_workers`; raises `ConfigurationError` below 1."""
    workers = default_workers() if workers is None else workers
    if workers < 1:
        raise ConfigurationError(
            f"workers = {workers} cannot be used",
            parameter="workers",
            value=str(workers),
            allowed="use 1 or more",
        )
    return workers
