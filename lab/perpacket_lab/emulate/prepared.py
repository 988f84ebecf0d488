"""Prepared machines: snapshots of booted guests in the cache folder, one for each set of inputs.

A folder has `memory` (the guest's memory), `state` (the rest of the machine, as QEMU migrates it),
`symbols` (the guest's /proc/kallsyms), `types` (its BTF), `kernel`, `archive` (both needed to start
QEMU) and `about.json`. Its name is the digest of everything that the state depends on.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perpacket.errors import RunFailed
from perpacket_lab.emulate import folders, qemu
from perpacket_lab.emulate.hardware import ONE, Hardware
from perpacket_lab.emulate.kernel import Kernel
from perpacket_lab.emulate.machine import MESSAGE, Boot, Machine
from perpacket_lab.emulate.qemu import Qemu

SCHEMA = 5
ABOUT = "about.json"
REMADE = "`perpacket emulate prepare` makes the machine again"
CHECKSUM_BYTES = 1 << 20
KEY_DIGITS = 20
READY = f"{MESSAGE}ready"
"""The plugin's message when the guest has booted. Then the guest waits until the machine stops."""
SYMBOLS_LEAST = 1000
"""The least number of symbols; a kernel with fewer has no symbols of functions."""

OnStage = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A machine whose guest has booted and waits for work."""

    folder: Path
    kernel: str
    """The kernel's version."""
    more_options: str = ""
    """Further options of the kernel."""
    hardware: Hardware = ONE

    @property
    def boot(self) -> Boot:
        """The hardware and the files from which the guest booted."""
        kernel, archive, memory = (self.folder / each for each in ("kernel", "archive", "memory"))
        options = boot_options(self.hardware, self.more_options)
        return Boot(kernel, archive, memory, options, self.hardware)

    @property
    def state(self) -> Path:
        """The machine's state, without its memory."""
        return self.folder / "state"

    @property
    def symbols(self) -> Path:
        """The kernel's symbols with their addresses in this guest."""
        return self.folder / "symbols"

    @property
    def types(self) -> Path:
        """The kernel's type information (BTF), if it has any."""
        return self.folder / "types"

    @property
    def about(self) -> dict[str, Any]:
        """The facts that were stored with the machine; raises `RunFailed` if they are damaged."""
        try:
            return dict(json.loads((self.folder / ABOUT).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise RunFailed(f"{self.folder / ABOUT}: {error}", REMADE) from None

    @property
    def state_digest(self) -> str:
        """The digest of the memory and of the processors' registers."""
        return str(self.about["state"])

    @property
    def damaged(self) -> str:
        """The first file that is not as it was stored; empty if all are."""
        try:
            stored = self.about.get("checksums", {})
        except RunFailed:
            return ABOUT
        return next((name for name in stored if checksum(self.folder / name) != stored[name]), "")

    @property
    def key(self) -> str:
        """The digest of everything that the state depends on."""
        return self.folder.name


def boot_options(hardware: Hardware, more: str) -> str:
    """The options of the kernel, the last of which count."""
    return f"{hardware.kernel_options} {more}".strip()


def key(
    emulator: Qemu, kernel: Kernel, archive: bytes, more_options: str = "", hardware: Hardware = ONE
) -> str:
    """The name of a machine's folder: the digest of these inputs."""
    inputs = {
        "schema": SCHEMA,
        "qemu": emulator.version,
        "options": (*hardware.options, boot_options(hardware, more_options)),
        "kernel": qemu.digest(kernel.image),
        "archive": qemu.digest(archive),
    }
    return qemu.digest(json.dumps(inputs, sort_keys=True).encode())[:KEY_DIGITS]


def find(
    emulator: Qemu, kernel: Kernel, archive: bytes, more_options: str = "", hardware: Hardware = ONE
) -> Prepared | None:
    """The prepared machine of these inputs, if there is one."""
    name = key(emulator, kernel, archive, more_options, hardware)
    folder = folders.cache() / "machines" / name
    return Prepared(folder, kernel.version, more_options, hardware) if folder.is_dir() else None


def prepare(
    emulator: Qemu,
    plugin: Path,
    kernel: Kernel,
    archive: bytes,
    on_stage: OnStage,
    more_options: str = "",
    hardware: Hardware = ONE,
) -> Prepared:
    """The prepared machine of these inputs, booted now if there is none.

    `more_options` are options of the kernel.

    Raises `RunFailed` when the guest does not boot; the cache folder is then unchanged.
    """
    if ready := find(emulator, kernel, archive, more_options, hardware):
        if not (damaged := ready.damaged):
            return ready
        on_stage(f"{ready.folder / damaged} is damaged, so the machine is made again")
        folders.remove(ready.folder)
    name = key(emulator, kernel, archive, more_options, hardware)
    folder = folders.cache() / "machines" / name
    with folders.made(folder) as new:
        made = Prepared(new, kernel.version, more_options, hardware)
        (new / "kernel").write_bytes(kernel.image)
        (new / "archive").write_bytes(archive)
        arguments = {"dump": str(made.symbols), "dump-types": str(made.types)}
        with Machine(emulator, made.boot, plugin, arguments) as machine:
            on_stage(f"booting Linux {kernel.version}")
            machine.wait_for(READY)
            on_stage("storing the machine")
            registers = machine.save(made.state)
        check_symbols(made.symbols, kernel.version)
        about = {
            "kernel": kernel.version,
            "qemu": emulator.version,
            "options": (*hardware.options, boot_options(hardware, more_options)),
            "state": digest(new / "memory", registers),
            "checksums": {file.name: checksum(file) for file in sorted(new.iterdir())},
        }
        (new / ABOUT).write_text(json.dumps(about, indent=2) + "\n")
    return Prepared(folder, kernel.version, more_options, hardware)


def digest(memory: Path, registers: str) -> str:
    """The digest of a stopped machine's memory and registers."""
    with memory.open("rb") as file:
        machine = hashlib.file_digest(file, "sha256")
    machine.update(registers.encode())
    return machine.hexdigest()[:KEY_DIGITS]


def checksum(file: Path) -> int:
    """A checksum of a file (CRC-32); 0 for one that cannot be read.

    Blocks of zeros do not count, because most of the memory is a hole in its file.
    """
    zeros = bytes(CHECKSUM_BYTES)
    value = at = 0
    try:
        with file.open("rb", buffering=0) as opened:
            size = opened.seek(0, os.SEEK_END)
            while at < size:
                at = opened.seek(at, os.SEEK_DATA) // CHECKSUM_BYTES * CHECKSUM_BYTES
                block = os.pread(opened.fileno(), CHECKSUM_BYTES, at)
                if not zeros.startswith(block):
                    value = zlib.crc32(block, zlib.crc32(b"%d" % at, value))
                at += CHECKSUM_BYTES
    except OSError as error:
        return value if error.errno == errno.ENXIO else 0  # ENXIO: no data up to the end
    return value


def check_symbols(file: Path, version: str) -> None:
    """Raise `RunFailed` for a guest's /proc/kallsyms without symbols or without addresses."""
    symbols = file.read_bytes().splitlines() if file.exists() else []
    if sum(line.lstrip(b"0")[:1] != b" " for line in symbols) < SYMBOLS_LEAST:
        raise RunFailed(
            f"Linux {version}: the kernel has no symbols, and layers are found by symbols",
            "use a kernel that is built with CONFIG_KALLSYMS, as those of distributions are",
        )
