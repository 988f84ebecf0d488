"""A machine of a case, as `top` and `profile` show it: its interfaces and its processors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from perpacket.show.table import Table

if TYPE_CHECKING:
    from perpacket.advise.growth import Growth

MOST = 16
"""Most processors with a row; of more, those that are busiest or receive most."""


def tables(grown: Growth) -> Iterator[Table]:
    """The interfaces with their packets, and the processors that are busiest or receive most."""
    when = f"in {grown.seconds:.1f} s" if grown.seconds else "since the machine's start"
    if grown.devices:
        keys = ("packets_sent", "packets_received", "bytes_sent", "bytes_received")
        rows = [
            (name, *(f"{row.get(key, 0):,}" for key in keys))
            for name, row in sorted(grown.devices.items(), key=lambda item: -sum(item[1].values()))
        ]
        headings = ("interface", "packets sent", "received", "bytes sent", "received")
        yield Table.of_texts(f"packets {when}", headings, rows, headings[1:])
    names = {*grown.backlogs, *grown.busy}
    if names:
        yield _processors(grown, when)


def _processors(grown: Growth, when: str) -> Table:
    names = sorted({*grown.backlogs, *grown.busy}, key=lambda name: _rank(grown, name))[:MOST]
    all_frames = grown.frames

    def row(name: str) -> tuple[str, ...]:
        backlog = grown.backlogs.get(name)
        return (
            name,
            _percent(grown.busy, name),
            _percent(grown.softirq, name),
            f"{backlog.received:,}" if backlog else "-",
            f"{100 * backlog.received / all_frames:.0f} %" if backlog and all_frames else "-",
            f"{backlog.squeezed:,}" if backlog else "-",
            f"{backlog.dropped:,}" if backlog else "-",
        )

    headings = ("CPU", "busy", "softirq", "frames", "of all", "squeezes", "drops")
    total = len({*grown.backlogs, *grown.busy})
    shown = f"; {MOST} of {total}" if total > MOST else ""
    rows = [row(name) for name in sorted(names, key=_number)]
    return Table.of_texts(f"processors {when}{shown}", headings, rows, headings[1:])


def _rank(grown: Growth, name: str) -> tuple[float, int]:
    backlog = grown.backlogs.get(name)
    return -grown.busy.get(name, 0.0), -(backlog.received if backlog else 0)


def _number(name: str) -> int:
    digits = name.removeprefix("cpu")
    return int(digits) if digits.isdigit() else 0


def _percent(shares: Mapping[str, float], name: str) -> str:
    return f"{100 * shares[name]:.0f} %" if name in shares else "-"
