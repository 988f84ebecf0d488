"""Prepared machines: snapshots of booted guests in the cache folder, one for each set of inputs.

A folder has `memory` (the guest's memory), `state` (the rest of the machine, as QEMU migrates it),
`symbols` (the guest's /proc/kallsyms), `types` (its BTF), `kernel`, `archive` (both needed to start
QEMU) and `about.json`. Its name is the digest of everything that the state depends on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perpacket.errors import RunFailed
from perpacket_lab.emulate import folders, qemu
from perpacket_lab.emulate.kernel import Kernel
from perpacket_lab.emulate.machine import MESSAGE, OPTIONS, Boot, Machine
from perpacket_lab.emulate.qemu import Qemu

SCHEMA = 3
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

    @property
    def boot(self) -> Boot:
        """The files from which the guest booted."""
        return Boot(*(self.folder / name for name in ("kernel", "archive", "memory")))

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
    def state_digest(self) -> str:
        """The digest of the memory and of the processors' registers."""
        about = json.loads((self.folder / "about.json").read_text(encoding="utf-8"))
        return str(about["state"])

    @property
    def key(self) -> str:
        """The digest of everything that the state depends on."""
        return self.folder.name


def key(emulator: Qemu, kernel: Kernel, archive: bytes) -> str:
    """The name of a machine's folder: the digest of these inputs."""
    inputs = {
        "schema": SCHEMA,
        "qemu": emulator.version,
        "options": OPTIONS,
        "kernel": qemu.digest(kernel.image),
        "archive": qemu.digest(archive),
    }
    return qemu.digest(json.dumps(inputs, sort_keys=True).encode())[:KEY_DIGITS]


def find(emulator: Qemu, kernel: Kernel, archive: bytes) -> Prepared | None:
    """The prepared machine of these inputs, if there is one."""
    folder = folders.cache() / "machines" / key(emulator, kernel, archive)
    return Prepared(folder, kernel.version) if folder.is_dir() else None


def prepare(
    emulator: Qemu, plugin: Path, kernel: Kernel, archive: bytes, on_stage: OnStage
) -> Prepared:
    """The prepared machine of these inputs, booted now if there is none.

    Raises `RunFailed` when the guest does not boot; the cache folder is then unchanged.
    """
    if ready := find(emulator, kernel, archive):
        return ready
    folder = folders.cache() / "machines" / key(emulator, kernel, archive)
    with folders.made(folder) as new:
        made = Prepared(new, kernel.version)
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
            "options": OPTIONS,
            "state": digest(new / "memory", registers),
        }
        (new / "about.json").write_text(json.dumps(about, indent=2) + "\n")
    return Prepared(folder, kernel.version)


def digest(memory: Path, registers: str) -> str:
    """The digest of a stopped machine's memory and registers."""
    with memory.open("rb") as file:
        machine = hashlib.file_digest(file, "sha256")
    machine.update(registers.encode())
    return machine.hexdigest()[:KEY_DIGITS]


def check_symbols(file: Path, version: str) -> None:
    """Raise `RunFailed` for a guest's /proc/kallsyms without symbols or without addresses."""
    symbols = file.read_bytes().splitlines() if file.exists() else []
    if sum(line.lstrip(b"0")[:1] != b" " for line in symbols) < SYMBOLS_LEAST:
        raise RunFailed(
            f"Linux {version}: the kernel has no symbols, and layers are found by symbols",
            "use a kernel that is built with CONFIG_KALLSYMS, as those of distributions are",
        )
