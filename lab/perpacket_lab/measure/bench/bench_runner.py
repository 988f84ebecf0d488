"""Runs of the microbenchmarks as points of a study: one size, stride or ring at a time.

A ring is a number of threads or processes that pass a token.

The verb `bench` runs all of them in order. A study runs each point in a process of its own, in
random order within blocks. Drift then affects all points alike. The confidence interval then
includes the differences between processes: each has other memory pages, and the processor may have
another clock frequency.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host
from perpacket_lab.measure import programs
from perpacket_lab.measure.host_files import memory_bytes, text_of
from perpacket_lab.measure.host_runner import HostRunner
from perpacket_lab.measure.measured_run import MeasuredRun, Measurement, started
from perpacket_lab.measure.plan import validated
from perpacket_lab.measure.programs import Answer
from perpacket_lab.measure.summary import numbers
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import SetupDescription

BESIDE_S = 0.15
"""Approximate time to start a process and to touch its memory."""

CHAIN_S = 3.0
"""Approximate time of the whole chain of dependent loads."""

LONGEST_S = 600.0
"""Time limit of a benchmark, which needs under a minute at its defaults."""

MEMORY_SHARE = 0.5
"""Largest share of the available memory for a working set."""

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
    """Time limit of a point whose interval stays wider than 2 %."""

    @property
    def expected_s(self) -> float:
        """Approximate time of the run."""
        return BESIDE_S + (CHAIN_S if self.kind == "edges" else self.duration_s)

    def command(self, host: Host) -> list[str]:
        """The benchmark on the last of the host's processors."""
        size = self.working_set_bytes
        verb = "bench memory"
        options: dict[str, object]
        options = {"operations": self.operation, "strides": self.stride_words}
        if self.kind == "switch":
            verb = "bench switch"
            options = {"kinds": self.members_kind, "members": self.members}
            options |= {"working_sets": size, "pinned": "on" if self.pinned else "off"}
        elif self.kind != "edges":
            options |= {"smallest": size, "largest": size, "no_chain": self.kind == "surface"}
        limit = f"{max(1, round(1000 * self.duration_s))}ms"
        cpu = host.cpus[-1]
        return programs.command(host, verb, point_limit=limit, cpu=cpu, quiet=True, **options)

    def result(self, report: Answer) -> dict[str, object]:
        """The observation; raises `RunFailed` when the report lacks a required value."""
        if self.kind == "edges":
            return {"edges": edges(report)}
        table = {"surface": "surface", "chain": "chain", "switch": "rows"}[self.kind]
        rows = report.get(table)
        if not isinstance(rows, list) or not rows:
            raise RunFailed(f"the benchmark's report has no {table}")
        row = numbers(rows[-1])
        if "ns" in row:
            row["latency_ns"] = row.pop("ns")
        # The observation does not repeat the levels, which are the point's factors.
        levels = {"operation", "working_set_bytes", "stride_words", "kind", "members", "pinned"}
        return {name: value for name, value in row.items() if name not in levels}


def edges(report: Answer) -> dict[str, object]:
    """The sizes at which latency rises; the keys are the caches of these sizes, or `unnamed`."""
    marks: dict[str, object] = {}
    listed = report.get("edges")
    for edge in listed if isinstance(listed, list) else ():
        level = edge.get("level")
        name = "unnamed" if level is None else f"l{level}"
        marks.setdefault(name, {key: value for key, value in edge.items() if key != "level"})
    return marks


class BenchRun(MeasuredRun[BenchPlan, Host]):
    """One run of one point."""

    def measure(self, setup: Host) -> Measurement:
        """The benchmark's number with its own interval."""
        with started("the benchmark", setup, self.plan.command(setup)) as monitored:
            report = self.finish(monitored, LONGEST_S)
        return self.plan.result(report), {"bench": report}


class BenchRunner(HostRunner[Host]):
    """Prepares runs of the microbenchmarks on this machine."""

    plan_type, run_type = BenchPlan, BenchRun

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        """Use this machine; leave out working sets that exceed its memory."""
        from perpacket_lab.measure import hosts

        plans = {point.name: validated(BenchPlan, point) for point in points}
        with hosts.loopback() as bed:
            machine = machine_of(bed.server)
            processor = {name: machine.get(name) for name in ("processor", "caches")}
            kernel = text_of(bed.server, "/proc/sys/kernel/osrelease").strip()
            with self.using(bed.server):
                yield SetupDescription(
                    {"server_kernel": kernel, "server_cpus": list(bed.server.cpus), **processor},
                    {"machine": dict(machine)},
                    too_large(plans, memory_bytes(bed.server, "MemAvailable")),
                )


def machine_of(host: Host) -> Mapping[str, object]:
    """The machine in a benchmark's report: processor, caches, pages and clock."""
    shortest = BenchPlan.model_validate({"bench.kind": "surface", "run.duration_s": 0.001})
    done = host.run(shortest.command(host), timeout_s=LONGEST_S)
    machine = programs.report_of("the benchmark", host, done).get("machine")
    return machine if isinstance(machine, Mapping) else {}


def too_large(plans: Mapping[str, BenchPlan], available_bytes: float) -> dict[str, str]:
    """The points whose working sets do not fit this machine's memory, with the reason."""
    reasons = {}
    for name, plan in plans.items():
        members = plan.members if plan.kind == "switch" else 1
        if plan.working_set_bytes * members > MEMORY_SHARE * available_bytes:
            reasons[name] = (
                f"its working set is over half of the {available_bytes / 2**20:,.0f} MiB available"
            )
    return reasons
