"""Reports: a run of a study as one HTML file that needs nothing else.

    palette.py   colours, once for light pages and once for dark ones
    look.py      what all charts share
    charts.py    paper beside simulation, curves
    stacks.py    cycles per packet by layer
    laws.py      what offload could gain, with the run's points on the curve
    ratios.py    one run over another
    effects.py   the effects of a two-level design, a bar each
    heat_map.py  a column over two factors, by colour, with the same as a table
    timeline.py  a NIC's state over time
    drawing.py   a chart as inline SVG
    wording.py   names and numbers as a reader wants them
    means.py     replications brought together
    quantities.py a study's own quantities, and their changes along an axis
    offload.py   the network's share of a run's processor, and its gain by LAWS
    voice.py     the words for simulated and for measured runs
    answer.py    what a run says, in sentences made by rules
    agreement.py how far it agrees with what was published
    contrasts.py how far measurement, simulation and models agree with each other
    figures.py   a study's figures, drawn
    tables.py    the tables
    contests.py  the tables of who is ahead and where that changes
    told.py      the tables of what a study tells of itself, effects among them
    limits.py    what a run cannot tell
    data.py      the data that travel inside the page
    assembly.py  all of these, for one run
    export.py    the charts as files
    page.py      the page, with page.html.j2, style.css and sort.js

Depends on `perpacket.run`, `perpacket.models` and `perpacket.analysis.statistics`, never on a
simulator or on single studies. Importing this package is cheap: charts and tables are imported when
a report is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perpacket.run.directory import RunDirectory
    from perpacket.study.study import Study

__all__ = ["write_charts", "write_studies", "write_study"]


def write_study(study: Study, run_directory: RunDirectory, destination: Path) -> Path:
    """Write the report of a run to `destination` and return its path.

    An unfinished run is reported as far as it went. The file is there whole or not at all. Raises
    `CorruptObservation` naming each damaged file of the run, and `OSError` when `destination`
    cannot be written.
    """
    return write_studies([(study, run_directory)], destination)


def write_charts(
    study: Study, run_directory: RunDirectory, folder: Path, *, dark: bool = False
) -> list[Path]:
    """Write the charts of a run as SVG and PNG into `folder` and return the files.

    Light unless `dark`; figures without data are left out. Raises what `write_study` raises.
    """
    from perpacket.show.charts.export import export

    return export(study, run_directory, folder, dark=dark)


def write_studies(runs: Sequence[tuple[Study, RunDirectory]], destination: Path) -> Path:
    """Write the reports of several runs to `destination`, one after another in one file."""
    from perpacket.run.directory import write_whole
    from perpacket.show.html.assembly import assemble
    from perpacket.show.html.page import render

    prefixes = [""] if len(runs) == 1 else [f"{study.name}-" for study, _ in runs]
    pages = [assemble(*run, prefix) for run, prefix in zip(runs, prefixes, strict=True)]
    write_whole(destination, render(*pages))
    return destination
