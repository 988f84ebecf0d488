"""`perpacket emulate` that is killed at a random moment or interrupted: what it leaves behind."""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from perpacket_lab.emulate import folders
from perpacket_lab.emulate.replay import replay
from perpacket_lab.emulate.session import Session
from perpacket_lab.emulate.settings import Scenario, Settings

SMALL = Settings(Scenario("web", 2), frames=200, warmup_frames=200, variants=1)
LONGEST_S = 60.0


@pytest.fixture
def chance() -> random.Random:
    """Random numbers. A failure prints the seed; `PERPACKET_KILL_SEED` repeats it."""
    seed = int(os.environ.get("PERPACKET_KILL_SEED") or secrets.randbelow(1_000_000))
    print(f"PERPACKET_KILL_SEED={seed}")
    return random.Random(seed)


def start(options: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start `perpacket emulate` and wait for its first emulator."""
    command = [sys.executable, "-m", "perpacket.cli", "emulate", *options.split(), "--quiet"]
    front = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})}
    )
    while not emulators_of(front.pid):
        assert front.poll() is None
        time.sleep(0.02)
    return front


def emulators_of(pid: int) -> list[int]:
    """The emulators that a process started, without those that print their version."""
    emulators = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in tasks.read_text().split():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                if b"-plugin" in Path(f"/proc/{child}/cmdline").read_bytes():
                    emulators.append(int(child))
    return emulators


def end(front: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """Send a signal. Returns the exit status when the emulators have ended, too."""
    emulators = emulators_of(front.pid)
    front.send_signal(number)
    status = front.wait(LONGEST_S)
    deadline = time.monotonic() + LONGEST_S
    while any(is_alive(pid) for pid in emulators):
        assert time.monotonic() < deadline, "an emulator outlives its front"
        time.sleep(0.02)
    return status


def is_alive(pid: int) -> bool:
    """Whether a process runs; an ended process that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_emulation_leaves_no_process_and_no_folder(
    session: Session, chance: random.Random
) -> None:
    before = set(session.machine.folder.parent.iterdir())
    for _ in range(3):
        front = start("--server web")
        time.sleep(chance.uniform(0, 3))
        assert end(front, signal.SIGKILL) == -signal.SIGKILL
    assert set(session.machine.folder.parent.iterdir()) == before


def test_the_next_recording_replaces_the_part_of_a_killed_one(
    session: Session, chance: random.Random, tmp_path: Path
) -> None:
    file = tmp_path / "web.rec"
    front = start(f"--server web --frames 1000000 --record {file}")
    time.sleep(chance.uniform(0, 3))
    end(front, signal.SIGKILL)
    (tmp_path / "web.rec.part").write_bytes(bytes(10_000_000))
    live = session.emulate(SMALL, record=file)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert replay(file, SMALL.memory)["total"] == live["total"]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_recording_leaves_no_process_and_no_file(
    number: signal.Signals, chance: random.Random, tmp_path: Path
) -> None:
    file = tmp_path / "web.rec"
    front = start(f"--server web --frames 1000000 --record {file}")
    part = tmp_path / "web.rec.part"
    while not part.exists():
        assert front.poll() is None
        time.sleep(0.02)
    time.sleep(chance.uniform(0, 2))
    assert end(front, number) == 128 + number
    assert not list(tmp_path.iterdir())


@pytest.mark.full
def test_a_killed_preparation_leaves_no_process_and_no_guest(
    session: Session, chance: random.Random, tmp_path: Path
) -> None:
    modules = next((folders.cache() / "kernels").glob("*/modules"))
    options = f"prepare --kernel {session.machine.boot.kernel} --modules {modules}"
    machines = tmp_path / "perpacket" / "emulate" / "machines"
    for _ in range(2):
        front = start(options, {"XDG_CACHE_HOME": str(tmp_path)})
        time.sleep(chance.uniform(0, 10))
        end(front, signal.SIGKILL)
    # The second preparation removed the folder of the first, or had not begun one.
    left = list(machines.glob("*")) if machines.exists() else []
    assert len(left) <= 2
    assert all(folders.PART in folder.name for folder in left)
    folders.remove_left(machines)
    assert not list(machines.glob("*"))
