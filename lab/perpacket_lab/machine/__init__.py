"""Capabilities that only the lab uses: QEMU with its plugin, real web applications."""

from __future__ import annotations

from perpacket.machine.capability import Capability
from perpacket_lab.machine import applications, emulator


def capabilities() -> list[Capability]:
    """Every capability that the lab adds to `perpacket doctor`."""
    return [*applications.capabilities(), *emulator.capabilities()]
