"""Checks in the guests of emulated machines: `make test-machines`, or MACHINES="arm-pmu queues".

To add a check, pass a command to `check NAME` in `tests/machines/MACHINE.sh`, and read
`run.checks[NAME]` in a test with `@machine("MACHINE")`. A test that fits several machines names
them all. To add a machine, describe it in `tests/machines/MACHINE.toml`.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import requirements
from machines import machine as machines
from machines.machine import Check, Run
from perpacket.errors import MachineLacks
from perpacket.measure import agent

pytestmark = pytest.mark.machines

Test = Callable[..., None]

AT_ONCE = 2
"""Number of guests that run at the same time."""

RUNS: dict[str, Future[Run]] = {}
"""The runs of all machines with a selected test. They start with the first test."""


def machine(*names: str) -> Callable[[Test], Test | None]:
    """Run a test with the checks of each of these machines that `MACHINES` selects."""
    selected = os.environ.get("MACHINES", "").split() or machines.names()
    chosen = [name for name in names if name in selected]
    if not chosen:
        return lambda test: None
    return pytest.mark.parametrize("run", chosen, indirect=True)


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Run:
    """The run of a machine. All tests share it."""
    if not RUNS:
        guests = ThreadPoolExecutor(AT_ONCE)
        of_tests = (getattr(item, "callspec", None) for item in request.session.items)
        needed = dict.fromkeys(of.params["run"] for of in of_tests if of and "run" in of.params)
        RUNS.update({name: guests.submit(started, name) for name in needed})
    try:
        return RUNS[request.param].result()
    except MachineLacks as missing:
        requirements.skip("machines", missing)


def started(name: str) -> Run:
    """A machine's run, which also prints how long it lasted."""
    done = machines.run(machines.read(name))
    print(f"{name}: Linux {done.kernel}, {done.seconds:.0f} s", file=sys.stderr)
    return done


def document(run: Run, name: str) -> dict[str, Any]:
    """The JSON of a check."""
    return dict(json.loads(succeeded(run, name).output))


def succeeded(run: Run, name: str) -> Check:
    """A check whose command ended without an error."""
    check = run.checks[name]
    assert check.status == 0, check.errors
    return check


@machine("arm-pmu")
@pytest.mark.parametrize("events", ["counters", "misses", "clock", "best"])
def test_every_set_of_events_is_profiled(run: Run, events: str) -> None:
    report = document(run, f"profile-{events}")
    assert report["packets"]["received"] > 0
    assert report["total"]["cpu_s"] > 0
    if events in {"counters", "best"}:
        assert report["backend"] == "pmu"
        assert report["total"]["instructions_per_packet"] > 0


@machine("arm-pmu")
def test_counts_are_those_of_the_emulated_clock(run: Run) -> None:
    """A processor has a cycle a nanosecond. An instruction of any processor takes four, and each
    processor's counter counts those of all."""
    report = document(run, "profile-counters")
    groups = [group for group in report["counters"] if {"cycles", "instructions"} <= set(group)]
    assert len(groups) == 2
    passes = len(report["counters"]) + 1  # the pass of time counts nothing
    for group in groups:
        window_ns = report["window_s"] / passes * 1e9 * len(report["cpus"])
        assert group["cycles"] == pytest.approx(window_ns, rel=0.02)
        assert 0.2 * group["cycles"] < group["instructions"] < 0.255 * group["cycles"]


# The layers of instructions are not compared. `perf record -e instructions` in this guest has 73 %
# of its samples at two addresses of user code, and none in TCP, which has half of the cycles. QEMU
# seems to report an overflow only when the guest enters or leaves the kernel.
@machine("arm-pmu")
def test_layers_of_cycles_are_those_of_time(run: Run) -> None:
    cycles = document(run, "profile-counters")["layers"]
    time = document(run, "profile-clock")["layers"]
    for layer, cost in cycles.items():
        other = time[layer]
        between = 0.05  # two windows of one load differ by this much
        assert cost["low"] - between < other["high"], layer
        assert other["low"] - between < cost["high"], layer


@machine("arm-6.1")
def test_a_machine_without_instructions_says_so(run: Run) -> None:
    report = document(run, "profile")
    assert report["total"]["cpu_s"] > 0
    missing = "this machine does not count instructions"
    assert report["backend"] == "cpu-clock" or any(missing in limit for limit in report["limits"])


@machine("arm-6.1", "cloud", "new", "numa", "old", "queues")
def test_the_rules_know_the_functions_of_the_kernel(run: Run) -> None:
    report = document(run, "profile")
    assert report["packets"]["received"] > 0
    # A short profile has few samples: the lower bound of the share's 95 % interval must be small.
    share = report["unclaimed_share"]
    samples = report["total"]["cpu_s"] * report["frequency_hz"]
    assert share - 2 * (share / samples) ** 0.5 < 0.01, report["unclaimed_top"]


@machine("numa", "new")
def test_the_nodes_of_a_machine_are_read_from_a_copy_of_its_files(run: Run, tmp_path: Path) -> None:
    packed = base64.b64decode(succeeded(run, "tree").output)
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(tmp_path, filter="data")
    command = [sys.executable, "-m", "perpacket.cli", "doctor", "--root", str(tmp_path)]
    command += ["--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    details = {row["name"]: row["detail"] for row in report["capabilities"]}
    several = run.machine.name == "numa"
    expected = "2 nodes: 0 has CPUs 0-1; 1 has CPUs 2-3" if several else "the same memory"
    assert expected in details["one_node"]
    assert len(report["since_start"]["processors"]) == (4 if several else 2)


@machine("old")
def test_an_old_kernel_runs_loads_and_names_what_it_lacks(run: Run) -> None:
    assert document(run, "load-http")["requests"] > 0
    succeeded(run, "load-stream")
    uring = run.checks["serve-uring"]
    assert uring.status == 3
    assert "Linux 6.1 or newer" in uring.errors
    probe = document(run, "probe")
    missing = [capability for capability in probe["capabilities"] if not capability["available"]]
    lacks = {capability["name"]: capability["detail"] for capability in missing}
    assert "Linux 6.1 or newer" in lacks["io_uring"]


@machine("old")
def test_an_old_kernel_serves_media_and_links_hosts(run: Run) -> None:
    assert document(run, "load-media")["clients"] == 2
    assert document(run, "link")["left_to_right"]["packets"] > 0
    added = run.checks["add-cost"]
    assert added.status == 3
    assert "Linux 6.6" in added.errors


def sent(run: Run, name: str, into: Path) -> Path:
    """A file that the guest printed compressed, as text."""
    into.write_bytes(gzip.decompress(base64.b64decode(succeeded(run, name).output)))
    return into


def profile_of(recording: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Profile a recording of another machine."""
    command = [str(agent.find()), "profile", "--perf", str(recording), "--packets", "1000"]
    return subprocess.run([*command, *options], capture_output=True, text=True, check=False)


@machine("big-endian")
def test_a_recording_in_another_byte_order_is_refused_by_name(run: Run, tmp_path: Path) -> None:
    succeeded(run, "record")
    recording = sent(run, "recording", tmp_path / "perf.data")
    magic = recording.read_bytes()[:8]
    assert magic == (b"PERFILE2"[::-1] if sys.byteorder == "big" else b"2ELIFREP")
    done = profile_of(recording)
    assert done.returncode == 2
    assert f"--perf {recording}: recorded on a machine of the other byte order" in done.stderr
    assert "perf script" in done.stderr


@machine("arm-6.1")
def test_a_recording_of_another_architecture_has_the_layers_of_its_kernel(
    run: Run, tmp_path: Path
) -> None:
    succeeded(run, "record")
    recording = sent(run, "recording", tmp_path / "perf.data")
    done = profile_of(recording)
    assert done.returncode == 2, "the symbols of this machine are those of another kernel"
    symbols = sent(run, "symbols", tmp_path / "kallsyms")
    done = profile_of(recording, "--kallsyms", str(symbols), "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["layers"]["tcp"]["share"] > 0.1
    assert report["unclaimed_share"] < 0.02, report["unclaimed_top"]


@machine("queues")
def test_each_queue_of_the_card_has_interrupts_of_its_own(run: Run) -> None:
    queues = succeeded(run, "queues").output.split()
    assert sorted(queues) == [f"{way}-{number}" for way in ("rx", "tx") for number in range(4)]
    before, after = (
        interrupts(succeeded(run, f"interrupts-{when}").output) for when in ("before", "after")
    )
    for name in queues:
        served = [now - then for then, now in zip(before[name], after[name], strict=True)]
        assert sum(served) > 0, f"{name}: {served}"
    assert document(run, "profile")["packets"]["received"] > 0


@machine("queues")
def test_an_imbalance_of_processors_is_found_only_if_there_is_one(run: Run) -> None:
    """Three of the four queues are bound to CPU 0; before, each had its own processor."""
    spread, pinned = document(run, "profile-spread"), document(run, "profile-pinned")
    assert spread["findings"] == []
    (finding,) = pinned["findings"]
    sentence = r"^CPU 0 receives \d\d % of packets and is \d+ % busy; "
    assert re.match(sentence, finding), finding
    table = succeeded(run, "table-pinned").output  # of another window
    assert re.search(sentence, table, re.MULTILINE), table
    assert "% of packets and" not in succeeded(run, "table-spread").output
    by_cpu = {row["cpu"]: row for row in pinned["processors"]}
    others = [row["packet_share"] for cpu, row in by_cpu.items() if cpu]
    assert by_cpu[0]["packet_share"] > 1.5 * max(others)


@machine("queues")
def test_the_packets_of_each_queue_are_those_of_the_driver(run: Run) -> None:
    report = document(run, "profile-pinned")
    packets = report["interfaces"]["eth0"]["packets_received"]
    queues = [row for row in report["queues"] if row["name"].startswith("eth0-rx-")]
    assert [row["served_by"] for row in queues] == [0, 0, 0, 3]
    received = [row["carried"]["packets"]["received"] for row in queues]
    assert min(received) > 0
    assert sum(received) == pytest.approx(packets, rel=0.05)
    assert all(row["carried"]["bytes"]["received"] > 0 for row in queues)
    # A processor with few samples has no share.
    assert any(row["softirq_share"] for row in queues)


@machine("queues")
def test_a_machine_is_described_since_its_start(run: Run) -> None:
    table = succeeded(run, "machine").output
    assert re.search(r"^eth0 eth0-rx-3 +\d+ +\d+ ", table, re.MULTILINE), table


def interrupts(table: str) -> dict[str, list[int]]:
    """The interrupts of each queue of eth0 by processor, from /proc/interrupts."""
    rows = re.findall(r"^\s*\d+:((?:\s+\d+)+)\s.*\beth0-(\S+)$", table, re.MULTILINE)
    return {name: [int(word) for word in counts.split()] for counts, name in rows}
