"""The agent's web server, loads and bulk sender on a host."""

from __future__ import annotations

import sys

from perpacket.advise.servers import without_options
from perpacket.measure import cpu_lists
from perpacket.measure.hosts.contract import Host
from perpacket_lab.measure.applications import file
from perpacket_lab.measure.applications.sessions import trust
from perpacket_lab.measure.programs import bulk_sender, words_of
from perpacket_lab.measure.web.plan import Plan

WARMING_CLIENTS = 8
"""Clients that warm an application up."""

SURGE_PATH = "/surge/file00000"
"""The path of Surge's most popular file (`crates/base/workload/src/generators/surge.rs`)."""

WEBSTONE_PATH = "/webstone/file500.html"
"""The path of WebStone's smallest file (`crates/base/workload/src/generators/webstone.rs`)."""

REPORT_PATH = "/.perpacket/report"
"""The path at which `serve web` returns its own counts."""


def serve_web(
    host: Host, plan: Plan, root: str, certificate: tuple[str, str] = ("", "")
) -> list[str]:
    """The server under test, on a port of its own choice.

    `certificate` names the files of the certificate and the key, for a plan with TLS.
    """
    # Outside the root, so that posted data is not served.
    posts = ("--routes", "--post-log", f"{root}.posts") if plan.kind == "specweb99" else ()
    command = [
        *(host.agent(), "serve", "web", "--root", root, "--listen", f"{host.address}:0"),
        *("--cpus", cpu_lists.ranges(host.cpus), "--architecture", plan.architecture),
        *(("--threads", str(plan.server_threads)) if plan.server_threads else ()),
        *(("--tls-cert", certificate[0], "--tls-key", certificate[1]) if plan.tls_key else ()),
        *(*posts, "--format", "json"),
    ]
    options = words_of(plan.server_options, "server.options")
    # Each option replaces perpacket's value, because a repeated option is an error.
    while options:
        following = [word for word in options[1:2] if word[:2] != "--"]
        command = [
            *without_options(command, [options[0].partition("=")[0]]),
            options[0],
            *following,
        ]
        options = options[1 + len(following) :]
    return command


def load_http(
    host: Host, plan: Plan, url: str, part: tuple[int, int], seed: int, trace: str
) -> list[str]:
    """Load on a web server; `part` is this client's number, from 1, and the number of clients.

    Each client gets the whole load as options and runs its part.
    """
    index, count = part
    command = [host.agent(), "load", "http", url + load_path(plan)]
    connections = ["--connections", str(plan.connections)]
    match plan.kind:
        case "surge":
            command += ["--workload", "surge", "--users", str(plan.users)]
        case "specweb99":
            command += ["--workload", "specweb99", *connections]
            # Other servers have no dynamic operations.
            command += [] if plan.is_foreign else ["--dynamic"]
        case "webstone":
            command += ["--workload", "webstone", *connections]
        case "application":
            command += [*_clients_of(plan), "--clients", str(plan.connections)]
        case "trace":
            command += ["--workload", "trace", "--trace", trace, *connections]
        case _:
            command += ["--workload", "file", *connections]
    if plan.requests_per_connection:
        command += ["--requests-per-connection", str(plan.requests_per_connection)]
    if plan.tls_key:
        command += ["--insecure", "--tls-resumption", "on" if plan.tls_resumption else "off"]
        command += ["--tls-version", plan.tls_version] if plan.tls_version else []
    if not plan.keep_alive:
        # WebStone's clients always open a connection for each request.
        command += ["--http", "1.0"]
        command += [] if plan.kind == "webstone" else ["--keep-alive", "0"]
    if count > 1:
        command += ["--shard", f"{index}/{count}"]
    return [*command, "--seed", str(seed), *_window(plan, host)]


def application(plan: Plan, host: Host) -> list[str]:
    """The command that runs a prepared application on a host of this machine."""
    module = "perpacket_lab.measure.applications.__main__"
    return [sys.executable, "-m", module, plan.application, host.address]


def warm_up(host: Host, plan: Plan, url: str) -> list[str]:
    """A load on an application before its first run, which checks every answer."""
    duration = f"{file.load(plan.application).application.warmup_s:g}"
    options = [*_clients_of(plan), "--clients", str(WARMING_CLIENTS), "--duration", duration]
    return [host.agent(), "load", "http", url, *options, "--format", "json", "--quiet"]


def _clients_of(plan: Plan) -> list[str]:
    definition = file.load(plan.application)
    return ["--application", str(definition.sessions), *trust(definition)]


def load_path(plan: Plan) -> str:
    """The path of a load of one file; other loads choose their paths."""
    return f"/{file_name(plan.size_bytes)}" if plan.kind == "file" else "/"


def present_path(plan: Plan) -> str:
    """A path that every server of a plan's files answers with status 200, or the root."""
    return {"surge": SURGE_PATH, "webstone": WEBSTONE_PATH}.get(plan.kind) or load_path(plan)


def file_name(size_bytes: int) -> str:
    """The name of a file of that size."""
    return f"file-{size_bytes}.bin"


def _part_of(whole: int, index: int, count: int) -> int:
    """Part `index`, from 1, of a whole number split as evenly as possible; at least 1."""
    return max(1, whole * index // count - whole * (index - 1) // count)


def _window(plan: Plan, host: Host) -> list[str]:
    return [
        *("--warmup", f"{plan.warmup_s:g}", "--duration", f"{plan.load_s:g}"),
        *("--cpus", cpu_lists.ranges(host.cpus), "--format", "json"),
    ]


def stream_far_end(host: Host) -> list[str]:
    """The receiver of the bulk sender."""
    listen = ["--listen", f"{host.address}:0", "--cpus", cpu_lists.ranges(host.cpus)]
    return [host.agent(), "load", "stream", *listen, "--format", "json"]


def stream_sender(host: Host, plan: Plan, to: str, part: tuple[int, int]) -> list[str]:
    """The bulk sender under test: one per far end, with its part of the connections."""
    index, count = part
    connections = _part_of(plan.connections, index, count)
    rate_bps = round(plan.rate_mbps * 1e6 * connections / plan.connections)
    return [
        *bulk_sender(host, to, connections, plan.write_bytes),
        *(("--bit-rate", str(rate_bps)) if rate_bps else ()),
        *_window(plan, host),
    ]
