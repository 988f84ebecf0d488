"""Runs the missing simulations of a run directory, in parallel.

The result of a run depends only on its point and its seed, not on where it executes.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing

from perpacket.errors import ConfigurationError, PerpacketError, RunFailed
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.run.jobs import Executor, Finished, Job
from perpacket_lab.run.progress import Batch, Progress, ProgressFunction, interrupted
from perpacket_lab.study.runner_interfaces import Runner


def execute(
    directory: RunDirectory,
    runner: Runner,
    executor: Executor,
    on_progress: ProgressFunction | None = None,
    only: Collection[str] | None = None,
) -> int:
    """Run every simulation whose observation is missing; returns the number of runs.

    `only` names the points; by default all run. The first failure stops the others; finished
    observations stay. Raises `RunFailed` naming point and seed, `ConfigurationError` when a point
    cannot run, `CorruptObservation` for a damaged observation, and `Interrupted`, with the command
    that resumes, after Ctrl-C.
    """
    first_seed = directory.configuration.seeds[0]
    with directory.locked():
        jobs = [
            Job(runner, point, seed, point.timeline and seed == first_seed)
            for point, seed in directory.missing()
            if only is None or point.name in only
        ]
        batch = _SimulatedBatch(directory, directory.planned(only), len(jobs))
        try:
            with closing(executor.run(jobs)) as finished:
                for ended in finished:
                    if ended is not None:
                        batch.finish(ended)
                    if on_progress is not None:
                        on_progress(batch.progress(executor))
        except KeyboardInterrupt:
            raise interrupted(directory) from None
    return len(jobs)


class _SimulatedBatch(Batch):
    def finish(self, ended: Finished) -> None:
        """Record an observation; raises the error of a failed run."""
        job, outcome = ended.job, ended.outcome
        if isinstance(outcome, PerpacketError):
            raise self._named(outcome, job)
        try:
            self.record(job.point, job.seed, outcome)
        except (OSError, TypeError, ValueError) as error:
            raise self._named(error, job) from error

    def _named(self, error: Exception, job: Job) -> PerpacketError:
        """The failure of a run with its point and seed."""
        point, path = job.point.name, self.directory.path
        if isinstance(error, ConfigurationError):
            return ConfigurationError(
                f"point {point}: {error}", error.parameter, error.value, error.allowed, error.hint
            )
        return RunFailed(
            f"point {point}, seed {job.seed}: {error}",
            hint=f"finished observations are stored: `perpacket study resume {path}` tries again",
        )

    def progress(self, executor: Executor) -> Progress:
        """The progress now."""
        active = executor.active()
        parts = [done / total for done, total in active if total]
        share = (self.finished + sum(parts)) / self.planned if self.planned else 1.0
        return self.state(len(active), share)
