"""The tables of an emulation of several processors: where packets are processed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perpacket.show.table import Table

PROCESSOR = {
    "instructions": "instructions_per_packet",
    "interrupts": "interrupts_per_packet",
    "polls": "polls_per_packet",
    "packets received": "received_per_packet",
    "steered to it": "steered_per_packet",
    "squeezes": "squeezed_per_packet",
}
MEETINGS = {
    "frames received in a poll": "frames_per_poll",
    "calls on the processor of the connection's last packet": "met_share",
    "packets that waited for the application": "backlogged_share",
}
QUEUE = {"frames sent": "sent_per_packet", "frames received": "received_per_packet"}


def steering_tables(steering: Mapping[str, Any]) -> list[Table]:
    """The tables of the key `steering` of a document of `perpacket_lab.emulate`."""
    interrupts = {
        name: row for name, row in steering["interrupts"].items() if any(count > 0 for count in row)
    }
    servers = [str(one["processor"]) for one in steering["processors"]]
    headings = ("interrupt", *(f"processor {number}" for number in servers))
    rows = tuple((name, *(f"{count:.3f}" for count in row)) for name, row in interrupts.items())
    return [
        table("Work by processor, per packet", "processor", steering["processors"], PROCESSOR),
        table("Frames by queue of the card, per packet", "queue", steering["queues"], QUEUE),
        Table.of_texts("Interrupts of the card, per packet", headings, rows, headings[1:]),
        Table.of_texts(
            "Meetings of packets and applications",
            ("quantity", "mean"),
            tuple((name, cell(steering[key])) for name, key in MEETINGS.items()),
            ("mean",),
        ),
    ]


def table(
    title: str, first: str, costs: list[Mapping[str, Any]], columns: Mapping[str, str]
) -> Table:
    """Costs as a table: a row for each, and a column for each count."""
    headings = (first, *columns)
    rows = tuple(
        (str(cost[first]), *(cell(cost[key]) for key in columns.values())) for cost in costs
    )
    return Table.of_texts(title, headings, rows, headings[1:])


def cell(estimate: Mapping[str, Any]) -> str:
    """A value, with half the width of its interval if it has one."""
    value = estimate["value"]
    decimals = 0 if value >= 1000 else 3
    text = f"{value:,.{decimals}f}"
    if estimate["low"] is None:
        return text
    return f"{text} ±{estimate['high'] - value:,.{decimals}f}"
