"""Isa 2003, section 4.3: what memory and context switches cost, on a machine of today.

`memory.py` has the study `memory-surface`, `switches.py` the study `switch-cost`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from perpacket.analysis import published_rows
from perpacket.measure.bench.rig import BenchRig
from perpacket.study import published_file as published
from perpacket.study.library import measured
from perpacket.study.quantities import QUANTITIES
from perpacket.study.study import Figure, Level, Point, Study

SEEDS = (1, 2, 3, 4, 5)

OLD_MACHINE = (
    "The published machines had Pentium 4 processors of about 2 GHz with 512 KB of second-level "
    "cache and a bus of 3200 MB/s: shapes are compared, not rates."
)


def bench_point(
    name: str, kind: str, factors: dict[str, Level], parameters: dict[str, object]
) -> Point:
    """One run of a benchmark; `bench.` begins its parameters' names."""
    named = {"kind": kind, **parameters}
    return Point(
        name=name,
        configuration=kind,
        factors=factors,
        overrides=tuple((f"bench.{key}", str(value)) for key, value in named.items()),
    )


@dataclass(frozen=True, slots=True)
class Question:
    """What a study of a benchmark asks."""

    name: str
    title: str
    question: str
    experiments: tuple[str, ...]
    points: Callable[[bool, tuple[str, ...]], tuple[Point, ...]]
    """The points of some experiments, cut or all."""
    figures: tuple[Figure, ...]
    published: str
    """The file of the document's figures."""
    limits: tuple[str, ...]


def bench_study(asked: Question, full: bool, only: tuple[str, ...]) -> Study:
    """The study with cut or all levels, of all experiments or `only` some of them."""
    everything = {
        p.name: p for scope in (True, False) for p in asked.points(scope, asked.experiments)
    }
    source, rows = published.read(files(__package__) / asked.published, tuple(everything.values()))
    rig = BenchRig()
    chosen = asked.points(full, measured.checked_only(asked.name, only, asked.experiments))
    whole = Study(
        name=asked.name,
        title=asked.title,
        question=asked.question,
        points=chosen,
        seeds=SEEDS,
        runner=rig,
        rig=rig,
        figures=asked.figures,
        published=rows,
        compare=published_rows.compare,
        source=source,
        limits=(OLD_MACHINE, *asked.limits),
        command=f"perpacket study run {asked.name}",
        options=measured.OPTIONS,
        quantities=QUANTITIES,
    )
    return whole.limited_to(chosen)
