"""The kinds of limits, and a limit as a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class What(StrEnum):
    """What limits the traffic."""

    ALLOWANCE = "allowance of the provider"
    OFFLOAD = "broken offload"
    CHECKSUMS = "broken checksums of received frames"
    TIMEOUT = "stuck interface"
    CABLE = "broken frames"
    PAUSE = "pause frames"
    LINK = "full link"
    LOCK = "lock of a shaper"
    QUEUEING = "queueing discipline"
    BACKLOG = "full backlog"
    RING = "full ring"
    SQUEEZE = "time squeezes"
    TABLE = "full connection table"
    NEIGHBOURS = "full table of neighbours"
    PORTS = "no free local ports"
    MEMORY = "memory of TCP"
    DESCRIPTORS = "open files of a program"
    FLOOD = "flood of connection requests"
    UNEVEN = "one full accept queue of several"
    ACCEPT = "full accept queue"
    DATAGRAMS = "full sockets of datagrams"
    STOLEN = "time of other guests"
    QUOTA = "quota of a control group"
    ONE = "one processor"
    ALL = "all processors"
    WINDOW = "window of the receivers"
    BUFFER = "send buffer"
    LOSS = "loss on the path"
    CLIENT = "client"
    READER = "slow reader"
    IDLE = "idle machine"
    NOTHING = "nothing"


ELSEWHERE = (
    What.ALLOWANCE, What.STOLEN, What.QUEUEING, What.WINDOW, What.LOSS, What.CLIENT, What.IDLE,
    What.LINK, What.TIMEOUT, What.CABLE, What.PAUSE, What.DESCRIPTORS, What.QUOTA, What.READER,
)  # fmt: skip
"""The limits that no change of the catalogue moves."""


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
        """Whether the traffic waits for something that no change of the network moves."""
        return self.what in ELSEWHERE
