"""TR05-450's experiments on a machine of today: what a packet costs in each layer.

The bulk sender under packet rate, connections and latency, and a web server under a trace and
SPECweb99. The report's machine was twenty years slower, so what is compared are shares of the busy
processor, changes along each axis, and the order of the regions. Without `full`, the levels are
those that a machine of two cores carries in ten minutes, with the report's first and last among
them where it states a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from perpacket.analysis import published_rows, region_order
from perpacket.analysis.published import Comparison
from perpacket.run.directory import RunDirectory
from perpacket.study.library import measured
from perpacket.study.quantities import SEVEN
from perpacket.study.study import Figure, Level, Point, Study

RATES_MBPS = {False: (100, 300, 600, 900), True: tuple(range(100, 1000, 100))}
CONNECTIONS = {
    False: (1, 4, 32, 128, 512, 2048),
    True: (1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 16_384),
}
LATENCIES_MS = {False: (0, 5, 20, 40), True: (0, 1, 5, 10, 20, 40)}
TRACE_CONNECTIONS = {
    False: (4, 64, 512, 2048),
    True: (4, 16, 64, 128, 256, 512, 1024, 2048, 5120),
}
TRACE_LATENCY_CONNECTIONS = 2048
TRACE_LATENCIES_MS = {False: (0, 10, 40), True: (0, 1, 5, 10, 20, 40)}
SPECWEB_CONNECTIONS = {False: (16, 128), True: (16, 64, 128, 256, 512, 1024, 1280)}
SPECWEB_LATENCY_CONNECTIONS = 1280
"""Levels of each factor, cut and as published; those of the web server's latencies are fixed."""

BULK_RATE_MBPS = 100
"""In total, where connections and latency vary: TR05-450, section 5.2."""

DURATION_S = {False: 4.0, True: 20.0}
WARMUP_S = {False: 1.0, True: 5.0}

EXPERIMENTS = ("packet-rate", "connections", "latency", "web")
"""What `--only` takes, in the report's order of questions."""

COST = "processor time per segment (ns; sent and received)"
LATENCY = "added one-way latency (ms)"
NS = "cpu_ns_per_segment"
CHANGES = "ns.TCP,ns.SystemCall,ns.Driver,ns.Stack"
OVER_FIRST = "processor time per segment over that at one level"


def point(
    load: str, connections: int, full: bool, *, rate_mbps: int = 0, latency_ms: int | None = None
) -> Point:
    """One point; `load` is `bulk`, `trace` or `specweb99`.

    Points along latency go through what adds it, at 0 ms too; the others, without `latency_ms`,
    take the direct path.
    """
    rate = f"-{rate_mbps}mbps" if rate_mbps else ""
    kind = {"bulk": "stream"}.get(load, load)
    factors: dict[str, Level] = {
        "load": load,
        "connections": connections,
        "rate_mbps": rate_mbps,
        "latency_ms": latency_ms or 0,
        "network": "direct" if latency_ms is None else "delayed",
    }
    parameters: dict[str, object] = {
        "load.kind": kind,
        "load.connections": connections,
        "load.rate_mbps": rate_mbps,
        "network.kind": factors["network"],
        "network.latency_ms": latency_ms or 0,
        "run.duration_s": DURATION_S[full],
        "run.warmup_s": WARMUP_S[full],
    }
    if load == "specweb99":
        # One file set serves all loads: the greatest has the most directories.
        parameters["load.file_set_connections"] = max(SPECWEB_CONNECTIONS[full])
    return Point(
        name=f"{load}-{connections}c{rate}" + ("" if latency_ms is None else f"-{latency_ms}ms"),
        configuration=kind,
        factors=factors,
        overrides=tuple((name, str(value)) for name, value in parameters.items()),
    )


def bulk(
    connections: int, full: bool, rate_mbps: int = BULK_RATE_MBPS, latency_ms: int | None = None
) -> Point:
    """A point of the bulk sender."""
    return point("bulk", connections, full, rate_mbps=rate_mbps, latency_ms=latency_ms)


def points_of(experiment: str, full: bool) -> list[Point]:
    """The points of one experiment; two experiments may share some."""
    most = 2048
    match experiment:
        case "packet-rate":
            return [bulk(1, full, rate_mbps) for rate_mbps in RATES_MBPS[full]]
        case "connections":
            return [bulk(connections, full) for connections in CONNECTIONS[full]]
        case "latency":
            return [bulk(most, full, latency_ms=latency) for latency in LATENCIES_MS[full]]
        case _:
            latencies_ms = TRACE_LATENCIES_MS[full]
            found = [point("trace", n, full) for n in TRACE_CONNECTIONS[full]]
            found += [
                point("trace", TRACE_LATENCY_CONNECTIONS, full, latency_ms=latency)
                for latency in latencies_ms
            ]
            found += [point("specweb99", n, full) for n in SPECWEB_CONNECTIONS[full]]
            if full:
                found += [
                    point("specweb99", SPECWEB_LATENCY_CONNECTIONS, full, latency_ms=latency)
                    for latency in latencies_ms
                ]
            return found


def points(full: bool, experiments: tuple[str, ...] = EXPERIMENTS) -> tuple[Point, ...]:
    """The points of some experiments, each once."""
    found = [each for name in EXPERIMENTS if name in experiments for each in points_of(name, full)]
    return tuple({each.name: each for each in found}.values())


def figures() -> tuple[Figure, ...]:
    """What the report draws."""
    rate: dict[str, Level] = {"load": "bulk", "connections": 1, "network": "direct"}
    connections: dict[str, Level] = {
        "load": "bulk",
        "rate_mbps": BULK_RATE_MBPS,
        "network": "direct",
    }
    latency: dict[str, Level] = {
        "load": "bulk",
        "rate_mbps": BULK_RATE_MBPS,
        "connections": 2048,
        "network": "delayed",
    }
    return (
        *along("packet rate, one connection", "rate_mbps", rate, "rate (Mb/s)"),
        *along("connections, 100 Mb/s in total", "connections", connections, "connections"),
        *along("latency, 2048 connections", "latency_ms", latency, LATENCY),
        *web_figures(),
    )


def along(title: str, factor: str, where: Mapping[str, Level], x_title: str) -> tuple[Figure, ...]:
    """The cost of a packet by layer along one axis, and how it changes beside the report."""
    return (
        Figure(
            "stacked-layers",
            f"Cost of a segment by layer: {title}",
            factor,
            NS,
            where=where,
            x_title=x_title,
            y_title=COST,
        ),
        Figure(
            "relative",
            f"Change of a segment's cost: {title}",
            factor,
            CHANGES,
            where=where,
            x_title=x_title,
            y_title=OVER_FIRST,
            caption="Paired by block; the level with ratio 1 is the one from which the report "
            "states changes, else the first. Its cycles per packet are marked as the same ratio.",
        ),
    )


def web_figures() -> tuple[Figure, ...]:
    """What the report draws of the web server."""
    trace: dict[str, Level] = {"load": "trace", "network": "direct"}
    latency: dict[str, Level] = {"load": "trace", "network": "delayed"}
    specweb: dict[str, Level] = {"load": "specweb99", "network": "direct"}
    shares = ",".join(f"busy_share.{region}" for region in (*SEVEN, "Stack"))
    return (
        Figure(
            "curve",
            "Throughput of the web server (Mb/s)",
            "connections",
            "content_mbps",
            series="load",
            where={"network": "direct"},
            x_title="connections",
            y_title="content (Mb/s)",
        ),
        Figure(
            "curve",
            "Time to a response of the web server, trace",
            "connections",
            "latency_us.response.p50,latency_us.response.p99",
            where=trace,
            x_title="connections",
            y_title="time to a response (µs)",
        ),
        Figure(
            "laws",
            "What offload could gain the web server at most, trace",
            "",
            "share",
            where=trace,
            caption="By LAWS, which takes a NIC that never limits and a hand-over that costs "
            "nothing.",
        ),
        *along("web server, trace", "connections", trace, "connections"),
        *(
            Figure(
                "quantities-beside",
                f"Shares of the busy processor: trace, {n} connections",
                "quantity",
                shares,
                where=trace | {"connections": n},
                x_title="share of the busy processor (%)",
            )
            for n in (4, 512, 2048)
        ),
        *along("web server, SPECweb99", "connections", specweb, "connections"),
        Figure(
            "quantities-beside",
            "Shares of the busy processor: SPECweb99, 16 connections",
            "quantity",
            shares,
            where=specweb | {"connections": 16},
            x_title="share of the busy processor (%)",
        ),
        *along("web server, trace, by latency", "latency_ms", latency, LATENCY),
    )


def compare(study: Study, directory: RunDirectory) -> list[Comparison]:
    """The figures in the document's order, then the order of its regions at each configuration."""
    return published_rows.compare(study, directory) + region_order.compare_orders(study, directory)


STUDY = measured.MeasuredStudy(
    name="tr05-450",
    title="What a packet costs a server, layer by layer",
    question="How does the processor time of a packet grow with packet rate, connections and "
    "latency, how much of a web server is network stack, and does the shape of twenty years "
    "ago still hold?",
    experiments=EXPERIMENTS,
    points=points,
    figures=figures,
    published=files(__package__) / "measured.toml",
    limits=(
        "The report turned delayed acknowledgments off; Linux delays them as it sees fit, so "
        "fewer frames are received for the same data.",
        "The report's region of system calls ends at the socket; its profiler added about 900 "
        "instructions a packet to its own instruction counts.",
    ),
    compare=compare,
)


def study(full: bool = False, only: tuple[str, ...] = ()) -> Study:
    """The study with cut or published levels, of all experiments or `only` some of them."""
    return STUDY.study(full, only)
