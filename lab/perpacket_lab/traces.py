"""Access logs ("traces"): summaries, conversion between formats, and generated logs.

Traces are Common or Combined Log Format, JSON in lines, or the binary records of the 1998 World Cup
logs, each plain, `.gz` or `.zst`. Readers recognize format and compression by content; writers
choose the compression by the destination's suffix, and write no JSON. Summaries and
written traces have whole seconds in UTC; a replay keeps the parts of seconds that
a log has. Sizes are bytes.

The parts of a request in a JSON log are `time`, `client`, `user`, `method`, `uri`, `protocol`,
`request` (a whole request line), `status`, `size`, `referer` and `agent`. The fields of Caddy,
Traefik and of nginx's variables are known. `log_fields` maps others: `time=when,uri=req.path`.
"""

from __future__ import annotations

import json
from os import PathLike, fspath
from typing import Any, Literal

from perpacket_lab.simulation import MOST_SEED, core_errors, load_core, whole_number

WrittenFormat = Literal["common", "combined", "world-cup"]
"""Format of a trace: Common Log Format, Combined (nginx's default), World Cup 1998 binary."""

TraceFormat = Literal[WrittenFormat, "json"]
"""A format that can be read: a format that can be written, or a JSON object in each line."""

Workload = Literal["W", "I", "S", "D"]
"""Workload of a generator: World Cup, IBM, SPECweb99 static, SPECweb99 with 30 % dynamic."""

SESSION_WINDOW_S = 15.0
"""Largest gap between two requests of a client on the same connection."""

MOST_REQUESTS = 2**64 - 1
MOST_CONNECTIONS = 2**32 - 1


def info(
    path: str | PathLike[str],
    *,
    format: TraceFormat | None = None,
    window_s: float = SESSION_WINDOW_S,
    curve: bool = False,
    log_fields: str | None = None,
) -> dict[str, Any]:
    """Read a trace once and summarize it.

    Returns a dictionary with the keys

    - `format`, `requests` (the number of accepted lines or records), `rejected` (the number of
      rejected ones) and `rejects` (the rejected ones as `{line, reason}`, at most 100,000);
    - `clients`, `objects`, `bytes` (a missing size counts 0), `first_time` and `last_time`
      (ISO 8601, UTC), `peak_per_s` (most requests in one second), `status` (requests by code);
    - `sessions`, `requests_per_session` (`mean`, `median`) and `session_packets`
      (`bottom_half_share`, `top_tenth_share`: shares, 0 to 1, of the server's packets; a response
      has one packet for its header and one for each 1460 bytes or part of them);
    - `session_curve`, only with `curve`: a list of 101 points in steps of a hundredth. `sessions`
      is the share of sessions, beginning with those of the fewest packets; `packets` and `bytes`
      are the shares of these sessions (OSDI 2006, figure 4);
    - `check`: the other values that the official summaries of the World Cup logs have, computed
      from this trace, with times in Unix seconds.

    Values that need a request are `None` in a trace without requests.

    Raises `perpacket.errors.TraceError` when the file is empty, damaged, cut inside a record, or
    not in the requested or any format, and `OSError` when it cannot be opened.
    """
    with core_errors():
        document = _decoded(load_core().trace_info(fspath(path), format, window_s, log_fields))
    if not curve:
        del document["session_curve"]
    return document


def convert(
    source: str | PathLike[str],
    destination: str | PathLike[str],
    *,
    to: WrittenFormat,
    format: TraceFormat | None = None,
    object_paths: str | PathLike[str] | None = None,
    mappings: str | PathLike[str] | None = None,
    log_fields: str | None = None,
) -> dict[str, Any]:
    """Rewrite a trace in another format, without the lines that are not requests.

    `object_paths` is a file with the paths of a World Cup trace's objects, in lines of a number and
    a path. Without it, object 7 has the path `/object/7`. `mappings` is the path of a new file of
    this kind, for the objects of a log. The written formats have times in whole seconds; a program
    that replays such a trace spreads the requests over their second.

    Returns `from`, `to`, `requests`, `rejected` and `rejects`. Raises as `info` does, also when a
    time or size does not fit a World Cup record. A partial destination is discarded.
    """
    with core_errors():
        answer = load_core().trace_convert(
            fspath(source),
            fspath(destination),
            to,
            format,
            None if object_paths is None else fspath(object_paths),
            None if mappings is None else fspath(mappings),
            log_fields,
        )
    return _decoded(answer)


def synthesize(
    destination: str | PathLike[str],
    *,
    workload: Workload = "W",
    requests: int = 100_000,
    seed: int = 1,
    sessions_per_s: float = 10.0,
    gap_mean_s: float = 1.0,
    connections: int = 2048,
    format: WrittenFormat = "common",
) -> dict[str, Any]:
    """Write a generated workload as a trace; `info` finds the same sessions in it.

    Sessions begin as a Poisson process of `sessions_per_s`. The gaps between the requests of a
    session are exponential with mean `gap_mean_s`, cut at 14 s. The last session is complete.
    `connections` sets the file set's size and the number of clients of S and D. Equal arguments
    lead to equal bytes on every machine.

    Returns `format`, `requests`, `sessions` and `bytes` as written. Raises
    `perpacket.errors.TraceError` or `ConfigurationError` naming the parameter that is out of range,
    and `OSError` when the file cannot be written.
    """
    seed = whole_number("seed", seed, MOST_SEED)
    requests = whole_number("requests", requests, MOST_REQUESTS)
    connections = whole_number("connections", connections, MOST_CONNECTIONS)
    with core_errors():
        answer = load_core().trace_synthesize(
            fspath(destination),
            workload,
            requests,
            seed,
            sessions_per_s,
            gap_mean_s,
            connections,
            format,
        )
    return _decoded(answer)


def _decoded(answer: str) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(answer)
    return decoded
