"""Runs of the microbenchmarks as points of a study: one size, stride or ring at a time.

`bench` itself walks all of them in order. Here each point is a process of its own, in random order
within blocks, so that what drifts falls on all alike and the interval holds what differs between
processes: the pages they got, the processor's clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from perpacket.errors import RunFailed
from perpacket.measure.bench import runs as microbenches
from perpacket.measure.bench.runs import Benchmark, Memory, Switch
from perpacket.measure.hosts.contract import Host
from perpacket.measure.programs import Answer
from perpacket.measure.web.plan import parameters_of, validated
from perpacket.measure.web.runs import TimedRun, memory_bytes, started, text_of
from perpacket.measure.web.summary import numbers
from perpacket.study.point import Point
from perpacket.study.runner import Run, SetupDescription

BESIDE_S = 0.15
"""What starting a process and touching its memory takes, about."""

CHAIN_S = 3.0
"""About how long the whole chain of dependent loads takes."""

MEMORY_SHARE = 0.5
"""Share of the available memory that a working set may take."""

SMALLEST_BYTES = 512


class BenchPlan(BaseModel):
    """One run's parameters; the alias is the name in the point."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    kind: Literal["surface", "chain", "edges", "switch"] = Field(alias="bench.kind")
    operation: Literal["load", "store", "copy", "triad"] = Field(
        alias="bench.operation", default="load"
    )
    working_set_bytes: int = Field(alias="bench.working_set_bytes", default=SMALLEST_BYTES, ge=0)
    stride_words: int = Field(alias="bench.stride_words", default=1, ge=1)
    members_kind: Literal["threads", "processes"] = Field(
        alias="bench.members_kind", default="threads"
    )
    members: int = Field(alias="bench.members", default=2, ge=2, le=4096)
    pinned: bool = Field(alias="bench.pinned", default=True)
    duration_s: float = Field(alias="run.duration_s", default=0.04, gt=0, allow_inf_nan=False)
    """Most time for a point whose interval stays wider than 2 %."""

    @property
    def expected_s(self) -> float:
        """About how long the run takes."""
        return BESIDE_S + (CHAIN_S if self.kind == "edges" else self.duration_s)

    def benchmark(self) -> Benchmark:
        """What is measured, on the last of the host's processors."""
        limit_ms = max(1, round(1000 * self.duration_s))
        if self.kind == "switch":
            return Switch(
                kinds=(self.members_kind,),
                members=(self.members,),
                working_sets_bytes=(self.working_set_bytes,),
                pinned=(self.pinned,),
                point_limit_ms=limit_ms,
            )
        size_bytes = None if self.kind == "edges" else self.working_set_bytes
        return Memory(
            operations=(self.operation,),
            strides=(self.stride_words,),
            smallest_bytes=size_bytes,
            largest_bytes=size_bytes,
            chain=self.kind != "surface",
            point_limit_ms=limit_ms,
        )

    def result(self, report: Answer) -> dict[str, object]:
        """The observation; raises `RunFailed` when the report lacks what it must hold."""
        if self.kind == "edges":
            return {"edges": edges(report)}
        table = {"surface": "surface", "chain": "chain", "switch": "rows"}[self.kind]
        row = numbers(microbenches.only_row(report, table))
        if "ns" in row:
            row["latency_ns"] = row.pop("ns")
        # The point's factors have the levels.
        levels = {"operation", "working_set_bytes", "stride_words", "kind", "members", "pinned"}
        return {name: value for name, value in row.items() if name not in levels}


def edges(report: Answer) -> dict[str, object]:
    """Where latency rises, by the level of the cache that ends there, `unnamed` without one."""
    found: dict[str, object] = {}
    listed = report.get("edges")
    for edge in listed if isinstance(listed, list) else ():
        level = edge.get("level")
        name = "unnamed" if level is None else f"l{level}"
        found.setdefault(name, {key: value for key, value in edge.items() if key != "level"})
    return found


class BenchRun(TimedRun):
    """One run of one point."""

    def __init__(self, point: Point, plan: BenchPlan, runner: BenchRunner) -> None:
        """Prepare a run of `plan` on the runner's host."""
        super().__init__(plan.expected_s)
        self.point, self.plan, self._runner = point, plan, runner

    def measure(self) -> tuple[dict[str, object], dict[str, object]]:
        """The benchmark's number with its own interval."""
        host = self._runner.host
        with started("the benchmark", host, self.plan.benchmark().command(host)) as monitored:
            report = self.finish(monitored, microbenches.LONGEST_S)
        return self.plan.result(report), {"bench": report}


class BenchRunner:
    """Prepares runs of the microbenchmarks on this machine."""

    def __init__(self) -> None:
        """A runner without a host yet."""
        self._host: Host | None = None

    @property
    def host(self) -> Host:
        """The host of the benchmarks."""
        if self._host is None:
            raise RunFailed("a benchmark began without a host: this is a fault of perpacket")
        return self._host

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters that its points may have."""
        return parameters_of(BenchPlan)

    def prepare(self, point: Point, seed: int, timeline: bool) -> Run:
        """A run of that point; raises `ConfigurationError` when its parameters are wrong."""
        return BenchRun(point, validated(BenchPlan, point), self)

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        """Use this machine; leave out working sets that exceed its memory."""
        from perpacket.measure import hosts

        plans = {point.name: validated(BenchPlan, point) for point in points}
        with hosts.loopback() as bed:
            machine = machine_of(bed.server)
            processor = {name: machine.get(name) for name in ("processor", "caches")}
            kernel = text_of(bed.server, "/proc/sys/kernel/osrelease").strip()
            self._host = bed.server
            try:
                yield SetupDescription(
                    {"server_kernel": kernel, "server_cpus": list(bed.server.cpus), **processor},
                    {"machine": dict(machine)},
                    too_large(plans, available_bytes(bed.server)),
                )
            finally:
                self._host = None


def machine_of(host: Host) -> Mapping[str, object]:
    """What a benchmark says of its machine: processor, caches, pages and clock."""
    smallest = Memory(
        operations=("load",),
        strides=(1,),
        largest_bytes=SMALLEST_BYTES,
        chain=False,
        point_limit_ms=1,
    )
    report = microbenches.measured(host, smallest)
    found = report.get("machine")
    return found if isinstance(found, Mapping) else {}


def available_bytes(host: Host) -> float:
    """Memory that programs can still have: `MemAvailable` of proc_meminfo(5)."""
    return memory_bytes(host, "MemAvailable")


def too_large(plans: Mapping[str, BenchPlan], memory_bytes: float) -> dict[str, str]:
    """The points whose working sets do not fit this machine's memory, and why."""
    found = {}
    for name, plan in plans.items():
        members = plan.members if plan.kind == "switch" else 1
        if plan.working_set_bytes * members > MEMORY_SHARE * memory_bytes:
            found[name] = (
                f"its working set is over half of the {memory_bytes / 2**20:,.0f} MiB available"
            )
    return found
