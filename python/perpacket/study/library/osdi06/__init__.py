"""Kim and Rixner, OSDI 2006: what connection handoff gains, and what its policies are for.

Every configuration the paper names, and those it leaves out: all workloads with load control at
every NIC rate, every threshold, the two selection policies beyond the paper, and active restore.
"""

from __future__ import annotations

from importlib.resources import files

from perpacket.analysis import published_rows
from perpacket.run.simulation_runner import SimulationRunner
from perpacket.study import published_file as published
from perpacket.study.study import Figure, Level, Point, Study

CLIENTS = {"W": 2048, "I": 2048, "D": 2048, "S": 4096}
"""Concurrent connections of each workload (Table 3)."""

WORKLOADS = {"W": "World Cup", "I": "IBM", "D": "SPECweb99", "S": "SPECweb99 static"}
"""Names of the workloads (Table 3)."""

NIC_MIPS = (400, 600, 800)
"""Instruction rates of the NIC (section 4.1)."""

LOAD_CONTROLS = {"N": "none", "L": "load control", "R": "load control with restore"}
"""Letters of the shorthand; R is beyond the paper, which proposes it and does not build it."""

SELECTIONS = ("T4", "T10", "T20", "T50", "LIFETIME", "ORACLE")
"""Ways to choose connections other than first come, first served; the last two are our own."""

SEEDS = (1, 2, 3, 4, 5)
RUNNER = SimulationRunner()


def baseline(workload: str) -> str:
    """The configuration without handoff that gains of a workload are measured against."""
    return f"{workload}-0-N-N-FCFS-400"


def configuration_point(
    workload: str,
    connections: int,
    order: str = "N",
    load_control: str = "N",
    selection: str = "FCFS",
    mips: int = 400,
) -> Point:
    """The point of a configuration, named by its shorthand (Table 3)."""
    name = f"{workload}-{connections}-{order}-{load_control}-{selection}-{mips}"
    factors: dict[str, Level] = {
        "workload": workload,
        "clients": CLIENTS[workload],
        "nic_connections": connections,
        "order": "host first" if order == "P" else "arrival",
        "load_control": LOAD_CONTROLS[load_control],
        "selection": selection,
        "nic_mips": mips,
    }
    against = baseline(workload)
    return Point(
        name=name,
        configuration=name,
        factors=factors,
        against=None if name == against else against,
        timeline=(workload, order, load_control, selection, mips) == ("W", "P", "L", "FCFS", 400)
        and connections == 4096,
    )


def points() -> tuple[Point, ...]:
    """All configurations: World Cup with every policy, then every workload at every NIC rate."""
    found = [
        configuration_point("W", 0),
        configuration_point("W", 256),
        configuration_point("W", 1024),
        configuration_point("W", 1024, "P"),
        configuration_point("W", 4096, "P"),
        configuration_point("W", 256, "P", "L"),
        configuration_point("W", 4096, "P", "R"),
    ]
    found += [configuration_point("W", 256, "P", "L", selection) for selection in SELECTIONS]
    for workload in CLIENTS:
        if workload != "W":
            found += [configuration_point(workload, 0), configuration_point(workload, 1024)]
        found.append(configuration_point(workload, 4096))
        found += [configuration_point(workload, 4096, "P", "L", mips=mips) for mips in NIC_MIPS]
    return tuple(found)


def figures() -> tuple[Figure, ...]:
    """What the report draws."""
    controlled: dict[str, Level] = {
        "order": "host first",
        "load_control": LOAD_CONTROLS["L"],
        "nic_connections": 4096,
    }
    return (
        Figure("paper-beside", "Requests per second", "configuration", "request_rate"),
        Figure(
            "paper-beside", "Gain in requests over no handoff", "configuration", "gain_request_rate"
        ),
        Figure("paper-beside", "Idle time of the host", "configuration", "host_idle"),
        Figure("paper-beside", "Idle time of the NIC", "configuration", "nic_idle"),
        Figure(
            "stacked-layers",
            "Host cycles per packet by layer, World Cup",
            "configuration",
            "cycles_per_packet",
            where={"workload": "W", "nic_mips": 400, "selection": "FCFS"},
            y_title="cycles per packet (frames sent and received)",
        ),
        Figure(
            "curve",
            "A faster NIC, with load control",
            "nic_mips",
            "requests_per_s",
            series="workload",
            where=controlled,
            x_title="NIC instruction rate (million/s)",
            y_title="requests per second",
        ),
        Figure(
            "curve",
            "Time to a response with a faster NIC, World Cup",
            "nic_mips",
            "response_ms.median,response_ms.p99",
            where=controlled | {"workload": "W"},
            x_title="NIC instruction rate (million/s)",
            y_title="time to a response (ms)",
        ),
        Figure(
            "curve",
            "Choosing connections, 256 on the NIC",
            "selection",
            "requests_per_s",
            where={"workload": "W", "nic_connections": 256, "order": "host first"},
            x_title="selection policy",
            y_title="requests per second",
        ),
        Figure(
            "timeline",
            "Load control at work: W-4096-P-L-FCFS-400",
            "time_s",
            "connections_on_nic,soft_limit,queue_packets",
            where={"point": "W-4096-P-L-FCFS-400"},
        ),
    )


def study() -> Study:
    """The study, with the paper's figures."""
    all_points = points()
    source, rows = published.read(files(__package__) / "published.toml", all_points)
    return Study(
        name="osdi06",
        title="Connection handoff to an offload NIC",
        question="What does a server gain when its NIC takes over TCP connections, and which "
        "policies keep it from losing?",
        points=all_points,
        seeds=SEEDS,
        runner=RUNNER,
        figures=figures(),
        published=rows,
        compare=published_rows.compare,
        ranked=("request_rate",),
        source=source,
        limits=(
            "The IBM trace is unpublished: workload I is synthesized after what the paper says "
            "of it.",
            "Many numbers of the paper's system (receive ring, handoff cost, limits and steps of "
            "load control) are not published: they are parameters with stated sources.",
            "Figures used to calibrate the simulator are marked: their agreement predicts nothing.",
        ),
        command="perpacket study run osdi06",
    )
