"""The commands of the agent on a host: the media server, its clients, and their media."""

from __future__ import annotations

from perpacket.measure import cpu_lists
from perpacket.measure.hosts.contract import Host
from perpacket_lab.measure.media import gstreamer
from perpacket_lab.measure.media.plan import MediaPlan
from perpacket_lab.measure.programs import foreign_server, foreign_url

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
    return [
        *(host.agent(), "media", "synthesize", "--into", into, "--files", str(files)),
        *("--bit-rate", str(rate_bps), "--duration", f"{duration_s:.3f}", "--seed", str(SEED)),
        "--quiet",
    ]


def served(host: Host, plan: MediaPlan, root: str, read_delay_ms: int) -> tuple[list[str], str]:
    """The server under test, and its URL; an empty URL for a server that prints its own."""
    if plan.server_command:
        command = foreign_server(host, plan.server_command, root)
        return command, foreign_url(host, plan.server_url)
    if plan.server_kind == "gstreamer":
        return gstreamer.serve(host, root), ""
    return serve(host, plan, root, read_delay_ms), ""


def serve(host: Host, plan: MediaPlan, root: str, read_delay_ms: int) -> list[str]:
    """`serve media`, on a port of its own choice."""
    command = [
        *(host.agent(), "serve", "media", "--root", root, "--listen", f"{host.address}:0"),
        *("--cpus", cpu_lists.ranges(host.cpus), "--buffering", plan.buffering),
        *("--read-delay", f"{read_delay_ms}ms", "--max-lateness", f"{ADMIT_ALL_MS}ms"),
        *("--max-sessions", str(plan.clients + SESSIONS_SPARE), "--format", "json"),
    ]
    if plan.buffering in ("single", "double"):
        return [*command, "--buffer-packets", str(plan.buffer_packets)]
    if plan.buffering == "unbuffered":
        return command
    command += ["--readers", str(plan.readers)]
    if plan.distribution == "multiple":
        command += ["--cache-size", str(plan.cache_bytes)]
    return command


def parts(plan: MediaPlan, hosts: int) -> list[tuple[int, int, int]]:
    """The load as processes: the host of each, its first client and how many it plays.

    Hosts get equal parts, in their order. Each host runs its part in as many processes as needed.
    """
    found = []
    for host in range(hosts):
        begin, end = plan.clients * host // hosts, plan.clients * (host + 1) // hosts
        processes = -(-(end - begin) // CLIENTS_PER_PROCESS)
        for number in range(processes):
            first = begin + (end - begin) * number // processes
            last = begin + (end - begin) * (number + 1) // processes
            found.append((host, first, last - first))
    return found


def play(host: Host, plan: MediaPlan, url: str, first: int, clients: int) -> list[str]:
    """A process of clients; `first` is the number of its first client among all."""
    command = [
        *(host.agent(), "load", "media", f"{url}/stream-{{}}.ts", "--clients", str(clients)),
        *("--distribution", plan.distribution, "--check"),
        *("--ramp", f"{plan.ramp_s:g}", "--warmup", f"{plan.warmup_s:g}"),
        *("--duration", f"{plan.load_s:g}", "--cpus", cpu_lists.ranges(host.cpus)),
        *("--format", "json"),
    ]
    if plan.distribution == "multiple":
        # With more clients than media, every process plays all of them.
        own = (first, clients) if plan.clients <= plan.files else (0, plan.files)
        command += ["--first-file", str(own[0]), "--files", str(own[1])]
    return command


def play_once(host: Host, url: str) -> list[str]:
    """A client that ends with 0 once it receives the first medium."""
    return [
        *(host.agent(), "load", "media", f"{url}/stream-00000.ts", "--clients", "1"),
        *("--warmup", "0", "--duration", "0.1", "--format", "json"),
    ]
