"""Three ways, one scenario: how far measurement, simulation and models agree.

    scenarios.py    the points: what is measured and what is simulated
    costs.py        what a request costs in one observation, of either way
    pairs.py        two ways side by side
    share.py        the network stack's share of the processor against file size
    throughput.py   throughput against connections
    handoff.py      the gain of handoff: simulated, by partial handoff, by LAWS

Models have no points of their own: they are computed from the runs that feed them, seed by seed.
Nothing published is compared: the other studies do that.
"""

from __future__ import annotations

from perpacket.analysis.estimates import rows_of
from perpacket.analysis.methods import MethodComparison
from perpacket.measure.web.plan import Plan
from perpacket.measure.web.rig import MeasuredRig
from perpacket.run.directory import RunDirectory
from perpacket.run.simulation_runner import SimulationRunner
from perpacket.study.library import measured
from perpacket.study.library.agreement import handoff, scenarios, share, throughput
from perpacket.study.library.agreement.scenarios import EXPERIMENTS, SIMULATED
from perpacket.study.quantities import QUANTITIES
from perpacket.study.study import Figure, Point, Study

__all__ = ["EXPERIMENTS", "study"]

NAME = "agreement"
SEEDS = (1, 2, 3, 4)

PARAMETERS = frozenset(field.alias for field in Plan.model_fields.values())
"""Parameters of measured points; the simulator has the others."""

FIGURES = (
    Figure(
        "ways",
        "Network stack in the busy processor, by file size",
        "size_bytes",
        share.QUESTION,
        where={"question": share.QUESTION},
        x_title="file size (bytes)",
        y_title="share of the busy processor (%)",
    ),
    Figure(
        "ways",
        "Throughput against connections",
        "connections",
        throughput.QUESTION,
        where={"question": throughput.QUESTION},
        x_title="connections",
        y_title="requests per second, over those at the fewest (%)",
    ),
    Figure(
        "ways",
        "Gain of handing connections to the NIC",
        "nic_connections",
        handoff.QUESTION,
        where={"question": handoff.QUESTION},
        x_title="connections that the NIC may hold",
        y_title="requests per second, gained over no handoff (%)",
    ),
)


def takes(point: Point, parameter: str) -> bool:
    """Whether a parameter given for the whole study is one of a point's."""
    return (parameter in PARAMETERS) != (point.factors["way"] == SIMULATED)


def contrasts(directory: RunDirectory) -> list[MethodComparison]:
    """Two ways to each number side by side, question by question."""
    rows = rows_of(directory)
    names: dict[tuple[str, str], dict[int, str]] = {}
    axes = {figure.y: figure.x for figure in FIGURES}
    for point in directory.configuration.points:
        question, way = str(point.factors["question"]), str(point.factors["way"])
        of_way = names.setdefault((question, way), {})
        of_way[int(point.factors[axes[question]])] = point.name
    found = []
    for module in (share, throughput):
        by_way = {way: names.get((module.QUESTION, way), {}) for way in scenarios.WAYS}
        found += module.contrasts(rows, by_way)
    return found + handoff.contrasts(rows, names.get((handoff.QUESTION, SIMULATED), {}))


def study(full: bool = False, only: tuple[str, ...] = ()) -> Study:
    """The study with cut or full levels, of all questions or `only` some of them."""
    chosen = scenarios.points(full, measured.checked_only(NAME, only, EXPERIMENTS))
    simulated = frozenset(point.name for point in chosen if point.factors["way"] == SIMULATED)
    whole = Study(
        name=NAME,
        title="Three ways, one scenario",
        question="How far do measurement, simulation and models agree on the network stack's share "
        "of the processor, on throughput against connections, and on what handoff gains?",
        points=chosen,
        seeds=SEEDS,
        runner=SimulationRunner(),
        rig=MeasuredRig(),
        simulated=simulated,
        takes=takes,
        figures=FIGURES,
        contrast=contrasts,
        limits=(
            "The simulated host is a machine and a kernel of 2003, the measured one is this "
            "machine: shares, changes and gains are compared, never times.",
            "The network stack is what lies below the system calls, down to the driver: the "
            "simulator has sockets within its system calls, and neither interrupts nor a "
            "scheduler.",
            "Handoff is not measured: no NIC here takes connections.",
            "The assumption named beside a difference is the one that the runs' own numbers speak "
            "against most; it is not proven to be the cause.",
        ),
        command=f"perpacket study run {NAME}",
        options=measured.OPTIONS,
        quantities=QUANTITIES,
    )
    return whole.limited_to(chosen)
