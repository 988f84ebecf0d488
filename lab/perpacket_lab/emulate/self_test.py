"""The self-test of QEMU with the plugin: a guest whose counts are known.

Both processors of the guest make the same calls, and the plugin counts those of processor 0. So the
test finds a QEMU that refuses the plugin, confuses the processors or ends. Processor 1 also makes
traps, and counts those that return to a wrong address. This happens if a plugin uses inline
operations with QEMU 10.0, which perpacket's plugin does not.
lab/crates/emulate-plugin/tests/guests/calls.S is the guest's source. This command makes its
files:

    UPDATE_SNAPSHOTS=1 cargo test -p perpacket-emulate-plugin self_test
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from perpacket.errors import MachineLacks, RunFailed
from perpacket_lab.emulate import folders, qemu
from perpacket_lab.emulate.machine import POLL_S, Boot, Machine
from perpacket_lab.emulate.qemu import Qemu

GUEST = Path(str(resources.files("perpacket_lab"))) / "emulate" / "guest"
LIMIT_S = 60.0
"""The guest needs half a second on a machine without other work."""

TURN_INSTRUCTIONS = 500
"""The turns are shorter than the window, so that both processors run in it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The counts of the guest."""

    instructions: Mapping[tuple[str, str], int]
    """Instructions by layer and kind."""
    returns: int
    """Returns that match their call."""

    @classmethod
    def stored(cls) -> Expected:
        """The counts that the guest's source determines."""
        counts = json.loads((GUEST / "self_test.json").read_text())
        rows = counts["instructions"]
        return cls({(layer, kind): count for layer, kind, count in rows}, counts["returns"])

    def difference(self, window: Mapping[str, Any]) -> str:
        """The first difference between a window and these counts; empty if they are equal."""
        counted = dict.fromkeys(self.instructions, 0)
        for row in window["counts"]:
            pair = (row["layer"], row["kind"])
            if pair in counted:
                counted[pair] += row["instructions"]
        before, after, wrong_returns = window["guest"]["values"][:3]
        separate = window["separate_processors"]
        for name, found, expected in (
            *(
                (f"instructions of {layer} ({kind})", counted[layer, kind], count)
                for (layer, kind), count in self.instructions.items()
            ),
            ("matched returns", window["returns"]["matched"], self.returns),
            ("unmatched returns", window["returns"]["unmatched"], 0),
            ("whether the second processor ran", after != before, True),
            ("traps that returned to a wrong address", wrong_returns, 0),
            ("whether a processor ran code of another", window["foreign_blocks"] > 0, not separate),
        ):
            if found != expected:
                return f"{name}: {found}, expected {expected}"
        return ""


def run(emulator: Qemu, plugin: Path, expected: Expected | None = None) -> bool:
    """Run the self-test. Returns whether the processors have translated code of their own.

    If they share code, the counts are equal, but emulations are slower. Raises `MachineLacks` when
    QEMU refuses the plugin, or when a count differs from `expected`.
    """
    window = counts(emulator, plugin)
    if difference := (expected or Expected.stored()).difference(window):
        raise failure(emulator, difference)
    return bool(window["separate_processors"])


def check(emulator: Qemu, plugin: Path) -> None:
    """Run the self-test unless this QEMU and this plugin have passed it; raises as `run` does."""
    state = emulator.program.stat()
    inputs = [emulator.version, str(emulator.program), state.st_size, state.st_mtime_ns]
    inputs += [qemu.digest(file.read_bytes()) for file in (plugin, *sorted(GUEST.glob("self*")))]
    passed = folders.cache() / "self-tests" / qemu.digest(json.dumps(inputs).encode())
    if not passed.exists():
        run(emulator, plugin)
        with suppress(OSError):  # the next emulation repeats the self-test
            passed.parent.mkdir(exist_ok=True)
            passed.touch()


def counts(emulator: Qemu, plugin: Path) -> Mapping[str, Any]:
    """The counts of the guest's window; raises `MachineLacks` when there are none."""
    options = {"symbols": str(GUEST / "self_test.symbols"), "turn": str(TURN_INSTRUCTIONS)}
    deadline = time.monotonic() + LIMIT_S
    try:
        with Machine(emulator, Boot(GUEST / "self_test.bin"), plugin, options) as machine:
            while not machine.counts.endswith("\n"):
                machine.check()
                if time.monotonic() > deadline:
                    raise RunFailed(f"the guest did not end its work in {LIMIT_S:g} s")
                time.sleep(POLL_S)
            window = json.loads(machine.counts)
    except RunFailed as error:
        raise failure(emulator, str(error)) from error
    if "error" in window:
        raise failure(emulator, window["error"])
    return dict(window)


def failure(emulator: Qemu, difference: str) -> MachineLacks:
    """The error of a self-test that did not pass."""
    return MachineLacks(
        f"{emulator.program}: QEMU {emulator.version} fails the self-test of the emulator's "
        f"plugin: {difference}",
        f"{qemu.SUITABLE}; emulated counts would be wrong",
    )
