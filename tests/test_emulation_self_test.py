"""The self-test of QEMU with the emulator's plugin, and what `doctor` reports of both."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import requirements
from perpacket import executables
from perpacket.errors import MachineLacks
from perpacket_lab.emulate import folders, qemu, self_test, session
from perpacket_lab.emulate.prepared import Prepared
from perpacket_lab.emulate.qemu import Qemu
from perpacket_lab.emulate.self_test import Expected
from perpacket_lab.machine import emulator

INLINE = Path(__file__).parents[1] / "lab/crates/emulate-plugin/tests/guests/inline.c"
"""A plugin that is correct, but has inline operations."""

FOUND = Qemu(Path("/bin/true"), "10.0.2")


@pytest.fixture
def real() -> tuple[Qemu, Path]:
    """QEMU and the plugin of this machine."""
    try:
        return qemu.find(), qemu.plugin()
    except MachineLacks as lack:
        requirements.skip("qemu", lack)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folders.cache()


def window(**changes: object) -> dict[str, Any]:
    """The counts of a self-test that passes, with some changes."""
    expected = Expected.stored()
    rows = [
        {"layer": layer, "kind": kind, "instructions": count}
        for (layer, kind), count in expected.instructions.items()
    ]
    return {
        "counts": rows,
        "returns": {"matched": expected.returns, "unmatched": 0},
        "guest": {"values": [100, 160, 0, 0, 0, 0]},
        "separate_processors": True,
        "foreign_blocks": 0,
    } | changes


def test_two_processors_have_the_counts_of_one(real: tuple[Qemu, Path]) -> None:
    counts = self_test.counts(*real)
    assert Expected.stored().difference(counts) == ""
    assert self_test.run(*real) == counts["separate_processors"]


def test_a_wrong_count_names_qemu_and_the_next_step(real: tuple[Qemu, Path]) -> None:
    expected = Expected.stored()
    wrong = replace(expected, instructions={**expected.instructions, ("tcp", "copy"): 1})
    with pytest.raises(MachineLacks) as lack:
        self_test.run(*real, wrong)
    emulator, _ = real
    right = expected.instructions["tcp", "copy"]
    assert str(lack.value) == (
        f"{emulator.program}: QEMU {emulator.version} fails the self-test of the emulator's "
        f"plugin: instructions of tcp (copy): {right}, expected 1"
    )
    assert "use QEMU 10.0 or newer" in lack.value.hint


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"counts": []}, "instructions of syscall (other): 0, expected"),
        ({"returns": {"matched": 511, "unmatched": 1}}, "matched returns: 511, expected"),
        ({"guest": {"values": [100, 100, 0]}}, "the second processor ran: False, expected True"),
        ({"guest": {"values": [100, 160, 9]}}, "returned to a wrong address: 9, expected 0"),
        ({"foreign_blocks": 3}, "ran code of another: True, expected False"),
        ({"separate_processors": False}, "ran code of another: False, expected True"),
    ],
)
def test_each_difference_is_found(changes: dict[str, object], difference: str) -> None:
    assert difference in Expected.stored().difference(window(**changes))


def test_shared_code_alone_is_no_difference() -> None:
    shared = window(separate_processors=False, foreign_blocks=3)
    assert Expected.stored().difference(shared) == ""


def test_an_emulator_that_breaks_down_fails_the_self_test(
    real: tuple[Qemu, Path], tmp_path: Path
) -> None:
    program = tmp_path / "qemu"
    program.write_text("#!/bin/sh\necho 'Bad icount read' >&2\nexit 1\n")
    program.chmod(0o755)
    broken = replace(real[0], program=program)
    with pytest.raises(MachineLacks, match=r"fails the self-test.*Bad icount read"):
        self_test.run(broken, real[1])


def test_inline_operations_of_a_plugin_fail_the_self_test(
    real: tuple[Qemu, Path], tmp_path: Path
) -> None:
    emulator, plugin = real
    if not emulator.version.startswith("10.0."):
        requirements.skip("qemu", f"{emulator.version}: the fault is known of 10.0")
    library = tmp_path / "inline.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, INLINE], check=True)
    program = tmp_path / "qemu"
    program.write_text(f'#!/bin/sh\nexec {emulator.program} "$@" -plugin {library}\n')
    program.chmod(0o755)
    with pytest.raises(MachineLacks, match="traps that returned to a wrong address"):
        self_test.run(replace(emulator, program=program), plugin)


def test_a_pass_is_remembered_for_this_qemu_and_plugin(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Path] = []
    monkeypatch.setattr(self_test, "run", lambda emulator, plugin: runs.append(plugin))
    plugin, program = tmp_path / "plugin.so", tmp_path / "qemu"
    plugin.write_bytes(b"one")
    program.write_bytes(b"one")
    found = Qemu(program, "10.0.2")
    for _ in range(2):
        self_test.check(found, plugin)
    assert len(runs) == 1
    plugin.write_bytes(b"two")
    self_test.check(found, plugin)
    self_test.check(replace(found, version="10.1"), plugin)
    program.write_bytes(b"another")
    self_test.check(found, plugin)
    assert len(runs) == 4
    assert len(list((cache / "self-tests").iterdir())) == 4


def test_a_failure_is_not_remembered(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(emulator: Qemu, plugin: Path) -> None:
        raise self_test.failure(emulator, "a difference")

    monkeypatch.setattr(self_test, "run", fail)
    for _ in range(2):
        with pytest.raises(MachineLacks, match="a difference"):
            self_test.check(FOUND, Path("/bin/true"))
    assert not list(cache.iterdir())


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has everything that an emulation needs."""
    guest = Prepared(Path("/cache/machines/key"), "6.1.0")
    monkeypatch.setattr(qemu, "find", lambda: FOUND)
    monkeypatch.setattr(qemu, "plugin", lambda: Path("/plugin.so"))
    monkeypatch.setattr(self_test, "run", lambda emulator, plugin: True)
    monkeypatch.setattr(session, "prepared_guest", lambda emulator: guest)
    monkeypatch.setattr(executables, "find", lambda name: "/bin/true")
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"")


def rows() -> dict[str, tuple[bool, str, str]]:
    return {row.name: (row.available, row.detail, row.next_step) for row in emulator.capabilities()}


@pytest.mark.usefixtures("complete")
def test_doctor_names_qemu_its_self_test_busybox_and_the_guest() -> None:
    assert rows() == {
        "qemu": (True, "10.0.2", ""),
        "emulate_plugin": (True, "/plugin.so passes its self-test", ""),
        "busybox": (True, "/bin/true", ""),
        "emulate_guest": (True, "Linux 6.1.0 in /cache/machines/key", ""),
    }


@pytest.mark.usefixtures("complete")
def test_doctor_says_how_to_build_a_missing_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Path:
        raise MachineLacks("/plugin.so: the emulator's plugin: it is not installed")

    monkeypatch.setattr(qemu, "plugin", absent)
    available, detail, step = rows()["emulate_plugin"]
    assert not available
    assert detail.endswith("it is not installed")
    assert "`make setup`" in step


@pytest.mark.usefixtures("complete")
def test_doctor_reports_a_failed_self_test_and_shared_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(self_test, "run", lambda emulator, plugin: False)
    assert "slow" in rows()["emulate_plugin"][1]

    def fail(emulator: Qemu, plugin: Path) -> bool:
        raise self_test.failure(emulator, "a difference")

    monkeypatch.setattr(self_test, "run", fail)
    available, detail, step = rows()["emulate_plugin"]
    assert not available
    assert detail.endswith("a difference")
    assert "use QEMU 10.0 or newer" in step


@pytest.mark.usefixtures("complete")
def test_doctor_names_what_a_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "prepared_guest", lambda emulator: None)
    monkeypatch.setattr(executables, "find", lambda name: None)
    found = rows()
    assert found["emulate_guest"] == (False, "no guest is stored", "`perpacket emulate prepare`")
    assert found["busybox"][0] is False
    assert "busybox-static" in found["busybox"][2]


def test_doctor_tries_no_plugin_without_qemu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executables, "find", lambda name: None)
    found = rows()
    assert [name for name, (available, _, _) in found.items() if available] == []
    assert "prepare --install" in found["qemu"][2]
    assert found["emulate_plugin"][1] == found["emulate_guest"][1] == "not tried without QEMU"
