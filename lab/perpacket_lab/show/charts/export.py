"""The charts of a run as files: SVG and PNG, for slides and papers, without a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perpacket.whole_file import write_whole
from perpacket_lab.show.charts import chart_style, drawing, kinds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.study.figure import Figure


def export(
    analysis: Analysis, folder: Path, *, dark: bool = False, forms: Sequence[str] = ("svg", "png")
) -> list[Path]:
    """Write every chart that has data into `folder`, create it if missing, and return the files.

    Names begin with the figure's number in the report: `02-cost-of-a-packet.svg`, and the same
    with `.png`.
    `forms` may select only one of the two. Raises `OSError` naming the file that cannot be written.
    """
    written: list[Path] = []
    for number, figure in enumerate(analysis.study.figures, 1):
        plot = kinds.plot_of(figure, analysis)
        if plot is None:
            continue
        svg = drawing.standalone(
            plot.draw(chart_style.WIDE),
            title=figure.title,
            description=plot.description,
            dark=dark,
        )
        stem = folder / f"{number:02}-{slug(figure)}"
        folder.mkdir(parents=True, exist_ok=True)
        for form in forms:
            written.append(stem.with_suffix(f".{form}"))
            write_whole(written[-1], drawing.png(svg) if form == "png" else svg)
    return written


def slug(figure: Figure) -> str:
    """The figure's title as a part of a file's name: lower case, with hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", figure.title.lower()).strip("-") or figure.kind
