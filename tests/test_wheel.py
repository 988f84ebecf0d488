"""The wheel: the emulator's plugin and its licence are files in it, and nothing links with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from machines import cross
from perpacket_lab.emulate.qemu import PLUGIN

ROOT = Path(__file__).parent.parent
LAB = ROOT / "lab"
OWN = "perpacket_lab/emulate/" + PLUGIN
SETTINGS = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
"""The Makefile's settings: with them the extension is built already."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZipFile]:
    assert (LAB / OWN).is_file(), "the plugin is not built"
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [Path(sys.executable).with_name("maturin"), "build", "--release", "-q", "--out", folder],
        cwd=LAB,
        env=SETTINGS | os.environ,
        check=True,
    )
    (file,) = folder.glob("perpacket_lab-*.whl")
    with ZipFile(file) as opened:
        yield opened


def metadata(wheel: ZipFile) -> str:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return wheel.read(name).decode()


def test_the_plugin_and_the_text_of_its_licence_are_files_of_the_wheel(wheel: ZipFile) -> None:
    assert wheel.read(OWN) == (LAB / OWN).read_bytes()
    (name,) = (name for name in wheel.namelist() if name.endswith("emulate-plugin/LICENSE"))
    assert b"GNU GENERAL PUBLIC LICENSE" in wheel.read(name)
    assert "License-Expression: (MIT OR Apache-2.0) AND GPL-2.0-or-later" in metadata(wheel)


def test_nothing_else_in_the_wheel_links_with_the_plugin(wheel: ZipFile) -> None:
    others = [name for name in wheel.namelist() if name.endswith(".so") and name != OWN]
    assert [Path(name).name.partition(".")[0] for name in others] == ["_core"]
    assert b"qemu_plugin_install" in wheel.read(OWN)
    assert all(b"qemu_plugin" not in wheel.read(name) for name in others)


def test_the_package_needs_no_package_of_qemu(wheel: ZipFile) -> None:
    required = [line for line in metadata(wheel).splitlines() if line.startswith("Requires-Dist")]
    assert required
    assert not any("qemu" in line.lower() for line in required)


def test_a_wheel_of_another_platform_is_installed_there_with_its_executable(tmp_path: Path) -> None:
    """pip checks the tags and, at the installation, the record of the wheel's files."""
    own = tmp_path / "perpacket_agent-0.1.0-py3-none-linux_x86_64.whl"
    info = "perpacket_agent-0.1.0.dist-info"
    with ZipFile(own, "w") as made:
        made.writestr("perpacket_agent-0.1.0.data/scripts/perpacket-agent", b"ours")
        made.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: perpacket-agent\nVersion: 0.1.0\n"
        )
        made.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n",
        )
        made.writestr(f"{info}/RECORD", f"{info}/RECORD,,\n")
    program = tmp_path / "program"
    program.write_bytes(b"theirs")
    tag = cross.TARGETS["aarch64-unknown-linux-gnu"].wheel
    made_wheel = cross.wheel(own, program, tag)
    own.unlink()
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-compile", "-q"]
    platform = ["--platform", "manylinux_2_17_aarch64", "--only-binary", ":all:"]
    folders = ["--find-links", str(tmp_path), "--target", str(tmp_path / "there")]
    subprocess.run([*pip, *platform, *folders, "perpacket-agent"], check=True)
    assert (tmp_path / "there/bin/perpacket-agent").read_bytes() == b"theirs"
    with ZipFile(made_wheel) as opened:
        record = opened.read(f"{info}/RECORD").decode().splitlines()
        assert len(record) == len(opened.namelist())
        assert b"linux_x86_64" not in opened.read(f"{info}/WHEEL")
