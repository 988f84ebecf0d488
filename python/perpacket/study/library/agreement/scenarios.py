"""The scenarios that are put to several ways, as points: what is measured and what is simulated.

A scenario has the same words in both: so many connections, each asking for one file of a size, kept
alive or not. The machines differ, and so do twenty years of code: what is compared are shares,
changes and gains, never times.
"""

from __future__ import annotations

from perpacket.study.study import Level, Point

MEASURED = "measured"
SIMULATED = "simulated"
WAYS = (MEASURED, SIMULATED)
"""Ways that have runs of their own; models are fed from them."""

SIZES_BYTES = {False: (509, 4096, 65_536), True: (509, 2048, 4096, 16_384, 65_536)}
"""The files of *Communication Breakdown*, section 4.1.1, and some between."""

SHARE_CONNECTIONS = 64
"""Each request has a connection of its own, as ApacheBench asks; enough to keep a server busy."""

CONNECTIONS = {False: (4, 64, 512), True: (1, 4, 16, 64, 256, 512, 1024)}
CONNECTIONS_SIZE_BYTES = 4096

NIC_CONNECTIONS = {False: (0, 512, 1024, 4096), True: (0, 256, 512, 1024, 2048, 4096)}
"""Connections that the NIC of OSDI 2006 may hold; 0 is no handoff."""

FEEDING = 512
"""What feeds the models: so few that the NIC is not the limit, so many that their costs show."""

REQUESTS_PER_CONNECTION = 1000
"""Of a connection that is kept alive, simulated: as many as can be asked for."""

DURATION_S = {False: 3.0, True: 20.0}
WARMUP_S = {False: 1.0, True: 5.0}
PACKETS = {False: 200_000, True: 600_000}
HANDOFF_PACKETS = {False: 600_000, True: 600_000}

EXPERIMENTS = ("share", "connections", "handoff")
"""What `--only` takes."""


def points(full: bool, experiments: tuple[str, ...] = EXPERIMENTS) -> tuple[Point, ...]:
    """The points of some experiments, what is measured before what is simulated."""
    found = []
    if "share" in experiments:
        found += [
            way(full, size_bytes)
            for way in (measured_share, simulated_share)
            for size_bytes in SIZES_BYTES[full]
        ]
    if "connections" in experiments:
        found += [
            way(full, connections)
            for way in (measured_connections, simulated_connections)
            for connections in CONNECTIONS[full]
        ]
    if "handoff" in experiments:
        found += [handoff(full, connections) for connections in NIC_CONNECTIONS[full]]
    return tuple(found)


def measured_share(full: bool, size_bytes: int) -> Point:
    """Many clients on one file, each request over a connection of its own, measured."""
    return _measured(full, "share", size_bytes, SHARE_CONNECTIONS, keep_alive=False)


def simulated_share(full: bool, size_bytes: int) -> Point:
    """The same, simulated."""
    return _one_file(full, "share", size_bytes, SHARE_CONNECTIONS, requests=1)


def measured_connections(full: bool, connections: int) -> Point:
    """Connections that are kept alive, each asking as fast as it is answered, measured."""
    return _measured(full, "connections", CONNECTIONS_SIZE_BYTES, connections, keep_alive=True)


def simulated_connections(full: bool, connections: int) -> Point:
    """The same, simulated."""
    size_bytes, requests = CONNECTIONS_SIZE_BYTES, REQUESTS_PER_CONNECTION
    return _one_file(full, "connections", size_bytes, connections, requests)


def handoff(full: bool, nic_connections: int) -> Point:
    """World Cup with so many connections on the NIC, host packets first; 0 is no handoff."""
    order = "P" if nic_connections else "N"
    configuration = f"W-{nic_connections}-{order}-N-FCFS-400"
    return Point(
        name=f"handoff-{nic_connections}",
        configuration=configuration,
        factors=_factors("handoff", SIMULATED, 0, 2048, nic_connections),
        overrides=(
            ("run.warmup_packets", str(HANDOFF_PACKETS[full])),
            ("run.packets", str(HANDOFF_PACKETS[full])),
        ),
    )


def _factors(
    question: str, way: str, size_bytes: int, connections: int, nic_connections: int = 0
) -> dict[str, Level]:
    return {
        "question": question,
        "way": way,
        "size_bytes": size_bytes,
        "connections": connections,
        "nic_connections": nic_connections,
    }


def _name(question: str, way: str, size_bytes: int, connections: int) -> str:
    level = f"{size_bytes}b" if question == "share" else f"{connections}c"
    return f"{question}-{level}-{way}"


def _measured(
    full: bool, question: str, size_bytes: int, connections: int, keep_alive: bool
) -> Point:
    parameters: dict[str, object] = {
        "load.kind": "file",
        "load.connections": connections,
        "load.size_bytes": size_bytes,
        "load.keep_alive": str(keep_alive).lower(),
        "run.duration_s": DURATION_S[full],
        "run.warmup_s": WARMUP_S[full],
    }
    return Point(
        name=_name(question, MEASURED, size_bytes, connections),
        configuration="file",
        factors=_factors(question, MEASURED, size_bytes, connections),
        overrides=tuple((name, str(value)) for name, value in parameters.items()),
    )


def _one_file(full: bool, question: str, size_bytes: int, connections: int, requests: int) -> Point:
    """Workload W with all that varies in it taken out: one file, sessions of equal length."""
    parameters: dict[str, object] = {
        "workload.connections": connections,
        "workload.sessions.response_mean_bytes": size_bytes,
        "workload.sessions.response_sigma": 0,
        "workload.sessions.requests_per_session_mean": requests,
        "workload.sessions.requests_per_session_sigma": 0,
        "workload.sessions.objects": 1,
        "workload.sessions.size_classes": 1,
        "client.think_time_ms": 0,
        "run.warmup_packets": PACKETS[full] // 2,
        "run.packets": PACKETS[full],
    }
    return Point(
        name=_name(question, SIMULATED, size_bytes, connections),
        configuration="W-0-N-N-FCFS-400",
        factors=_factors(question, SIMULATED, size_bytes, connections),
        overrides=tuple((name, str(value)) for name, value in parameters.items()),
    )
