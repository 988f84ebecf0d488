"""Where packets are processed on a machine with several processors: work by processor and queue.

Instructions and frames are the plugin's counts in the window. Interrupts by name, received packets,
squeezes and the interrupts of packet steering are the guest's own counts, of `/proc/interrupts` and
`/proc/net/softnet_stat`. The guest reads them just before the window, and again when it notices the
end, some packets after it. So these are divided by the packets that the interface's own counters
saw between the two readings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from perpacket.advise import kernel_texts
from perpacket.advise.kernel_texts import Backlog

TEXTS = 4
"""The guest passes two texts before the window and two after it. Each ends with a zero byte."""

Estimate = Callable[[Sequence[float], Sequence[int]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The guest's counts of one window."""

    packets: int
    processors: Mapping[str, Mapping[str, int]]
    """The differences of `Backlog` by processor, as `cpu0`."""
    interrupts: Mapping[str, Sequence[int]]
    """By name, such as `eth0-rx-0`; one count for each processor."""

    @classmethod
    def of(cls, counts: Mapping[str, Any]) -> Reading:
        """The reading in the counts of a window."""
        guest = counts["guest"]
        texts = guest["text"].split("\0")[:TEXTS]
        first, last = kernel_texts.backlogs(texts[0]), kernel_texts.backlogs(texts[2])
        begun, ended = kernel_texts.interrupts(texts[1]), kernel_texts.interrupts(texts[3])
        return cls(
            max(1, sum(guest["values"][1:3])),
            {
                name: difference(asdict(first.get(name, Backlog(0, 0, 0))), asdict(own))
                for name, own in last.items()
            },
            {
                name: [after - before for before, after in zip(begun[name], own, strict=True)]
                for name, own in ended.items()
                if name in begun
            },
        )


def difference(first: Mapping[str, int], last: Mapping[str, int]) -> dict[str, int]:
    """The growth of each count."""
    return {key: count - first[key] for key, count in last.items()}


def steering(
    counts: Sequence[Mapping[str, Any]], packets: Sequence[int], estimate: Estimate
) -> dict[str, Any]:
    """The work by processor, queue and interrupt per packet, for the document of an emulation.

    `estimate` computes a count per packet. The clients' processor is not in it.
    """
    readings = [Reading.of(one) for one in counts]
    below = [one.packets for one in readings]
    servers = range(len(counts[0]["processors"]))
    names = list(dict.fromkeys(name for one in readings for name in one.interrupts))

    def kernel(number: int, key: str) -> dict[str, Any]:
        found = [one.processors.get(f"cpu{number}", {}).get(key, 0) for one in readings]
        return estimate(found, below)

    def interrupts(name: str, number: int) -> float:
        own = sum(one.interrupts[name][number] for one in readings if name in one.interrupts)
        return own / sum(below)

    return {
        "processors": [
            {
                "processor": number,
                **work(counts, packets, estimate, number),
                "received_per_packet": kernel(number, "received"),
                "squeezed_per_packet": kernel(number, "squeezed"),
                "steered_per_packet": kernel(number, "steered"),
            }
            for number in servers
        ],
        "queues": queues(counts, packets, estimate),
        **meetings(counts, estimate),
        "interrupts": {name: [interrupts(name, number) for number in servers] for name in names},
    }


def work(
    counts: Sequence[Mapping[str, Any]], packets: Sequence[int], estimate: Estimate, number: int
) -> dict[str, Any]:
    """The instructions of a processor, without its idle loop, and its interrupts of any kind."""
    own = [one["processors"][number] for one in counts]
    layers = list(dict.fromkeys(name for one in own for name in one["layers"]))
    return {
        **{
            f"{key}_per_packet": estimate([one[key] for one in own], packets)
            for key in ("instructions", "interrupts", "polls")
        },
        "layers": {
            name: estimate([one["layers"].get(name, 0) for one in own], packets)["value"]
            for name in sorted(layers)
        },
    }


def meetings(counts: Sequence[Mapping[str, Any]], estimate: Estimate) -> dict[str, Any]:
    """How many frames a poll finds, and how often packets and applications meet.

    `met_share` is the share of the applications' calls that run on the processor which received the
    connection's last packet, and `backlogged_share` that of the packets that waited for the
    application to release the socket.
    """
    own = [one["meetings"] for one in counts]
    polls = [sum(processor["polls"] for processor in one["processors"]) for one in counts]

    def share(parts: Sequence[float], wholes: Sequence[int]) -> dict[str, Any]:
        return estimate(parts, [max(1, whole) for whole in wholes])

    return {
        "frames_per_poll": share([one["frames"]["received"] for one in counts], polls),
        "met_share": share([one["met"] for one in own], [one["calls"] for one in own]),
        "backlogged_share": share(
            [one["backlogged"] for one in own], [one["packets"] for one in own]
        ),
    }


def queues(
    counts: Sequence[Mapping[str, Any]], packets: Sequence[int], estimate: Estimate
) -> list[dict[str, Any]]:
    """The frames that each queue of the server's card sent and received, per packet of all."""
    by_queue = [one["queues"] for one in counts]

    def frames(number: int, way: str) -> dict[str, Any]:
        own = [rows[number][way] if number < len(rows) else 0 for rows in by_queue]
        return estimate(own, packets)

    return [
        {
            "queue": number,
            "sent_per_packet": frames(number, "sent"),
            "received_per_packet": frames(number, "received"),
        }
        for number in range(max(map(len, by_queue)))
    ]
