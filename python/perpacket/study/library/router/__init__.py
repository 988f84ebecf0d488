"""Isa 2003, section 4.6: a software router under eight traffic configurations.

Bulk TCP through the kernel's own forwarding (or a program in XDP) between four hosts, with messages
of three sizes, then the highest rate without loss for UDP frames of RFC 2544's sizes,
and what is lost beyond it. The published
router is twenty years older: its peaks stand beside ours as notes, what is compared are shapes.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

from perpacket.analysis import published_rows
from perpacket.analysis.published import Published
from perpacket.measure.router.rig import RouterRig
from perpacket.study import published_file as published
from perpacket.study.library import measured
from perpacket.study.quantities import QUANTITIES
from perpacket.study.study import Figure, Level, Point, Study

NAME = "router"
SEEDS = (1, 2, 3)

CONFIGURATIONS = tuple(range(1, 9))
MESSAGES_BYTES = (64, 10_240, 65_536)
"""64 B, 10 KB and 64 KB in the binary prefixes that the document computes with (its Table 4.2)."""

FRAMES_BYTES = {False: (64, 512, 1518), True: (64, 128, 256, 512, 1024, 1280, 1518)}
"""Frame sizes for Ethernet: RFC 2544, section 9.1."""

LOSS_FRAME_BYTES = 64
RATES_PPS = {
    False: (50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000),
    True: tuple(50_000 * step for step in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)),
}
"""Offered rates of the loss curve (RFC 2544, section 26.3), in frames a second."""

PLANES = ("kernel", "xdp")
LOADS = ("tcp", "search", "loss")
EXPERIMENTS = tuple(f"{load}-{plane}" for load in LOADS for plane in PLANES)
DEFAULT = tuple(name for name in EXPERIMENTS if name != "tcp-xdp")
"""Bulk TCP over the plane in XDP is run when asked for: `--plane xdp`."""

DURATION_S = {False: 1.5, True: 10.0}
WARMUP_S = {False: 0.3, True: 2.0}
TRIAL_S = {False: 0.3, True: 2.0}
RESOLUTION = {False: 0.05, True: 0.02}

COST = "processor time per forwarded packet (ns)"
PUBLISHED_PEAKS = (
    "Published peaks: 449 Mb/s in configuration 2, 5378 context switches a second in configuration "
    "8 with 64 B, 84 % busy in configurations 4 and 8."
)


def tcp_point(configuration: int, message_bytes: int, plane: str, full: bool) -> Point:
    """Bulk TCP in one configuration."""
    return _point(
        f"{plane}-{configuration}-{message_bytes}b",
        {"configuration": configuration, "bytes": message_bytes, "plane": plane, "load": "tcp"},
        {
            "load.kind": "tcp",
            "router.configuration": configuration,
            "router.plane": plane,
            "load.message_bytes": message_bytes,
            "run.duration_s": DURATION_S[full],
            "run.warmup_s": WARMUP_S[full],
        },
    )


def search_point(frame_bytes: int, plane: str, full: bool) -> Point:
    """The highest rate without loss, from host 0 to host 1; XDP is paired with the kernel."""
    return _point(
        f"search-{plane}-{frame_bytes}b",
        {"bytes": frame_bytes, "plane": plane, "load": "search"},
        {
            "load.kind": "search",
            "router.plane": plane,
            "load.frame_bytes": frame_bytes,
            "search.trial_s": TRIAL_S[full],
            "search.resolution": RESOLUTION[full],
        },
    )


def loss_point(rate_pps: int, plane: str, full: bool) -> Point:
    """What is lost of the smallest frames at one rate."""
    return _point(
        f"loss-{plane}-{rate_pps}pps",
        {"bytes": LOSS_FRAME_BYTES, "plane": plane, "load": "loss", "rate_pps": rate_pps},
        {
            "load.kind": "loss",
            "router.plane": plane,
            "load.frame_bytes": LOSS_FRAME_BYTES,
            "load.rate_pps": rate_pps,
            "search.trial_s": TRIAL_S[full],
        },
    )


def _point(name: str, factors: dict[str, Level], parameters: dict[str, object]) -> Point:
    return Point(
        name=name,
        configuration=str(factors["load"]),
        factors={"configuration": 1, "rate_pps": 0} | factors,
        overrides=tuple((key, str(value)) for key, value in parameters.items()),
    )


def points(full: bool, experiments: tuple[str, ...] = DEFAULT) -> tuple[Point, ...]:
    """The points of some experiments."""
    found = [
        tcp_point(configuration, message_bytes, plane, full)
        for plane in PLANES
        if f"tcp-{plane}" in experiments
        for configuration in CONFIGURATIONS
        for message_bytes in MESSAGES_BYTES
    ]
    found += [
        search_point(frame_bytes, plane, full)
        for plane in PLANES
        if f"search-{plane}" in experiments
        for frame_bytes in FRAMES_BYTES[full]
    ]
    found += [
        loss_point(rate_pps, plane, full)
        for plane in PLANES
        if f"loss-{plane}" in experiments
        for rate_pps in RATES_PPS[full]
    ]
    return tuple(found)


def figures() -> tuple[Figure, ...]:
    """What the document draws, the cost of a packet, and the search."""
    found: list[Figure] = []
    for plane in PLANES:
        where: dict[str, Level] = {"load": "tcp", "plane": plane}
        over = "" if plane == "kernel" else ", XDP"
        found += [
            Figure(
                "curve",
                f"{title}{over}",
                "configuration",
                column,
                series="bytes",
                where=where,
                x_title="configuration (odd: simplex, even: duplex)",
                y_title=unit,
                caption=PUBLISHED_PEAKS if column == "forwarded_mbps" else "",
            )
            for title, column, unit in (
                ("Forwarded", "forwarded_mbps", "frames sent by the router (Mb/s, 10^6)"),
                ("Packets", "forwarded_packets_per_s", "forwarded packets per second"),
                ("Idle processors of the router", "server_idle", "share idle (0 to 1)"),
                ("Context switches", "context_switches_per_s", "per second, the whole machine"),
                ("Active pages", "active_pages", "pages of 4 KiB, the whole machine"),
            )
        ]
    for message_bytes in MESSAGES_BYTES:
        found.append(
            Figure(
                "stacked-layers",
                f"Cost of a forwarded packet by layer: messages of {message_bytes} B",
                "configuration",
                "cpu_ns_per_forwarded_packet",
                where={"load": "tcp", "plane": "kernel", "bytes": message_bytes},
                x_title="configuration",
                y_title=COST,
            )
        )
    for title, column, unit in (
        ("Highest rate without loss (RFC 2544)", "throughput_pps", "frames per second"),
        ("The same in bits", "throughput_mbps", "Mb/s (10^6) of frames with check sequence"),
    ):
        found.append(
            Figure(
                "curve",
                title,
                "bytes",
                column,
                series="plane",
                where={"load": "search"},
                x_title="frame (bytes)",
                y_title=unit,
            )
        )
    found.append(
        Figure(
            "curve",
            f"Share lost of frames of {LOSS_FRAME_BYTES} B (RFC 2544)",
            "rate_pps",
            "loss",
            series="plane",
            where={"load": "loss"},
            x_title="offered (frames per second)",
            y_title="share lost (0 to 1)",
        )
    )
    return tuple(found)


def read_published() -> tuple[str, tuple[Published, ...]]:
    """The document and its figures about any point of either scope."""
    everything = {p.name: p for full in (True, False) for p in points(full, EXPERIMENTS)}
    return published.read(files(__package__) / "published.toml", tuple(everything.values()))


def study(full: bool = False, only: tuple[str, ...] = ()) -> Study:
    """The study with cut or long times, of the usual experiments or `only` some of them."""
    source, rows = read_published()
    rig = RouterRig()
    chosen = points(full, measured.checked_only(NAME, only, EXPERIMENTS) if only else DEFAULT)
    whole = Study(
        name=NAME,
        title="What a software router carries, and what a packet costs it",
        question="How do throughput, processor time and context switches of a router change with "
        "the traffic's pattern and the size of messages, and what would forwarding in XDP gain?",
        points=chosen,
        seeds=SEEDS,
        runner=rig,
        rig=rig,
        figures=figures(),
        compare=published_rows.compare,
        source=source,
        limits=(
            "The published machine was about twenty years older, with four interfaces of 1 Gb/s: "
            "shapes are compared, and the share of the processor, never rates.",
            "Messages are writes with nothing held back, as netperf sends them with its option -D: "
            "the kernel still joins those that wait for the window.",
            "Context switches and active pages are those of the whole machine, hosts included: "
            "the published ones are of a router that was a machine of its own.",
            "XDP on veth runs where the sender of a frame runs: with it the processor time of "
            "router and hosts cannot be told apart, and is left out.",
            "The search sends one stream from host 0 to host 1, its trials are shorter than the "
            "60 s of RFC 2544.",
        ),
        command=f"perpacket study run {NAME}",
        options=measured.OPTIONS,
        quantities=QUANTITIES,
    )
    return replace(whole, published=measured.decidable(rows)).limited_to(chosen)
