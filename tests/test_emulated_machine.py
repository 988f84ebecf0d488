"""`perpacket emulate` with a guest: real frames between two cards, counted exactly and repeatably.

The guest is booted once and stored in the cache folder of the user.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perpacket.cli import app
from perpacket.emulate import qemu, runs
from perpacket.emulate.prepared import Prepared
from perpacket.emulate.session import Guest, Session, open_session
from perpacket.emulate.settings import Memory, Scenario, Settings
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from probes import need

BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"
"""A process that never waits, and that ends with the process of the tests."""

SMALL = Settings(Scenario("web", 2), frames=200, warmup_frames=200, variants=1)


@pytest.fixture(scope="session")
def session() -> Session:
    """A prepared machine; a test without QEMU or a kernel is skipped."""
    need("qemu")
    opened = open_session(Guest(), lambda text: None)
    qemu.check_plugin(opened.emulator, opened.plugin)
    return opened


@pytest.fixture
def busy() -> Iterator[None]:
    """A process on every processor that never waits."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in range(2)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def same_bytes(session: Session, times: int) -> None:
    texts = {json.dumps(session.emulate(SMALL)) for _ in range(times)}
    assert len(texts) == 1


def test_the_same_command_prints_the_same_bytes_beside_a_busy_machine(
    session: Session, busy: None
) -> None:
    same_bytes(session, 2)


@pytest.mark.slow
def test_the_same_command_prints_the_same_bytes_twenty_times(session: Session, busy: None) -> None:
    same_bytes(session, 20)


def test_the_window_ends_with_the_burst_that_completes_its_frames(session: Session) -> None:
    counts: Any = runs.variant(session.emulator, session.plugin, session.machine, SMALL, 0)
    frames = counts["frames"]
    # Several frames can arrive in the turn of the other processor. Then they count together.
    assert 0 <= frames["sent"] + frames["received"] - SMALL.frames < 16
    # Every instruction of processor 0 is in one row.
    assert sum(row["instructions"] for row in counts["counts"]) == counts["instructions"]
    layers = {row["layer"] for row in counts["counts"]}
    assert {"user", "syscall", "socket", "tcp", "ip", "ethernet", "driver"} <= layers


def test_latency_is_in_the_guests_time(session: Session) -> None:
    delayed = replace(SMALL, scenario=Scenario("web", 1, latency_ms=20), frames=100)
    found: Any = session.emulate(delayed)
    # A response of 10 KiB has 13 frames or fewer, and each request waits for a round trip.
    window_s = found["guest_window_s"]
    assert window_s[0] > 100 / 25 * 0.04


def test_bulk_data_and_several_caches_in_one_pass(session: Session) -> None:
    memory = Memory.of("32K:8,64K:2", "256K:16,1M:16", "inclusive", "next-line", 64, "allocate")
    settings = replace(SMALL, scenario=Scenario("bulk", 4, rate_mbps=50), memory=memory)
    found: Any = session.emulate(settings)
    misses = found["total"]["l2_misses_per_packet"]
    assert list(misses) == ["32K:8 256K:16", "32K:8 1M:16", "64K:2 256K:16", "64K:2 1M:16"]
    assert misses["64K:2 1M:16"]["value"] <= misses["64K:2 256K:16"]["value"]
    assert found["packets"]["sent"] > found["packets"]["received"]


def test_misses_by_structure_are_those_of_data(session: Session) -> None:
    settings = replace(SMALL, scenario=Scenario("bulk", 8, rate_mbps=50))
    by_layer: Any = session.emulate(settings)
    by_structure: Any = session.emulate(replace(settings, by="structure"))
    for part in ("packets", "total", "layers", "kinds", "directions"):
        assert by_structure[part] == by_layer[part]
    found = {row["structure"]: row for row in by_structure["structures"]}
    own = sum(row["l1d_misses_per_packet"]["64K:2"]["value"] for row in found.values())
    assert own == pytest.approx(by_layer["total"]["l1d_misses_per_packet"]["64K:2"]["value"])
    members = {name for line in found["TCP"]["lines"] for name in line["members"]}
    assert {"snd_nxt", "write_seq"} <= {name.rpartition(".")[2] for name in members}
    assert {"[user memory]", "[stack]", "[pages]"} <= found.keys()


def test_a_kernel_without_types_has_no_structures(session: Session, tmp_path: Path) -> None:
    for file in session.machine.folder.iterdir():
        if file.name != "types":
            (tmp_path / file.name).symlink_to(file)
    bare = replace(session, machine=Prepared(tmp_path, session.machine.kernel))
    with pytest.raises(ConfigurationError, match="has no type information") as failed:
        bare.emulate(replace(SMALL, by="structure"))
    assert "CONFIG_DEBUG_INFO_BTF" in failed.value.hint


def test_a_replay_equals_the_emulation_that_was_recorded(session: Session, tmp_path: Path) -> None:
    from perpacket.emulate.replay import replay

    settings = replace(SMALL, memory=Memory.of("64K:2", "256K:16", "exclusive", "none", 64, "none"))
    file = tmp_path / "web.rec"
    live: Any = session.emulate(settings, record=file)
    again = replay(file, settings.memory)
    assert [path.name for path in tmp_path.iterdir()] == ["web.rec"]
    for part in ("packets", "total", "layers", "kinds", "directions"):
        assert again[part] == live[part]


def test_a_server_that_does_not_start_is_an_error_of_the_guest(session: Session) -> None:
    # The guest has no such program; one that ends at once fails in the same way.
    settings = replace(SMALL, scenario=Scenario("absent-program --port {port}"))
    with pytest.raises(RunFailed, match=r"the server does not listen at 10\.0\.0\.1:80") as failed:
        session.emulate(settings)
    assert "perpacket emulate shell" in failed.value.hint


def test_a_recording_whose_name_has_a_comma_is_complete(session: Session, tmp_path: Path) -> None:
    from perpacket.emulate.replay import replay

    # These caches need accesses that a filtered recording lacks.
    settings = replace(SMALL, memory=Memory.of("2K:1", "256K:16", "inclusive", "none", 16, "none"))
    file = tmp_path / "a,b=c.rec"
    live: Any = session.emulate(settings, record=file)
    assert replay(file, settings.memory)["total"] == live["total"]


def test_a_recording_with_every_access_has_the_same_misses_of_translations(
    session: Session, tmp_path: Path
) -> None:
    from perpacket.emulate.replay import replay

    file = tmp_path / "every.rec"
    inclusive = Memory.of("64K:2", "256K:16", "inclusive", "none", 0, "invalidate")
    session.emulate(replace(SMALL, memory=inclusive), record=file)
    memory = Memory.of("64K:2", "256K:16", "non-inclusive", "none", 64, "invalidate")
    live: Any = session.emulate(replace(SMALL, memory=memory))
    assert replay(file, memory)["total"] == live["total"]


def cut(state: bytes) -> bytes:
    return state[:1_000_000]


def of_another_format(state: bytes) -> bytes:
    return state[:4] + struct.pack(">I", 99) + state[8:]


def of_another_machine(state: bytes) -> bytes:
    return state.replace(b"pc-i440fx-", b"pc-i440xf-", 1)


@pytest.mark.parametrize("damage", [cut, of_another_format, of_another_machine])
def test_a_snapshot_that_cannot_be_restored_is_an_error_that_names_it(
    session: Session, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    for file in session.machine.folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "state").unlink()
    (tmp_path / "state").write_bytes(damage(session.machine.state.read_bytes()))
    damaged = Prepared(tmp_path, session.machine.kernel)
    with pytest.raises(RunFailed, match=r"/state: the machine's state cannot be") as failed:
        runs.variant(session.emulator, session.plugin, damaged, SMALL, 0)
    assert failed.value.hint == f"remove {tmp_path}; the next emulation prepares the machine again"


def test_an_emulator_that_refuses_the_plugin_is_named(session: Session, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.so"
    plugin.write_bytes(b"not a library")
    with pytest.raises(MachineLacks, match=r"plugin\.so: .* refuses the plugin") as lack:
        replace(session, plugin=plugin).emulate(SMALL)
    assert "QEMU 10.0 or newer" in lack.value.hint


def test_without_memory_the_error_names_what_a_machine_needs(
    session: Session, tmp_path: Path
) -> None:
    program = tmp_path / "qemu"
    program.write_text(f'#!/bin/sh\nulimit -v 700000\nexec {session.emulator.program} "$@"\n')
    program.chmod(0o755)
    small = replace(session, emulator=replace(session.emulator, program=program))
    with pytest.raises(MachineLacks, match=r"emulator: .*memory") as lack:
        small.emulate(SMALL)
    assert "MiB" in lack.value.hint


def test_an_error_of_the_plugin_has_its_hint(session: Session) -> None:
    with pytest.raises(RunFailed, match="option `by=nothing`") as failed:
        session.emulate(replace(SMALL, by="nothing"))  # type: ignore[arg-type]  # on purpose
    assert "docs/emulation.md" in failed.value.hint


def emulators_of(pid: int) -> list[int]:
    """The emulators that a process started, without those that print their version."""
    found = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(word) for word in tasks.read_text().split()]
    return [one for one in found if b"-plugin" in Path(f"/proc/{one}/cmdline").read_bytes()]


def test_a_killed_emulation_leaves_no_process_and_no_part(session: Session) -> None:
    before = set(session.machine.folder.parent.iterdir())
    for delay_s in (0.2, 2.0):
        command = [sys.executable, "-m", "perpacket.cli", "emulate", "--server", "web", "--quiet"]
        front = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        emulators: list[int] = []
        while not (emulators := emulators_of(front.pid)):
            assert front.poll() is None
            time.sleep(0.05)
        time.sleep(delay_s)
        emulators += emulators_of(front.pid)
        os.kill(front.pid, signal.SIGKILL)
        front.wait()
        end = time.monotonic() + 30
        while any(is_alive(pid) for pid in emulators):
            assert time.monotonic() < end, "an emulator outlives its front"
            time.sleep(0.05)
    assert set(session.machine.folder.parent.iterdir()) == before


def is_alive(pid: int) -> bool:
    """Whether a process runs; an ended process that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_verb_prints_its_table_and_its_notes(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session.plugin.is_file()
    options = "--server web --connections 2 --frames 200 --warmup-frames 200 --variants 2 --quiet"
    assert app.run(["emulate", *options.split()]) == 0
    printed = capsys.readouterr()
    assert "turns of 20,000 instructions" in printed.out
    assert "By layer, per packet" in printed.out
    assert "intervals are over 2 variants" in printed.out
    assert not printed.err
