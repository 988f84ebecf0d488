"""Check whether `perpacket emulate` can run here: QEMU and the plugin that counts in it."""

from __future__ import annotations

from perpacket.emulate import qemu
from perpacket.errors import MachineLacks
from perpacket.machine.capability import Capability, Group, Question

QEMU = Question("qemu", Group.PROGRAMS, "`emulate` cannot run an unmodified kernel", qemu.INSTALL)
PLUGIN = Question(
    "emulate_plugin",
    Group.PROGRAMS,
    "`emulate` cannot count what the emulated machine does",
    "build it in a checkout with `make setup`, or install a wheel that has it",
)


def capabilities() -> list[Capability]:
    """QEMU with its version, and whether it loads the plugin."""
    try:
        found = qemu.find()
    except MachineLacks as error:
        return [QEMU.answer(False, str(error)), PLUGIN.answer(False, "not tried without QEMU")]
    try:
        library = qemu.plugin()
        qemu.check_plugin(found, library)
    except MachineLacks as error:
        return [QEMU.answer(True, found.version), PLUGIN.answer(False, str(error))]
    return [QEMU.answer(True, found.version), PLUGIN.answer(True, f"QEMU loads {library}")]
