"""Facts about the processors that receive frames: crowded ones, and those that are interrupted.

A fact that cannot be read raises `NotReadable`, as in `facts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from perpacket.advise import kernel_texts, processor_texts
from perpacket.advise.expression import NotReadable, Value, ratio
from perpacket.machine.nodes import INTERFACES
from perpacket.measure import cpu_lists

if TYPE_CHECKING:
    from perpacket.advise.facts import Facts

CROWDED = 0.8
"""The share of time, or of frames, from which one processor has too much to receive."""


def _crowded(facts: Facts) -> tuple[list[str], str]:
    """The few processors that receive more than they can, with a sentence; none without any.

    Their softirq time decides. Without it, they have too much if they receive nearly all frames
    and their polls end early or their queues overflow.
    """
    grown = facts.seen.grown
    if grown.softirq:
        few = [cpu for cpu, share in grown.softirq.items() if share > CROWDED]
        if not few or (2 * len(few) > len(grown.softirq) > 1):
            return [], ""
        percent = 100 * min(grown.softirq[cpu] for cpu in few)
        spend, its = ("spends", "its") if len(few) == 1 else ("spend", "their")
        return few, (
            f"{processor_texts.names(few)} {spend} {percent:.0f} % of {its} time on receiving"
        )
    if not grown.frames:
        raise NotReadable("`/proc/net/softnet_stat` was not read, or it counted no frames")
    few = processor_texts.busiest({cpu: row.received for cpu, row in grown.backlogs.items()})
    rows = [grown.backlogs[cpu] for cpu in few]
    share = sum(row.received for row in rows) / grown.frames
    are_full = all(row.squeezed or row.dropped for row in rows)
    if len(grown.backlogs) < 2 or share <= CROWDED or not are_full:
        return [], ""
    squeezed, dropped = sum(row.squeezed for row in rows), sum(row.dropped for row in rows)
    receive = "receives" if len(few) == 1 else "receive"
    return few, (
        f"{processor_texts.names(few)} {receive} {100 * share:.0f} % of the frames, ended "
        f"{squeezed:,} polls while frames waited, and dropped {dropped:,}"
    )


LEAST_OF_QUEUE = 0.05
"""An interrupt with a smaller part of the busiest one's count belongs to no busy queue."""


def _interrupts(facts: Facts) -> Mapping[str, list[int]]:
    """The interrupts of the interface that occurred, by name and processor."""
    rows = _rows(facts)
    most = max((sum(row) for row in rows.values()), default=0)
    found = {name: row for name, row in rows.items() if sum(row) > LEAST_OF_QUEUE * most}
    if not found:
        raise NotReadable(f"`/proc/interrupts` was not read, or does not name {facts.link.name}")
    return found


def _interrupted(facts: Facts) -> tuple[list[str], float]:
    """The few processors that get most of the interface's interrupts, and their share."""
    rows = _interrupts(facts).values()
    each = {f"cpu{cpu}": sum(row) for cpu, row in enumerate(zip(*rows, strict=True))}
    few = processor_texts.busiest(each)
    return few, sum(each[cpu] for cpu in few) / sum(each.values())


def _rows(facts: Facts) -> Mapping[str, list[int]]:
    """The interface's interrupts by their names in /proc/interrupts; none for a virtual one."""
    if facts.link.kind != "hardware":
        return {}
    return kernel_texts.of_interface(facts.seen.grown.interrupts, facts.link.name)


def _interrupts_per_frame(facts: Facts) -> float:
    """From the interrupts that sysfs lists, else from those with the interface's name.

    The latter are counted over a longer time than the profile, and so are the frames with them.
    """
    name = facts.link.name
    try:
        count, frames = facts.carried("interrupts"), facts.number("received_frames")
    except NotReadable:
        rows = _rows(facts)
        if not rows:
            raise NotReadable(f"neither sysfs nor `/proc/interrupts` names {name}") from None
        count = sum(map(sum, rows.values()))
        frames = facts.seen.grown.devices.get(name, {}).get("packets_received", 0)
    return ratio(count, frames, "received frames")


def _node_cpus(facts: Facts) -> set[int]:
    """The processors of the interface's memory node."""
    node = facts.file(f"{INTERFACES}/{{interface}}/device/numa_node")
    if node.startswith("-"):
        raise NotReadable(f"{facts.interface} is at no memory node")
    return set(cpu_lists.numbers(facts.file(f"/sys/devices/system/node/node{node}/cpulist")))


def _remote_share(facts: Facts) -> float:
    """The share of received frames that processors of other memory nodes got; 0 without nodes.

    Without counts of frames, the interrupts of the interface decide.
    """
    try:
        own = {f"cpu{cpu}" for cpu in _node_cpus(facts)}
    except NotReadable:
        return 0.0
    rows = {name: row.received for name, row in facts.seen.grown.backlogs.items()}
    if not any(rows.values()):
        each = [sum(column) for column in zip(*_interrupts(facts).values(), strict=True)]
        rows = {f"cpu{cpu}": count for cpu, count in enumerate(each)}
    remote = sum(received for name, received in rows.items() if name not in own)
    return ratio(remote, sum(rows.values()), "received frames")


def _queue_count(facts: Facts) -> int:
    """The queues whose interrupts occurred. A queue may have one interrupt for each direction."""
    way = re.compile(r"input|output|tx-?rx|rx-?tx|rx|tx", re.IGNORECASE)
    return len({way.sub("", name) for name in _interrupts(facts)})


FACTS: dict[str, Callable[[Facts], Value]] = {
    "is_crowded": lambda facts: bool(_crowded(facts)[0]),
    "crowded": lambda facts: _crowded(facts)[1],
    "crowded_cpu_count": lambda facts: len(_crowded(facts)[0]),
    "crowded_number": lambda facts: str(count) if (count := len(_crowded(facts)[0])) > 1 else "one",
    "interrupts_per_frame": _interrupts_per_frame,
    "interrupted_queues": _queue_count,
    "interrupted_cpus": lambda facts: processor_texts.names(_interrupted(facts)[0]),
    "interrupted_cpu_count": lambda facts: len(_interrupted(facts)[0]),
    "interrupted_share": lambda facts: _interrupted(facts)[1],
    "interrupted_percent": lambda facts: 100 * _interrupted(facts)[1],
    "node_cpu_list": lambda facts: cpu_lists.ranges(sorted(_node_cpus(facts))),
    "remote_share": _remote_share,
    "remote_percent": lambda facts: 100 * _remote_share(facts),
}
"""Each fact by name."""
