"""An emulation in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perpacket.results import Result
from perpacket_lab.show import emulation
from perpacket_lab.study.quantities import flatten

if TYPE_CHECKING:
    from perpacket.results import AnyChart
    from perpacket.show.table import Table

INSTRUCTIONS = "instructions_per_packet"


@dataclass(frozen=True)
class EmulatedRun(Result):
    """Instructions and misses of a packet by layer, on an emulated machine."""

    document: Mapping[str, Any]
    """The document of `perpacket emulate --format json`."""

    @property
    def headline(self) -> str:
        """The most important numbers as a sentence."""
        return emulation.headline(self.document)

    def tables(self) -> Sequence[Table]:
        """Costs by layer, by kind and by direction."""
        return emulation.tables(self.document)

    def as_dict(self) -> Mapping[str, object]:
        """The document."""
        return self.document

    def records(self) -> Sequence[Mapping[str, object]]:
        """A row for each layer, with dotted names."""
        return [
            {"layer": name, **dict(flatten(row))} for name, row in self.document["layers"].items()
        ]

    def plot(self, *, width: int = 800) -> AnyChart:
        """Instructions per packet by layer."""
        costs = {layer: float(row[INSTRUCTIONS]) for layer, row in self.document["layers"].items()}
        from perpacket_lab.show.results import layer_bar

        return layer_bar(
            "emulated", costs, x_title="machine", y_title="instructions per packet", width=width
        )
