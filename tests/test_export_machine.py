"""`export` on a machine that changes under it: a guest in QEMU, because the tests' own may not.

Its processor goes offline and comes back, perf is taken away and given back, and its clocks stop,
as in a virtual machine that is suspended.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

from patience import eventually
from perpacket.measure import agent
from perpacket_lab.emulate import files, kernel, qemu
from perpacket_lab.emulate.archive import Archive
from probes import need

pytestmark = [pytest.mark.live, pytest.mark.full]

RATE_HZ = 97
"""Samples a second and processor, the default."""

SUSPENDED_S = 20.0

BOOT_S = 300.0
"""The guest ends within this time."""

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
chmod 755 / /bin /lib /lib64 /usr 2> /dev/null
ip link set lo up
paranoid=/proc/sys/kernel/perf_event_paranoid
cpu=/sys/devices/system/cpu/cpu1/online
show() {
    sleep "$2"; echo "== $1"
    wget -q -O - http://127.0.0.1:9430/metrics | grep '^perpacket'
    echo "== end"
}
echo -1 > $paranoid
su nobody -s /bin/sh -c '/bin/perpacket-agent export --quiet' &
show started 8
echo 0 > $cpu; show offline 6
echo 1 > $cpu; show online 6
# An event that is open stays open: perf is missed when a processor changes.
echo 3 > $paranoid; echo 0 > $cpu; show away 6
echo 1 > $cpu; echo -1 > $paranoid; show back 10
echo suspending; show resumed 4
show later 4
poweroff -f
"""

Stages = dict[str, dict[str, float]]


def order(monitor: Path, text: str) -> None:
    """Give QEMU's monitor an order, and wait until it is done."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(monitor))
        found = connection.recv(65536)
        connection.sendall(f"{text}\n".encode())
        while found.count(b"(qemu)") < 2:
            found += connection.recv(65536)


def archive() -> bytes:
    """The guest's first file system."""
    found = Archive()
    found.add("init", INIT.encode(), executable=True)
    found.add("etc/passwd", files.PASSWORDS)
    found.add("bin/busybox", files.busybox().read_bytes(), executable=True)
    files.add_program(found, agent.find(), "bin/perpacket-agent")
    for folder in ("proc", "sys", "dev", "tmp"):
        found.folder(folder)
    return found.pack()


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Stages:
    """The counters of the guest at each stage."""
    folder = tmp_path_factory.mktemp("guest")
    need("qemu")
    program = qemu.find().program
    (folder / "kernel").write_bytes(kernel.from_package().image)
    (folder / "archive").write_bytes(archive())
    console, monitor = folder / "console", folder / "monitor"
    console.touch()
    options = ["-smp", "2", "-m", "768", "-display", "none", "-no-reboot", "-nic", "none"]
    options += ["-kernel", str(folder / "kernel"), "-initrd", str(folder / "archive")]
    options += ["-append", "console=ttyS0 quiet panic=-1"]
    options += ["-serial", f"file:{console}"]
    options += ["-monitor", f"unix:{monitor},server,nowait"]
    # It ends with the tests, however they end.
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", program, *options])
    try:
        assert eventually(monitor.exists)
        deadline = time.monotonic() + BOOT_S
        while "suspending" not in console.read_text(errors="replace"):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.5)
        order(monitor, "stop")
        time.sleep(SUSPENDED_S)
        order(monitor, "cont")
        process.wait(BOOT_S)
    finally:
        process.kill()
        process.wait()
    return parsed(console.read_text(errors="replace"))


def parsed(console: str) -> Stages:
    """The counters by stage and series."""
    found = {}
    for name, text in re.findall(r"== (\w+)\r?\n(.*?)== end", console, re.DOTALL):
        pairs = re.findall(r"^(perpacket_\S+?(?:\{.*?\})?) ([\d.]+)\r?$", text, re.MULTILINE)
        found[name] = {series: float(value) for series, value in pairs}
    assert list(found) == ["started", "offline", "online", "away", "back", "resumed", "later"]
    return found


def samples(stages: Stages, stage: str) -> float:
    """Samples until a stage."""
    return stages[stage]["perpacket_samples_total"]


def backend(counters: dict[str, float]) -> str:
    """How time was measured."""
    (found,) = re.findall(r'backend="([\w-]+)"', " ".join(counters))
    return str(found)


def test_no_counter_falls_and_none_loses_its_series(stages: Stages) -> None:
    for before, after in pairwise(stages.values()):
        for series, value in before.items():
            assert "_total" not in series or after[series] >= value, series


def test_sampling_continues_when_a_processor_goes_and_comes_back(stages: Stages) -> None:
    reopens = [stages[name]["perpacket_reopens_total"] for name in ("started", "offline", "online")]
    assert reopens == [0, 1, 2]
    assert samples(stages, "started") < samples(stages, "offline") < samples(stages, "online")
    busy = [stages[name]['perpacket_busy_seconds_total{cpu="1"}'] for name in stages]
    assert busy[0] <= busy[1] <= busy[2]
    assert {backend(stages[name]) for name in ("started", "offline", "online")} == {"cpu-clock"}


def test_accounts_replace_perf_while_it_is_taken_away(stages: Stages) -> None:
    assert backend(stages["away"]) == "accounts"
    limits = [series for series in stages["away"] if 'limit="no_perf"' in series]
    assert len(limits) == 1
    assert "perf_event_paranoid is 3" in limits[0]
    assert backend(stages["back"]) == "cpu-clock"
    assert not any('limit="no_perf"' in series for series in stages["back"])


def test_suspended_time_is_in_no_counter(stages: Stages) -> None:
    def grown(series: str) -> float:
        return stages["resumed"][series] - stages["back"][series]

    assert grown("perpacket_expected_samples_total") < RATE_HZ * SUSPENDED_S
    assert grown("perpacket_idle_seconds_total") < SUSPENDED_S
    assert samples(stages, "later") > samples(stages, "resumed")
    assert backend(stages["later"]) == "cpu-clock"
