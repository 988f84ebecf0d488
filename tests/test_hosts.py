"""`top --hosts` and `profile --hosts`: several machines in one table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from far import Far, far_machine
from patience import PATIENCE_S, eventually
from perpacket.cli.app import run
from perpacket.cli.hosts import notes
from perpacket.measure.hosts.watch import Clock, State
from perpacket.profile_document import ProfileDocument
from perpacket.show import host_table as shown
from probes import need

PORTS = (2222, 2223, 2224)


def profile(packets: int, ns: float) -> ProfileDocument:
    """A profile of two seconds on two processors, all of its time in TCP."""
    cpu_s = 1e-9 * ns * packets
    document = {
        "window_s": 2.0,
        "cpus": [0, 1],
        "packets": {"sent": packets, "received": 0},
        "total": {"cpu_s": cpu_s},
        "layers": {"tcp": {"cpu_s": cpu_s, "share": 1.0}, "udp": {"cpu_s": 0.0, "share": 0.0}},
    }
    return ProfileDocument.parse(document)


def test_the_total_weighs_machines_by_their_packets() -> None:
    states = [State("a", profile(1000, 100.0), None), State("b", profile(3000, 200.0), None)]
    table = shown.table(states)
    assert table.columns == ("host", "packets/s", "busy", "total", "tcp")
    assert [row[0] for row in table.texts()] == ["a", "b", "all"]
    assert table.texts()[2][1] == "2,000"
    assert table.texts()[2][3:] == ["175", "175"]


def test_a_machine_without_a_profile_has_a_row_and_a_note() -> None:
    gone = State("b", profile(9, 9.0), None, "the connection is lost")
    states = [State("a", profile(1000, 100.0), Clock(3.0, 0.01)), gone]
    table = shown.table(states)
    assert table.texts()[1][0] == "b: no profile"
    assert len(table.rows) == 2
    assert notes(states) == [
        "b: the connection is lost",
        "a: its clock differs from this machine's by +3.00 s",
    ]


def refused(*words: str) -> tuple[int, str]:
    """The exit status and the messages of a process, because the agent may replace it."""
    command = [sys.executable, "-m", "perpacket.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--hosts", " , "],
        ["--hosts", ""],
        ["--hosts"],
        ["--hosts", "a,a"],
        ["--hosts", "a", "--every", "1s"],
        ["--hosts=b c"],
    ],
)
def test_options_that_several_machines_cannot_have_are_refused(words: list[str]) -> None:
    status, message = refused("profile", *words)
    assert status in (2, 4)
    assert "error: " in message


def test_a_wrong_machine_has_a_note_with_what_was_expected() -> None:
    status, message = refused("profile", "--hosts", "127.0.0.1:ssh")
    assert status in (2, 4)
    assert "expected [user@]host[:port]" in message


@pytest.mark.parametrize("verb", ["profile", "top"])
def test_machines_that_all_fail_have_rows_and_an_exit_status(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # No program listens at these ports.
    names = ("127.0.0.1:1", "127.0.0.1:9")
    assert run([verb, "--hosts", ",".join(names)]) == 4
    printed = capsys.readouterr()
    for name in names:
        assert f"{name}: no profile" in printed.out
        assert f"note: {name}: " in printed.err
    assert "no machine has a profile" in printed.err


def command(far: Far, *words: str) -> list[str]:
    """A command line of perpacket, from the near host."""
    given = [f"{name}={value}" for name, value in far.environment.items()]
    return ["env", *given, sys.executable, "-m", "perpacket.cli", *words]


@pytest.mark.live
def test_three_machines_are_profiled_and_one_that_dies_is_a_row(tmp_path: Path) -> None:
    need("perf")
    with far_machine(tmp_path, ports=PORTS) as far:
        base = far.target.rpartition(":")[0]
        targets = [f"{base}:{port}" for port in PORTS]
        once = far.near.run(
            command(far, "profile", "--hosts", ",".join(targets), "--duration", "0.5"),
            timeout_s=PATIENCE_S,
        )
        assert once.returncode == 0, once.stderr
        assert all(target in once.stdout for target in (*targets, "all"))

        words = ("top", "--hosts", ",".join(targets), "--every", "0.3", "--format", "json")
        watch = far.near.start(command(far, *words))

        def states() -> list[dict[str, object]]:
            text = watch.stdout.rpartition("\n}\n")[0]
            last = text.rpartition("\n}\n")[2]
            hosts: list[dict[str, object]] = json.loads(f"{last}\n}}")["hosts"] if last else []
            return hosts

        def have_windows() -> bool:
            found = states()
            return len(found) == len(PORTS) and all(one["window"] for one in found)

        assert eventually(have_windows), watch.stderr
        kill_sessions(far.servers[PORTS[1]].pid)
        assert eventually(lambda: [bool(one["error"]) for one in states()] == [False, True, False])
        assert eventually(lambda: targets[1] in watch.stderr)
        watch.send_signal(signal.SIGINT)
        assert watch.wait(PATIENCE_S) == 0


def kill_sessions(sshd: int) -> None:
    """End an ssh server and the processes of its sessions."""
    for child in children(sshd):
        kill_sessions(child)
    os.kill(sshd, signal.SIGKILL)


def children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for file in files for word in file.read_text().split()]
