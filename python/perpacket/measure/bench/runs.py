"""The machine's own numbers: what its memory and its context switches cost, from `bench`.

    report = microbenches.run(Memory(operations=("copy",), strides=(1,)))
    report["surface"][-1]["mbytes_per_s"]

Both benchmarks run in the agent on this machine and give what it says with `--format json`: its
schema and its machine, the caches, pages and clock that belong to every number, stand in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from perpacket.errors import RunFailed
from perpacket.measure import programs
from perpacket.measure.hosts.contract import Host
from perpacket.measure.programs import Answer

KINDS = ("threads", "processes")
"""What passes the token on in a ring."""

LONGEST_S = 600.0
"""A benchmark takes under a minute at its defaults."""


class Benchmark(Protocol):
    """What is to be measured."""

    def command(self, host: Host) -> list[str]:
        """The benchmark as it is started on a host."""
        ...


@dataclass(frozen=True, slots=True)
class Memory:
    """Bandwidth in MB/s (10^6) over working set and stride, latency in ns, the caches' edges.

    What is not given is the agent's default: everything, in a quarter of a minute. Operations are
    `load`, `store`, `copy` and `triad`; strides are powers of two of words of 8 bytes, up to 256.
    """

    operations: Sequence[str] = ()
    strides: Sequence[int] = ()
    smallest_bytes: int | None = None
    largest_bytes: int | None = None
    chain: bool = True
    point_limit_ms: int | None = None
    cpu: int | None = None
    """The last of its host's without."""

    def command(self, host: Host) -> list[str]:
        """`bench memory` on a host."""
        return [
            *(host.agent(), "bench", "memory"),
            *_listed("--operations", self.operations),
            *_listed("--strides", self.strides),
            *_given("--smallest", self.smallest_bytes),
            *_given("--largest", self.largest_bytes),
            *(() if self.chain else ("--no-chain",)),
            *_repeating(host, self.point_limit_ms, self.cpu),
        ]


@dataclass(frozen=True, slots=True)
class Switch:
    """Nanoseconds that a context switch costs, for `threads` and `processes` in a ring.

    What is not given is the agent's default: everything, in half a minute.
    """

    kinds: Sequence[str] = ()
    members: Sequence[int] = ()
    working_sets_bytes: Sequence[int] = ()
    pinned: Sequence[bool] = ()
    point_limit_ms: int | None = None
    cpu: int | None = None
    """The last of its host's without."""

    def command(self, host: Host) -> list[str]:
        """`bench switch` on a host."""
        return [
            *(host.agent(), "bench", "switch"),
            *_listed("--kinds", self.kinds),
            *_listed("--members", self.members),
            *_listed("--working-sets", self.working_sets_bytes),
            *_listed("--pinned", ["yes" if one else "no" for one in self.pinned]),
            *_repeating(host, self.point_limit_ms, self.cpu),
        ]


def _repeating(host: Host, point_limit_ms: int | None, cpu: int | None) -> list[str]:
    """What both share."""
    return [
        *_given("--point-limit", None if point_limit_ms is None else f"{point_limit_ms}ms"),
        *("--cpu", str(host.cpus[-1] if cpu is None else cpu)),
        *("--format", "json", "--quiet"),
    ]


def _listed(option: str, values: Sequence[object]) -> list[str]:
    return [option, ",".join(map(str, values))] if values else []


def _given(option: str, value: object | None) -> list[str]:
    return [] if value is None else [option, str(value)]


def run(benchmark: Benchmark) -> Answer:
    """The report of a benchmark of this machine.

    Raises `ConfigurationError` for values out of range, `MachineLacks` where there is no agent, too
    little memory, or no room for more threads or processes.
    """
    from perpacket.measure import hosts

    with hosts.loopback() as bed:
        return measured(bed.server, benchmark)


def measured(host: Host, benchmark: Benchmark) -> Answer:
    """The report of a benchmark on a host; raises as `run` does."""
    done = host.run(benchmark.command(host), timeout_s=LONGEST_S)
    return programs.report_of("the benchmark", host, done)


def only_row(report: Answer, table: str) -> Answer:
    """The one row of a table; raises `RunFailed` when there is none."""
    rows = report.get(table)
    if not isinstance(rows, list) or not rows or not isinstance(rows[-1], dict):
        raise RunFailed(f"the benchmark's report has no {table}")
    row: Answer = rows[-1]
    return row
