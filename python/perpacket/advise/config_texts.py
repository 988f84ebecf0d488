"""Servers from their configuration as text: nginx, HAProxy and Envoy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from perpacket.advise import servers
from perpacket.advise.servers import Server

HAPROXY, ENVOY = "haproxy", "envoy"

SECTION = re.compile(r"^(global|defaults|frontend|backend|listen)\b", re.MULTILINE)

HAPROXY_LINES = {
    "upstream-reuse": (
        "off",
        r"^\s*(http-reuse never|option (?:httpclose|forceclose|http-server-close))\b",
    ),
    "keepalive": ("off", r"^\s*(option (?:httpclose|forceclose)|no option http-keep-alive)\b"),
    "ssl": ("on", r"^\s*(bind .*\bssl\b.*)$"),
}
"""The value of an option of HAProxy, and the line that sets it; HAProxy, configuration manual."""

ENVOY_LINES = {
    "upstream-reuse": ("off", r"^\s*(?:-\s*)?(max_requests_per_connection: 1)\s*$"),
    "reuseport": ("off", r"^\s*(?:-\s*)?(enable_reuse_port: false|reuse_port: false)\s*$"),
}

DEFAULTS = {"upstream-reuse": "on", "keepalive": "on", "ssl": "off", "reuseport": "on"}


def server(name: str, text: str, cpus: int) -> Server | None:
    """The server whose configuration a text is; None for other texts."""
    if len(set(SECTION.findall(text))) >= 2:
        return _by_lines(HAPROXY, text, HAPROXY_LINES, r"^\s*nbthread\s+(\d+)", cpus)
    if re.search(r"^\s*(static_resources|dynamic_resources|proxyConfig):", text, re.MULTILINE):
        return _by_lines(ENVOY, text, ENVOY_LINES, r"^\s*concurrency:\s+(\d+)", cpus)
    if re.search(r"^\s*(http|upstream \S+|server)\s*\{", text, re.MULTILINE) and ";" in text:
        return _nginx(name, text, cpus)
    return None


def _by_lines(
    kind: str, text: str, lines: Mapping[str, tuple[str, str]], threads: str, cpus: int
) -> Server:
    text = re.sub(r"(^|\s)#.*$", "", text, flags=re.MULTILINE)
    options = {name: DEFAULTS[name] for name in lines}
    reasons: dict[str, str] = {}
    for name, (value, pattern) in lines.items():
        if found := re.search(pattern, text, re.MULTILINE):
            options[name], reasons[name] = value, " ".join(found[1].split())
    counted = re.search(threads, text, re.MULTILINE)
    if counted or cpus:
        options["workers"] = counted[1] if counted else str(cpus)
    return Server(kind, 0, (), options, lines=reasons)


def _nginx(name: str, text: str, cpus: int) -> Server | None:
    try:
        configuration = tuple(servers.parsed(text))
    except ValueError as error:
        return Server(servers.NGINX, 0, (), {}, f"{Path(name).name}: {error}")
    options, lines = servers.nginx_options(configuration, cpus), servers.nginx_lines(configuration)
    return Server(servers.NGINX, 0, (), options, "", configuration, lines)
