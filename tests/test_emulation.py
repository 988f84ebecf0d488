"""`perpacket emulate` without a guest: its input, errors, archives and reports."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import requirements
from perpacket import executables
from perpacket.cli import app
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket_lab.emulate import (
    caches,
    folders,
    install,
    kernel,
    prepared,
    qemu,
    report,
    runs,
    structures,
    work,
)
from perpacket_lab.emulate.archive import Archive
from perpacket_lab.emulate.debian import Packages
from perpacket_lab.emulate.settings import Memory, Scenario, Settings
from perpacket_lab.show import emulation

ELF = b"\x7fELF"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folders.cache()


def test_a_shape_is_a_size_and_ways() -> None:
    assert caches.shapes("--l2", "256K:16,1M:8") == (caches.Shape(256, 16), caches.Shape(1024, 8))
    assert [str(shape) for shape in caches.shapes("--l1", "65536:2,2MiB:16")] == ["64K:2", "2M:16"]


@pytest.mark.parametrize(
    "text", ["", "64K", "64K:0", "64K:3", "64kB:2", "0K:2", "64:2", "64K:2,64K:2", "x"]
)
def test_a_shape_without_a_power_of_two_sets_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--l2"):
        caches.shapes("--l2", text)


@pytest.mark.parametrize(
    "options",
    [
        "--l2 512K:7",
        "--connections 0",
        "--latency 11s",
        "--bit-rate 10Mb/s --server nginx",
        "--frames 1",
        "--replications 0",
        "--turn-instructions 10",
        "--seed 99999999999999999999",
        "--tlb 63",
        "--cycles pentium",
        "--prefetch stride",
        "--dma yes",
        "--policy some",
        "--l3 4M:16",
        "--l3 4M:16:2",
        "--l3 4M:16:4 --processors 2",
        "--protocol mosi",
        "--protocol moesi",
        "--server ''",
        "--server 'a \"b'",
        "--server no-such-server-xyz",
        "--server-files /absent",
        "--kernel /absent",
        "--kernel /etc/passwd",
        "--kernel debian:six",
        "--requests 10 --server datagrams",
        "--size 2KiB --server forward",
        "--modules /lib",
        "--record /absent/file",
        "--rules /absent/rules.toml",
        "--guest-setup /absent/script",
    ],
)
def test_bad_options_are_usage_errors_that_name_them(
    options: str, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import shlex

    monkeypatch.setattr(qemu, "find", lambda: qemu.Qemu(Path("/bin/true"), "10.0"))
    monkeypatch.setattr(qemu, "plugin", lambda: Path("/bin/true"))
    monkeypatch.setattr(
        kernel, "from_package", lambda newest=False, needed=(): kernel.Kernel("6.1", ELF, ())
    )
    words = shlex.split(options)
    assert app.run(["emulate", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert words[0] in error
    assert not list(cache.iterdir())


def test_the_error_without_qemu_or_with_an_old_one_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executables, "find", lambda name: None)
    with pytest.raises(MachineLacks, match="not found") as lack:
        qemu.find()
    assert "prepare --install" in lack.value.hint
    old = tmp_path / qemu.PROGRAM
    old.write_text("#!/bin/sh\necho 'QEMU emulator version 7.2.15 (Debian 1:7.2)'\n")
    old.chmod(0o755)
    monkeypatch.setattr(executables, "find", lambda name: str(old))
    with pytest.raises(MachineLacks, match=r"7\.2 is too old, expected 10\.0"):
        qemu.find()


def test_a_missing_plugin_names_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(qemu.VARIABLE, "/absent/plugin.so")
    with pytest.raises(MachineLacks, match="names no file") as lack:
        qemu.plugin()
    assert "cargo build" in lack.value.hint


@pytest.mark.parametrize(
    "symbols",
    ["", "ffffffff81000000 T _stext\n", "0000000000000000 T hidden\n" * 5000],
    ids=["none", "one", "without addresses"],
)
def test_a_kernel_without_symbols_is_refused(symbols: str, tmp_path: Path) -> None:
    file = tmp_path / "symbols"
    file.write_text(symbols)
    with pytest.raises(RunFailed, match="the kernel has no symbols") as failed:
        prepared.check_symbols(file, "6.1")
    assert "CONFIG_KALLSYMS" in failed.value.hint
    file.write_text("ffffffff81000000 T a_function\n" * 5000)
    prepared.check_symbols(file, "6.1")


def compressed_image(payload: bytes, version: str = "6.1.0-test") -> bytes:
    """A bzImage with one setup sector, as Documentation/arch/x86/boot.rst describes it."""
    setup = bytearray(2 * kernel.SECTOR_BYTES)
    setup[kernel.SETUP_SECTORS_AT] = 1
    setup[kernel.MAGIC_AT : kernel.MAGIC_AT + 4] = kernel.MAGIC
    struct.pack_into("<H", setup, kernel.VERSION_AT, 0x100)
    text = f"{version} (builder) #1".encode() + b"\0"
    setup[0x300 : 0x300 + len(text)] = text
    struct.pack_into("<II", setup, kernel.PAYLOAD_AT, 0, len(payload))
    return bytes(setup) + payload


@pytest.mark.parametrize("compress", ["gzip", "xz", "zstd"])
def test_a_compressed_kernel_is_extracted_whatever_compressed_it(compress: str) -> None:
    inner = ELF + b"\0" * 100 + kernel.PVH_NOTE + bytes(range(256)) * 50
    if shutil.which(compress) is None:
        requirements.skip("peers", f"there is no {compress}")
    done = subprocess.run([compress, "-c"], input=inner, capture_output=True, check=True)
    # The kernel's build adds the uncompressed length.
    image = compressed_image(done.stdout + struct.pack("<I", len(inner)))
    assert kernel.version_of(image) == "6.1.0-test"
    assert kernel.plain(image) == inner


def test_a_kernel_that_cannot_be_extracted_boots_as_it_is() -> None:
    image = compressed_image(b"\x04\x22\x4d\x18" + b"lz4")
    assert kernel.plain(image) == image
    without_entry = compressed_image(gzip.compress(ELF + b"no entry for emulators"))
    assert kernel.plain(without_entry) == without_entry


def test_a_kernel_for_clouds_is_refused_before_it_boots(tmp_path: Path) -> None:
    image = tmp_path / "vmlinuz"
    image.write_bytes(compressed_image(b""))
    folder = tmp_path / "modules" / "kernel" / "net"
    folder.mkdir(parents=True)
    (folder / "sch_netem.ko").write_bytes(ELF)
    with pytest.raises(ConfigurationError, match="no driver for e1000"):
        kernel.from_file(image, tmp_path / "modules")
    (tmp_path / "modules" / "modules.builtin").write_text("kernel/drivers/net/e1000/e1000.ko\n")
    found = kernel.from_file(image, tmp_path / "modules")
    assert [name for name, _ in found.modules] == ["sch_netem"]


def test_a_package_that_cannot_be_unpacked_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, script in (
        ("apt-get", "touch a.deb"),
        ("dpkg-deb", "echo 'No space left on device' >&2; exit 2"),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    folder = tmp_path / "kernel"
    folder.mkdir()
    with pytest.raises(RunFailed, match=r"not unpacked in .*No space left") as failed:
        kernel.fetch(Packages(), "x", folder, kernel.NEEDED)
    assert "free some space" in failed.value.hint


def test_modules_are_loaded_after_those_that_they_need(tmp_path: Path) -> None:
    (tmp_path / "e1000.ko").write_bytes(ELF + b"\0depends=some-bus\0")
    (tmp_path / "some-bus.ko.gz").write_bytes(gzip.compress(ELF + b"\0depends=\0bus"))
    found = dict(kernel.found_modules(tmp_path))
    assert list(found) == ["some_bus", "e1000"]
    assert found["some_bus"].endswith(b"bus")


def test_the_archive_is_what_cpio_unpacks(tmp_path: Path) -> None:
    if shutil.which("busybox") is None:
        requirements.skip("peers", "there is no busybox")
    archive = Archive()
    archive.add("init", b"#!/bin/sh\n", executable=True)
    archive.add("/etc/deep/file", b"content")
    archive.link("etc/link", "deep/file")
    archive.folder("www")
    packed = archive.pack()
    assert packed == archive.pack()
    subprocess.run(
        ["busybox", "cpio", "-i"], input=packed, cwd=tmp_path, check=True, capture_output=True
    )
    assert (tmp_path / "etc" / "link").read_text() == "content"
    assert os.access(tmp_path / "init", os.X_OK)
    assert (tmp_path / "www").is_dir()


def test_a_folder_of_the_cache_is_whole_or_not_there(cache: Path) -> None:
    def fail() -> None:
        with folders.made(cache / "machine") as new:
            (new / "state").write_text("half")
            raise RunFailed("the guest did not boot")

    with pytest.raises(RunFailed):
        fail()
    assert not list(cache.iterdir())
    with folders.made(cache / "machine") as new:
        (new / "state").write_text("whole")
    assert (cache / "machine" / "state").read_text() == "whole"


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(
    cache: Path,
) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom perpacket_lab.emulate import folders\n"
        "with folders.made(Path(sys.argv[1])) as new:\n"
        "    (new / 'state').write_text('half')\n    print('made', flush=True)\n"
        "    time.sleep(60)\n"
    )
    maker = subprocess.Popen(
        [sys.executable, "-c", code, cache / "machine"], stdout=subprocess.PIPE, text=True
    )
    assert maker.stdout is not None
    assert maker.stdout.readline() == "made\n"
    folders.remove_left(cache)
    assert len(list(cache.glob("machine*"))) == 1
    maker.kill()
    maker.wait()
    folders.remove_left(cache)
    assert not list(cache.iterdir())
    maker.stdout.close()


def test_stored_guests_are_removed_and_those_in_the_making_are_not(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("machines/one/state", "kernels/two/boot/vmlinuz", "self-tests/three"):
        (cache / name).parent.mkdir(parents=True)
        (cache / name).write_bytes(bytes(1_000_000))
    with folders.made(cache / "machines" / "four") as new:
        (new / "state").write_text("half")
        assert app.run(["emulate", "prepare", "--remove"]) == 0
    assert capsys.readouterr().out == f"removed 3 MB in {cache}\n"
    assert [file for file in cache.rglob("*") if file.is_file()] == [
        cache / "machines" / "four" / "state"
    ]


DEB822 = """\
# A comment
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /keys/archive.gpg

Types: deb-src
URIs: http://mirror.example/debian
Suites: bookworm
"""


@pytest.mark.parametrize("style", ["sources", "list"])
def test_backports_come_from_the_mirror_that_the_machine_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    (tmp_path / "sources.list.d").mkdir()
    if style == "sources":
        (tmp_path / "sources.list.d" / "debian.sources").write_text(DEB822)
    else:
        line = "deb [signed-by=/keys/archive.gpg] http://mirror.example/debian bookworm main\n"
        (tmp_path / "sources.list").write_text(line)
    release = tmp_path / "os-release"
    release.write_text('ID=debian\nVERSION_CODENAME="bookworm"\n')
    monkeypatch.setattr(install, "SOURCES", tmp_path)
    monkeypatch.setattr(install, "RELEASE", release)
    suite, source = install.backports()
    text = install.description(suite, source)
    assert "URIs: http://mirror.example/debian\nSuites: bookworm-backports\n" in text
    assert "Signed-By: /keys/archive.gpg\n" in text
    release.write_text("ID=other\n")
    with pytest.raises(MachineLacks, match="no version 10"):
        install.backports()


def test_installing_adds_backports_only_where_the_own_packages_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "debian.sources").write_text(DEB822)
    release = tmp_path / "os-release"
    release.write_text("ID=debian\nVERSION_CODENAME=bookworm\n")
    monkeypatch.setattr(install, "SOURCES", tmp_path)
    monkeypatch.setattr(install, "RELEASE", release)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(install, "is_installed", lambda package: True)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(qemu, "find", lambda: qemu.Qemu(Path("/usr/bin/q"), "10.0.2"))
    commands: list[str] = []
    offered = "  Candidate: 1:7.2+dfsg-7\n"

    def run(command: list[str]) -> str:
        commands.append(" ".join(command))
        return offered

    monkeypatch.setattr(install, "run", run)
    said: list[str] = []
    install.install(said.append)
    added = tmp_path / "sources.list.d" / install.ADDED
    assert added.exists()
    assert any("http://mirror.example/debian" in line for line in said)
    assert commands[-1].endswith("-t bookworm-backports qemu-system-x86")
    added.unlink()
    offered = "  Candidate: 1:10.0.2+ds-2\n"
    install.install(said.append)
    assert not added.exists()
    assert "backports" not in commands[-1]


def test_the_work_of_a_guest_is_a_script_that_a_shell_accepts() -> None:
    for scenario in (
        Scenario(),
        Scenario("web", 1, latency_ms=2.5),
        Scenario("bulk", 2048, rate_mbps=100, offloads=True, socket_buffer_bytes=0),
        *(Scenario(server) for server in ("bulk-receive", "datagrams", "forward", "web-tls")),
        Scenario("/usr/bin/other --port {port} --root '{root}'"),
    ):
        first = work.script(Settings(scenario), 0)
        subprocess.run(["sh", "-n"], input=first, check=True)
        assert first == work.script(Settings(scenario), 0)
        assert first != work.script(Settings(scenario), 1)
    assert b"netem delay 5ms" in work.script(Settings(Scenario("web", latency_ms=2.5)), 0)
    assert b"/host/other --port 80 --root /www" in first


def window(sent: int, received: int, tcp: int) -> dict[str, Any]:
    """Counts as the plugin writes them, with two second levels."""

    def row(layer: str, kind: str, direction: str, instructions: int) -> dict[str, Any]:
        return {
            **{"layer": layer, "kind": kind, "direction": direction, "function": None},
            **{"instructions": instructions, "itlb_misses": 2, "dtlb_misses": 4},
            **{"l1i_misses": [30, 30], "l1d_misses": [20, 20]},
            **{"l2i_misses": [10, 5], "l2d_misses": [6, 1]},
        }

    rows = [
        row("tcp", "protocol", "send", tcp),
        row("socket", "copy", "receive", 1000),
        row("idle", "other", "neither", 7000),
    ]
    return {
        "frames": {"sent": sent, "received": received},
        "guest": {"values": [5_000_000, 0, 0, 0, 0, 0], "text": ""},
        "returns": {"matched": 1000, "unmatched": 0},
        "data_accesses": 5000,
        "responses": {"200": 9, "404": 1},
        "counts": rows,
    }


SMALL = Settings(memory=Memory.of("64K:2", "256K:16,512K:16", "exclusive", "next-line", 64, "none"))


def test_costs_are_counts_by_packets_with_an_interval_over_variants() -> None:
    counts = [window(60, 40, 3000), window(60, 40, 3200)]
    found = report.report(SMALL, counts, {"kernel": "6.1"})
    assert found["packets"] == {"sent": 120, "received": 80}
    total = found["total"]
    # Without the idle loop: 4000 and 4200 instructions in 100 packets each.
    assert total["instructions_per_packet"] == pytest.approx(41)
    assert total["instructions_per_request"] == pytest.approx(410)
    assert found["responses"] == {"count": 20, "errors": 2, "statuses": {"200": 18, "404": 2}}
    assert found["data_accesses_per_packet"]["value"] == 50
    kinds = [one["instructions"]["layer_kinds"] for one in found["by_variant"]]
    assert kinds[1] == {"socket copy": 1000, "tcp protocol": 3200}
    # Student's t with one degree of freedom is 12.706; the means differ by 2, a deviation of 1.
    half = 12.706 * 1.0
    high = total["intervals"]["instructions_per_packet"]["high"]
    assert high == pytest.approx(41 + half, abs=0.01)
    tcp = found["layers"]["tcp"]
    assert tcp["l2_misses_per_packet"]["256K:16"]["value"] == pytest.approx(0.16)
    assert tcp["l2_misses_per_packet"]["512K:16"]["value"] == pytest.approx(0.06)
    assert tcp["l1i_misses_per_packet"] == pytest.approx(0.30)
    assert tcp["dtlb_misses_per_packet"] == pytest.approx(0.04)
    sending = found["directions"]["send"]
    assert sending["instructions_per_packet"] == pytest.approx((50 + 3200 / 60) / 2)
    # The names are those of `perpacket profile`.
    assert set(found["regions"]) == {"tcp", "system_call"}
    assert sum(cost["share"] for cost in found["layers"].values()) == pytest.approx(1)
    json.dumps(found, allow_nan=False)
    rows = emulation.tables(found)[0].texts()
    assert [row[0] for row in rows] == ["socket", "tcp", "total"]


@pytest.mark.parametrize(
    ("machine", "small", "large"),
    [
        # A cycle an instruction, of TCP's 3000 and 3200. Of TCP's 50 first-level misses, 34 hit in
        # the smaller second level, at 15 cycles instead of 1, and 16 go to memory, at 195: 66.8 is
        # the mean of (3000 + 34 * 14 + 16 * 194) / 100 and the same with 3200. In the larger second
        # level, 44 hit and 6 miss.
        ("osdi06", 66.8, 48.8),
        # 1.087 cycles an instruction, and 3, 20 and 350 for the levels: (1.087 * 3100 + 34 * 17 +
        # 16 * 347) / 100.
        ("athlon-xp-2600", 94.997, 61.997),
    ],
)
def test_modelled_cycles_are_instructions_and_the_latencies_of_misses(
    machine: str, small: float, large: float
) -> None:
    counts = [window(60, 40, 3000), window(60, 40, 3200)]
    found = report.report(replace(SMALL, cycles=machine), counts, {"kernel": "6.1"})
    cycles = found["layers"]["tcp"]["modelled_cycles_per_packet"]
    assert cycles["256K:16"]["value"] == pytest.approx(small)
    assert cycles["512K:16"]["value"] == pytest.approx(large)
    assert found["cycle_model"]["machine"] == machine
    assert any(f"with the latencies of {machine}" in limit for limit in found["limits"])
    table = next(one for one in emulation.tables(found) if machine in one.caption)
    assert [row[0] for row in table.texts()] == ["socket", "tcp", "total"]


def test_several_first_levels_have_misses_by_their_shape() -> None:
    memory = Memory.of("32K:8,64K:2", "256K:16", "exclusive", "none", 0, "none")
    found = report.report(replace(SMALL, memory=memory), [window(60, 40, 3000)], {})
    misses = found["layers"]["tcp"]["l1d_misses_per_packet"]
    assert {name: one["value"] for name, one in misses.items()} == {"32K:8": 0.2, "64K:2": 0.2}
    assert "L1D 32K:8" in emulation.tables(found)[0].columns


def test_declared_lines_are_those_of_the_groups_of_a_direction() -> None:
    members = [
        (0, "sk.hash"),
        (64, "sk.__cacheline_group_begin__sock_read_rxtx"),
        (64, "sk.flags"),
        (128, "sk.__cacheline_group_end__sock_read_rxtx"),
        (192, "__cacheline_group_begin__tcp_sock_write_tx"),
        (200, "segs_out"),
        (320, "__cacheline_group_end__tcp_sock_write_tx"),
    ]
    assert structures.groups_of(members) == {
        "sock_read_rxtx": range(1, 2),
        "tcp_sock_write_tx": range(3, 5),
    }
    rows = [
        {"layer": "tcp", "direction": way, "structure": ["TCP", line], "l1d_misses": [misses]}
        for way, line, misses in (("send", 0, 1), ("send", 3, 3), ("receive", 1, 2))
    ]
    counts = {"counts": rows, "members": {"TCP": members}}
    send, receive = structures.declared_lines([report.Variant(counts)])
    assert (send["declared"], send["missed"], send["share"]) == ([1, 3, 4], [0, 3], 0.75)
    assert (receive["declared"], receive["missed"], receive["share"]) == ([1], [1], 1.0)


def test_one_variant_has_no_interval_and_a_note() -> None:
    found = report.report(SMALL, [window(60, 40, 3000)], {"kernel": "6.1"})
    assert found["total"]["intervals"]["instructions_per_packet"]["low"] is None
    assert any("no interval" in limit for limit in found["limits"])


def test_a_window_without_frames_and_a_failed_plugin_are_errors() -> None:
    with pytest.raises(RunFailed, match="no frames"):
        report.report(SMALL, [{**window(1, 1, 1), "frames": None}], {})
    with pytest.raises(RunFailed, match="disk is full") as failed:
        runs.last_window('{"version": 1, "error": "the disk is full", "hint": "make room"}\n')
    assert failed.value.hint == "make room"
    with pytest.raises(RunFailed, match="counted nothing"):
        runs.last_window("")


def test_locks_of_folders_are_free_after_use(cache: Path) -> None:
    with folders.made(cache / "machine"):
        pass
    opened = os.open(cache / "machine", os.O_RDONLY)
    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(opened)


RECORDING = Path(__file__).parents[1] / "lab" / "crates" / "emulate" / "tests" / "data" / "bulk.rec"
"""A short window of the bulk sender; the folder's README has the command that made it."""


def test_a_recording_has_the_misses_of_any_caches(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["emulate", "replay", str(RECORDING), "--l2", "256K:16,4M:16"]
    assert app.run([*command, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["packets"]["sent"] > 0
    misses = found["total"]["l2_misses_per_packet"]
    assert misses["4M:16"]["value"] <= misses["256K:16"]["value"]
    # TLBs of 64 entries are modelled unless --tlb is 0.
    assert found["total"]["dtlb_misses_per_packet"] > 0
    assert app.run([*command, "--tlb", "0", "--format", "json"]) == 0
    assert "dtlb_misses_per_packet" not in json.loads(capsys.readouterr().out)["total"]
    assert app.run(command) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{RECORDING}: ")
    assert "first level 64K:2; turns of 20,000 instructions" in printed
    assert "L2 4M:16" in printed
    assert "Modelled cycles by layer, per packet, with the latencies of osdi06" in printed
    assert "cycles are not measured" in printed


def test_a_truncated_recording_is_an_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = tmp_path / "half.rec"
    half.write_bytes(RECORDING.read_bytes()[:100_000])
    assert app.run(["emulate", "replay", str(half)]) == 2
    error = capsys.readouterr().err
    assert str(half) in error
    assert "hint: " in error
    assert app.run(["emulate", "replay", str(tmp_path / "absent.rec")]) == 2
    assert "absent.rec" in capsys.readouterr().err
