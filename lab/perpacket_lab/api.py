"""The functions of `import perpacket` that need the lab: simulate, emulate, run and open studies.

The verbs of the command line call these functions, and print what they return.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perpacket.errors import ConfigurationError
from perpacket.results import Result
from perpacket_lab import simulation
from perpacket_lab.analysis import run_comparison
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.run import parameter_check, start, table_file
from perpacket_lab.run.directory import TABLE, RunDirectory
from perpacket_lab.run.threads import ThreadExecutor
from perpacket_lab.show.notebook.emulated import EmulatedRun
from perpacket_lab.show.notebook.simulated import SimulatedRun
from perpacket_lab.show.notebook.study_results import RunDifference, StudyRun
from perpacket_lab.simulation import Overrides
from perpacket_lab.study.lengths import Length
from perpacket_lab.study.study import Study

if TYPE_CHECKING:
    from perpacket_lab.analysis.emulation_comparison import EmulationComparison
    from perpacket_lab.emulate.session import Guest
    from perpacket_lab.emulate.settings import Settings
    from perpacket_lab.run.jobs import Executor
    from perpacket_lab.run.progress import ProgressFunction

RUNS: Final = "runs"
"""The default folder of run directories."""


def simulate(
    configuration: str,
    *,
    seed: int = 1,
    overrides: Overrides = (),
    trace: str | Path | None = None,
    timeline: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> SimulatedRun:
    """Simulate one configuration; arguments and errors are those of `perpacket.Simulation`.

    `overrides` maps parameters to values, as `{"nic.lowat": 128}`. `timeline` also records the
    state over time. Ctrl-C raises `KeyboardInterrupt`.
    """
    prepared = simulation.Simulation(
        configuration, seed=seed, overrides=overrides, trace=trace, timeline=timeline
    )
    result = SimulatedRun(json.loads(simulation.run_cancellable(prepared, on_progress)))
    if timeline:
        result.states = prepared.timeline()
    return result


def emulate(
    settings: Settings | None = None,
    guest: Guest | None = None,
    *,
    workers: int = 0,
    record: str | Path | None = None,
    on_stage: Callable[[str], None] = lambda text: None,
    on_progress: Callable[[str, float], None] = lambda text, share: None,
) -> EmulatedRun:
    """Run an unmodified kernel and server on an emulated machine.

    `settings` has the scenario, the caches and the numbers of packets; `guest` the kernel and the
    files of another server. The first emulation boots a guest, which takes a minute. Raises
    `MachineLacks` without QEMU, and `RunFailed` if a guest does not end its window.
    """
    from perpacket_lab.emulate.session import Guest, open_session
    from perpacket_lab.emulate.settings import Settings

    settings = settings or Settings()
    session = open_session(guest or Guest(hardware=settings.hardware), on_stage)
    recording = None if record is None else Path(record)
    return EmulatedRun(session.emulate(settings, on_progress, workers=workers, record=recording))


def emulate_changes(
    settings: Settings,
    guest: Guest,
    changes: Sequence[str],
    *,
    workers: int = 0,
    on_stage: Callable[[str], None] = lambda text: None,
    on_progress: Callable[[str, float], None] = lambda text, share: None,
) -> dict[str, EmulationComparison]:
    """Emulate without and with each change of the catalogue, such as `tso=off`, and compare.

    Each change is tried alone. Variants of the same number are pairs, except for a change of the
    kernel's options, which boots a guest of its own. Raises `ConfigurationError` for a change that
    an emulated machine cannot have, and what `emulate` raises.
    """
    from perpacket_lab.analysis import emulation_comparison
    from perpacket_lab.emulate.guest_changes import GuestChange

    found = [GuestChange.of(text, settings.scenario) for text in dict.fromkeys(changes)]
    for each in found:
        each.check_processors(guest.hardware.servers)
    guest = replace(guest, changes=found)
    documents = []
    for number, change in enumerate([None, *found]):
        which = f"{change.text if change else 'without a change'}: "

        def progress(text: str, share: float, which: str = which, before: int = number) -> None:
            on_progress(which + text, (before + share) / (1 + len(found)))

        own = replace(settings, by="function", changes=(change.text,) if change else ())
        machine = replace(guest, kernel_options=change.kernel_option if change else "")
        run = emulate(own, machine, workers=workers, on_stage=on_stage, on_progress=progress)
        documents.append(run.as_dict())
    return {
        change.text: emulation_comparison.compare(documents[0], document)
        for change, document in zip(found, documents[1:], strict=True)
    }


def run_study(
    study: str | Path | Study,
    directory: str | Path | None = None,
    *,
    length: Length = "default",
    only: Sequence[str] = (),
    traces: Mapping[str, str] | None = None,
    replications: int | None = None,
    seed: int | None = None,
    overrides: Overrides = (),
    workers: int | None = None,
    executor: Executor | None = None,
    on_progress: ProgressFunction | None = None,
) -> StudyRun:
    """Run a built-in study, the study in a TOML file, or a `Study`, into a new directory.

    `directory` is `runs/STUDY-TIME` by default. `length`, `only` (experiments) and `traces` (logs
    by name) select parts of a study that is read here. Each point runs `replications` times, the
    first time with `seed`; both are those of the study by default. `overrides` are added to every
    point. `workers` is the number of simulations at the same time. Raises what
    `parameter_check.study_of`, `start.plan` and `start.PlannedRun.run` raise.
    """
    if not isinstance(study, Study):
        study = parameter_check.study_of(str(study), length, tuple(only), traces)
    if executor is None and study.is_simulated:
        executor = ThreadExecutor(workers)
    path = Path(directory) if directory is not None else fresh_path(study)
    planned = plan_study(study, path, replications, seed, overrides, executor)
    return concluded(study, planned.run(on_progress))


def plan_study(
    study: Study,
    path: Path,
    replications: int | None = None,
    seed: int | None = None,
    overrides: Overrides = (),
    executor: Executor | None = None,
) -> start.PlannedRun:
    """The arguments of `run_study`, checked before anything is set up or written."""
    return start.plan(
        study,
        path,
        seeds=seeds_of(study, replications, seed),
        overrides=tuple(simulation.setting_pairs(overrides)),
        executor=executor,
    )


def concluded(study: Study, directory: RunDirectory) -> StudyRun:
    """The results of a run of `study`, with the table of its observations in its directory."""
    names = {point.name for point in directory.configuration.points}
    ran = study.limited_to(tuple(point for point in study.points if point.name in names))
    analysis = analyze(ran, directory)
    if analysis.run.observed:
        table_file.write(directory, directory.path / TABLE)
    return StudyRun(analysis)


def fresh_path(study: Study) -> Path:
    """The default directory of a run."""
    return Path(RUNS) / f"{study.name}-{time.strftime('%Y%m%d-%H%M%S')}"


def seeds_of(study: Study, replications: int | None, seed: int | None) -> tuple[int, ...]:
    """The seeds of the replications, from the first one on.

    Raises `ConfigurationError` when the study has a rule for the number of replications.
    """
    if replications is not None and study.stopping is not None:
        raise ConfigurationError(
            f"study {study.name} repeats until an interval is narrow: it has no fixed number of "
            "replications",
            parameter="replications",
            value=str(replications),
            hint="change replications_most in its file, or remove its key `until`",
        )
    first = study.seeds[0] if seed is None else seed
    return tuple(range(first, first + (replications or len(study.seeds))))


def open_run(directory: str | Path) -> StudyRun:
    """Open a run; raises what `RunDirectory.open` and `study.library.of_run` raise."""
    run = RunDirectory.open(Path(directory))
    return StudyRun(analyze(run.study(), run))


def compare_runs(
    first: Result | str | Path, second: Result | str | Path, quantities: Sequence[str] = ()
) -> RunDifference:
    """Compare two runs; raises what `run_comparison.compare` raises."""
    runs = [RunDirectory.open(path_of(run)) for run in (first, second)]
    measured = runs[0].study().is_measured
    return RunDifference(
        run_comparison.compare(runs[0], runs[1], quantities, in_time_order=measured)
    )


def path_of(run: Result | str | Path) -> Path:
    """The directory of a run; raises `ConfigurationError` for another result."""
    if isinstance(run, StudyRun):
        return run.analysis.run.path
    if isinstance(run, str | Path):
        return Path(run)
    raise ConfigurationError(
        f"{type(run).__name__}: only two profiles, or two runs of studies, can be compared"
    )
