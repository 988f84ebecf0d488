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


def test_advice_reads_processors_nodes_and_queues(tmp_path: Path) -> None:
    a_large_machine.make(tmp_path, hot=1)
    named, as_files = (
        perpacket("advise", *words, "--format", "json")
        for words in (["--root", tmp_path], [tmp_path])
    )
    assert named.returncode == 0, named.stderr
    assert named.stdout == as_files.stdout
    report = json.loads(named.stdout)
    assert "time squeezes: cpu0 ended 2,000 polls" in report["limit"]["text"]
    assert report["limits"][0].startswith("eth0 is at node 1, 128 of 128 interrupts not: ")
    advised = {row["change"]: row for row in report["advice"]}
    affinity = advised["irq-affinity"]
    assert affinity["value"] == "spread"
    assert "100 % of the interrupts of the 128 queues of eth0" in affinity["evidence"]
    assert "one of 256 processors" in advised["rps"]["evidence"]


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
    for verb in ("doctor", "advise"):
        lists = tmp_path / "sys/devices/system/cpu/online"
        lists.parent.mkdir(parents=True, exist_ok=True)
        lists.write_text("zero\n")
        done = perpacket(verb, "--root", tmp_path)
        assert done.returncode == 2
        assert "/sys/devices/system/cpu/online: expected numbers" in done.stderr
        lists.unlink()
        done = perpacket(verb, "--root", tmp_path)
        assert done.returncode == 2
        assert f"--root {tmp_path}" in done.stderr
        assert "copy /proc and /sys" in done.stderr
