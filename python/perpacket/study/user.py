"""Studies that a user writes as TOML: a scenario, factors with levels, and how often to run them.

    file.py       the file, checked: every key with its type
    designs.py    which combinations of levels are run
    points.py     the points of those combinations, with their parameters
    telling.py    what is told of a run: quantities, effects, warnings
    measured.toml, simulated.toml    the examples that `perpacket study new` prints

A simulated study goes through the executor like the built-in ones, a measured one through the
driver. The run directory keeps the study, resolved, so that its own file is not needed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from perpacket.analysis.statistics import StatisticsError
from perpacket.analysis.summary import Summarize, TwoLevel, design_remarks, renamed
from perpacket.errors import ConfigurationError
from perpacket.measure.web.rig import MeasuredRig
from perpacket.run.configuration_file import RunConfiguration
from perpacket.run.simulation_runner import SimulationRunner
from perpacket.run.stopping import Stopping
from perpacket.study.designs import Laid, lay_out
from perpacket.study.file import EXAMPLE_HINT, StudyFile, as_levels, parse, text_of, to_toml
from perpacket.study.library import measured
from perpacket.study.points import labels_of, points_of
from perpacket.study.quantities import QUANTITIES, is_column, quantity
from perpacket.study.study import Figure, Level, Point, Runner, Study

SUFFIX = ".toml"
"""What tells the file of a study from the name of a built-in one."""

KINDS = ("measured", "simulated")

LIMITS = (
    "An interval is the spread of the runs made here; it knows nothing of another machine, or of "
    "another seed of the simulator's parameters.",
)


def example(kind: str) -> str:
    """The example of a study of that kind, with every key explained."""
    return (files(__package__) / "templates" / f"{kind}{SUFFIX}").read_text(encoding="utf-8")


def load(path: Path) -> Study:
    """The study in a file.

    Raises `ConfigurationError` naming the file, the key and what was expected, `OSError` when the
    file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: no UTF-8: {error}", hint=EXAMPLE_HINT) from None
    return build(text, path)


def of_run(configuration: RunConfiguration) -> Study:
    """The study of a run that a file defined, with the points that the run has."""
    study = build(configuration.definition, Path("study.toml"))
    names = {point.name for point in configuration.points}
    kept = tuple(point for point in study.points if point.name in names)
    if study.name != configuration.study or len(kept) != len(names):
        raise ConfigurationError(
            f"study.toml of this run defines study {study.name} without "
            f"{', '.join(sorted(names - {point.name for point in kept})) or 'its name'}",
            parameter="study",
            value=configuration.study,
            hint="restore the file from a copy, or run the study anew into another directory",
        )
    return study.limited_to(kept)


def build(text: str, where: Path) -> Study:
    """The study that a text defines; errors name `where`."""
    file = parse(text, where)
    try:
        factors = {name: as_levels(levels) for name, levels in file.factors.items()}
        laid = lay_out(file.design, factors, file.generators)
        points = points_of(file, laid.combinations)
        if file.kind == "simulated":
            SimulationRunner().prepare(points[0], file.seed, timeline=False)
    except StatisticsError as error:
        raise ConfigurationError(f"{where}: {error}", hint=EXAMPLE_HINT) from None
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{where}: {error}", error.parameter, error.value, error.allowed, error.hint
        ) from None
    return _study(file, laid, points)


def _study(file: StudyFile, laid: Laid, points: tuple[Point, ...]) -> Study:
    told = tuple(file.quantities) or default_quantities(file.kind, points)
    rig = MeasuredRig() if file.kind == "measured" else None
    runner: Runner = rig or SimulationRunner()
    stopping = None
    if file.within is not None:
        name = file.until_quantity or next(each for each in told if is_column(file.kind, each))
        stopping = Stopping(name, file.within, file.replications, file.confidence)
    count = file.replications_most or file.replications
    labels = labels_of(list(file.factors))
    two_level = None
    if laid.two_level is not None:
        two_level = TwoLevel(
            renamed(laid.two_level, labels),
            tuple(point.name for point in points),
            "; ".join(
                f"{labels[name]} {text_of(low)} to {text_of(high)}"
                for name, (low, high) in file.factors.items()
            ),
        )
    return Study(
        name=file.name,
        title=file.title or f"Study {file.name}",
        question=file.question or f"What do {', '.join(labels.values()) or 'the runs'} change?",
        points=points,
        seeds=tuple(range(file.seed, file.seed + count)),
        runner=runner,
        rig=rig,
        figures=(
            *figures(file.kind, points, told),
            *(effect_figures(told) if two_level is not None else ()),
        ),
        tell=Summarize(two_level),
        told=told,
        remarks=tuple(design_remarks(two_level)) if two_level is not None else (),
        limits=LIMITS,
        command="perpacket study run study.toml",
        options=measured.OPTIONS if rig is not None else {},
        quantities=QUANTITIES | {name: quantity(name) for name in told},
        confidence=file.confidence,
        order=file.order or "random",
        stopping=stopping,
        definition=to_toml(file),
    )


LAWS = "By LAWS, which takes a NIC that never limits and a hand-over that costs nothing."


def default_quantities(kind: str, points: tuple[Point, ...]) -> tuple[str, ...]:
    """What a study is told in unless it says so: how much got through, and what it cost."""
    loads = {point.configuration for point in points}
    if kind == "simulated":
        return ("packets_per_s" if "bulk" in loads else "requests_per_s", "cycles.Stack")
    return ("goodput_mbps" if "stream" in loads else "requests_per_s", "ns.Stack")


COSTS = {
    "simulated": ("cycles_per_packet", "host cycles per packet"),
    "measured": ("cpu_ns_per_segment", "processor time per segment (ns; sent and received)"),
}
"""What a layer's cost is told in, and the title of its axis."""


def figures(kind: str, points: tuple[Point, ...], told: tuple[str, ...]) -> tuple[Figure, ...]:
    """Along each factor, the others at their first level: the first quantity, cost by layer.

    A measured study also tells what offload could gain.
    """
    columns = [name for name in told if is_column(kind, name)][:1]
    cost, cost_title = COSTS[kind]
    first = points[0].factors
    found = []
    for factor in first:
        where = {name: level for name, level in first.items() if name != factor}
        along = f"along {factor}{_held(where)}"
        found += [
            Figure(
                "curve",
                f"{name} {along}",
                factor,
                name,
                where=where,
                x_title=factor,
                y_title=name,
            )
            for name in columns
        ]
        found.append(
            Figure(
                "stacked-layers",
                f"Cost by layer {along}",
                factor,
                cost,
                where=where,
                x_title=factor,
                y_title=cost_title,
            )
        )
    if kind == "measured":
        found.append(Figure("laws", "What offload could gain at most", "", "share", caption=LAWS))
    return tuple(figure for figure in found if figure.has_enough(points))


EFFECTS = (
    "Half the change from the lower to the upper level, with its interval. Where the design is a "
    "part of a full one, a bar is the sum of the effects that cannot be told apart: the table of "
    "effects names them."
)


def effect_figures(told: tuple[str, ...]) -> tuple[Figure, ...]:
    """The effects of a two-level design on each quantity."""
    return tuple(
        Figure("effects", f"Effects on {name}", "", name, caption=EFFECTS) for name in told
    )


def _held(where: Mapping[str, Level]) -> str:
    """The levels at which the other factors are held, in words."""
    held = ", ".join(f"{name} {level}" for name, level in where.items())
    return f": {held}" if held else ""
