"""Runs what a run directory is missing, in parallel, and survives being stopped.

Each run is a thread, since the core runs outside the interpreter's lock. Which runs go together
changes nothing: a run depends on its point and its seed alone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from perpacket.errors import ConfigurationError, Interrupted, PerpacketError, RunFailed
from perpacket.experiment.run_directory import RunDirectory
from perpacket.experiment.study import Outcome, Point, Run, Runner

POLL_S = 0.2
"""How often progress is reported, in seconds."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known while a study runs."""

    finished: int
    """Observations on disk, those of earlier sessions included."""
    total: int
    running: int
    share: float
    """Share of this session's work that is done, 0 to 1, with the runs under way in part."""
    elapsed_s: float
    latest: tuple[Point, int, Outcome] | None
    """The point, seed and outcome that finished last."""

    @property
    def remaining_s(self) -> float | None:
        """Time to go at the pace so far; None while nothing is known."""
        return self.elapsed_s * (1 - self.share) / self.share if self.share > 0 else None


ProgressFunction = Callable[[Progress], None]


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


def execute(
    directory: RunDirectory,
    runner: Runner,
    workers: int | None = None,
    on_progress: ProgressFunction | None = None,
) -> int:
    """Run every observation that `directory` is missing; returns how many were run.

    The first failure stops the others; what is finished is kept. Raises `RunFailed` naming point
    and seed, `ConfigurationError` when a point cannot be run, `CorruptObservation` when the
    directory holds a damaged one, and `Interrupted` (saying how to go on) after Ctrl-C.
    """
    workers = checked_workers(workers)
    with directory.locked():
        missing = directory.missing()
        total = directory.planned()
        session = _Session(directory, runner, total=total, planned=len(missing))
        with ThreadPoolExecutor(workers, thread_name_prefix="run") as pool:
            try:
                futures = [pool.submit(session.observe, point, seed) for point, seed in missing]
                _wait(futures, session, on_progress)
            except BaseException as error:
                pool.shutdown(wait=False, cancel_futures=True)
                session.stop()
                if isinstance(error, KeyboardInterrupt):
                    pool.shutdown(wait=True)
                    raise _interruption(session) from None
                raise
    return len(missing)


def _wait(
    futures: list[Future[None]], session: _Session, on_progress: ProgressFunction | None
) -> None:
    """Wait for every run, reporting progress; raises the first failure."""
    unfinished = set(futures)
    while unfinished:
        done, unfinished = wait(unfinished, timeout=POLL_S, return_when=FIRST_EXCEPTION)
        if any(future.exception() is not None for future in done):
            raise session.failure or RunFailed("a run stopped without saying why")
        if on_progress is not None:
            on_progress(session.progress())


def _interruption(session: _Session) -> Interrupted:
    """The error after Ctrl-C."""
    state = session.progress()
    return Interrupted(
        f"interrupted: {state.finished} of {state.total} observations are kept in "
        f"{session.directory.path}",
        hint=f"go on with `perpacket study resume {session.directory.path}`",
    )


def _named(
    error: BaseException, point: Point, seed: int, directory: RunDirectory
) -> PerpacketError:
    """The failure of a run with its point and seed."""
    if isinstance(error, ConfigurationError):
        return ConfigurationError(
            f"point {point.name}: {error}", error.parameter, error.value, error.allowed, error.hint
        )
    return RunFailed(
        f"point {point.name}, seed {seed}: {error}",
        hint=f"what is finished is kept: `perpacket study resume {directory.path}` tries again",
    )


@dataclass
class _Session:
    """What the worker threads share. All fields below `planned` change under the lock."""

    directory: RunDirectory
    runner: Runner
    total: int
    planned: int
    began_s: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)
    active: list[Run] = field(default_factory=list)
    finished: int = 0
    stopped: bool = False
    failure: PerpacketError | None = None
    """The first failure; those that it stopped are none of their own."""
    latest: tuple[Point, int, Outcome] | None = None

    def observe(self, point: Point, seed: int) -> None:
        """Run one point with one seed and keep the observation."""
        first_seed = self.directory.configuration.seeds[0]
        try:
            outcome = self._run(point, seed, point.timeline and seed == first_seed)
            self.directory.record(point, seed, outcome)
        except Interrupted:
            raise
        except BaseException as error:  # a panic of the core is no Exception
            with self.lock:
                self.failure = self.failure or _named(error, point, seed, self.directory)
                self.stopped = True
            raise
        with self.lock:
            self.finished += 1
            self.latest = (point, seed, outcome)

    def _run(self, point: Point, seed: int, timeline: bool) -> Outcome:
        """Prepare a run and run it, where `stop` and `progress` can reach it."""
        run = self.runner.prepare(point, seed, timeline)
        with self.lock:
            if self.stopped:
                raise Interrupted("stopped before it began")
            self.active.append(run)
        try:
            return run.run()
        finally:
            with self.lock:
                self.active.remove(run)

    def stop(self) -> None:
        """Cancel the runs under way and let no other begin."""
        with self.lock:
            self.stopped = True
            active = list(self.active)
        for run in active:
            run.cancel()

    def progress(self) -> Progress:
        """The state now."""
        with self.lock:
            finished, latest, active = self.finished, self.latest, list(self.active)
        parts = [done / total for done, total in (run.progress() for run in active) if total]
        return Progress(
            finished=self.total - self.planned + finished,
            total=self.total,
            running=len(active),
            share=(finished + sum(parts)) / self.planned if self.planned else 1.0,
            elapsed_s=time.monotonic() - self.began_s,
            latest=latest,
        )
