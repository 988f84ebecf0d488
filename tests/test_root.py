"""`doctor --root` and `advise --root`: a machine of 256 processors, from a copy of its files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import a_large_machine


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine whose first two processors serve all queues."""
    root = tmp_path_factory.mktemp("pinned")
    a_large_machine.make(root, hot=2)
    return root


def perpacket(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perpacket.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_doctor_reads_processors_nodes_and_queues(pinned: Path) -> None:
    done = perpacket("doctor", "--root", pinned, "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    capabilities = {row["name"]: row for row in report["capabilities"]}
    assert capabilities["one_node"]["detail"] == "2 nodes: 0 has CPUs 0-127; 1 has CPUs 128-255"
    near = capabilities["near_interrupts"]
    assert near["detail"] == "eth0 is at node 1, 128 of 128 interrupts not"
    assert "node" in near["cost_of_lack"]
    assert "124 more groups" in capabilities["own_cores"]["detail"]
    since_start = report["since_start"]
    assert (len(since_start["processors"]), len(since_start["queues"])) == (256, 128)
    (finding,) = since_start["findings"]
    assert finding.startswith("CPUs 0-1 receive 100 % of packets and are on average 95 % busy;")


def test_the_table_of_a_large_machine_is_short(pinned: Path) -> None:
    done = perpacket("doctor", "--root", pinned)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) < 120
    assert any(line.startswith("median") for line in lines)
    assert any("other queues" in line for line in lines)


def test_interrupts_that_are_spread_over_the_cards_node_are_near(tmp_path: Path) -> None:
    a_large_machine.make(tmp_path, hot=256)
    (tmp_path / a_large_machine.CARD / "device/numa_node").write_text("0\n")
    done = perpacket("doctor", "--root", tmp_path, "--format", "json")
    report = json.loads(done.stdout)
    capabilities = {row["name"]: row for row in report["capabilities"]}
    assert capabilities["near_interrupts"]["available"]
    assert report["since_start"]["findings"] == []


def test_a_folder_that_is_no_copy_is_refused(tmp_path: Path) -> None:
    done = perpacket("doctor", "--root", tmp_path)
    assert done.returncode == 2
    assert f"--root {tmp_path}" in done.stderr
    assert "copy /proc and /sys" in done.stderr
