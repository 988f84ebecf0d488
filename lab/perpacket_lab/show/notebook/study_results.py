"""Results of studies in a notebook: a run, a run beside published values, and two runs compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from perpacket.errors import ConfigurationError
from perpacket.results import Result
from perpacket.show import markup
from perpacket.show.table import Table
from perpacket_lab.study.figure import Figure
from perpacket_lab.study.quantities import flatten

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from perpacket.analysis.claim import Claim, Pair
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.published_comparison import Comparison
    from perpacket_lab.analysis.run_comparison import RunComparison
    from perpacket_lab.show.charts.chart_style import Chart


@dataclass(frozen=True)
class StudyRun(Result):
    """A run of a study, finished or not."""

    analysis: Analysis

    def tables(self) -> Sequence[Table]:
        """The results with their intervals, beside published values if there are any."""
        from perpacket_lab.show import terminal

        return terminal.tables_of(self.analysis)

    def as_dict(self) -> Mapping[str, object]:
        """The analysis of the run."""
        from perpacket_lab.show import json

        return json.analysis(self.analysis, self.analysis.run.report_path)

    def records(self) -> Sequence[Mapping[str, object]]:
        """A row for each observation."""
        return self.analysis.observations.to_dicts()

    def to_polars(self) -> pl.DataFrame:
        """A row for each observation: see `RunDirectory.observations`."""
        return self.analysis.observations

    @property
    def figures(self) -> list[str]:
        """The titles of the charts."""
        return [figure.title for figure in self.analysis.study.figures]

    def plot(self, figure: str | int = 0, *, width: int = 800) -> Chart:
        """A figure of the report, by its title or its index in `figures`.

        `width` is in CSS pixels. Raises `ConfigurationError` when there is no such figure, or the
        run has nothing to draw.
        """
        return self._drawn(self._figure(figure), width)

    def _figure(self, title_or_index: str | int) -> Figure:
        study = self.analysis.study
        by_title = {each.title: each for each in study.figures}
        if isinstance(title_or_index, str) and title_or_index in by_title:
            return by_title[title_or_index]
        if isinstance(title_or_index, int) and title_or_index in range(len(study.figures)):
            return study.figures[title_or_index]
        raise ConfigurationError(
            f"study {study.name} has no figure {title_or_index!r}",
            parameter="figure",
            value=str(title_or_index),
            allowed=f"use a number from 0 to {len(by_title) - 1}, or one of {self.figures}",
        )

    def _drawn(self, figure: Figure, width: int) -> Chart:
        from perpacket_lab.show.charts import kinds

        plot = kinds.plot_of(figure, self.analysis)
        if plot is None:
            raise ConfigurationError(
                f"nothing to draw: no observation of this run shows {figure.title!r}",
                parameter="figure",
                value=figure.title,
            )
        return plot.draw(width)

    def comparisons(self) -> Comparisons:
        """The published values beside this run's; empty without published values."""
        return Comparisons(self)

    def report(self, destination: Path | None = None) -> Path:
        """Write the report to `destination`, by default `report.html` in the run directory."""
        from perpacket_lab.show import html

        return html.write(self.analysis, destination or self.analysis.run.report_path)

    def _repr_html_(self) -> str:
        from perpacket_lab.show import tables

        study, findings = self.analysis.study, self.analysis.findings
        texts = [
            f"{each.value} {each.bounds} {each.subject}".replace("  ", " ")
            for each in findings.rows
        ]
        parts = [part for part in (study.question, findings.lead) if part]
        return "".join(
            (
                markup.heading(study.title),
                *map(markup.paragraph, parts),
                markup.bullet_list(texts),
                markup.table(tables.means_table(self.analysis)),
                markup.paragraph(f"plot() draws these charts: {'; '.join(self.figures)}"),
            )
        )


@dataclass(frozen=True)
class Comparisons(Sequence["Comparison"]):
    """Published values beside those of a run, in the document's order."""

    run: StudyRun

    @property
    def rows(self) -> tuple[Comparison, ...]:
        """All rows."""
        return self.run.analysis.comparisons

    def __getitem__(self, index: int) -> Comparison:  # type: ignore[override]
        """One row."""
        return self.rows[index]

    def __len__(self) -> int:
        """The number of values published for this study's points."""
        return len(self.rows)

    def to_polars(self) -> pl.DataFrame:
        """A row for each published value, with dotted names: `simulated.value`."""
        import polars

        from perpacket_lab.show.html.data import comparison_record

        records = []
        for row in self.rows:
            record = comparison_record(row) | {"warnings": "; ".join(row.warnings)}
            records.append(dict(flatten(record | {"simulated": record["simulated"] or {}})))
        return polars.DataFrame(records, infer_schema_length=None)

    def plot(self, quantity: str = "", *, width: int = 800) -> Chart:
        """One quantity's published values beside the run's, a row for each point.

        The default is the first such quantity. Raises `ConfigurationError` if there is none.
        """
        compared = [row.reference.quantity for row in self.rows if row.value is not None]
        chosen = quantity or next(iter(compared), "")
        if chosen not in compared:
            raise ConfigurationError(
                f"no published value of {chosen!r} is compared with this run",
                parameter="quantity",
                value=chosen,
                allowed=_one_of(compared),
            )
        figure = Figure("paper-beside", chosen.replace("_", " "), "point", chosen)
        return self.run._drawn(figure, width)

    def _repr_html_(self) -> str:
        from perpacket_lab.show import tables

        analysis = self.run.analysis
        table = markup.table(tables.comparison_table(analysis))
        return markup.paragraph(analysis.headline) + table


@dataclass(frozen=True)
class RunDifference(Sequence["Claim[Pair]"], Result):
    """The ratios of the second of two runs to the first, by quantity and point."""

    compared: RunComparison

    def __getitem__(self, index: int) -> Claim[Pair]:  # type: ignore[override]
        """One ratio."""
        return self.compared.ratios[index]

    def __len__(self) -> int:
        """The number of ratios."""
        return len(self.compared.ratios)

    def tables(self) -> Sequence[Table]:
        """The ratios with their verdicts."""
        from perpacket_lab.show import terminal

        return (terminal.run_comparison_table(self.compared),)

    def as_dict(self) -> Mapping[str, object]:
        """All ratios, remarks and rules."""
        from perpacket_lab.show import json

        return json.run_comparison(self.compared)

    def records(self) -> Sequence[Mapping[str, object]]:
        """A row for each quantity and point, with dotted names: `interval.low`."""
        rows = [
            {
                "point": ratio.subject,
                "quantity": ratio.quantity,
                **asdict(ratio.detail),
                "interval": {} if ratio.value is None else ratio.value.as_dict(),
                "change": str(ratio.verdict),
            }
            for ratio in self.compared.ratios
        ]
        return [dict(flatten(row)) for row in rows]

    def plot(self, quantity: str = "", *, width: int = 800) -> Chart:
        """One quantity's ratios with their intervals, a row for each point; 1 is no change.

        The default is the first such quantity. Raises `ConfigurationError` if there is none.
        """
        from perpacket_lab.show.charts.ratios import ratio_chart

        named = [ratio.quantity for ratio in self.compared.ratios if ratio.value is not None]
        chosen = quantity or next(iter(named), "")
        if chosen not in named:
            raise ConfigurationError(
                f"no ratio of {chosen!r} in these runs",
                parameter="quantity",
                value=chosen,
                allowed=_one_of(named),
            )
        return ratio_chart(self.compared.ratios, quantity=chosen, width=width)

    def _repr_html_(self) -> str:
        from perpacket_lab.show import terminal

        shown = markup.table(terminal.run_comparison_table(self.compared))
        return shown + "".join(markup.paragraph(remark) for remark in self.compared.remarks)


def _one_of(names: Iterable[str]) -> str:
    """A hint with the possible names, each once."""
    listed = ", ".join(dict.fromkeys(names))
    return f"use one of {listed}" if listed else "there is none"
