"""Runs the simulations that a run directory is missing, in parallel.

The result of a run depends on its point and its seed alone, not on where it executes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field

from perpacket.errors import ConfigurationError, Interrupted, PerpacketError, RunFailed
from perpacket.run.directory import RunDirectory
from perpacket.run.jobs import POLL_S, Executor, Finished, Job, checked_workers
from perpacket.run.threads import ThreadExecutor
from perpacket.study.point import Point
from perpacket.study.runner import Outcome, Runner

__all__ = ["POLL_S", "Progress", "ProgressFunction", "checked_workers", "execute", "interrupted"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a study that runs."""

    finished: int
    """Observations on disk, with those of earlier batches."""
    total: int
    running: int
    share: float
    """Share of this batch's work that is done, 0 to 1, with the runs under way in part."""
    elapsed_s: float
    latest: tuple[Point, int, Outcome] | None
    """The point, seed and outcome that finished last."""

    @property
    def remaining_s(self) -> float | None:
        """The expected remaining time at the current rate; None before the first result."""
        return self.elapsed_s * (1 - self.share) / self.share if self.share > 0 else None


ProgressFunction = Callable[[Progress], None]


def execute(
    directory: RunDirectory,
    runner: Runner,
    workers: int | None = None,
    on_progress: ProgressFunction | None = None,
    *,
    executor: Executor | None = None,
    only: Collection[str] | None = None,
) -> int:
    """Run every observation that `directory` is missing; returns how many were run.

    `executor` runs them; by default `workers` threads of this process do. `only` names the points;
    by default all run. The first failure stops the others; finished observations are kept. Raises
    `RunFailed` naming point and seed, `ConfigurationError` when a point cannot run,
    `CorruptObservation` for a damaged observation, and `Interrupted`, with the command that
    resumes, after Ctrl-C.
    """
    executor = executor or ThreadExecutor(workers)
    first_seed = directory.configuration.seeds[0]
    with directory.locked():
        jobs = [
            Job(runner, point, seed, point.timeline and seed == first_seed)
            for point, seed in directory.missing()
            if only is None or point.name in only
        ]
        batch = _Batch(directory, executor, total=directory.planned(only), planned=len(jobs))
        try:
            with closing(executor.run(jobs)) as finished:
                for one in finished:
                    if one is not None:
                        batch.keep(one)
                    if on_progress is not None:
                        on_progress(batch.progress())
        except KeyboardInterrupt:
            raise interrupted(directory) from None
    return len(jobs)


def interrupted(directory: RunDirectory) -> Interrupted:
    """The error after Ctrl-C: how much is recorded, and how to resume."""
    total = directory.planned()
    kept = total - len(directory.missing())
    return Interrupted(
        f"interrupted: {kept} of {total} observations are kept in {directory.path}",
        hint=f"go on with `perpacket study resume {directory.path}`",
    )


@dataclass
class _Batch:
    """What one call of `execute` has done."""

    directory: RunDirectory
    executor: Executor
    total: int
    planned: int
    began_s: float = field(default_factory=time.monotonic)
    finished: int = 0
    latest: tuple[Point, int, Outcome] | None = None

    def keep(self, one: Finished) -> None:
        """Record an observation; raises the error that a run ended with."""
        job, outcome = one.job, one.outcome
        if isinstance(outcome, PerpacketError):
            raise self._named(outcome, job)
        try:
            self.directory.record(job.point, job.seed, outcome)
        except (OSError, TypeError, ValueError) as error:
            raise self._named(error, job) from error
        self.finished += 1
        self.latest = (job.point, job.seed, outcome)

    def _named(self, error: Exception, job: Job) -> PerpacketError:
        """The failure of a run with its point and seed."""
        point, path = job.point.name, self.directory.path
        if isinstance(error, ConfigurationError):
            return ConfigurationError(
                f"point {point}: {error}", error.parameter, error.value, error.allowed, error.hint
            )
        return RunFailed(
            f"point {point}, seed {job.seed}: {error}",
            hint=f"what is finished is kept: `perpacket study resume {path}` tries again",
        )

    def progress(self) -> Progress:
        """The state now."""
        active = self.executor.active()
        parts = [done / total for done, total in active if total]
        share = (self.finished + sum(parts)) / self.planned if self.planned else 1.0
        return Progress(
            finished=self.total - self.planned + self.finished,
            total=self.total,
            running=len(active),
            share=min(1.0, share),
            elapsed_s=time.monotonic() - self.began_s,
            latest=self.latest,
        )
