"""What limits the traffic: a queueing discipline, one processor, all, the client, or nothing here.

If a processor is not the limit, no cheaper packet makes the traffic faster. Advice begins with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perpacket.advise.counters import Counters
    from perpacket.advise.observation import Observation

SHAPERS = ("tbf", "htb", "hfsc", "cake", "netem")
"""Queueing disciplines that delay packets on purpose."""

LEAST_DELAYED_PER_S = 20
"""The least number of delays a second of a shaper that limits."""

FULL = 0.9
"""The least busy share of a processor, or of a thread's time on one, that limits."""


class What(StrEnum):
    """What limits the traffic."""

    QUEUEING = "queueing discipline"
    ONE = "one processor"
    ALL = "all processors"
    CLIENT = "client"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Limit:
    """What limits the traffic, in a sentence."""

    what: What
    text: str

    @property
    def is_processor(self) -> bool:
        """Whether cheaper packets raise the limit."""
        return self.what in (What.ONE, What.ALL)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the server waits for something outside of the processors."""
        return self.what in (What.QUEUEING, What.CLIENT)


def of(seen: Observation) -> Limit | None:
    """The limit during the profile; None for a stored profile, which has no counters."""
    before, after = seen.before, seen.after
    if before is None or after is None or after.time_s <= before.time_s:
        return None
    busy = _busy(before, after)
    if (text := next(_shapers(before, after), "")) or not busy:
        return Limit(What.QUEUEING, text) if text else None
    return _processors(before, after, busy) or _outside(before, after, max(busy.values()))


def _busy(before: Counters, after: Counters) -> dict[str, float]:
    """The busy share of each processor: the window less its idle time, which is exact."""
    seconds = after.time_s - before.time_s
    return {
        name: 1 - (now.idle_s - before.processors[name].idle_s) / seconds
        for name, now in after.processors.items()
        if name in before.processors
    }


def _processors(before: Counters, after: Counters, busy: Mapping[str, float]) -> Limit | None:
    """The limit if it is all processors or one; None if it is neither."""
    mean = sum(busy.values()) / len(busy)
    name = max(busy, key=busy.__getitem__)
    if min(busy.values()) >= FULL:
        return Limit(What.ALL, f"all processors: they are {100 * mean:.0f} % busy")
    if busy[name] >= FULL:
        return Limit(
            What.ONE,
            f"one processor: {name} is {100 * busy[name]:.0f} % busy, and all together "
            f"{100 * mean:.0f} %",
        )
    if (thread := _thread(before, after)) >= FULL:
        return Limit(
            What.ONE,
            f"one processor: a thread of the server runs {100 * thread:.0f} % of the time, and "
            f"processors are {100 * mean:.0f} % busy",
        )
    return None


def _outside(before: Counters, after: Counters, most: float) -> Limit:
    """The limit if it is neither a shaper nor a processor."""
    if min(before.unsent, after.unsent) >= max(1, after.connections / 2):
        return Limit(
            What.CLIENT,
            f"the clients or their network: {after.unsent} of {after.connections} connections have "
            "data that is not acknowledged",
        )
    return Limit(
        What.NOTHING,
        f"nothing on this machine: its busiest processor is {100 * most:.0f} % busy, and the "
        "clients ask for no more",
    )


def _shapers(before: Counters, after: Counters) -> Iterator[str]:
    """A sentence on each shaper that delayed packets and had some waiting, or dropped some."""
    seconds = after.time_s - before.time_s
    for interface, now in after.queues.items():
        then = before.queues.get(interface)
        if then is None or now.kind not in SHAPERS:
            continue
        delayed_per_s = (now.delayed - then.delayed) / seconds
        dropped = now.dropped - then.dropped
        if delayed_per_s >= LEAST_DELAYED_PER_S and (now.waiting_bytes or dropped):
            yield (
                f"the queueing discipline {now.kind} of {interface}: it delayed packets "
                f"{delayed_per_s:,.0f} times a second, dropped {dropped:,}, and "
                f"{now.waiting_bytes:,} bytes wait"
            )


def _thread(before: Counters, after: Counters) -> float:
    """The largest share of the time that a thread of the server was on a processor."""
    seconds = after.time_s - before.time_s
    shares = [
        (now_s - before.threads[thread]) / seconds
        for thread, now_s in after.threads.items()
        if thread in before.threads
    ]
    return max(shares, default=0.0)
