"""Parameters of measured runs that have an option of `study run`."""

from __future__ import annotations

OPTIONS = {
    "run.duration_s": "--duration",
    "run.warmup_s": "--warmup",
    "testbed.kind": "--testbed",
    "testbed.server_host": "--server-host",
    "testbed.client_hosts": "--client-host",
    "server.command": "--server",
    "server.url": "--url",
    "load.trace": "--trace",
}

WEB_ONLY = ("load.",)
"""Prefixes of the parameters that only runs of web servers have."""


def options_of(runner: str) -> dict[str, str]:
    """The options of a measured study, by parameter; `runner` is the key in the study's file."""
    if runner != "media":
        return OPTIONS
    return {name: text for name, text in OPTIONS.items() if not name.startswith(WEB_ONLY)}
