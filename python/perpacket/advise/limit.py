"""What limits the traffic, in the order in which the reasons are to be removed.

Limits that are not the processor come first: if one is there, a cheaper packet makes no traffic
faster. Advice begins with the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from perpacket.advise import processor_texts
from perpacket.advise.limit_interfaces import LEAST_RETRANSMITTED, of_interfaces
from perpacket.advise.limit_kinds import Limit, What
from perpacket.advise.limit_tables import of_tables

if TYPE_CHECKING:
    from perpacket.advise.growth import Growth
    from perpacket.advise.observation import Observation

FULL = 0.9
"""The least busy share of a processor, or of a thread's time on one, that limits."""

IDLE_SHARE = 0.1
"""The busiest processor of an idle machine is busy for less than this."""

IDLE_ALL = 0.02
"""The busy share of all processors together from which none of them can be busy."""

LEAST_SQUEEZED = 0.1
"""The least share of frames in polls that ended early; each such poll had up to `BUDGET`."""

LEAST_OF_FRAMES = 0.01
"""A processor with a smaller part of the frames does not limit by its polls."""

BUDGET = 300
"""The default of net.core.netdev_budget, the frames of one round of polls."""

HALF = 0.5

LEAST_STOLEN = 0.1
"""The least share of a processor's time that the host gave to others, and that limits."""

LEAST_THROTTLED = 0.05
"""The least share of periods in which a quota stopped a control group, and that limits."""

LEAST_CLOSED = 1e-3
"""The least share of received segments after which the receiver's window was closed."""


def of(seen: Observation) -> Limit | None:
    """The limit during the profile; None if no counter shows one."""
    grown = seen.growth
    if grown is None:
        return None
    try:
        return next(_limits(grown, seen), None)
    except (ArithmeticError, ValueError):
        if seen.is_case:  # a damaged file has a number that no kernel counts
            return None
        raise


def _limits(grown: Growth, seen: Observation) -> Iterator[Limit]:
    yield from of_interfaces(grown, seen)
    yield from of_tables(grown, seen)
    yield from _stolen(grown)
    yield from _quota(grown)
    yield from _processors(grown)
    yield from _squeezes(grown)
    yield from _connections(grown)
    if grown.busy:
        yield _nothing(grown.busy)


def _stolen(grown: Growth) -> Iterator[Limit]:
    """A host that runs others on this guest's processors."""
    shares = grown.stolen.values()
    share = sum(shares) / len(shares) if shares else 0.0
    if share > LEAST_STOLEN:
        yield Limit(
            What.STOLEN,
            f"the host: for {100 * share:.0f} % of the time a processor of this guest was ready, "
            "and the host ran others on it (steal). Fewer guests on the host, or processors of its "
            "own, move the limit",
        )


def _quota(grown: Growth) -> Iterator[Limit]:
    """A control group that had used up its processor time."""
    if grown.throttled >= LEAST_THROTTLED:
        yield Limit(
            What.QUOTA,
            f"the quota of a control group: in {100 * grown.throttled:.0f} % of the periods its "
            "programs had used up their processor time and waited (nr_throttled). A larger limit, "
            "or fewer threads, moves it",
        )


def _processors(grown: Growth) -> Iterator[Limit]:
    """All processors or one."""
    busy = grown.busy
    if not busy:
        return
    mean = sum(busy.values()) / len(busy)
    name = max(busy, key=lambda cpu: busy[cpu])
    program = max(grown.programs, key=lambda one: grown.programs[one], default="")
    alone = grown.programs.get(program, 0.0)
    if name == processor_texts.ALL and busy[name] < FULL:
        if FULL <= alone <= 1 / FULL:
            yield Limit(
                What.ONE,
                f"one processor: {program} uses {100 * alone:.0f} % of one, as a program does "
                f"whose single thread is full, and all together are {100 * mean:.0f} % busy",
            )
        return
    if min(busy.values()) >= FULL:
        yield Limit(What.ALL, f"all processors: they are {100 * mean:.0f} % busy")
    elif busy[name] >= FULL:
        full = [cpu for cpu, share in busy.items() if share >= FULL]
        softirq = min(grown.softirq.get(cpu, 0.0) for cpu in full)
        share = f", {100 * softirq:.0f} % of the time in softirqs" if softirq >= HALF else ""
        one = len(full) == 1
        which = "one processor" if one else f"{len(full)} of {len(busy)} processors"
        yield Limit(
            What.ONE,
            f"{which}: {processor_texts.names(full)} {'is' if one else 'are'} "
            f"{100 * busy[name]:.0f} % busy{share}, and all together {100 * mean:.0f} %",
        )
    elif grown.thread >= FULL:
        yield Limit(
            What.ONE,
            f"one processor: a thread of the server runs {100 * grown.thread:.0f} % of the time, "
            f"and processors are {100 * mean:.0f} % busy",
        )


def _squeezes(grown: Growth) -> Iterator[Limit]:
    """The processor that ended most polls early, if it did so often for its frames."""
    rows = grown.backlogs
    squeezed = [
        cpu
        for cpu, row in rows.items()
        if row.squeezed * BUDGET > LEAST_SQUEEZED * row.received > 0
        and row.received > LEAST_OF_FRAMES * grown.frames
    ]
    if squeezed:
        cpu = max(squeezed, key=lambda name: rows[name].squeezed)
        yield Limit(
            What.SQUEEZE,
            f"time squeezes: {cpu} ended {rows[cpu].squeezed:,} polls while frames waited, for "
            f"{rows[cpu].received:,} frames",
        )


def _connections(grown: Growth) -> Iterator[Limit]:
    """The peers, their windows, or the path between."""
    senders = grown.senders
    if senders.window_ms > HALF * senders.busy_ms > 0:
        yield Limit(
            What.WINDOW,
            f"the window of the receivers: for {100 * senders.window_ms / senders.busy_ms:.0f} % "
            "of the time in which connections had data to send, the receiver's window was full. "
            "The receiving program or its buffers are too slow or too small",
        )
    elif senders.buffer_ms > HALF * senders.busy_ms > 0:
        yield Limit(
            What.BUFFER,
            f"the send buffers: for {100 * senders.buffer_ms / senders.busy_ms:.0f} % of the time "
            "in which connections had data to send, their buffers were full",
        )
    if grown.retransmitted >= LEAST_RETRANSMITTED:
        yield Limit(
            What.LOSS,
            f"loss on the path: {100 * grown.retransmitted:.1f} % of the segments were sent again, "
            "so senders lower their windows",
        )
    yield from _readers(grown)
    if grown.unsent >= max(1, grown.connections / 2):
        yield Limit(
            What.CLIENT,
            f"the clients or their network: {grown.unsent} of {grown.connections} connections have "
            "data that is not acknowledged",
        )


def _readers(grown: Growth) -> Iterator[Limit]:
    """Programs that do not read what has arrived."""
    sockets, counts = grown.sockets, grown.protocols
    closed, received = counts.get("TcpExtTCPToZeroWindowAdv", 0), counts.get("TcpInSegs", 0)
    if sockets.unread and sockets.unread >= sockets.connections / 2:
        yield Limit(
            What.READER,
            f"programs that read slowly: {sockets.unread} of {sockets.connections} connections "
            "have received data that their program has not read (Recv-Q)",
        )
    elif closed > LEAST_CLOSED * received:
        yield Limit(
            What.READER,
            f"programs that read slowly: the window of this machine was closed {closed:,} times, "
            f"with {received:,} received segments, because programs did not read in time",
        )


def _nothing(busy: Mapping[str, float]) -> Limit:
    share = max(busy.values())
    which, least = "its busiest processor is", IDLE_SHARE
    if processor_texts.ALL in busy:
        which, least = "its processors together are", IDLE_ALL
    if share < least:
        return Limit(
            What.IDLE,
            f"nothing: the machine is idle, {which} {100 * share:.1f} % busy",
        )
    return Limit(
        What.NOTHING,
        f"nothing on this machine: {which} {100 * share:.0f} % busy, and the clients ask for no "
        "more",
    )
