"""Memory nodes: the processors of each, and whether the interrupts of a card run near it."""

from __future__ import annotations

from collections.abc import Iterator

from perpacket.machine.capability import Capability, Check, Group
from perpacket.machine.files import Files
from perpacket.measure.cpu_lists import ranges

NODES = "/sys/devices/system/node"

INTERFACES = "/sys/class/net"

DEVICES = ("device", "device/..")

ONE = Check(
    "one_node",
    Group.PROCESSORS,
    "packets, sockets and files may be in the memory of another node than the processor that uses "
    "them, which takes longer",
    "keep a server on the node of its card: `numactl --cpunodebind=N --membind=N`",
)
NEAR = Check(
    "near_interrupts",
    Group.PROCESSORS,
    "processors of other nodes than the card's receive its packets: each packet crosses the nodes",
    "as root: write processors of the card's node to /proc/irq/N/smp_affinity_list, and stop "
    "irqbalance or set it up to do so",
)


def capabilities(files: Files) -> list[Capability]:
    """The capabilities of memory nodes."""
    return [one_node(files), near_interrupts(files)]


def of_cpus(files: Files) -> dict[int, list[int]]:
    """The processors of each node; empty if the kernel lists no nodes."""
    nodes = files.cpus(f"{NODES}/online")
    return {node: files.cpus(f"{NODES}/node{node}/cpulist") for node in nodes}


def one_node(files: Files) -> Capability:
    """Whether all processors use the same memory."""
    nodes = of_cpus(files)
    if len(nodes) < 2:
        return ONE.result(True, "all processors have the same memory")
    listed = "; ".join(f"{node} has CPUs {ranges(cpus)}" for node, cpus in nodes.items())
    return ONE.result(False, f"{len(nodes)} nodes: {listed}")


def near_interrupts(files: Files) -> Capability:
    """Whether the interrupts of each card run on processors of the card's node."""
    nodes = of_cpus(files)
    far: list[str] = []
    cards = 0
    for interface in files.names(INTERFACES):
        # The device of a virtio card is inside its PCI device.
        places = (f"{INTERFACES}/{interface}/{folder}/numa_node" for folder in DEVICES)
        node = next(filter(None, map(files.text, places)), "")
        if not node.isdigit() or len(nodes) < 2:
            continue
        cards += 1
        served = [set(cpus) for cpus in _served_by(files, interface)]
        outside = sum(not cpus <= set(nodes.get(int(node), ())) for cpus in served)
        if outside:
            far.append(f"{interface} is at node {node}, {outside} of {len(served)} interrupts not")
    if far:
        return NEAR.result(False, "; ".join(far))
    return NEAR.result(True, f"of {cards} cards" if cards else "no card is at a node of several")


def _served_by(files: Files, interface: str) -> Iterator[list[int]]:
    """The processors of each interrupt of an interface."""
    for folder in DEVICES:
        for number in files.names(f"{INTERFACES}/{interface}/{folder}/msi_irqs"):
            lists = (
                files.cpus(f"/proc/irq/{number}/{name}_list")
                for name in ("effective_affinity", "smp_affinity")
            )
            if served := next(filter(None, lists), None):
                yield served
