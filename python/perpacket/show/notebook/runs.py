"""Runs of studies that show themselves: one run, what it is compared with, and two runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perpacket.analysis import run_comparison
from perpacket.errors import ConfigurationError
from perpacket.run import start
from perpacket.run.directory import RunDirectory
from perpacket.show.notebook import markup
from perpacket.study import library
from perpacket.study.study import Figure, Study

if TYPE_CHECKING:
    import polars as pl

    from perpacket.analysis.published import Comparison
    from perpacket.analysis.run_comparison import Compared, Ratio
    from perpacket.show.charts.chart_style import Chart

RUNS = "runs"
"""The folder of run directories that nobody named."""


@dataclass(frozen=True)
class StudyRun:
    """A run of a study, finished or not."""

    study: Study
    directory: RunDirectory

    def to_polars(self) -> pl.DataFrame:
        """A row an observation: see `RunDirectory.observations`."""
        return self.directory.to_polars()

    @property
    def figures(self) -> list[str]:
        """The titles of the charts there are."""
        return [figure.title for figure in self.study.figures]

    def plot(self, figure: str | int = 0, *, width: int = 800) -> Chart:
        """A figure of the report, by its title or its place in `figures`.

        `width` is in CSS pixels. Raises `ConfigurationError` when there is no such figure, or the
        run has nothing that it shows.
        """
        return self._drawn(self._figure(figure), width)

    def _figure(self, asked: str | int) -> Figure:
        by_title = {each.title: each for each in self.study.figures}
        if isinstance(asked, str) and asked in by_title:
            return by_title[asked]
        if isinstance(asked, int) and asked in range(len(self.study.figures)):
            return self.study.figures[asked]
        raise ConfigurationError(
            f"study {self.study.name} has no figure {asked!r}",
            parameter="figure",
            value=str(asked),
            allowed=f"give a number from 0 to {len(by_title) - 1}, or one of {self.figures}",
        )

    def _drawn(self, figure: Figure, width: int) -> Chart:
        from perpacket.show.charts import figures

        sketch = figures.sketch_of(figure, figures.material_of(self.study, self.directory))
        if sketch is None:
            raise ConfigurationError(
                f"nothing to draw: no observation of this run shows {figure.title!r}",
                parameter="figure",
                value=figure.title,
            )
        return sketch.draw(width)

    def comparisons(self) -> Comparisons:
        """What was published beside this run's values; empty where nothing was."""
        return Comparisons(self, tuple(self.study.comparisons(self.directory)))

    def report(self, destination: Path | None = None) -> Path:
        """Write the report, `report.html` in the run directory unless told otherwise."""
        from perpacket.show import html as report

        return report.write_study(
            self.study, self.directory, destination or self.directory.report_path
        )

    def _repr_html_(self) -> str:
        from perpacket.analysis import findings
        from perpacket.show import summary_tables as told
        from perpacket.show import tables
        from perpacket.show.terms import voice_of

        observations = self.directory.observations()
        compared = self.study.comparisons(self.directory)
        results = self.study.results(self.directory)
        lead = findings.lead(self.study, observations) or told.lead(results, voice_of(self.study))
        found = [
            f"{each.value} {each.bounds} {each.subject}".replace("  ", " ")
            for each in findings.findings(self.study, observations, compared)
        ]
        parts = [part for part in (self.study.question, lead) if part]
        return "".join(
            (
                markup.heading(self.study.title),
                *map(markup.paragraph, parts),
                markup.listed(found),
                markup.of_table(tables.means_table(self.study, observations)),
                markup.paragraph(f"Charts, by plot(): {'; '.join(self.figures)}"),
            )
        )


@dataclass(frozen=True)
class Comparisons(Sequence["Comparison"]):
    """Published values beside those of a run, in the order of the document."""

    run: StudyRun
    rows: tuple[Comparison, ...]

    def __getitem__(self, index: int) -> Comparison:  # type: ignore[override]
        """One row."""
        return self.rows[index]

    def __len__(self) -> int:
        """How many values were published of this study's points."""
        return len(self.rows)

    def to_polars(self) -> pl.DataFrame:
        """A row a published value, with dotted names: `simulated.value`."""
        import polars

        from perpacket.run.observation_file import flatten
        from perpacket.show.html.data import comparison_record

        records = []
        for row in self.rows:
            record = comparison_record(row) | {"warnings": "; ".join(row.warnings)}
            records.append(dict(flatten(record | {"simulated": record["simulated"] or {}})))
        return polars.DataFrame(records, infer_schema_length=None)

    def plot(self, quantity: str = "", *, width: int = 800) -> Chart:
        """One quantity's published values beside the run's, a row a point.

        The first quantity that has any unless named. Raises `ConfigurationError` on one without.
        """
        had = [row.published.quantity for row in self.rows if row.simulated is not None]
        chosen = quantity or next(iter(had), "")
        if chosen not in had:
            raise ConfigurationError(
                f"nothing published is compared in {chosen!r}",
                parameter="quantity",
                value=chosen,
                allowed=_one_of(had),
            )
        figure = Figure("paper-beside", chosen.replace("_", " "), "point", chosen)
        return self.run._drawn(figure, width)

    def _repr_html_(self) -> str:
        from perpacket.analysis import published_score
        from perpacket.show import tables
        from perpacket.show.terms import voice_of

        voice = voice_of(self.run.study)
        told = markup.paragraph(published_score.headline(self.rows, voice))
        return told + markup.of_table(tables.comparison_table(self.rows, voice))


@dataclass(frozen=True)
class TwoRuns(Sequence["Ratio"]):
    """The second of two runs over the first, quantity by quantity and point by point."""

    compared: Compared

    def __getitem__(self, index: int) -> Ratio:  # type: ignore[override]
        """One ratio."""
        return self.compared.ratios[index]

    def __len__(self) -> int:
        """How many ratios there are."""
        return len(self.compared.ratios)

    def to_polars(self) -> pl.DataFrame:
        """A row a quantity and point, with dotted names: `interval.low`."""
        import polars

        from perpacket.run.observation_file import flatten

        rows = [
            asdict(ratio)
            | {
                "interval": {} if ratio.interval is None else ratio.interval.as_dict(),
                "change": str(ratio.change),
            }
            for ratio in self.compared.ratios
        ]
        return polars.DataFrame([dict(flatten(row)) for row in rows], infer_schema_length=None)

    def plot(self, quantity: str = "", *, width: int = 800) -> Chart:
        """One quantity's ratios with their intervals, a row a point; 1 is no change.

        The first quantity that has any unless named. Raises `ConfigurationError` on one without.
        """
        import polars

        from perpacket.show.charts.ratios import SCHEMA, ratios

        had = [ratio for ratio in self.compared.ratios if ratio.interval is not None]
        chosen = quantity or next((ratio.quantity for ratio in had), "")
        rows = [
            {
                "name": ratio.point,
                "ratio": ratio.interval.value,
                "low": ratio.interval.low if ratio.interval.is_bounded else None,
                "high": ratio.interval.high if ratio.interval.is_bounded else None,
            }
            for ratio in had
            if ratio.interval is not None and ratio.quantity == chosen
        ]
        if not rows:
            raise ConfigurationError(
                f"no ratio of {chosen!r} in these runs",
                parameter="quantity",
                value=chosen,
                allowed=_one_of(ratio.quantity for ratio in had),
            )
        frame = polars.DataFrame(rows, schema=SCHEMA)
        return ratios(frame, quantity=chosen, width=width)

    def _repr_html_(self) -> str:
        rows = [
            (
                ratio.point,
                ratio.quantity,
                "" if ratio.interval is None else str(ratio.interval),
                str(ratio.change),
            )
            for ratio in self.compared.ratios
        ]
        names = ("point", "quantity", "ratio", "verdict")
        shown = markup.table(
            "The second run over the first", names, rows, (False, False, True, False)
        )
        return shown + "".join(markup.paragraph(remark) for remark in self.compared.remarks)


def _one_of(names: Iterable[str]) -> str:
    """What may be given, each once."""
    held = ", ".join(dict.fromkeys(names))
    return f"give one of {held}" if held else "there is none that could be given"


def run_study(
    name: str | Path,
    directory: str | Path | None = None,
    *,
    seeds: Sequence[int] = (),
    overrides: Sequence[tuple[str, str | float]] = (),
    workers: int | None = None,
) -> StudyRun:
    """Run a study that comes with perpacket, or that of a TOML file, into a new directory.

    `directory` is `runs/STUDY-TIME` unless given; `seeds` replaces the study's own; `overrides` go
    on top of every point; `workers` changes no result. Raises what
    `perpacket.study.library.find` and `perpacket.run.start.run` raise.
    """
    study = library.find(str(name))
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = Path(directory) if directory is not None else Path(RUNS) / f"{study.name}-{stamp}"
    texts = tuple((parameter, str(value)) for parameter, value in overrides)
    made = start.run(study, path, seeds=tuple(seeds), overrides=texts, workers=workers)
    return StudyRun(library.of_run(made.configuration), made)


def open_run(directory: str | Path) -> StudyRun:
    """Open a run; raises what `RunDirectory.open` and `study.library.of_run` raise."""
    found = RunDirectory.open(Path(directory))
    return StudyRun(library.of_run(found.configuration), found)


def compare_runs(
    first: StudyRun | str | Path, second: StudyRun | str | Path, quantities: Sequence[str] = ()
) -> TwoRuns:
    """What changed from one run to another; raises what `two_runs.compare` raises."""
    pair = [run if isinstance(run, StudyRun) else open_run(run) for run in (first, second)]
    return TwoRuns(run_comparison.compare(pair[0].directory, pair[1].directory, quantities))
