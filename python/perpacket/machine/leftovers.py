"""The leftovers of killed studies on this machine: namespaces and processes."""

from __future__ import annotations

from perpacket.errors import MachineLacks
from perpacket.machine.capability import Capability, Check, Group
from perpacket.measure.hosts import record

NOTHING_LEFT = Check(
    "no_leftovers",
    Group.NETWORK,
    "servers and clients of that study may still run and use processor time",
    "run any measured study: it removes them first; or remove each with "
    "`ip netns delete NAME`, as root",
)


def capability() -> Capability:
    """Whether there are namespaces of killed studies; nothing is removed."""
    try:
        names = [name for left in record.leftovers() for name in left.namespaces]
    except MachineLacks as error:
        return NOTHING_LEFT.result(False, str(error))
    detail = f"left by a killed study: {', '.join(names)}" if names else "no study left namespaces"
    return NOTHING_LEFT.result(not names, detail)
