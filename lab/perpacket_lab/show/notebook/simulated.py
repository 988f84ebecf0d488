"""A simulated run in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from perpacket.analysis.statistics import number_text
from perpacket.errors import ConfigurationError
from perpacket.results import Result
from perpacket.show import markup
from perpacket.show.table import Table
from perpacket_lab.study.quantities import flatten

if TYPE_CHECKING:
    import polars as pl

    from perpacket_lab.show.charts.chart_style import Chart

LAYER_EVENTS = (
    "cycles_per_packet",
    "instructions_per_packet",
    "l1d_misses_per_packet",
    "l2_misses_per_packet",
)

CYCLES = "cycles_per_packet"

SHOWN = (
    *("requests_per_s", "content_mbps", "packets_per_s", "nic_packet_share", "host_idle"),
    *("nic_idle", "drops"),
)
"""The numbers of the result that a notebook shows."""


class SimulatedRun(dict[str, object], Result):
    """The result of a simulated run: a dict with the keys that `perpacket_lab.simulation` lists."""

    states: Mapping[str, list[object]] | None = None
    """State over time, if it was recorded: see `Simulation.timeline`."""

    def tables(self) -> Sequence[Table]:
        """The numbers of the result, then the layers. Names end in their units."""
        title = f"{self.get('configuration')}, seed {self.get('seed')}"
        skipped = {"schema", "configuration", "seed", "layers"}
        numbers = {key: value for key, value in self.items() if key not in skipped}
        rows = tuple((name, number_text(value)) for name, value in flatten(numbers))
        tables = [Table.of_texts(title, ("quantity", "value"), rows, ("value",))]
        layers = self.get("layers")
        if isinstance(layers, Mapping) and layers:
            costs = tuple(
                (name, *(number_text(events.get(event)) for event in LAYER_EVENTS))
                for name, events in layers.items()
            )
            title = "Host, by layer (packets are frames sent and received)"
            tables.append(Table.of_texts(title, ("layer", *LAYER_EVENTS), costs, LAYER_EVENTS))
        return tables

    def as_dict(self) -> Mapping[str, object]:
        """The result."""
        return self

    def records(self) -> Sequence[Mapping[str, object]]:
        """One row, with dotted names: `layers.tcp.cycles_per_packet`."""
        return [dict(flatten(self))]

    def timeline(self) -> pl.DataFrame:
        """A row for each instant; raises `ConfigurationError` when it was not recorded."""
        import polars

        if self.states is None:
            raise ConfigurationError(
                "this run recorded no state over time",
                parameter="timeline",
                hint="simulate with timeline=True",
            )
        return polars.DataFrame(self.states)

    def plot(self, what: Literal["layers", "timeline"] = "layers", *, width: int = 800) -> Chart:
        """Host cycles per packet by layer, or the state over time (`what="timeline"`).

        `width` is in CSS pixels. Raises `ConfigurationError` when no state was recorded, and for
        another `what`.
        """
        if what not in ("layers", "timeline"):
            raise ConfigurationError(
                f"what = {what!r}: a simulated run has no such chart",
                parameter="what",
                value=what,
                allowed="use 'layers' or 'timeline'",
            )
        if what == "timeline":
            from perpacket_lab.show.charts.timeline import timeline

            return timeline(self.timeline(), width=width)
        from perpacket_lab.show.results import layer_bar

        return layer_bar(
            str(self["configuration"]),
            self.cycles(),
            x_title="configuration",
            y_title="host cycles per packet (frames sent and received)",
            width=width,
        )

    def cycles(self) -> dict[str, float]:
        """Host cycles per packet of each layer, without the idle processor."""
        layers = self["layers"]
        assert isinstance(layers, Mapping)
        return {name: float(layer[CYCLES]) for name, layer in layers.items() if name != "idle"}

    def _repr_html_(self) -> str:
        from perpacket_lab.analysis.wording import number
        from perpacket_lab.study.quantities import column

        entries = [column(key).in_percent for key in SHOWN]
        rows = [
            (entry.heading, number(value))
            for entry in entries
            if (value := entry.value(self)) is not None
        ]
        rows += [
            (f"cycles per packet: {layer}", number(own)) for layer, own in self.cycles().items()
        ]
        caption = f"{self['configuration']}, seed {self['seed']}, simulated"
        return markup.table(Table.of_texts(caption, ("quantity", "value"), rows, ("value",)))
