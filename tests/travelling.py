"""Runs that can be pickled, and that fail, wait or kill their process in another process."""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from perpacket.errors import RunFailed
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import RunOutcome


@dataclass
class TravellingRun:
    """A run that invents its numbers from the point and the seed."""

    runner: TravellingRunner
    point: Point
    seed: int
    cancelled: bool = False

    def run(self) -> RunOutcome:
        name = f"{self.point.name}-{self.seed}"
        if name == self.runner.deadly or (name == self.runner.deadly_once and self._first(name)):
            os.kill(os.getpid(), signal.SIGKILL)
        if name == self.runner.failing:
            raise RunFailed(f"{name} cannot be run", hint="correct it")
        until_s = time.monotonic() + self.runner.hold_s
        while time.monotonic() < until_s and not self.cancelled:
            time.sleep(0.01)
        source = random.Random(name)
        return RunOutcome(
            {"requests_per_s": source.uniform(1e3, 3e4), "drops": source.randrange(10)},
            {"wall_s": time.monotonic(), "process": os.getpid()},
        )

    def _first(self, name: str) -> bool:
        """Whether this is the first execution of the run."""
        try:
            (self.runner.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def progress(self) -> tuple[int, int]:
        return 1, 2

    def cancel(self) -> None:
        self.cancelled = True


@dataclass(frozen=True)
class TravellingRunner:
    """Prepares such runs; a run is named POINT-SEED."""

    folder: Path = field(default_factory=Path)
    hold_s: float = 0.0
    deadly: str = ""
    """The run that kills its process."""
    deadly_once: str = ""
    """The run that kills the first process that executes it; `folder` has a file for it then."""
    failing: str = ""

    def prepare(self, point: Point, seed: int, timeline: bool) -> TravellingRun:
        return TravellingRun(self, point, seed)
