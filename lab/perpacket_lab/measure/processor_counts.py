"""The kernel's counts of processors and interfaces: proc_stat(5), proc_net(5).

The CPU time of the load generator's process does not include the interrupts on its processors,
which are half of the work of receiving. The kernel's count of a processor includes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perpacket.errors import RunFailed

IDLE_FIELDS = (3, 4)
"""Fields of a processor's line that are idle time: `idle` and `iowait`."""

USER_FIELDS = (0, 1)
"""Fields of a processor's line that are time in user code: `user` and `nice`."""

RECEIVED_FIELD, SENT_FIELD = 1, 9
"""Fields of an interface's line that count frames, after its name."""

COUNTED_FIELDS = 8
"""`user` to `steal`; the fields after them, the guests' time, are part of `user`."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """Ticks of one processor since the machine started."""

    idle: int
    total: int
    user: int = 0
    """Time in user code, `nice`d programs included."""


def read_ticks(text: str) -> dict[int, Ticks]:
    """Ticks by processor from the text of /proc/stat."""
    by_cpu: dict[int, Ticks] = {}
    for line in text.splitlines():
        name, *fields = line.split()[: COUNTED_FIELDS + 1] or [""]
        if name.startswith("cpu") and name[3:].isdigit():
            ticks = [int(field) for field in fields]
            idle = sum(ticks[field] for field in IDLE_FIELDS)
            user = sum(ticks[field] for field in USER_FIELDS)
            by_cpu[int(name[3:])] = Ticks(idle, sum(ticks), user)
    return by_cpu


def read_frames(text: str) -> int:
    """Frames received and sent by all interfaces, from the text of /proc/net/dev."""
    frames = 0
    for line in text.splitlines():
        _, colon, fields = line.partition(":")
        if colon:
            counts = fields.split()
            frames += int(counts[RECEIVED_FIELD]) + int(counts[SENT_FIELD])
    return frames


def idle_share(
    before: Mapping[int, Ticks], after: Mapping[int, Ticks], cpus: Sequence[int]
) -> float:
    """The share of their time that `cpus` were idle, 0 to 1.

    Raises `RunFailed` when a processor is missing or no time has passed.
    """
    total = _passed(before, after, cpus)
    idle = sum(after[cpu].idle - before[cpu].idle for cpu in cpus)
    # The kernel computes idle time at each read, and it may decrease by a tick.
    return min(1.0, max(0.0, idle / total))


def user_share(
    before: Mapping[int, Ticks], after: Mapping[int, Ticks], cpus: Sequence[int]
) -> float:
    """The share of their time that `cpus` spent in user code, 0 to 1.

    Raises as `idle_share` does.
    """
    total = _passed(before, after, cpus)
    return sum(after[cpu].user - before[cpu].user for cpu in cpus) / total


def _passed(before: Mapping[int, Ticks], after: Mapping[int, Ticks], cpus: Sequence[int]) -> int:
    """The ticks that passed on `cpus` between two reads."""
    missing = [cpu for cpu in cpus if cpu not in before or cpu not in after]
    if missing:
        raise RunFailed(f"processor {missing[0]} is not in /proc/stat: it is offline or missing")
    total = sum(after[cpu].total - before[cpu].total for cpu in cpus)
    if total <= 0:
        raise RunFailed("no time passed on the processors between two reads of /proc/stat")
    return total
