"""Communication Breakdown, 2004: which part of a web server's processor time is the network.

The two static loads of Patwardhan, Lebeck and Sorin on a machine of today: many clients on one file
of three sizes, each request over a connection of its own as ApacheBench asks, and Surge's users
who think between pages. Its dynamic loads need applications that are not part of perpacket.
"""

from __future__ import annotations

from importlib.resources import files

from perpacket.study.library import measured
from perpacket.study.study import Figure, Level, Point, Study

SIZES_BYTES = (509, 4096, 65_536)
CLIENTS = 500
"""Files and clients of the ApacheBench load: section 4.1.1."""

USERS = {False: (25, 100, 400), True: (25, 50, 100, 150, 200, 300, 400, 500)}
"""User equivalents of Surge: section 4.1.2, Figure 3."""

DURATION_S = {False: 4.0, True: 20.0}
WARMUP_S = {False: 1.0, True: 20.0}
"""As published: 20 s before, and 20 s profiled (section 3.2)."""

SURGE_STRETCH = {False: 3.0, True: 6.0}
"""Users who think need a longer look; as published two minutes (section 4.1.2)."""

EXPERIMENTS = ("ab", "surge")

LOADS = (
    ("ab", "size_bytes", f"{CLIENTS} clients on one file", "file size (bytes)"),
    ("surge", "clients", "Surge", "user equivalents"),
)
"""Each load with the factor it varies, and both in words."""

SHARES = "cpu_share.kernel,cpu_share.network,cpu_share.driver,cpu_share.scheduling,cpu_share.server"
COST = "processor time per segment (ns; sent and received)"


def point(load: str, size_bytes: int, clients: int, full: bool) -> Point:
    """One point; `load` is `ab` or `surge`, whose files have sizes of their own (0 here)."""
    factors: dict[str, Level] = {"load": load, "size_bytes": size_bytes, "clients": clients}
    parameters: dict[str, object] = {
        "run.duration_s": DURATION_S[full],
        "run.warmup_s": WARMUP_S[full],
    }
    if load == "ab":
        parameters |= {
            "load.kind": "file",
            "load.connections": clients,
            "load.size_bytes": size_bytes,
            "load.keep_alive": "false",
        }
    else:
        parameters |= {
            "load.kind": "surge",
            "load.users": clients,
            "run.stretch": SURGE_STRETCH[full],
        }
    return Point(
        name=f"ab-{size_bytes}b" if load == "ab" else f"surge-{clients}u",
        configuration=str(parameters["load.kind"]),
        factors=factors,
        overrides=tuple((name, str(value)) for name, value in parameters.items()),
    )


def points(full: bool, experiments: tuple[str, ...] = EXPERIMENTS) -> tuple[Point, ...]:
    """The points of some experiments."""
    found = []
    if "ab" in experiments:
        found += [point("ab", size_bytes, CLIENTS, full) for size_bytes in SIZES_BYTES]
    if "surge" in experiments:
        found += [point("surge", 0, users, full) for users in USERS[full]]
    return tuple(found)


def figures() -> tuple[Figure, ...]:
    """What the document draws: categories and throughput against file size and users."""
    found = []
    for load, factor, title, x_title in LOADS:
        where: dict[str, Level] = {"load": load}
        found += [
            Figure(
                "stacked-layers",
                f"Share of the busy processor by layer: {title}",
                factor,
                "share",
                where=where,
                x_title=x_title,
                y_title="share of the busy processor (0 to 1)",
            ),
            Figure(
                "stacked-layers",
                f"Cost of a segment by layer: {title}",
                factor,
                "cpu_ns_per_segment",
                where=where,
                x_title=x_title,
                y_title=COST,
            ),
            *(
                Figure(
                    "curve",
                    f"{what}: {title}",
                    factor,
                    column,
                    where=where,
                    x_title=x_title,
                    y_title=unit,
                )
                for what, column, unit in (
                    ("Requests", "requests_per_s", "requests per second"),
                    ("Idle processor of the server", "server_idle", "share idle (0 to 1)"),
                )
            ),
        ]
    found += [
        Figure(
            "curve",
            f"Time to a response: {title}",
            factor,
            "latency_us.response.p50,latency_us.response.p99",
            where={"load": load},
            x_title=x_title,
            y_title="time to a response (µs)",
        )
        for load, factor, title, x_title in LOADS
    ]
    found.append(
        Figure(
            "laws",
            "What offload could gain at most",
            "",
            "share",
            caption="By LAWS, as in the document's section 5: a NIC that never limits, a hand-over "
            "that costs nothing.",
        )
    )
    for name, title in (
        *(
            (f"ab-{size_bytes}b", f"{CLIENTS} clients on {size_bytes} B")
            for size_bytes in SIZES_BYTES
        ),
        ("surge-400u", "Surge, 400 users"),
    ):
        found.append(
            Figure(
                "quantities-beside",
                f"Parts of all processor time: {title}",
                "quantity",
                SHARES,
                where={"point": name},
                x_title="share of all processor time (%)",
            )
        )
    return tuple(found)


STUDY = measured.MeasuredStudy(
    name="breakdown",
    title="Where a web server's processor time goes",
    question="How much of a web server's processor time is network code, driver, scheduling "
    "and the server itself, and how much could offload gain at most?",
    experiments=EXPERIMENTS,
    points=points,
    figures=figures,
    published=files(__package__) / "published.toml",
    limits=(
        "The document's static loads alone: its dynamic ones ran applications (SlashCode, "
        "SPECweb99_SSL, Trade3) that are not part of this.",
        "Its server was Apache with a process a connection; what the scheduler costs depends "
        "on the server's architecture more than on anything else.",
        "Its files came from a file server over NFS in Surge; here they are local.",
    ),
)


def study(full: bool = False, only: tuple[str, ...] = ()) -> Study:
    """The study with cut or published levels, of both loads or `only` one of them."""
    return STUDY.study(full, only)
