"""Kept runs of studies, and the pages made from them: docs/documents.

A kept run is the archive `docs/documents/runs/STUDY.tar.xz` of its run directory, without reports
of single runs. Its page shows it beside the published values of this tree. `NAME.json` beside it is
what a command printed of a log that is not in the repository, with the command. `make pages` makes
all pages again. `make pages RUN=DIRECTORY` keeps a run first, without the points that other
programs disturbed.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from from_code import scorecard_pages
from perpacket.errors import RunFailed
from perpacket_lab.analysis.doubts import OTHERS_MOST_PERCENT, disturbance, disturbed
from perpacket_lab.run import directory
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.study import library

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.session_shares import Log

DOCUMENTS = Path(__file__).parents[1] / "documents"
RUNS = DOCUMENTS / "runs"
SUFFIX = ".tar.xz"


def keep(run: RunDirectory) -> Path:
    """Store a run as the kept one of its study; return the archive.

    Points that other programs disturbed are left out. Raises `RunFailed` if they are over half of
    all, or if the run is not of the default length.
    """
    analysis = analysis_of(run)
    points = disturbed(analysis.estimates.rows)
    few = (
        disturbance(analysis.estimates.rows) if 2 * len(points) > len(analysis.study.points) else ""
    )
    if reasons := [*filter(None, (few,)), *other_length(analysis)]:
        raise RunFailed(
            f"{run.path}: not kept: {'; '.join(reasons)}",
            "run the study at its default length on a quiet machine",
        )
    archive = RUNS / f"{run.configuration.study}{SUFFIX}"
    archive.parent.mkdir(parents=True, exist_ok=True)
    timelines = [run.timeline_path(*pair) for pair in run.timelines()]
    left_out = tuple(f"{point}.seed-" for point in points)
    observations = sorted((run.path / directory.OBSERVATIONS).glob("*.json"))
    files = [
        run.path / directory.CONFIGURATION,
        run.path / directory.DEFINITION,
        run.path / directory.ENVIRONMENT,
        *(file for file in observations if not file.name.startswith(left_out)),
        *sorted((run.path / directory.FAILURES).glob("*.json")),
        *timelines,
    ]
    with tarfile.open(archive, "w:xz") as content:
        for file in files:
            content.add(file, file.relative_to(run.path), filter=without_owner)
    return archive


def without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The entry without names and numbers of this machine's users."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def page_file(archive: Path) -> Path:
    """The page of a kept run."""
    return DOCUMENTS / f"{archive.name.removesuffix(SUFFIX)}.md"


def unpacked(archive: Path, folder: Path) -> RunDirectory:
    """Unpack a kept run into an empty folder."""
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    return RunDirectory.open(folder)


def other_length(analysis: Analysis) -> list[str]:
    """A sentence on each command of a run whose length is not the default one."""
    return [
        f"the run is not of the study's default length: `{command}`"
        for command in analysis.run.commands
        if command != f"perpacket study run {analysis.study.name}"
    ]


def reasons_against(analysis: Analysis) -> list[str]:
    """Why a kept run is not fit to be kept; empty if it is."""
    return [*filter(None, (disturbance(analysis.estimates.rows),)), *other_length(analysis)]


def awaited(analysis: Analysis) -> list[str]:
    """The remark of a page whose run was kept before, and is not fit to be kept."""
    if not reasons_against(analysis):
        return []
    return [
        "This page awaits a run of its study at the default length on a quiet machine: "
        f"`perpacket study run {analysis.study.name}`"
    ]


def analysis_of(run: RunDirectory) -> Analysis:
    """Analyze a run by the study of this tree.

    Of the stored study, only the command and the seeds are used: its published values may be older
    than those of the tree.
    """
    from perpacket_lab.analysis.analysis import analyze

    stored = run.study()
    today = library.of_points(run.configuration.study, run.configuration.points)
    study = replace(today, command=stored.command, seeds=stored.seeds)
    return analyze(study, run)


def remarks_of(analysis: Analysis) -> list[str]:
    """The remarks of a study's page: the document's page, points left out, a run that it awaits."""
    page = scorecard_pages.page_of(analysis.study.name)
    link = [f"[The page of the document]({page}) has what holds by every method"] if page else []
    return [*link, *without_points(analysis), *awaited(analysis)]


def without_points(analysis: Analysis) -> list[str]:
    """The remark of a page whose run was kept without some points."""
    rows = analysis.estimates.rows
    names = [point.name for point in analysis.study.points if not rows.get(point.name)]
    reasons = [failure.point for failure in analysis.run.failures]
    told = " ".join([*reasons, *(note for note in analysis.notes if note.startswith("left out"))])
    names = [name for name in names if name not in told]
    if not names:
        return []
    return [
        f"Without results, because other programs used over {OTHERS_MOST_PERCENT:g} % of the "
        f"server's processors: {', '.join(names)}"
    ]


def write(analysis: Analysis) -> None:
    """Write the page of a kept run, and its charts."""
    from perpacket_lab.show import markdown

    page = DOCUMENTS / f"{analysis.study.name}.md"
    for chart in page.with_suffix("").glob("*.svg"):
        chart.unlink()
    markdown.write(analysis, page, remarks_of(analysis))


def analyses_of(folder: Path) -> dict[str, Analysis]:
    """The analyses of all kept runs by study, unpacked into folders of an empty folder."""
    analyses = {}
    for archive in sorted(RUNS.glob(f"*{SUFFIX}")):
        name = archive.name.removesuffix(SUFFIX)
        analyses[name] = analysis_of(unpacked(archive, folder / name))
    return analyses


def kept_logs() -> dict[str, Log]:
    """What was computed from logs that are not in the repository, by the name of the file."""
    return {
        file.stem: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(RUNS.glob("*.json"))
    }


def main(arguments: list[str]) -> None:
    """Keep the runs whose directories are given, then write every page."""
    for argument in arguments:
        keep(RunDirectory.open(Path(argument)))
    with tempfile.TemporaryDirectory() as folder:
        analyses = analyses_of(Path(folder))
        for analysis in analyses.values():
            write(analysis)
    scorecard_pages.write(analyses, kept_logs())


if __name__ == "__main__":
    main(sys.argv[1:])
