"""The studies that come with perpacket: one folder for each published document.

A folder has `study.toml`, the study, and `published.toml`, the document's numbers. `bases/` has
tables that several studies include. `agreement` has no document: it compares methods with each
other, by a function of `perpacket_lab.analysis.agreement`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from perpacket.errors import ConfigurationError, MissingStudy
from perpacket_lab.study import load
from perpacket_lab.study.file import read_content
from perpacket_lab.study.lengths import LENGTHS, Length
from perpacket_lab.study.point import Point
from perpacket_lab.study.study import Study

HERE = Path(__file__).parent

FILE = "study.toml"


def names() -> list[str]:
    """The names of all studies: those of their folders, with `-` for `_`."""
    return sorted(file.parent.name.replace("_", "-") for file in HERE.glob(f"*/{FILE}"))


def find(
    name: str,
    length: Length = "default",
    only: tuple[str, ...] = (),
    traces: Mapping[str, str] | None = None,
) -> Study:
    """The built-in study of that name, or the study in a file whose name ends in `.toml`.

    `only` names the experiments to run; by default, all except those that run on request. `traces`
    maps the name of each log to its file; logs replace a synthesized trace. Raises
    `MissingStudy` listing the names, `ConfigurationError` for a length or an experiment that the
    study does not have, and what `load.load` raises.
    """
    if is_file(name):
        return load.load(Path(name), length, only, traces)
    path = _path(name)
    text = path.read_text(encoding="utf-8")
    return load.build(text, path, length, only, is_built_in=True, traces=traces)


def is_file(name: str) -> bool:
    """Whether a name is the path of a file."""
    return name.endswith(load.SUFFIX)


def experiments(name: str) -> tuple[str, ...]:
    """The names of a built-in study's experiments, including those that run on request."""
    path = _path(name)
    tables = read_content(path.read_text(encoding="utf-8"), path).get("experiment")
    names_of = [table.get("name", "") for table in tables] if isinstance(tables, list) else []
    return tuple(dict.fromkeys(filter(None, names_of)))


def example(kind: str) -> str:
    """The example of a study of that kind, with every key explained."""
    return (HERE.parent / "templates" / f"{kind}.toml").read_text(encoding="utf-8")


def of_run(study: str, definition: str, points: tuple[Point, ...]) -> Study:
    """The study of a run, with the points of the run.

    `definition` is the resolved study in the run directory. Raises `MissingStudy` without it.
    """
    if definition:
        return _limited(load.of_text(definition, Path("study.toml")), study, points)
    raise MissingStudy(
        f"the run directory of study {study} has no study.toml",
        hint="restore that file from a copy, or run the study again into another directory",
    )


def of_points(study: str, points: tuple[Point, ...]) -> Study:
    """The built-in study of today at the shortest length that has all of these points.

    Raises `ConfigurationError` when no length has them.
    """
    wanted = {point.name for point in points}
    every = experiments(study)
    shortest = find(study, only=every)
    for length in LENGTHS:
        if shortest.is_measured and not wanted <= {point.name for point in shortest.points}:
            shortest = find(study, length, every)
    return _limited(replace(shortest, command=f"perpacket study run {study}"), study, points)


def _limited(whole: Study, study: str, points: tuple[Point, ...]) -> Study:
    """The study with the points of a run; raises `ConfigurationError` when it lacks one."""
    names = {point.name for point in points}
    points_of_run = tuple(point for point in whole.points if point.name in names)
    lacking = sorted(names - {point.name for point in points_of_run})
    if whole.name != study or lacking:
        raise ConfigurationError(
            f"study.toml of this run defines study {whole.name}"
            + (f" without {', '.join(lacking)}" if lacking else f", not {study}"),
            parameter="study",
            value=study,
            hint="restore the file from a copy, or run the study again into another directory",
        )
    return whole.limited_to(points_of_run)


def _path(name: str) -> Path:
    if name not in names():
        close = get_close_matches(name, names(), n=1)
        suggestion = f"did you mean {close[0]}? " if close else ""
        raise MissingStudy(
            f"no study {name!r}",
            hint=f"{suggestion}there are {', '.join(names())}; a study of your own is a file that "
            "ends in .toml: `perpacket study new` prints one",
        )
    return HERE / name.replace("-", "_") / FILE
