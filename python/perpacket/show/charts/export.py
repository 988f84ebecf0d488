"""The charts of a run as files: SVG and PNG, for slides and papers, without a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perpacket.run.directory import write_whole
from perpacket.show.charts import chart_style, drawing, figures

if TYPE_CHECKING:
    from pathlib import Path

    from perpacket.run.directory import RunDirectory
    from perpacket.study.study import Figure, Study


def export(
    study: Study, run_directory: RunDirectory, folder: Path, *, dark: bool = False
) -> list[Path]:
    """Write every chart that has data into `folder`, made if missing, and return the files.

    They are numbered as in the report: `02-cost-of-a-packet.svg`, and the same as `.png`. Raises
    `CorruptObservation` naming each damaged file of the run, and `OSError` naming the file that
    cannot be written.
    """
    material = figures.material_of(study, run_directory)
    written: list[Path] = []
    for number, figure in enumerate(study.figures, 1):
        sketch = figures.sketch_of(figure, material)
        if sketch is None:
            continue
        svg = drawing.standalone(
            sketch.draw(chart_style.WIDE),
            title=figure.title,
            description=sketch.description,
            dark=dark,
        )
        stem = folder / f"{number:02}-{slug(figure)}"
        folder.mkdir(parents=True, exist_ok=True)
        written += [stem.with_suffix(".svg"), stem.with_suffix(".png")]
        write_whole(written[-2], svg)
        write_whole(written[-1], drawing.png(svg))
    return written


def slug(figure: Figure) -> str:
    """The figure's title as a part of a file's name: lower case, with hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", figure.title.lower()).strip("-") or figure.kind
