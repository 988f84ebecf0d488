"""The progress of a study that runs, and the record of its observations."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from perpacket.errors import Interrupted
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import RunOutcome


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a study that runs."""

    finished: int
    """Observations on disk, with those of earlier batches."""
    total: int
    running: int
    share: float
    """The finished share of this batch's work, 0 to 1. Active runs count in part."""
    elapsed_s: float
    latest: tuple[Point, int, RunOutcome] | None
    """The point, seed and outcome that finished last."""

    @property
    def remaining_s(self) -> float | None:
        """The expected remaining time at the current rate; None before the first result."""
        return self.elapsed_s * (1 - self.share) / self.share if self.share > 0 else None


ProgressFunction = Callable[[Progress], None]


class Batch:
    """The observations of one call of `execute`."""

    def __init__(self, directory: RunDirectory, total: int, planned: int) -> None:
        """A batch of `planned` runs, after which the directory has `total` observations."""
        self.directory, self.total, self.planned = directory, total, planned
        self.finished = 0
        self._began_s = time.monotonic()
        self._latest: tuple[Point, int, RunOutcome] | None = None

    def record(self, point: Point, seed: int, outcome: RunOutcome) -> None:
        """Store an observation."""
        self.directory.record(point, seed, outcome)
        self.finished += 1
        self._latest = (point, seed, outcome)

    def state(self, running: int, share: float) -> Progress:
        """The progress with that many active runs and that share of the work done."""
        return Progress(
            finished=self.total - self.planned + self.finished,
            total=self.total,
            running=running,
            share=min(1.0, share),
            elapsed_s=time.monotonic() - self._began_s,
            latest=self._latest,
        )


def interrupted(directory: RunDirectory) -> Interrupted:
    """The error after Ctrl-C: the number of stored observations, and how to resume."""
    total = directory.planned()
    return Interrupted(
        f"interrupted: {total - len(directory.missing())} of {total} observations are in "
        f"{directory.path}",
        hint=f"continue with `perpacket study resume {directory.path}`",
    )
