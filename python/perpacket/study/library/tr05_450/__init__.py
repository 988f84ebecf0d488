"""TR05-450, 2005: what a packet costs in each layer as connections and latency grow.

The report's bulk sender on its own machine, simulated: connections, one-way latency, the size of
the level-2 cache, and prefetches of the packet's structures.
"""

from __future__ import annotations

from importlib.resources import files

from perpacket.analysis import published_rows
from perpacket.run.simulation_runner import SimulationRunner
from perpacket.study import published_file as published
from perpacket.study.study import Figure, Level, Point, Study

CONNECTIONS = (1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048)
LATENCIES_MS = (0, 1, 5, 10, 20, 40)
"""Added one-way latencies, at the most connections."""

MEMORIES = ((256, "none"), (512, "none"), (256, "0"), (256, "1"))
"""Level-2 cache (KiB) and prefetch (`none`, or how many packets ahead), one varied at a time."""

BASE_MEMORY = MEMORIES[0]
RATES_MBPS = (100, 900)
"""Rates the report states figures at: most at the first; at the second with one connection."""

SEEDS = (1, 2, 3, 4, 5)
RUNNER = SimulationRunner()


def bulk_point(
    connections: int,
    latency_ms: int = 0,
    memory: tuple[int, str] = BASE_MEMORY,
    rate_mbps: int = RATES_MBPS[0],
) -> Point:
    """The point of a bulk sender; gains are against the same without prefetch and 256 KiB."""
    l2_kib, prefetch = memory
    factors: dict[str, Level] = {
        "connections": connections,
        "rate_mbps": rate_mbps,
        "latency_ms": latency_ms,
        "l2_kib": l2_kib,
        "prefetch": prefetch,
    }
    is_base = memory == BASE_MEMORY
    return Point(
        name=point_name(connections, latency_ms, memory, rate_mbps),
        configuration="bulk",
        factors=factors,
        overrides=(
            ("machine", "athlon-xp-2600"),
            ("workload.connections", str(connections)),
            ("workload.rate_mbps", str(rate_mbps)),
            ("network.added_latency_ms", str(latency_ms)),
            ("machine.l2.size_kib", str(l2_kib)),
            ("host.prefetch", prefetch),
        ),
        against=None if is_base else point_name(connections, latency_ms, BASE_MEMORY, rate_mbps),
    )


def point_name(connections: int, latency_ms: int, memory: tuple[int, str], rate_mbps: int) -> str:
    """`bulk-2048c-100mbps-0ms-256k-none`."""
    l2_kib, prefetch = memory
    return f"bulk-{connections}c-{rate_mbps}mbps-{latency_ms}ms-{l2_kib}k-{prefetch}"


def points() -> tuple[Point, ...]:
    """Connections at no added latency, latencies at the most connections, one at a high rate."""
    found = [bulk_point(1, rate_mbps=RATES_MBPS[1])]
    for memory in MEMORIES:
        found += [bulk_point(connections, memory=memory) for connections in CONNECTIONS]
        found += [
            bulk_point(CONNECTIONS[-1], latency_ms, memory) for latency_ms in LATENCIES_MS[1:]
        ]
    return tuple(found)


CYCLES = "cycles per packet (frames sent and received)"
TCP_CYCLES = "layers.tcp.cycles_per_packet"


def figures_over_connections() -> tuple[Figure, ...]:
    """What the report draws against connections, at no added latency."""
    at: dict[str, Level] = {"latency_ms": 0, "rate_mbps": 100}
    plain: dict[str, Level] = at | {"l2_kib": 256, "prefetch": "none"}
    return (
        Figure(
            "stacked-layers",
            "Cycles per packet by layer",
            "connections",
            "cycles_per_packet",
            where=plain,
            y_title=CYCLES,
        ),
        Figure(
            "curve",
            "Level-1 misses of TCP",
            "connections",
            "layers.tcp.l1d_misses_per_packet",
            where=plain,
            y_title="level-1 data misses per packet",
        ),
        Figure(
            "curve",
            "Level-2 misses of TCP with either level-2 cache",
            "connections",
            "layers.tcp.l2_misses_per_packet",
            series="l2_kib",
            where=at | {"prefetch": "none"},
            y_title="level-2 misses per packet",
        ),
        Figure(
            "curve",
            "Cycles of TCP with prefetches",
            "connections",
            TCP_CYCLES,
            series="prefetch",
            where=at | {"l2_kib": 256},
            y_title=CYCLES,
        ),
    )


def figures_over_latency() -> tuple[Figure, ...]:
    """What the report draws against latency, at the most connections."""
    at: dict[str, Level] = {"connections": CONNECTIONS[-1], "rate_mbps": 100}
    latency = "added one-way latency (ms)"
    return (
        Figure(
            "stacked-layers",
            "Cycles per packet by layer as latency grows",
            "latency_ms",
            "cycles_per_packet",
            where=at | {"l2_kib": 256, "prefetch": "none"},
            x_title=latency,
            y_title=CYCLES,
        ),
        Figure(
            "curve",
            "Cycles of TCP with either level-2 cache as latency grows",
            "latency_ms",
            TCP_CYCLES,
            series="l2_kib",
            where=at | {"prefetch": "none"},
            x_title=latency,
            y_title=CYCLES,
        ),
        Figure(
            "curve",
            "Cycles of TCP with prefetches as latency grows",
            "latency_ms",
            TCP_CYCLES,
            series="prefetch",
            where=at | {"l2_kib": 256},
            x_title=latency,
            y_title=CYCLES,
        ),
    )


def figures() -> tuple[Figure, ...]:
    """What the report draws."""
    return (
        *figures_over_connections(),
        *figures_over_latency(),
        Figure("paper-beside", "TCP misses per packet, level 1", "point", "l1_misses.TCP"),
        Figure("paper-beside", "TCP misses per packet, level 2", "point", "l2_misses.TCP"),
    )


def study() -> Study:
    """The study, with the report's figures."""
    all_points = points()
    source, rows = published.read(files(__package__) / "published.toml", all_points)
    return Study(
        name="tr05-450-simulated",
        title="What a packet costs, layer by layer",
        question="How do cycles and cache misses per packet grow with connections and latency, "
        "and what do a larger cache and prefetches save?",
        points=all_points,
        seeds=SEEDS,
        runner=RUNNER,
        figures=figures(),
        published=rows,
        compare=published_rows.compare,
        source=source,
        limits=(
            "Only the bulk sender is simulated here, not the report's web servers.",
            "The report does not define its packets; per packet here means every frame sent or "
            "received.",
            "Figures used to calibrate the simulator are marked: their agreement predicts nothing.",
        ),
        command="perpacket study run tr05-450-simulated",
    )
