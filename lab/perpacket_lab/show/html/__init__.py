"""A run as one self-contained HTML file.

    page.py      the page, with page.html.j2, style.css and sort.js
    data.py      the data inside the page

This package renders `perpacket.analysis`. Its functions import charts and tables, so that importing
the package is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perpacket_lab.analysis.analysis import Analysis

__all__ = ["write", "write_charts", "write_several"]


def write(analysis: Analysis, destination: Path) -> Path:
    """Write the report of a run to `destination` and return its path.

    The file is written completely or not at all. Raises `OSError` when it cannot be written.
    """
    return write_several([analysis], destination)


def write_several(analyses: Sequence[Analysis], destination: Path) -> Path:
    """Write the reports of several runs to `destination`, one after another in one file."""
    from perpacket.whole_file import write_whole
    from perpacket_lab.show.html.page import page_of, render

    alone = len(analyses) == 1
    pages = [page_of(analysis, "" if alone else f"{analysis.study.name}-") for analysis in analyses]
    write_whole(destination, render(*pages))
    return destination


def write_charts(analysis: Analysis, folder: Path, *, dark: bool = False) -> list[Path]:
    """Write the charts of a run as SVG and PNG into `folder` and return the files.

    `dark` selects the dark colours. Figures without data have no file.
    """
    from perpacket_lab.show.charts.export import export

    return export(analysis, folder, dark=dark)
