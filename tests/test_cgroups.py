"""Real control groups: what `export --by cgroup` and `profile --cgroup` report of them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path

import pytest

from patience import PATIENCE_S, eventually
from perpacket.errors import MachineLacks
from perpacket.measure import agent
from probes import need
from requirements import skip

pytestmark = pytest.mark.live

CONTAINER = "0123456789abcdef" * 4
"""The identifier of a container that no engine made."""

FREQUENCY_HZ = 997

BUSY_LEAST_S = 0.2
"""The least processor time of the group for judging its share."""

TOLERANCE = 0.35
"""Largest relative difference from the kernel's account: six deviations of 200 samples."""

SENT = r'perpacket_packets_total{direction="sent",interface="\w+"} (\d+)'

TALKING = (
    "import socket, time; a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    'while True: a.sendto(b"x", ("127.0.0.1", 9)); time.sleep(0.01)'
)

BUSY = "while True:\n    pass\n"


def hierarchy() -> Path:
    """The folder in which version 2 of control groups is mounted."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    skip("cgroup", "version 2 of control groups is not mounted")


def is_empty(folder: Path) -> bool:
    """Whether a control group has no process."""
    return not (folder / "cgroup.procs").read_text()


@contextmanager
def group(*names: str) -> Iterator[Path]:
    """Nested control groups; yields the innermost."""
    folders = [hierarchy().joinpath(*names[: depth + 1]) for depth in range(len(names))]
    made: list[Path] = []
    try:
        try:
            for folder in folders:
                folder.mkdir()
                made.append(folder)
        except OSError as error:
            skip("cgroup", error)
        yield folders[-1]
    finally:
        for folder in reversed(made):
            assert eventually(partial(is_empty, folder))
            folder.rmdir()


@contextmanager
def running(folder: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a control group, ended with the context."""

    def enter() -> None:
        (folder / "cgroup.procs").write_text(str(os.getpid()))

    process = subprocess.Popen(command, preexec_fn=enter)  # noqa: PLW1509 - no threads here
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)


@cache
def own_agent() -> str:
    """The agent of this installation, if it can profile."""
    try:
        own = str(agent.find())
    except MachineLacks as error:
        skip("agent", error)
    need("perf")
    return own


def used_s(folder: Path) -> float:
    """Processor time of a group, counted by the kernel."""
    found = re.search(r"^usage_usec (\d+)$", (folder / "cpu.stat").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1e6


def test_export_names_a_nested_container_and_agrees_with_the_kernels_account() -> None:
    own = own_agent()
    top = f"perpacket-test-{os.getpid()}"
    options = ("--by", "cgroup", "--listen", "127.0.0.1:0", "--frequency", str(FREQUENCY_HZ))
    with group(top, f"docker-{CONTAINER}.scope", "nested") as folder:
        exporter = subprocess.Popen([own, "export", *options], stderr=subprocess.PIPE, text=True)
        try:
            assert exporter.stderr is not None
            url = exporter.stderr.readline().split()[1]
            with running(folder, sys.executable, "-c", BUSY):
                assert eventually(lambda: used_s(folder) > BUSY_LEAST_S)
            account_s = used_s(folder)
            time.sleep(1.2)  # two steps of the exporter
            text = urllib.request.urlopen(url, timeout=PATIENCE_S).read().decode()
        finally:
            exporter.terminate()
            exporter.communicate(timeout=PATIENCE_S)
    name = f"docker-{CONTAINER[:12]}"
    series = re.findall(rf'cgroup="{name}",layer="(\w+)"}} (\S+)', text)
    assert "user" in dict(series), text
    assert sum(float(value) for _, value in series) == pytest.approx(account_s, rel=TOLERANCE)
    assert re.search(r'cgroup="shared",layer="\w+"', text)


def test_a_profile_of_a_group_has_its_work_and_no_other_programs() -> None:
    own = own_agent()
    top = f"perpacket-test-{os.getpid()}"
    with group(top, "inner") as folder, running(folder, sys.executable, "-c", BUSY):
        before = used_s(folder)
        done = subprocess.run(
            [
                *(own, "profile", "--cgroup", f"/{top}", "--duration", "1.5"),
                *("--frequency", str(FREQUENCY_HZ), "--format", "json", "--quiet"),
            ],
            capture_output=True,
            check=False,
        )
        account_s = used_s(folder) - before
        assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    part = report["group"]
    assert part["name"] == f"/{top}"
    # The account includes the start and the end of the profiler, outside its window.
    assert 0 < part["own"]["cpu_s"] <= account_s * (1 + TOLERANCE)
    assert report["layers"]["user"]["cpu_s"] <= part["own"]["cpu_s"] + 1e-9
    assert sum(row["share"] for row in report["skid_top"]) <= report["skid_share"] + 1e-9
    parts = part["own"]["share"] + part["shared"]["share"]
    assert parts <= 1 + 1e-9
    assert report["categories"]["other_programs"]["share"] <= 1 - parts + 1e-9


def test_a_case_of_a_group_has_its_work(tmp_path: Path) -> None:
    own = own_agent()
    top, file = f"perpacket-test-{os.getpid()}", tmp_path / "group.case"
    with group(top) as folder, running(folder, sys.executable, "-c", BUSY):
        words = ["--cgroup", f"/{top}", "--duration", "1.5s", "--output", str(file), "--quiet"]
        subprocess.run([own, "capture", *words], check=True)
    with tarfile.open(file) as case:
        stored = case.extractfile("case/profile.json")
        assert stored is not None
        part = json.load(stored)["group"]
    assert part["name"] == f"/{top}"
    assert part["own"]["cpu_s"] > 0.05  # of 1.5, on a machine that may run others


def test_packets_are_those_of_the_groups_namespace() -> None:
    own = own_agent()
    if os.geteuid() != 0:
        skip("root", "namespaces need root")
    top = f"perpacket-test-{os.getpid()}"
    # The loopback of a new namespace is down, so the namespace has no packets.
    with (
        group(top) as folder,
        running(folder, "unshare", "--net", sys.executable, "-c", BUSY) as process,
    ):
        other = Path("/proc/self/ns/net").readlink()
        assert eventually(lambda: Path(f"/proc/{process.pid}/ns/net").readlink() != other)
        done = subprocess.run(
            [own, "profile", "--cgroup", f"/{top}", "--duration", "0.5", "--format", "json"],
            capture_output=True,
            check=False,
        )
    packets = json.loads(done.stdout)["packets"]
    assert packets["sent"] == packets["received"] == 0


def test_export_of_a_group_counts_the_namespace_of_its_next_process() -> None:
    own = own_agent()
    if os.geteuid() != 0:
        skip("root", "namespaces need root")
    top = f"perpacket-test-{os.getpid()}"
    options = ("--cgroup", f"/{top}", "--listen", "127.0.0.1:0")
    talking = f"ip link set lo up; exec {sys.executable} -c {shlex.quote(TALKING)}"
    with group(top) as folder, ExitStack() as stack:
        first = stack.enter_context(ExitStack())
        silent = first.enter_context(running(folder, "unshare", "--net", "sleep", "60"))
        other = Path("/proc/self/ns/net").readlink()
        assert eventually(lambda: Path(f"/proc/{silent.pid}/ns/net").readlink() != other)
        exporter = subprocess.Popen([own, "export", *options], stderr=subprocess.PIPE, text=True)
        stack.callback(exporter.communicate)
        stack.callback(exporter.terminate)
        assert exporter.stderr is not None
        url = exporter.stderr.readline().split()[1]

        def frames() -> int:
            text = urllib.request.urlopen(url, timeout=PATIENCE_S).read().decode()
            return sum(map(int, re.findall(SENT, text)))

        time.sleep(1.2)  # two steps of the exporter
        assert frames() == 0
        first.close()
        stack.enter_context(running(folder, "unshare", "--net", "sh", "-c", talking))
        assert eventually(lambda: frames() > 0)


def test_the_beginning_of_two_identifiers_is_an_error_with_both() -> None:
    start = f"{os.getpid():032x}"
    one, two = (f"docker-{start}{end * 32}.scope" for end in "ab")
    with group(one), group(two):
        done = subprocess.run(
            [own_agent(), "profile", "--container", start, "--duration", "0.2"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    for name in (one, two):
        assert name.removesuffix(".scope") in done.stderr


def test_a_group_without_processes_is_an_error() -> None:
    done = subprocess.run(
        [own_agent(), "profile", "--unit", "no-such.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--unit no-such.service: no process is in such a control group" in done.stderr
