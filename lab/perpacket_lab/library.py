"""The functions of `import perpacket`: run a simulation or a study, open a run, compare two."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from perpacket_lab import simulation
from perpacket_lab.analysis import run_comparison
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.run import parameter_check, start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.run.threads import ThreadExecutor
from perpacket_lab.show.notebook.runs import StudyRun, TwoRuns
from perpacket_lab.show.notebook.simulated import SimulatedRun

RUNS: Final = "runs"
"""The default folder of run directories."""


def simulate(
    configuration: str,
    *,
    seed: int = 1,
    overrides: Sequence[tuple[str, str | float]] = (),
    trace: Path | None = None,
    timeline: bool = False,
) -> SimulatedRun:
    """Simulate one configuration; arguments and errors are those of `perpacket.Simulation`.

    `timeline` also records the state over time. Ctrl-C raises `KeyboardInterrupt`.
    """
    prepared = simulation.Simulation(
        configuration, seed=seed, overrides=overrides, trace=trace, timeline=timeline
    )
    found = SimulatedRun(json.loads(simulation.run_cancellable(prepared, lambda *_: None)))
    if timeline:
        found.states = prepared.timeline()
    return found


def run_study(
    name: str | Path,
    directory: str | Path | None = None,
    *,
    seeds: Sequence[int] = (),
    overrides: Sequence[tuple[str, str | float]] = (),
    workers: int | None = None,
) -> StudyRun:
    """Run a built-in study, or the study in a TOML file, into a new directory.

    `directory` is `runs/STUDY-TIME` by default. `seeds` replaces the study's own, and `overrides`
    are added to every point. `workers` is the number of simulations at the same time. Raises what
    `perpacket_lab.run.parameter_check.found` and `perpacket_lab.run.start.run` raise.
    """
    study = parameter_check.found(str(name))
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = Path(directory) if directory is not None else Path(RUNS) / f"{study.name}-{stamp}"
    texts = tuple((parameter, str(value)) for parameter, value in overrides)
    executor = ThreadExecutor(workers) if study.is_simulated else None
    made = start.run(study, path, seeds=tuple(seeds), overrides=texts, executor=executor)
    return StudyRun(analyze(made.study(), made))


def open_run(directory: str | Path) -> StudyRun:
    """Open a run; raises what `RunDirectory.open` and `study.library.of_run` raise."""
    found = RunDirectory.open(Path(directory))
    return StudyRun(analyze(found.study(), found))


def compare_runs(
    first: StudyRun | str | Path, second: StudyRun | str | Path, quantities: Sequence[str] = ()
) -> TwoRuns:
    """Compare two runs; raises what `run_comparison.compare` raises."""
    runs = [
        RunDirectory.open(run.analysis.run.path if isinstance(run, StudyRun) else Path(run))
        for run in (first, second)
    ]
    measured = runs[0].study().is_measured
    return TwoRuns(run_comparison.compare(runs[0], runs[1], quantities, in_time_order=measured))
