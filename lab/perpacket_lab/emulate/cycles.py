"""Cycles by a model, computed from counts. An emulation measures none.

The latencies are those of a machine of the simulator, charged as the simulator charges them: an
access costs the latency of the level that has its line, beyond the latency of the first level,
which the cycles of an instruction include. Fetches of instructions cost as much as data. Misses of
translations cost nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache

from perpacket_lab.simulation import Simulation

MACHINES = ("osdi06", "athlon-xp-2600")
"""Machines of the simulator with published latencies, the default first."""


@dataclass(frozen=True, slots=True)
class CycleModel:
    """The cycles of an instruction and of an access to each level, on a machine."""

    machine: str
    cycles_per_instruction: float
    l1_latency_cycles: float
    l2_latency_cycles: float
    dram_latency_cycles: float

    def cycles(self, instructions: float, l1_misses: float, l2_misses: float) -> float:
        """The cycles of so many instructions with these misses of instructions and data."""
        return (
            instructions * self.cycles_per_instruction
            + (l1_misses - l2_misses) * (self.l2_latency_cycles - self.l1_latency_cycles)
            + l2_misses * (self.dram_latency_cycles - self.l1_latency_cycles)
        )

    def as_dict(self) -> dict[str, object]:
        """The model for a result."""
        return asdict(self)

    def __str__(self) -> str:
        """The model in words."""
        return (
            f"{self.machine}: cycles an instruction {self.cycles_per_instruction:g}, an access to "
            f"the second level {self.l2_latency_cycles:g}, an access to memory "
            f"{self.dram_latency_cycles:g}"
        )


@cache
def cycle_model(machine: str) -> CycleModel:
    """The model of a machine of the simulator; raises `MachineLacks` without the core."""
    parameters = Simulation("bulk", overrides=[("machine", machine)]).parameters()
    values = {one.name: one.value for one in parameters}

    def number(name: str) -> float:
        return float(values[f"machine.{name}"] or 0)

    return CycleModel(
        machine,
        number("cycles_per_instruction"),
        number("l1d.latency_cycles"),
        number("l2.latency_cycles"),
        number("dram.latency_cycles"),
    )
