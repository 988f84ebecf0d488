"""The commands of the agent on a host: the media server, its clients, and their media."""

from __future__ import annotations

from perpacket.measure import cpu_lists
from perpacket.measure.hosts.contract import Host
from perpacket_lab.measure.media import gstreamer
from perpacket_lab.measure.media.media_plan import MediaPlan
from perpacket_lab.measure.programs import command, foreign_server, foreign_url

MIB = 1 << 20

ADMIT_ALL_MS = 3_600_000
"""The server admits streams even when others are late: their lateness is measured."""

SESSIONS_SPARE = 16

CLIENTS_PER_PROCESS = 5000
"""A client has three sockets, and a process has a limit of open files."""

SEED = 1
"""Seed of all media: clients know every byte and compare it with the received one."""

LISTENING = r"listening on (rtsp://\S+)"
"""The line that the server prints when it listens."""


def synthesize(host: Host, into: str, rate_bps: int, files: int, duration_s: float) -> list[str]:
    """Make the media of one rate."""
    return command(
        host,
        "media synthesize",
        into=into,
        files=files,
        bit_rate=rate_bps,
        duration=round(duration_s, 3),
        seed=SEED,
        quiet=True,
    )


def served(host: Host, plan: MediaPlan, root: str, read_delay_ms: int) -> tuple[list[str], str]:
    """The server under test, and its URL; an empty URL for a server that prints its own."""
    if plan.server_command:
        words = foreign_server(host, plan.server_command, root)
        return words, foreign_url(host, plan.server_url)
    if plan.server_kind == "gstreamer":
        return gstreamer.serve(host, root), ""
    return serve(host, plan, root, read_delay_ms), ""


def serve(host: Host, plan: MediaPlan, root: str, read_delay_ms: int) -> list[str]:
    """`serve media`, on a port of its own choice."""
    is_shared = plan.buffering in ("shared", "mapped")
    has_buffers = plan.buffering in ("single", "double")
    has_cache = is_shared and plan.distribution == "multiple"
    return command(
        host,
        "serve media",
        root=root,
        listen=f"{host.address}:0",
        cpus=cpu_lists.ranges(host.cpus),
        buffering=plan.buffering,
        read_delay=f"{read_delay_ms}ms",
        disk_rate=f"{plan.disk_rate_mbps:g}Mb/s" if plan.disk_rate_mbps else None,
        max_lateness=f"{ADMIT_ALL_MS}ms",
        max_sessions=plan.clients + SESSIONS_SPARE,
        buffer_packets=plan.buffer_packets if has_buffers else None,
        readers=plan.readers if is_shared else None,
        cache_size=plan.cache_bytes if has_cache else None,
    )


def parts(plan: MediaPlan, hosts: int) -> list[tuple[int, int, int]]:
    """The load as processes: the host of each, its first client and how many it plays.

    Hosts get equal parts, in their order. Each host runs its part in as many processes as needed.
    """
    options = []
    for host in range(hosts):
        begin, end = plan.clients * host // hosts, plan.clients * (host + 1) // hosts
        processes = -(-(end - begin) // CLIENTS_PER_PROCESS)
        for number in range(processes):
            first = begin + (end - begin) * number // processes
            last = begin + (end - begin) * (number + 1) // processes
            options.append((host, first, last - first))
    return options


def play(host: Host, plan: MediaPlan, url: str, first: int, clients: int) -> list[str]:
    """A process of clients; `first` is the number of its first client among all."""
    media: dict[str, object] = {}
    if plan.distribution == "multiple":
        # With more clients than media, every process plays all of them.
        own = (first, clients) if plan.clients <= plan.files else (0, plan.files)
        media = {"first_file": own[0], "files": own[1]}
    return command(
        host,
        "load media",
        url=f"{url}/stream-{{}}.ts",
        clients=clients,
        distribution=plan.distribution,
        check=True,
        ramp=plan.ramp_s,
        warmup=plan.warmup_s,
        duration=plan.load_s,
        cpus=cpu_lists.ranges(host.cpus),
        **media,
    )


def play_once(host: Host, url: str) -> list[str]:
    """A client that ends with 0 once it receives the first medium."""
    medium = f"{url}/stream-00000.ts"
    return command(host, "load media", url=medium, clients=1, warmup=0, duration=0.1)
