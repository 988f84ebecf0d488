"""What executors run: jobs. A job is one run of one point, and can be pickled.

    threads.py      jobs as threads of this process
    processes.py    jobs in processes of this machine, which may die
    cluster.py      jobs on the workers of a Dask cluster, which may die too

An executor returns the outcome of each job and writes nothing. The process that locks the run
directory stores the observations, so that a job that ran twice has one observation.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import perpacket
from perpacket.errors import ConfigurationError, PerpacketError, RunFailed
from perpacket.study.point import Point
from perpacket.study.runner import Outcome, Run, Runner

POLL_S = 0.2
"""How often progress is reported, in seconds."""

MOST_DEATHS = 3
"""After so many deaths of its workers, a job is their cause."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run to be done.

    It can be pickled if its runner can; a `NamedRunner` is pickled as its name.
    """

    runner: Runner
    point: Point
    seed: int
    timeline: bool
    version: str = perpacket.__version__
    """The version of perpacket that wants the run: no other version may run it."""

    def prepare(self) -> Run:
        """The run.

        Raises `ConfigurationError` when the point cannot be run, or needs another version of
        perpacket.
        """
        if self.version != perpacket.__version__:
            raise versions_differ("a worker", perpacket.__version__, self.version)
        return self.runner.prepare(self.point, self.seed, self.timeline)


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished job with its outcome, or the reason why it has none."""

    job: Job
    outcome: Outcome | PerpacketError


Results = Generator[Finished | None, None, None]
"""Each job when it finishes, and None after a `POLL_S` without one."""


class Executor(Protocol):
    """Runs jobs, some at once."""

    def check(self) -> None:
        """Raise `MachineLacks` or `ConfigurationError` when it cannot run any job.

        Called before anything is written.
        """
        ...

    def run(self, jobs: Sequence[Job]) -> Results:
        """Yield each job once, when it finishes, and None every `POLL_S`.

        The caller reports progress on None.

        Closing the iterator stops what is running. Raises `RunFailed` when no job can be run any
        more.
        """
        ...

    def active(self) -> Sequence[tuple[int, int]]:
        """The progress of each active run: done and total."""
        ...

    def describe(self) -> Mapping[str, object]:
        """What it is, for `environment.json`."""
        ...


def failure(error: BaseException) -> PerpacketError:
    """The error as one with a full message, which can be pickled."""
    if isinstance(error, PerpacketError):
        return error
    return RunFailed(str(error) or type(error).__name__)


def versions_differ(who: str, its_version: str, wanted: str) -> ConfigurationError:
    """The error where another version of perpacket would have to do a run."""
    return ConfigurationError(
        f"{who} has perpacket {its_version}, this is {wanted}: one table must not mix two",
        parameter="perpacket",
        value=its_version,
        hint=f"install perpacket {wanted} there",
    )


def default_workers() -> int:
    """One worker for each core this process may use."""
    return len(os.sched_getaffinity(0))


def checked_workers(workers: int | None) -> int:
    """How many runs go at once, one a core unless given; raises `ConfigurationError` below 1."""
    workers = default_workers() if workers is None else workers
    if workers < 1:
        raise ConfigurationError(
            f"workers = {workers} cannot be used",
            parameter="workers",
            value=str(workers),
            allowed="use 1 or more",
        )
    return workers
