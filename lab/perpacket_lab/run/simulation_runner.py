"""The runner of simulated studies: one run is one `Simulation`."""

from __future__ import annotations

from perpacket_lab.simulation import Simulation
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import Run, RunOutcome

TIMING_KEYS = ("wall_s", "packets_per_wall_s")
"""Keys of a result that depend on the machine that simulated the run."""


class SimulationRun:
    """A prepared simulation with the interface of a `Run`."""

    def __init__(self, point: Point, seed: int, timeline: bool) -> None:
        """Prepare the simulation; raises `ConfigurationError` when the point cannot be run."""
        self._simulation = Simulation(
            point.configuration, seed=seed, overrides=point.overrides, timeline=timeline
        )
        self._timeline = timeline

    def run(self) -> RunOutcome:
        """Simulate, and separate the timing from the result."""
        result = self._simulation.run()
        timing = {key: result.pop(key) for key in TIMING_KEYS if key in result}
        timeline = self._simulation.timeline() if self._timeline else None
        return RunOutcome(result, timing, timeline)

    def progress(self) -> tuple[int, int]:
        """Packets simulated so far and packets in all."""
        return self._simulation.progress()

    def cancel(self) -> None:
        """Make `run` raise `Interrupted` soon."""
        self._simulation.cancel()


class SimulationRunner:
    """Prepares simulations."""

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A simulation of that point."""
        return SimulationRun(point, seed, timeline)
