"""The search for QEMU and for perpacket's plugin."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from perpacket import executables
from perpacket.errors import MachineLacks

PROGRAM = "qemu-system-x86_64"
OLDEST = (10, 0)
"""The first version whose plugins can read the values of stores, which the card's model needs."""

PROBE_S = 30.0

PLUGIN = "libperpacket_emulate_plugin.so"
VARIABLE = "PERPACKET_EMULATE_PLUGIN"
"""Environment variable that names a plugin to use instead of the one installed."""

INSTALL = (
    "`perpacket emulate prepare --install` on Debian, elsewhere your system's QEMU 10 or newer"
)
BUILD = "build it with `cargo build --release -p perpacket-emulate-plugin`"
SUITABLE = (
    "use QEMU 10.0 or newer as your system packages it, and a plugin of this version of perpacket: "
    f"{BUILD}"
)


@dataclass(frozen=True, slots=True)
class Qemu:
    """QEMU on this machine."""

    program: Path
    version: str
    """The version that QEMU prints, with the package's revision."""


def find(name: str = PROGRAM) -> Qemu:
    """QEMU of this machine; raises `MachineLacks` when there is none, or an old one."""
    path = executables.find(name)
    if path is None:
        raise MachineLacks(f"{name}: not found", INSTALL)
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False, timeout=PROBE_S
    )
    numbers = re.search(r"version ((\d+)\.(\d+)\S*(?: \([^)]*\))?)", done.stdout)
    if done.returncode or numbers is None:
        raise MachineLacks(f"{path} does not print its version: {done.stderr.strip()}", INSTALL)
    if (int(numbers[2]), int(numbers[3])) < OLDEST:
        expected = ".".join(map(str, OLDEST))
        raise MachineLacks(
            f"{path}: version {numbers[2]}.{numbers[3]} is too old, expected {expected} or newer",
            INSTALL,
        )
    return Qemu(Path(path), numbers[1])


def plugin() -> Path:
    """The plugin's library of this installation; raises `MachineLacks`."""
    named = os.environ.get(VARIABLE)
    path = (
        Path(named) if named else Path(str(resources.files("perpacket_lab"))) / "emulate" / PLUGIN
    )
    if not path.is_file():
        source = f"{VARIABLE} names no file" if named else "it is not installed"
        raise MachineLacks(
            f"{path}: the emulator's plugin: {source}",
            f"{BUILD} and name it in {VARIABLE}",
        )
    return path.absolute()


def plugin_option(library: Path, arguments: Mapping[str, str]) -> str:
    """The value of QEMU's option `-plugin`. QEMU reads two commas as one comma of a value."""
    words = [str(library), *(f"{name}={value}" for name, value in arguments.items())]
    return ",".join(word.replace(",", ",,") for word in words)


def refusal(emulator: str, library: Path, reason: str) -> MachineLacks:
    """The error of an emulator that refuses the plugin."""
    return MachineLacks(f"{library}: {emulator} refuses the plugin: {reason}", SUITABLE)


def digest(content: bytes) -> str:
    """The digest by which equal content is recognized."""
    return hashlib.sha256(content).hexdigest()
