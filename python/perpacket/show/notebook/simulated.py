"""One simulated run that shows itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perpacket import simulation
from perpacket.errors import ConfigurationError
from perpacket.show.notebook import markup

if TYPE_CHECKING:
    import polars as pl

    from perpacket.show.charts.chart_style import Chart

CYCLES = "cycles_per_packet"

SHOWN = (
    ("requests_per_s", "requests/s", 1.0),
    ("content_mbps", "content (Mb/s)", 1.0),
    ("packets_per_s", "packets/s", 1.0),
    ("nic_packet_share", "packets on the NIC (%)", 100.0),
    ("host_idle", "host idle (%)", 100.0),
    ("nic_idle", "NIC idle (%)", 100.0),
    ("drops", "drops", 1.0),
)
"""What is shown of a run: name in the result, name and unit in words, scale."""


class SimulatedRun(dict[str, object]):
    """The result of a simulated run: a dict with the keys that `perpacket.simulation` lists."""

    states: Mapping[str, list[object]] | None = None
    """State over time, where it was asked for: see `Simulation.timeline`."""

    def to_polars(self) -> pl.DataFrame:
        """One row, with dotted names: `layers.tcp.cycles_per_packet`."""
        import polars

        from perpacket.run.observation_file import flatten

        return polars.DataFrame([dict(flatten(self))])

    def timeline(self) -> pl.DataFrame:
        """A row an instant; raises `ConfigurationError` when it was not kept."""
        import polars

        if self.states is None:
            raise ConfigurationError(
                "this run kept no state over time",
                parameter="timeline",
                hint="simulate with timeline=True",
            )
        return polars.DataFrame(self.states)

    def plot(self, what: Literal["layers", "timeline"] = "layers", *, width: int = 800) -> Chart:
        """Host cycles per packet by layer, or the state over time (`what="timeline"`).

        `width` is in CSS pixels. Raises as `timeline`, and on another `what`.
        """
        if what not in ("layers", "timeline"):
            raise ConfigurationError(
                f"what = {what!r}: a simulated run has no such chart",
                parameter="what",
                value=what,
                allowed="give 'layers' or 'timeline'",
            )
        if what == "timeline":
            from perpacket.show.charts.timeline import timeline

            return timeline(self.timeline(), width=width)
        import polars

        from perpacket.show.charts.stacks import stacked_layers

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
        """Host cycles per packet of each layer but the idle processor."""
        layers = self["layers"]
        assert isinstance(layers, Mapping)
        return {name: float(layer[CYCLES]) for name, layer in layers.items() if name != "idle"}

    def _repr_html_(self) -> str:
        from perpacket.show.wording import number

        rows = [
            (name, number(scale * float(value)))
            for key, name, scale in SHOWN
            if isinstance(value := self.get(key), int | float)
        ]
        rows += [
            (f"cycles per packet: {layer}", number(own)) for layer, own in self.cycles().items()
        ]
        caption = f"{self['configuration']}, seed {self['seed']}, simulated"
        return markup.table(caption, ("quantity", "value"), rows, (False, True))


def simulate(
    configuration: str,
    *,
    seed: int = 1,
    overrides: Sequence[tuple[str, str | float]] = (),
    trace: Path | None = None,
    timeline: bool = False,
) -> SimulatedRun:
    """Simulate one configuration; arguments and errors as `perpacket.Simulation`.

    With `timeline` the state over time is kept too. Ctrl-C ends it with `KeyboardInterrupt`.
    """
    prepared = simulation.Simulation(
        configuration, seed=seed, overrides=overrides, trace=trace, timeline=timeline
    )
    found = SimulatedRun(json.loads(simulation.run_cancellable(prepared, lambda *_: None)))
    if timeline:
        found.states = prepared.timeline()
    return found
