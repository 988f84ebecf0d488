"""Messages of the kernel and of servers that name a limit: dmesg, the journal, logs of errors."""

from __future__ import annotations

import re

TABLE_FULL, NEIGHBOURS_FULL, MEMORY = "table full", "neighbours full", "memory"
FLOODING, NO_PORT, CHECKSUM = "flooding", "no port", "checksum"
NO_FILE, TIMED_OUT, ORPHANS = "no file", "timed out", "orphans"

MESSAGES = {
    TABLE_FULL: r"(?:nf|ip)_conntrack: table full",
    NEIGHBOURS_FULL: r"neighbou?r table overflow",
    MEMORY: r"TCP: out of memory",
    FLOODING: r"possible SYN flooding",
    NO_PORT: r"cannot assign requested address|\bEADDRNOTAVAIL\b|address not available",
    CHECKSUM: r"hw csum failure",
    NO_FILE: r"too many open files|\bEMFILE\b",
    TIMED_OUT: r"NETDEV WATCHDOG: .*timed out|transmit queue \d+ timed out",
    ORPHANS: r"too many (?:of )?orphaned sockets",
}
"""The text of each message, in any case; net/netfilter/nf_conntrack_core.c, net/core/neighbour.c,
net/ipv4/tcp.c, net/ipv4/tcp_input.c, net/core/dev.c, net/sched/sch_generic.c, and errno(3)."""

PATTERNS = {name: re.compile(text, re.IGNORECASE) for name, text in MESSAGES.items()}


def messages(text: str) -> dict[str, int]:
    """How many lines have each message."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        for name, pattern in PATTERNS.items():
            if pattern.search(line):
                found[name] = found.get(name, 0) + 1
    return found
