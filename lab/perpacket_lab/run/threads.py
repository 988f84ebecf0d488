"""Runs jobs in threads of this process. The simulator runs without the interpreter's lock."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from perpacket.errors import Interrupted
from perpacket_lab.run.jobs import Finished, Job, Results, checked_workers, failure, polled
from perpacket_lab.study.runner_interfaces import Run, RunOutcome


class ThreadExecutor:
    """Runs jobs in threads of this process. Jobs need not be pickled; a crash ends all runs."""

    def __init__(self, workers: int | None = None) -> None:
        """At most `workers` threads; `checked_workers` checks the number and has the default."""
        self.workers = checked_workers(workers)
        self._lock = threading.Lock()
        self._active: list[Run] = []
        self._stopped = False

    def check(self) -> None:
        """Do nothing: threads are always available."""

    def run(self, jobs: Sequence[Job]) -> Results:
        """Yield each job once, when it finishes, and None every `POLL_S`."""
        finished: SimpleQueue[Finished] = SimpleQueue()
        self._stopped = False
        with ThreadPoolExecutor(self.workers, thread_name_prefix="run") as pool:
            try:
                for job in jobs:
                    pool.submit(self._perform, job, finished)
                yield from polled(finished, len(jobs))
            finally:
                self._stop()
                pool.shutdown(wait=True, cancel_futures=True)

    def _perform(self, job: Job, finished: SimpleQueue[Finished]) -> None:
        try:
            finished.put(Finished(job, self._outcome(job)))
        except BaseException as error:  # a panic of the simulator is not an Exception
            # A failure ends the study. Report it before the runs that it stops.
            finished.put(Finished(job, failure(error)))
            self._stopped = True

    def _outcome(self, job: Job) -> RunOutcome:
        """Prepare a run and run it. `_active` lists it meanwhile, for `_stop` and `active`."""
        run = job.prepare()
        with self._lock:
            if self._stopped:
                raise Interrupted("stopped before it began")
            self._active.append(run)
        try:
            return run.run()
        finally:
            with self._lock:
                self._active.remove(run)

    def _stop(self) -> None:
        """Cancel the active runs and start no other."""
        with self._lock:
            self._stopped = True
            active = list(self._active)
        for run in active:
            run.cancel()

    def active(self) -> Sequence[tuple[int, int]]:
        """The progress of each active run: done and total."""
        with self._lock:
            return [run.progress() for run in self._active]

    def describe(self) -> Mapping[str, object]:
        """The number of threads."""
        return {"kind": "threads", "workers": self.workers}
