"""What executors run: jobs, each one run of one point, as plain data that can travel.

    threads.py      jobs as threads of this process
    processes.py    jobs in processes of this machine, which may die
    cluster.py      jobs on the workers of a Dask cluster, which may die too

An executor gives back what each job came to, and writes nothing: the process that holds the run
directory keeps the observations, so that none is there twice whoever did it and however often.
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
"""A job whose worker dies as often is what kills it."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run to be done. It can be pickled if its runner can: one without state is but a name."""

    runner: Runner
    point: Point
    seed: int
    timeline: bool
    version: str = perpacket.__version__
    """Version of perpacket that asks for it: another one must not answer."""

    def prepare(self) -> Run:
        """The run.

        Raises `ConfigurationError` when the point cannot be run, or not by this perpacket.
        """
        if self.version != perpacket.__version__:
            raise versions_differ("a worker", perpacket.__version__, self.version)
        return self.runner.prepare(self.point, self.seed, self.timeline)


@dataclass(frozen=True, slots=True)
class Finished:
    """What a job came to: its outcome, or why there is none."""

    job: Job
    outcome: Outcome | PerpacketError


Results = Generator[Finished | None, None, None]
"""Finished jobs as they come, and None where none did."""


class Executor(Protocol):
    """Runs jobs, some at once."""

    def check(self) -> None:
        """Raise `MachineLacks` or `ConfigurationError` when it can run nothing.

        Called before anything is written.
        """
        ...

    def run(self, jobs: Sequence[Job]) -> Results:
        """Each job once, as it finishes, and None every `POLL_S` meanwhile, to report progress.

        Closing the iterator stops what is running. Raises `RunFailed` when no job can be run any
        more.
        """
        ...

    def active(self) -> Sequence[tuple[int, int]]:
        """For each run under way what is done of it and what it is in all."""
        ...

    def describe(self) -> Mapping[str, object]:
        """What it is, for `environment.json`."""
        ...


def failure(error: BaseException) -> PerpacketError:
    """An error as one that says what it is, and that can travel."""
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
            allowed="give 1 or more",
        )
    return workers
