"""The agent's programs on a host: the profile, and the reports of all of them.

A report is the JSON that a program prints at its end. A failed program prints the reason in the
last line of its standard error. This line becomes the reason of the failed run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure import agent, cpu_lists
from perpacket.measure.hosts.contract import Completed, Host
from perpacket_lab.measure.plan import ProfiledPlan, named

STATUS_UNMET = 1
STATUS_USAGE = 2
STATUS_LACKING = 3
"""Exit statuses of the agent for a failed check, wrong usage, and a machine that lacks
something."""

Answer = Mapping[str, object]
"""The report of a program: one JSON object."""


def bulk_sender(
    host: Host, to: str, connections: int, write_bytes: int, **options: object
) -> list[str]:
    """The command of a bulk sender with TCP_NODELAY; each write has `write_bytes` bytes."""
    return command(
        host,
        "load stream",
        to=to,
        direction="send",
        connections=connections,
        segment_size=write_bytes,
        **options,
    )


def command(host: Host, verb: str, **options: object) -> list[str]:
    """The command of a verb of the agent that prints JSON."""
    return [host.agent(), *agent.words(verb, **options, format="json")]


def profile(
    host: Host, plan: ProfiledPlan, server_pid: int | None, requests_url: str = ""
) -> list[str]:
    """The command of a profile of a host's processors and its network namespace's packets.

    The profile includes all processes. `server_pid` separates the server's user code from that of
    other programs.
    """
    # `accounts` takes no samples, so the agent rejects a frequency with it.
    has_samples = plan.profile_events != "accounts"
    return command(
        host,
        "profile",
        duration=plan.window_s,
        cpus=cpu_lists.ranges(host.cpus),
        events=plan.profile_events,
        frequency=plan.profile_frequency_hz if has_samples else None,
        pid=server_pid,
        requests=requests_url,
    )


def words_of(command: str, parameter: str = "server.command") -> list[str]:
    """The words of a server's command; raises `ConfigurationError` for an unclosed quote."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ConfigurationError(
            f"{named(parameter)} {command}: {str(error).lower()}",
            parameter=parameter,
            value=command,
        ) from None


def foreign_server(host: Host, command: str, root: str) -> list[str]:
    """The words of another server's command, with the user's placeholders replaced."""
    return [_filled(word, host, root) for word in words_of(command)]


def foreign_url(host: Host, url: str) -> str:
    """The URL of another server, with the user's placeholders replaced."""
    return _filled(url, host, "").rstrip("/")


def _filled(text: str, host: Host, root: str) -> str:
    values = {"{root}": root, "{address}": host.address, "{cpus}": cpu_lists.ranges(host.cpus)}
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def report_of(name: str, host: Host, done: Completed) -> Answer:
    """The JSON that a program printed at its end.

    Raises `ConfigurationError` for options that it does not accept, `MachineLacks` when its host
    lacks something, and `RunFailed` when it failed or printed no JSON object.
    """
    if done.returncode:
        reason = f"{name} on {host.name} ended with status {done.returncode}: {last_error(done)}"
        if done.returncode == STATUS_USAGE:
            raise ConfigurationError(reason, parameter=name)
        if done.returncode == STATUS_LACKING:
            raise MachineLacks(reason)
        raise RunFailed(reason)
    try:
        answer = json.loads(done.stdout)
    except ValueError as error:
        raise RunFailed(f"{name} on {host.name} printed no JSON: {error}") from None
    if not isinstance(answer, dict):
        raise RunFailed(f"{name} on {host.name} printed JSON other than an object")
    return answer


def last_error(done: Completed) -> str:
    """The error that a program printed, or the last line it wrote."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["it printed nothing"])[-1]
