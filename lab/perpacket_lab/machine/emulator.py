"""Checks whether `perpacket emulate` can run here: QEMU, the plugin, busybox and a stored guest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from perpacket.errors import MachineLacks
from perpacket.machine.capability import Capability, Check, Group
from perpacket_lab.emulate import files, qemu, self_test, session

QEMU = Check("qemu", Group.PROGRAMS, "`emulate` cannot run an unmodified kernel", qemu.INSTALL)
PLUGIN = Check(
    "emulate_plugin",
    Group.PROGRAMS,
    "`emulate` cannot count the instructions and misses of the emulated machine",
    "build it in a checkout with `make setup`, or install a wheel that has it",
)
BUSYBOX = Check(
    "busybox",
    Group.PROGRAMS,
    "`emulate` has no shell for the emulated machine",
    "`apt-get install busybox-static`",
)
GUEST = Check(
    "emulate_guest",
    Group.PROGRAMS,
    "the next `emulate` boots a guest, which takes a minute",
    "`perpacket emulate prepare`",
)
NO_QEMU = "not tried without QEMU"


def capabilities() -> list[Capability]:
    """QEMU with its version, the self-test of the plugin, busybox, and the stored guest."""
    busybox = answer(BUSYBOX, lambda: str(files.busybox()))
    try:
        program = qemu.find()
    except MachineLacks as error:
        absent = [check.result(False, NO_QEMU) for check in (PLUGIN, GUEST)]
        return [QEMU.result(False, str(error)), absent[0], busybox, absent[1]]
    return [
        QEMU.result(True, program.version),
        plugin(program),
        busybox,
        answer(GUEST, lambda: guest(program)),
    ]


def answer(check: Check, attempt: Callable[[], str]) -> Capability:
    """The capability: available if `attempt` returns a text, missing if the machine lacks it."""
    try:
        return check.attempt(attempt)
    except MachineLacks as error:
        return check.result(False, str(error))


def plugin(emulator: qemu.Qemu) -> Capability:
    """The plugin: available if its library exists and QEMU passes the self-test with it."""
    try:
        library = qemu.plugin()
    except MachineLacks as error:
        return PLUGIN.result(False, str(error))
    try:
        is_separate = self_test.run(emulator, library)
    except MachineLacks as error:
        return replace(PLUGIN, next_step=error.hint).result(False, str(error))
    speed = "" if is_separate else "; it is slow, because the processors share translated code"
    return PLUGIN.result(True, f"{library} passes its self-test{speed}")


def guest(emulator: qemu.Qemu) -> str:
    """The stored guest; raises `MachineLacks` when there is none."""
    prepared = session.prepared_guest(emulator)
    if prepared is None:
        raise MachineLacks("no guest is stored")
    return f"Linux {prepared.kernel} in {prepared.folder}"
