"""How much the kernel's counters grew: between two moments, or since the machine's start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch

from perpacket.advise.counters import Counters, Processor
from perpacket.advise.expression import NotReadable
from perpacket.advise.kernel_texts import NO_SENDERS, Backlog, Senders
from perpacket.advise.links import Queue
from perpacket.advise.processor_texts import IdleState
from perpacket.advise.socket_texts import Sockets

NO_SOCKETS = Sockets()


@dataclass(frozen=True, slots=True)
class Growth:
    """Counts of a window. What is empty was not counted."""

    seconds: float = 0.0
    """The length of the window; 0 for counts since the machine's start."""
    busy: Mapping[str, float] = field(default_factory=dict)
    softirq: Mapping[str, float] = field(default_factory=dict)
    """The share of each processor's time that is not idle, and that is in softirqs."""
    stolen: Mapping[str, float] = field(default_factory=dict)
    """The share of each processor's time that the host gave to others."""
    thread: float = 0.0
    """The largest share of the time that a thread of the server was on a processor."""
    protocols: Mapping[str, int] = field(default_factory=dict)
    """Counters by their names in nstat, such as `TcpRetransSegs`."""
    backlogs: Mapping[str, Backlog] = field(default_factory=dict)
    drivers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The driver's counters of each interface, as in `ethtool -S`."""
    devices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The packets and bytes of each interface."""
    interrupts: Mapping[str, list[int]] = field(default_factory=dict)
    """The interrupts of each name in /proc/interrupts, by processor."""
    queues: Mapping[str, Queue] = field(default_factory=dict)
    """The root queueing disciplines: delays and drops of the window, and bytes that wait now."""
    senders: Senders = NO_SENDERS
    connections: int = 0
    unsent: int = 0
    """Connections, and those of them with data that was not acknowledged at both moments."""

    sockets: Sockets = NO_SOCKETS
    messages: Mapping[str, int] = field(default_factory=dict)
    """How often the kernel or a server wrote a message of a limit; `log_texts.MESSAGES`."""
    programs: Mapping[str, float] = field(default_factory=dict)
    """The processors that programs use, by name."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """System calls of a server by name."""
    idle_states: Mapping[str, IdleState] = field(default_factory=dict)
    hashed: Mapping[str, str] = field(default_factory=dict)
    """Whether the interface chooses a queue by `ports`, `addresses` or `nothing`, by protocol."""
    irqbalance: str = ""
    throttled: float = 0.0
    """The share of periods in which a control group had used up its quota."""
    half_duplex: Sequence[str] = ()
    """Interfaces whose link is half duplex."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """The speed of interfaces in bits a second."""
    rate_bps: float = 0.0
    """The rate of a load in bits a second; 0 if it was not measured."""

    def count(self, *names: str) -> int:
        """The sum of counters of protocols; raises `NotReadable` if none was read."""
        if not self.protocols:
            raise NotReadable("the counters of protocols were not read: `nstat -az`")
        return sum(self.protocols.get(name, 0) for name in names)

    def driver(self, interface: str, *patterns: str) -> int:
        """The sum of the driver's counters whose names match; 0 without the interface."""
        rows = self.drivers.get(interface, {})
        return sum(
            number
            for name, number in rows.items()
            if any(fnmatch(name.lower(), pattern) for pattern in patterns)
        )

    @property
    def retransmitted(self) -> float:
        """The share of sent segments that were sent again; 0 if it was not counted."""
        sent = self.protocols.get("TcpOutSegs", 0)
        return self.protocols.get("TcpRetransSegs", 0) / sent if sent else 0.0

    @property
    def frames(self) -> int:
        """The frames that the processors passed to the stack; 0 if they were not counted."""
        return sum(row.received for row in self.backlogs.values())


def between(before: Counters, after: Counters) -> Growth | None:
    """The growth from one moment to a later one; None if no time passed."""
    seconds = after.time_s - before.time_s
    if seconds <= 0:
        return None
    both = {name: (before.processors[name], now) for name, now in after.processors.items()
            if name in before.processors}  # fmt: skip
    threads = [
        (now_s - before.threads[thread]) / seconds
        for thread, now_s in after.threads.items()
        if thread in before.threads
    ]
    return Growth(
        seconds,
        # The window less the idle time, which is exact; the busy columns count ticks.
        {name: 1 - (now.idle_s - then.idle_s) / seconds for name, (then, now) in both.items()},
        _shares(both, "softirq_ticks"),
        _shares(both, "stolen_ticks"),
        max(threads, default=0.0),
        _less(after.protocols, before.protocols),
        {
            cpu: Backlog(
                *(x - y for x, y in zip(_row(now), _row(before.backlogs[cpu]), strict=True))
            )
            for cpu, now in after.backlogs.items()
            if cpu in before.backlogs
        },
        {name: _less(now, before.drivers.get(name, {})) for name, now in after.drivers.items()},
        {
            name: {
                key: value - before.devices.get(name, {}).get(key, 0) for key, value in now.items()
            }
            for name, now in after.devices.items()
        },
        {
            name: [x - y for x, y in zip(now, before.interrupts[name], strict=True)]
            for name, now in after.interrupts.items()
            if len(before.interrupts.get(name, ())) == len(now)
        },
        {
            name: replace(
                now, delayed=now.delayed - then.delayed, dropped=now.dropped - then.dropped
            )
            for name, now in after.queues.items()
            if (then := before.queues.get(name)) is not None
        },
        after.senders,
        after.connections,
        min(before.unsent, after.unsent),
        after.sockets,
    )


def _shares(both: Mapping[str, tuple[Processor, Processor]], kind: str) -> dict[str, float]:
    """The share of each processor's ticks that are of a kind."""
    return {
        name: (getattr(now, kind) - getattr(then, kind)) / max(1, now.all_ticks - then.all_ticks)
        for name, (then, now) in both.items()
    }


def _row(backlog: Backlog) -> tuple[int, int, int, int]:
    return backlog.received, backlog.dropped, backlog.squeezed, backlog.steered


def _less(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {name: now - before[name] for name, now in after.items() if name in before}
