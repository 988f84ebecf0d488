"""The agent's programs on a host: their commands and their reports.

Each answer is the JSON that a program prints at its end. A program that ended badly says why in the
last line of its standard error, which becomes the reason of the failed run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Protocol

from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure.hosts.contract import Completed, Host
from perpacket.measure.web.plan import SEGMENT_BYTES, Plan, named

STATUS_UNMET = 1
STATUS_USAGE = 2
STATUS_LACKING = 3
"""Exit statuses of the agent: a check does not hold, usage, and the machine lacks something."""


class Profiled(Protocol):
    """What a profile needs of a plan."""

    @property
    def window_s(self) -> float:
        """How long is profiled."""
        ...

    @property
    def profile_events(self) -> str:
        """Which events are sampled."""
        ...

    @property
    def profile_frequency_hz(self) -> int:
        """Samples a second and processor."""
        ...


Answer = Mapping[str, object]
"""What a program said: one JSON object."""

REPORT_PATH = "/.perpacket/report"
"""Where `serve web` answers its own counts."""


def cpu_list(cpus: Sequence[int]) -> str:
    """Processors as an option takes them: `0,1`."""
    return ",".join(map(str, cpus))


def serve_web(host: Host, plan: Plan, root: str) -> list[str]:
    """The server under test, on a port of its own choice."""
    # Beside the files, not among them: what is posted is not served.
    posts = ("--routes", "--post-log", f"{root}.posts") if plan.kind == "specweb99" else ()
    return [
        *(host.agent(), "serve", "web", "--root", root, "--listen", f"{host.address}:0"),
        *("--cpus", cpu_list(host.cpus), "--architecture", plan.architecture),
        *(("--threads", str(plan.server_threads)) if plan.server_threads else ()),
        *(*posts, "--format", "json"),
    ]


def foreign_server(host: Host, plan: Plan, root: str) -> list[str]:
    """Another server under test, as the user wrote it."""
    return [_filled(word, host, root) for word in words_of(plan.server_command)]


def words_of(command: str) -> list[str]:
    """The words of a server's command; raises `ConfigurationError` when its quotes do not close."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ConfigurationError(
            f"{named('server.command')} {command}: {str(error).lower()}",
            parameter="server.command",
            value=command,
        ) from None


def foreign_url(host: Host, plan: Plan) -> str:
    """Where that server serves the files."""
    return _filled(plan.server_url, host, "").rstrip("/")


def _filled(text: str, host: Host, root: str) -> str:
    named = {"{root}": root, "{address}": host.address, "{cpus}": cpu_list(host.cpus)}
    for name, value in named.items():
        text = text.replace(name, value)
    return text


def load_http(
    host: Host, plan: Plan, url: str, part: tuple[int, int], seed: int, trace: str
) -> list[str]:
    """Load on a web server; `part` is which client this is, from 1, and of how many.

    The whole load is given to each client, which takes its part of it.
    """
    index, count = part
    command = [host.agent(), "load", "http", url + load_path(plan)]
    connections = ["--connections", str(plan.connections)]
    match plan.kind:
        case "surge":
            command += ["--workload", "surge", "--users", str(plan.users)]
        case "specweb99":
            command += ["--workload", "specweb99", *connections]
            # Another server knows nothing of the dynamic operations.
            command += [] if plan.is_foreign else ["--dynamic"]
        case "trace":
            command += ["--workload", "trace", "--trace", trace, *connections]
        case _:
            command += ["--workload", "file", *connections]
    if not plan.keep_alive:
        command += ["--http", "1.0", "--keep-alive", "0"]
    if count > 1:
        command += ["--shard", f"{index}/{count}"]
    return [*command, "--seed", str(seed), *_window(plan, host)]


def load_path(plan: Plan) -> str:
    """The path that a load of one file asks for; the other loads know theirs."""
    return f"/{file_name(plan.size_bytes)}" if plan.kind == "file" else "/"


def file_name(size_bytes: int) -> str:
    """The name of a file of that size."""
    return f"file-{size_bytes}.bin"


def _part_of(whole: int, index: int, count: int) -> int:
    """Part `index`, from 1, of a whole number split as evenly as it goes; at least 1."""
    return max(1, whole * index // count - whole * (index - 1) // count)


def _window(plan: Plan, host: Host) -> list[str]:
    return [
        *("--warmup", f"{plan.warmup_s:g}", "--duration", f"{plan.load_s:g}"),
        *("--cpus", cpu_list(host.cpus), "--format", "json"),
    ]


def stream_far_end(host: Host) -> list[str]:
    """The end that takes what the bulk sender sends."""
    listen = ["--listen", f"{host.address}:0", "--cpus", cpu_list(host.cpus)]
    return [host.agent(), "load", "stream", *listen, "--format", "json"]


def stream_sender(host: Host, plan: Plan, to: str, part: tuple[int, int]) -> list[str]:
    """The bulk sender under test; one for each far end, with its part of the whole."""
    index, count = part
    connections = _part_of(plan.connections, index, count)
    rate_bps = round(plan.rate_mbps * 1e6 * connections / plan.connections)
    return [
        *bulk_sender(host, to, connections, SEGMENT_BYTES),
        *(("--bit-rate", str(rate_bps)) if rate_bps else ()),
        *_window(plan, host),
    ]


def bulk_sender(host: Host, to: str, connections: int, write_bytes: int) -> list[str]:
    """A bulk sender that writes so many bytes at a time, nothing held back."""
    return [
        *(host.agent(), "load", "stream", "--to", to, "--direction", "send"),
        *("--connections", str(connections), "--segment-size", str(write_bytes)),
    ]


def profile(host: Host, plan: Profiled, server_pid: int, requests_url: str) -> list[str]:
    """The profile of the machine under test over the measured window.

    The server's process tells its user code from that of others; all processes are profiled.
    """
    return [
        *profile_of(host, plan.window_s, plan.profile_events, plan.profile_frequency_hz),
        *("--pid", str(server_pid)),
        *(("--requests", requests_url) if requests_url else ()),
    ]


def profile_of(host: Host, window_s: float, events: str, frequency_hz: int) -> list[str]:
    """The profile of a host's processors, with the packets of its network namespace."""
    # The kernel's accounts have no samples: the agent refuses a frequency with them.
    sampling = () if events == "accounts" else ("--frequency", str(frequency_hz))
    return [
        *(host.agent(), "profile", "--duration", f"{window_s:g}", "--cpus", cpu_list(host.cpus)),
        *("--events", events, *sampling, "--format", "json"),
    ]


def report_of(name: str, host: Host, done: Completed) -> Answer:
    """The JSON a program printed at its end.

    Raises `ConfigurationError` when it was asked for what it does not know, `MachineLacks` when its
    host lacks something, and `RunFailed` when it failed or printed no JSON object.
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
        raise RunFailed(f"{name} on {host.name} printed JSON that is no object")
    return answer


def last_error(done: Completed) -> str:
    """The error that a program printed, or the last line it wrote."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["it printed nothing"])[-1]
