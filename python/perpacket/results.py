"""What the functions of `import perpacket` return.

Every result has `table()`, the text that the verb prints; `to_json()`, the document that the verb
prints with `--format json`; `to_polars()`, a data frame; and `plot()`, a chart. The last two need
the lab. Notebooks display a result as tables.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perpacket import lab, server_cost
from perpacket.analysis.claim import Claim, Pair, ratio_claim
from perpacket.analysis.profile_comparison import ProfileComparison
from perpacket.analysis.statistics import significant
from perpacket.errors import ConfigurationError
from perpacket.profile_document import Cost, ProfileDocument
from perpacket.profile_document import read_profile as read_document
from perpacket.show import markup
from perpacket.show.table import Table

if TYPE_CHECKING:
    import polars as pl
    from altair import LayerChart, VConcatChart

    from perpacket.advise.advice import Report
    from perpacket.advise.trial import Outcome

    AnyChart = LayerChart | VConcatChart

PLOT, FRAME = "plot()", "to_polars()"


class Result(ABC):
    """A result with tables, a document, rows of data and a chart."""

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """The tables that the verb prints."""

    @abstractmethod
    def as_dict(self) -> Mapping[str, object]:
        """The document that the verb prints with `--format json`."""

    @abstractmethod
    def records(self) -> Sequence[Mapping[str, object]]:
        """Rows of data; all have the same keys."""

    @abstractmethod
    def plot(self, *, width: int = 800) -> AnyChart:
        """The result as a chart; `width` is in CSS pixels."""

    def table(self) -> str:
        """The tables as text."""
        return "\n".join(map(str, self.tables()))

    def to_json(self) -> str:
        """The document as JSON."""
        return json.dumps(self.as_dict(), indent=2, allow_nan=False)

    def to_polars(self) -> pl.DataFrame:
        """The rows of data as a data frame."""
        frame: pl.DataFrame = lab.load("show.results", FRAME).frame(self.records())
        return frame

    def _repr_html_(self) -> str:
        """The tables for a notebook."""
        return "".join(map(markup.table, self.tables()))


@dataclass(frozen=True)
class MeasuredProfile(Result):
    """The cost of a packet by layer over one window."""

    profile: ProfileDocument
    place: str
    """The name of the profile's file, for errors and captions."""

    @property
    def layers(self) -> Mapping[str, Cost]:
        """The cost of each layer; raises `ConfigurationError` when there are none."""
        self.profile.require_layers(self.place)
        return self.profile.layers

    @property
    def network_share(self) -> float:
        """The network's share of the server's processor time, as a fraction."""
        return server_cost.of_profile(self.profile, self.place).network_share

    def gain(self, offloaded: float = 1.0) -> float:
        """The largest gain in throughput if that part of the network's work moves to a NIC.

        By LAWS, if the processor is the limit: p/(gamma - p + 1), a fraction. It is infinite if
        the server has no other work.
        """
        removed = self.network_share * offloaded
        return removed / (1.0 - removed) if removed < 1.0 else math.inf

    def tables(self) -> Sequence[Table]:
        """The share and the cost of each layer."""
        rows = tuple(
            (name, _text(layer.share, 100), _text(layer.cpu_ns_per_packet, 1))
            for name, layer in self.layers.items()
        )
        title = (
            f"{self.place}: {self.profile.backend or 'profile'}; the network uses "
            f"{100 * self.network_share:.1f} % of the server's time, so the gain by offload is "
            f"at most {100 * self.gain():.0f} %"
        )
        headings = ("layer", "share (%)", "per packet (ns)")
        return (Table.of_texts(title, headings, rows, headings[1:]),)

    def as_dict(self) -> Mapping[str, object]:
        """The profile's document."""
        return self.profile.document

    def records(self) -> Sequence[Mapping[str, object]]:
        """A row for each layer: its name and its numbers."""
        return [
            {"layer": name, **cost.model_dump(exclude_unset=True)}
            for name, cost in self.layers.items()
        ]

    def plot(self, what: Literal["layers", "laws"] = "layers", *, width: int = 800) -> AnyChart:
        """The cost of a packet by layer, or the profile on the curve of LAWS.

        The cost is processor time, or a share of the busy processor where only counters were
        sampled. `width` is in CSS pixels. Raises `ConfigurationError` on another `what`.
        """
        if what not in ("layers", "laws"):
            raise ConfigurationError(
                f"what = {what!r}: a profile has no such chart",
                parameter="what",
                value=what,
                allowed="use 'layers' or 'laws'",
            )
        name = Path(self.place).name
        if what == "laws":
            charts = lab.load("show.results", PLOT)
            laws: AnyChart = charts.laws_point(name, self.network_share, width=width)
            return laws
        timed = any(layer.cpu_ns_per_packet is not None for layer in self.layers.values())
        title = (
            "processor time per packet (ns)" if timed else "share of the busy processor (0 to 1)"
        )
        costs = {
            name: value
            for name, layer in self.layers.items()
            if name != "idle"
            and (value := layer.cpu_ns_per_packet if timed else layer.share) is not None
        }
        chart: AnyChart = lab.load("show.results", PLOT).layer_bar(
            name, costs, x_title="profile", y_title=title, width=width
        )
        return chart


@dataclass(frozen=True)
class AdviceResult(Result):
    """Changes that could make packets cheaper, ranked by their bounds."""

    report: Report

    def tables(self) -> Sequence[Table]:
        """The changes with their evidence and bounds."""
        from perpacket.show import advice_tables as shown

        rows = tuple(
            (
                f"{advice.change.name}={advice.value}",
                advice.interface,
                advice.evidence,
                "" if advice.bound is None else shown.percent(advice.bound.share),
                advice.risk,
            )
            for advice in self.report.advice
        )
        headings = ("change", "interface", "evidence", "at most", "risk")
        return (Table.of_texts(shown.headline(self.report), headings, rows, ("at most",)),)

    def as_dict(self) -> Mapping[str, object]:
        """The advice, with the changes that do not apply and their reasons."""
        from perpacket.show import advice_tables as shown

        return shown.document(self.report)

    def records(self) -> Sequence[Mapping[str, object]]:
        """A row for each change, with its bound and the bound's interval as fractions."""
        return [
            {
                "change": f"{advice.change.name}={advice.value}",
                "interface": advice.interface,
                "evidence": advice.evidence,
                "at_most": None if advice.bound is None else advice.bound.share.value,
                "low": None if advice.bound is None else advice.bound.share.low,
                "high": None if advice.bound is None else advice.bound.share.high,
            }
            for advice in self.report.advice
        ]

    def plot(self, *, width: int = 800) -> AnyChart:
        """The processor time that remains if a change removes all that it can; 1 is no change."""
        title = "processor time of the packet path, at best"
        return ratio_chart(
            [
                ratio_claim(
                    f"{advice.change.name}={advice.value} {advice.interface}".strip(),
                    title,
                    advice.bound.share.map(lambda share: 1.0 - share),
                    Pair(1.0, 1.0 - advice.bound.share.value, paired=True),
                )
                for advice in self.report.advice
                if advice.bound is not None
            ],
            title,
            width,
        )


@dataclass(frozen=True)
class TrialResult(Result):
    """The effects of changes that were tried on live traffic, and the settings afterwards."""

    outcome: Outcome

    def tables(self) -> Sequence[Table]:
        """A table for each change, then the effects of a factorial trial."""
        from perpacket.advise import trial as trials
        from perpacket.show import trial_tables as shown

        tables = [shown.table(trial) for trial in self.outcome.trials]
        if self.outcome.combinations:
            tables.append(shown.factorial_table(*trials.allocation(self.outcome)))
        return tables

    def as_dict(self) -> Mapping[str, object]:
        """All effects, the windows' verdicts and the state of every setting."""
        from perpacket.show import trial_tables as shown

        return shown.document(self.outcome)

    def records(self) -> Sequence[Mapping[str, object]]:
        """A row for each change and cost: the ratio with its interval, and the verdict."""
        return [
            {
                "change": trial.change,
                "quantity": effect.quantity.title,
                "before": effect.before,
                "changed": effect.changed,
                "ratio": None if effect.ratio is None else effect.ratio.value,
                "low": None if effect.ratio is None else effect.ratio.low,
                "high": None if effect.ratio is None else effect.ratio.high,
                "verdict": None if effect.verdict is None else str(effect.verdict),
            }
            for trial in self.outcome.trials
            for effect in (trial.effects.cost, *trial.effects.layers, *trial.effects.others)
        ]

    def plot(self, *, width: int = 800) -> AnyChart:
        """The ratio of the cost with each change to the cost without it; 1 is no change."""
        costs = [(trial.change, trial.effects.cost) for trial in self.outcome.trials]
        title = costs[0][1].quantity.title if costs else ""
        return ratio_chart(
            [
                ratio_claim(change, title, cost.ratio, Pair(cost.before, cost.changed, paired=True))
                for change, cost in costs
            ],
            title,
            width,
        )


@dataclass(frozen=True)
class ProfileDifference(Result):
    """The cost of a packet in profile B divided by that in profile A, layer by layer."""

    compared: ProfileComparison

    def tables(self) -> Sequence[Table]:
        """The traffic, then the costs."""
        from perpacket.show import comparison_tables as shown

        return tuple(shown.tables(self.compared))

    def as_dict(self) -> Mapping[str, object]:
        """All ratios with their intervals and verdicts."""
        from perpacket.show import comparison_tables as shown

        return shown.document(self.compared)

    def records(self) -> Sequence[Mapping[str, object]]:
        """A row for the total and for each layer and kind of work."""
        rows = (self.compared.total, *self.compared.layers, *self.compared.kinds)
        return [
            {
                "quantity": ratio.quantity,
                "first": ratio.detail.first,
                "second": ratio.detail.second,
                "ratio": None if ratio.value is None else ratio.value.value,
                "low": None if ratio.value is None else ratio.value.low,
                "high": None if ratio.value is None else ratio.value.high,
                "verdict": str(ratio.verdict),
            }
            for ratio in rows
        ]

    def plot(self, *, width: int = 800) -> AnyChart:
        """B's cost by layer and kind of work, coloured by its difference to A."""
        chart: AnyChart = lab.load("show.charts.profile_difference", PLOT).chart(
            self.compared, width
        )
        return chart


def ratio_chart(ratios: Sequence[Claim[Pair]], quantity: str, width: int) -> AnyChart:
    """Ratios with their intervals; raises `ConfigurationError` if none has an interval."""
    if not any(ratio.value is not None for ratio in ratios):
        raise ConfigurationError("nothing to draw: no ratio has an interval")
    charts = lab.load("show.charts.ratios", PLOT)
    chart: AnyChart = charts.ratio_chart(ratios, quantity=quantity, width=width, title=quantity)
    return chart


def _text(value: float | None, scale: float) -> str:
    """A number in running text; empty if it was not measured."""
    return "" if value is None else significant(scale * value, 4, 6)


def read_profile(file: str | Path) -> MeasuredProfile:
    """Read a profile; raises `ConfigurationError` naming a file that is not one."""
    profile = MeasuredProfile(read_document(Path(file), str(file)), str(file))
    profile.profile.require_layers(profile.place)
    return profile
