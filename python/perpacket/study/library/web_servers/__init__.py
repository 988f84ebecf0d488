"""Web servers against each other: which one wins depends on the file and on the clients.

Our server in its five architectures, nginx and Apache, each asked for one file again and again over
connections that are kept, along file size and along clients: the factors and their ends are those
of section 4.5.1 of the thesis of 2003, which compared the two web servers of its day. A server that
this machine does not have is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from perpacket.study.contest import Contest
from perpacket.study.library import measured
from perpacket.study.study import Figure, Level, Point, Study

ARCHITECTURES = ("events", "single", "threads", "processes", "uring")
"""Our own server's ways to wait for connections."""

POOLS = ("threads", "processes")
"""Those that have a thread or process a connection; the others refuse to be told how many."""

SERVERS = (*ARCHITECTURES, "nginx", "apache")

SIZES_BYTES = {
    False: (5, 10_000, 500_000, 50_000_000),
    True: (5, 50, 500, 5000, 10_000, 50_000, 500_000, 5_000_000, 50_000_000),
}
CLIENTS = {False: (1, 20, 400), True: (1, 2, 5, 10, 20, 50, 100, 200, 400)}
"""Levels, cut and whole: 5 B to 50 MB, 1 to 400 clients."""

CLIENTS_OF_SIZES = {False: (20,), True: (1, 20, 400)}
SIZES_OF_CLIENTS = {False: (10_000,), True: (5, 10_000, 500_000)}
"""Where the other factor stands along each axis; 10 kB is close to most objects of the web (section
4.5.3)."""

DURATION_S = {False: 1.2, True: 10.0}
WARMUP_S = {False: 0.5, True: 2.0}

LARGE_BYTES, LARGE_STRETCH = 50_000_000, 2.0
"""From this size on a run is watched longer: its answers are few."""

EXPERIMENTS = ("size", "clients")

LEAST_THREADS, SPARE_THREADS = 64, 8
"""Threads or processes of the architectures that have pools: however few clients there are, and
beside one for each. A connection without one would wait for another's end, and so would whoever
asks the server for its counts."""

SIZE_TITLE = "file size (bytes)"


def point(server: str, size_bytes: int, clients: int, full: bool) -> Point:
    """One server, asked for one file by some clients."""
    factors: dict[str, Level] = {"server": server, "size_bytes": size_bytes, "clients": clients}
    parameters: dict[str, object] = {
        "load.kind": "file",
        "load.connections": clients,
        "load.size_bytes": size_bytes,
        "run.duration_s": DURATION_S[full],
        "run.warmup_s": WARMUP_S[full],
        "profile.events": "any",
        "run.stretch": LARGE_STRETCH if size_bytes >= LARGE_BYTES else 1.0,
    }
    if server in ARCHITECTURES:
        parameters["server.architecture"] = server
        if server in POOLS:
            parameters["server.threads"] = max(LEAST_THREADS, clients + SPARE_THREADS)
    else:
        parameters["server.kind"] = server
    return Point(
        name=f"{server}-{size_bytes}b-{clients}c",
        configuration=server,
        factors=factors,
        overrides=tuple((name, str(value)) for name, value in parameters.items()),
    )


def points(full: bool, experiments: tuple[str, ...] = EXPERIMENTS) -> tuple[Point, ...]:
    """The points of some experiments, each once."""
    levels: list[tuple[int, int]] = []
    if "size" in experiments:
        levels += [(size, n) for n in CLIENTS_OF_SIZES[full] for size in SIZES_BYTES[full]]
    if "clients" in experiments:
        levels += [(size, n) for size in SIZES_OF_CLIENTS[full] for n in CLIENTS[full]]
    return tuple(
        point(server, size, clients, full)
        for size, clients in dict.fromkeys(levels)
        for server in SERVERS
    )


@dataclass(frozen=True, slots=True)
class Axis:
    """A line of points: the factor that changes, and what stands still."""

    factor: str
    title: str
    """The factor in words, with its unit."""
    where: Mapping[str, Level]
    still: str
    """What stands still, in words."""

    def of(self, what: str) -> str:
        """The title of something drawn along it."""
        return f"{what} by {self.title.partition(' (')[0]}: {self.still}"


def axes() -> list[Axis]:
    """Every line of points."""
    sizes = [
        Axis("size_bytes", SIZE_TITLE, {"clients": n}, "1 client" if n == 1 else f"{n} clients")
        for n in CLIENTS_OF_SIZES[True]
    ]
    return sizes + [
        Axis("clients", "clients", {"size_bytes": size}, f"files of {size:,} B")
        for size in SIZES_OF_CLIENTS[True]
    ]


COLUMNS = (
    ("Requests", "requests_per_s", "requests per second"),
    ("Throughput", "content_mbps", "content (Mb/s)"),
    ("Response, median", "latency_us.response.p50", "µs"),
    ("Response, 99 %", "latency_us.response.p99", "µs"),
    ("Processor time of the server's processes a request", "server_cpu_us_per_request", "µs"),
    ("Idle processor of the server", "server_idle", "share idle (0 to 1)"),
    ("Page faults of the server", "server_process.page_faults_per_s", "page faults per second"),
    (
        "Context switches of the server",
        "server_process.context_switches_per_s",
        "context switches per second",
    ),
)
"""What is drawn along each axis: what it is, its column, its unit."""


def figures() -> tuple[Figure, ...]:
    """A curve a server, of each quantity along each axis."""
    return tuple(
        Figure(
            "curve",
            axis.of(what),
            axis.factor,
            column,
            series="server",
            where=axis.where,
            x_title=axis.title,
            y_title=unit,
        )
        for axis in axes()
        for what, column, unit in COLUMNS
    )


def contests() -> tuple[Contest, ...]:
    """Who answers most, and who takes least processor time a request, along each axis."""
    return tuple(
        Contest(
            title=axis.of(what),
            competitor="server",
            along=axis.factor,
            quantity=quantity,
            where=axis.where,
            lower_wins=lower_wins,
            along_title=axis.title,
        )
        for axis in axes()
        for what, quantity, lower_wins in (
            ("Most requests", "request_rate", False),
            ("Least processor time a request", "server_cpu", True),
        )
    )


STUDY = measured.MeasuredStudy(
    name="web-servers",
    title="Web servers against each other",
    question="Which web server answers most, and which takes least processor time, for small and "
    "large files and few and many clients, and where does the winner change?",
    experiments=EXPERIMENTS,
    points=points,
    figures=figures,
    published=files(__package__) / "published.toml",
    limits=(
        "Cache misses need a performance monitoring unit: where there is none, as on most virtual "
        "machines, no column has them; page faults, context switches and pages in memory are "
        "always counted.",
        "Where clients were nearly busy, stronger ones would have found more difference in "
        "requests; processor time a request is then the fairer measure.",
        "nginx and Apache run with a worker a processor, no log and files sent by the kernel "
        "(sendfile), Apache with a thread a client and no module but what it needs; a "
        "distribution's default configuration is slower, and other settings could change the "
        "order.",
        "Where the kernel forbids sampling, nothing tells what other programs did on the server's "
        "processors.",
        "On loopback the server's processor time holds the client's receiving up to its socket.",
        "One of the two web servers compared in 2003 runs on another system only: its figures are "
        "left out.",
    ),
    contests=contests(),
)


def study(full: bool = False, only: tuple[str, ...] = ()) -> Study:
    """The study with cut levels or all, along both axes or `only` one of them."""
    return STUDY.study(full, only)
