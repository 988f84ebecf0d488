"""Checks whether `perpacket emulate` can run here: QEMU, and the counting plugin."""

from __future__ import annotations

from perpacket.emulate import qemu
from perpacket.errors import MachineLacks
from perpacket.machine.capability import Capability, Check, Group

QEMU = Check("qemu", Group.PROGRAMS, "`emulate` cannot run an unmodified kernel", qemu.INSTALL)
PLUGIN = Check(
    "emulate_plugin",
    Group.PROGRAMS,
    "`emulate` cannot count the instructions and misses of the emulated machine",
    "build it in a checkout with `make setup`, or install a wheel that has it",
)


def capabilities() -> list[Capability]:
    """QEMU with its version, and whether it loads the plugin."""
    try:
        found = qemu.find()
    except MachineLacks as error:
        return [QEMU.result(False, str(error)), PLUGIN.result(False, "not tried without QEMU")]
    try:
        library = qemu.plugin()
        qemu.check_plugin(found, library)
    except MachineLacks as error:
        return [QEMU.result(True, found.version), PLUGIN.result(False, str(error))]
    return [QEMU.result(True, found.version), PLUGIN.result(True, f"QEMU loads {library}")]
