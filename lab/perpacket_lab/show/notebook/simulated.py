"""A simulated run in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from perpacket.errors import ConfigurationError
from perpacket_lab.show.notebook import markup

if TYPE_CHECKING:
    import polars as pl

    from perpacket_lab.show.charts.chart_style import Chart

CYCLES = "cycles_per_packet"

SHOWN = (
    *("requests_per_s", "content_mbps", "packets_per_s", "nic_packet_share", "host_idle"),
    *("nic_idle", "drops"),
)
"""The numbers of the result that a notebook shows."""


class SimulatedRun(dict[str, object]):
    """The result of a simulated run: a dict with the keys that `perpacket_lab.simulation` lists."""

    states: Mapping[str, list[object]] | None = None
    """State over time, if it was recorded: see `Simulation.timeline`."""

    def to_polars(self) -> pl.DataFrame:
        """One row, with dotted names: `layers.tcp.cycles_per_packet`."""
        import polars

        from perpacket_lab.study.quantities import flatten

        return polars.DataFrame([dict(flatten(self))])

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
        import polars

        from perpacket_lab.show.charts.stacks import stacked_layers

        rows = [
            {"x": str(self["configuration"]), "layer": layer, "value": cycles}
            for layer, cycles in self.cycles().items()
        ]
        return stacked_layers(
            polars.DataFrame(rows),
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
        return markup.table(caption, ("quantity", "value"), rows, (False, True))
