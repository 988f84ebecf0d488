"""A measured profile in a notebook, with the upper bound of the gain by offload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perpacket.errors import ConfigurationError
from perpacket_lab.models import profiled
from perpacket_lab.show.notebook import markup

if TYPE_CHECKING:
    import polars as pl

    from perpacket_lab.models.laws import Offload
    from perpacket_lab.show.charts.chart_style import Chart

COST = "cpu_ns_per_packet"


@dataclass(frozen=True)
class Profile:
    """A document of `perpacket profile --format json`: costs by layer over one window."""

    document: Mapping[str, object]
    place: str
    """The name of the profile's file, for errors and captions."""

    @property
    def layers(self) -> Mapping[str, Mapping[str, object]]:
        """The numbers of each layer; raises `ConfigurationError` when there are none."""
        layers = self.document.get("layers")
        if not isinstance(layers, Mapping) or not all(
            isinstance(layer, Mapping) for layer in layers.values()
        ):
            raise ConfigurationError(
                f"{self.place}: a profile has `layers`, this document has none",
                hint="make a profile with `perpacket profile --format json`",
            )
        return layers

    @property
    def network_share(self) -> float:
        """The network's share of the busy processor, as a fraction."""
        return profiled.network_share(self.document, self.place)

    def laws(self, offloaded: float = 1.0) -> Offload:
        """The gain of moving a part of the network's work to a NIC, by `models.laws`."""
        from perpacket_lab.models import laws

        return laws.offload(laws.gamma_of_share(self.network_share), offloaded)

    def to_polars(self) -> pl.DataFrame:
        """A row for each layer: its name and its numbers."""
        import polars

        rows = [{"layer": name, **layer} for name, layer in self.layers.items()]
        return polars.DataFrame(rows, infer_schema_length=None)

    def plot(self, what: Literal["layers", "laws"] = "layers", *, width: int = 800) -> Chart:
        """The cost of a packet by layer, or the profile on the curve of LAWS.

        The cost is processor time, or a share of the busy processor where only counters were
        sampled. `width` is in CSS pixels. Raises `ConfigurationError` on another `what`.
        """
        import polars

        if what == "laws":
            from perpacket_lab.show.charts.laws import laws_curve

            one = {"name": [Path(self.place).name], "share": [self.network_share]}
            return laws_curve(polars.DataFrame(one).with_columns(low=None, high=None), width=width)
        if what != "layers":
            raise ConfigurationError(
                f"what = {what!r}: a profile has no such chart",
                parameter="what",
                value=what,
                allowed="use 'layers' or 'laws'",
            )
        from perpacket_lab.show.charts.stacks import stacked_layers

        timed = any(isinstance(layer.get(COST), int | float) for layer in self.layers.values())
        event = COST if timed else "share"
        title = (
            "processor time per packet (ns)" if timed else "share of the busy processor (0 to 1)"
        )
        rows = [
            {"x": Path(self.place).name, "layer": name, "value": float(value)}
            for name, layer in self.layers.items()
            if name != "idle" and isinstance(value := layer.get(event), int | float)
        ]
        return stacked_layers(polars.DataFrame(rows), x_title="profile", y_title=title, width=width)

    def _repr_html_(self) -> str:
        rows = [
            (name, _text(layer.get("share"), 100), _text(layer.get(COST), 1))
            for name, layer in self.layers.items()
        ]
        from perpacket_lab.analysis.offload import gain_percent

        caption = (
            f"{self.place}: {self.document.get('backend', 'profile')}; the network uses "
            f"{100 * self.network_share:.1f} % of the busy processor, so the gain by offload is "
            f"at most {gain_percent(self.network_share):.0f} %"
        )
        names = ("layer", "share (%)", "per packet (ns)")
        return markup.table(caption, names, rows, (False, True, True))


def _text(value: object, scale: float) -> str:
    """A number in running text; empty if it was not measured."""
    from perpacket_lab.analysis.wording import number

    return number(scale * float(value)) if isinstance(value, int | float) else ""


def read_profile(file: str | Path) -> Profile:
    """Read a profile; raises `ConfigurationError` naming a file that is not one."""
    content = profiled.read_document(Path(file), str(file))
    profile = Profile(content, str(file))
    # Check the shares here, so that the error names the file.
    profiled.network_share(content, str(file))
    return profile
