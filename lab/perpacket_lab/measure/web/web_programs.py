"""The agent's web server, loads and bulk sender on a host."""

from __future__ import annotations

import sys

from perpacket.measure import agent, cpu_lists
from perpacket.measure.hosts.contract import Host
from perpacket_lab.measure.applications import application_file
from perpacket_lab.measure.applications.sessions import is_untrusted
from perpacket_lab.measure.programs import bulk_sender, command, words_of
from perpacket_lab.measure.web.web_plan import WebPlan

WARMING_CLIENTS = 8
"""Clients that warm an application up."""

SURGE_PATH = "/surge/file00000"
"""The path of Surge's most popular file (`crates/base/workload/src/generators/surge.rs`)."""

WEBSTONE_PATH = "/webstone/file500.html"
"""The path of WebStone's smallest file (`crates/base/workload/src/generators/webstone.rs`)."""

REPORT_PATH = "/.perpacket/report"
"""The path at which `serve web` returns its own counts."""


def serve_web(
    host: Host, plan: WebPlan, root: str, certificate: tuple[str, str] = ("", "")
) -> list[str]:
    """The server under test, on a port of its own choice.

    `certificate` names the files of the certificate and the key, for a plan with TLS.
    """
    is_specweb99 = plan.kind == "specweb99"
    options: agent.Options = {
        "root": root,
        "listen": f"{host.address}:0",
        "cpus": cpu_lists.ranges(host.cpus),
        "architecture": plan.architecture,
        "threads": plan.server_threads or None,
        "tls-cert": certificate[0] if plan.tls_key else None,
        "tls-key": certificate[1] if plan.tls_key else None,
        "routes": is_specweb99,
        # Outside the root, so that posted data is not served.
        "post-log": f"{root}.posts" if is_specweb99 else None,
        "format": "json",
    }
    # The user's options replace these.
    if plan.server_options:
        given = words_of(plan.server_options, "server.options")
        options |= agent.options_of("serve web", given, "server.options")
    return [host.agent(), *agent.run("serve web", options)]


def load_http(
    host: Host, plan: WebPlan, url: str, part: tuple[int, int], seed: int, trace: str
) -> list[str]:
    """Load on a web server; `part` is this client's number, from 1, and the number of clients.

    Each client gets the whole load as options and runs its part.
    """
    index, count = part
    options: dict[str, object] = {"workload": plan.kind, "connections": plan.connections}
    match plan.kind:
        case "surge":
            options = {"workload": "surge", "users": plan.users}
        case "specweb99":
            # Other servers have no dynamic operations.
            options["dynamic"] = not plan.is_foreign
        case "application":
            options = {**_clients_of(plan), "clients": plan.connections}
        case "trace":
            options["trace"] = trace
        case "webstone":
            pass
        case _:
            options["workload"] = "file"
    if plan.requests_per_connection:
        options["requests_per_connection"] = plan.requests_per_connection
    if plan.tls_key:
        options |= {
            "insecure": True,
            "tls_resumption": "on" if plan.tls_resumption else "off",
            "tls_version": plan.tls_version,
        }
    if not plan.keep_alive:
        options["http"] = "1.0"
        # WebStone's clients always open a connection for each request.
        options["keep_alive"] = None if plan.kind == "webstone" else 0
    return command(
        host,
        "load http",
        url=url + load_path(plan),
        shard=f"{index}/{count}" if count > 1 else None,
        seed=seed,
        **options,
        **_window(plan, host),
    )


def application(plan: WebPlan, host: Host) -> list[str]:
    """The command that runs a prepared application on a host of this machine."""
    module = "perpacket_lab.measure.applications.__main__"
    return [sys.executable, "-m", module, plan.application, host.address]


def warm_up(host: Host, plan: WebPlan, url: str) -> list[str]:
    """A load on an application before its first run, which checks every answer."""
    duration_s = application_file.load(plan.application).application.warmup_s
    options = {**_clients_of(plan), "clients": WARMING_CLIENTS, "duration": duration_s}
    return command(host, "load http", url=url, quiet=True, **options)


def _clients_of(plan: WebPlan) -> dict[str, object]:
    definition = application_file.load(plan.application)
    return {"application": str(definition.sessions), "insecure": is_untrusted(definition)}


def load_path(plan: WebPlan) -> str:
    """What a load of one file appends to the URL; other loads choose their paths."""
    if plan.has_fixed_url:
        return ""
    return f"/{file_name(plan.size_bytes)}" if plan.kind == "file" else "/"


def present_path(plan: WebPlan) -> str:
    """A path that every server of a plan's files answers with status 200, or the root."""
    return {"surge": SURGE_PATH, "webstone": WEBSTONE_PATH}.get(plan.kind) or load_path(plan)


def file_name(size_bytes: int) -> str:
    """The name of a file of that size."""
    return f"file-{size_bytes}.bin"


def _part_of(whole: int, index: int, count: int) -> int:
    """Part `index`, from 1, of a whole number split as evenly as possible; at least 1."""
    return max(1, whole * index // count - whole * (index - 1) // count)


def _window(plan: WebPlan, host: Host) -> dict[str, object]:
    cpus = cpu_lists.ranges(host.cpus)
    return {"warmup": plan.warmup_s, "duration": plan.load_s, "cpus": cpus}


def stream_far_end(host: Host) -> list[str]:
    """The receiver of the bulk sender."""
    cpus = cpu_lists.ranges(host.cpus)
    return command(host, "load stream", listen=f"{host.address}:0", cpus=cpus)


def stream_sender(host: Host, plan: WebPlan, to: str, part: tuple[int, int]) -> list[str]:
    """The bulk sender under test: one per far end, with its part of the connections."""
    index, count = part
    connections = _part_of(plan.connections, index, count)
    rate_bps = round(plan.rate_mbps * 1e6 * connections / plan.connections)
    options = {"bit_rate": rate_bps or None, **_window(plan, host)}
    return bulk_sender(host, to, connections, plan.write_bytes, **options)
