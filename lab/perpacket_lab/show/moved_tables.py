"""The tables of an emulation of several processors: the lines that move between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perpacket.show.table import Table

MOST_STRUCTURES = 20
MOST_MEMBERS = 4
MOST_NAMED, MOST_NAMED_MEMBERS = 4, 2
"""Structures that the sentence names, and members of each."""
LEAST = 0.005
"""Pairs, layers and structures with fewer events a packet are in JSON alone."""

COLUMNS = {
    "moved": "moved_lines_per_packet",
    "of them modified": "modified_lines_per_packet",
    "upgrades": "upgrades_per_packet",
    "true sharing": "true_sharing_per_packet",
    "false sharing": "false_sharing_per_packet",
}
CAUSES = {
    "cold": "cold",
    "capacity": "capacity",
    "conflict": "conflict",
    "true_sharing": "true sharing",
    "false_sharing": "false sharing",
    "device": "device",
}
SOURCES = {
    "from_processors": "from processors",
    "from_shared": "from level 3",
    "from_memory": "from memory",
}

Costs = Mapping[str, Any]


def moved_tables(sharing: Mapping[str, Any]) -> list[Table]:
    """The tables of the key `sharing` of a document of `perpacket_lab.emulate`."""
    label = next(iter(sharing["moved_lines_per_packet"]))
    at = f"L2 {label}"
    tables = [
        processors_table(sharing, label),
        pairs_table(f"Lines that move, by pair of processors, per packet, {at}", sharing, label),
        costs_table(
            f"Lines that move, by layer of the code that accesses them, per packet, {at}",
            "layer",
            {**sharing["layers"], "total": sharing},
            label,
        ),
    ]
    if "structures" in sharing:
        tables.append(structures_table(sharing["structures"], label))
    if rows := sharing.get("read_mostly"):
        tables.append(read_mostly_table(rows, label))
    return tables


def processors_table(sharing: Mapping[str, Any], label: str) -> Table:
    """The misses of each processor's private caches, by cause and by source."""
    headings = ("processor", *CAUSES.values(), *SOURCES.values(), "upgrades")
    rows = [
        (
            str(one["processor"]),
            *(cell(one["causes"][name][label]) for name in CAUSES),
            *(cell(one["sources"][name][label]) for name in SOURCES),
            cell(one["upgrades_per_packet"][label]),
        )
        for one in sharing["processors"]
    ]
    title = f"Misses of both private levels by processor, cause and source, per packet, L2 {label}"
    return Table.of_texts(title, headings, rows, headings[1:])


def pairs_table(title: str, sharing: Mapping[str, Any], label: str) -> Table:
    """A row for each pair of processors, with the structures whose lines move most."""
    headings = ("from", "to", *COLUMNS, "most lines are of")
    rows = [
        (
            str(one["from"]),
            str(one["to"]),
            *(cell(one[key][label]) for key in COLUMNS.values()),
            ", ".join(
                f"{value:.2f} {name}" for name, value in [*one["structures"].items()][:MOST_NAMED]
            ),
        )
        for one in sharing["pairs"]
        if events(one, label) >= LEAST
    ]
    return Table.of_texts(title, headings, rows, headings[:-1])


def costs_table(title: str, first: str, costs: Mapping[str, Costs], label: str) -> Table:
    """A row for each name whose lines move."""
    headings = (first, *COLUMNS)
    rows = [
        (name, *(cell(cost[key][label]) for key in COLUMNS.values()))
        for name, cost in costs.items()
        if events(cost, label) >= LEAST
    ]
    return Table.of_texts(title, headings, rows, headings[1:])


def structures_table(structures: Sequence[Costs], label: str) -> Table:
    """The structures whose lines move most, with the members that were accessed most often."""
    headings = ("structure", *COLUMNS, "members accessed", "members written before")
    rows = [
        (
            one["structure"],
            *(cell(one[key][label]) for key in COLUMNS.values()),
            members(one["members"], "accessed_per_packet"),
            members(one["members"], "written_per_packet"),
        )
        for one in structures[:MOST_STRUCTURES]
        if events(one, label) >= LEAST
    ]
    title = f"Structures whose lines move, per packet, L2 {label}"
    return Table.of_texts(title, headings, rows, headings[1:-2])


def read_mostly_table(rows: Sequence[Costs], label: str) -> Table:
    """The lines that the kernel declares read-mostly and that move."""
    headings = ("line", "group", "moved", "upgrades", "accessed", "written before", "in the group")
    cells = [
        (
            f"{one['structure']} {one['line']}",
            one["group"],
            cell(one["moved_lines_per_packet"][label]),
            cell(one["upgrades_per_packet"][label]),
            ", ".join(last_names(one["accessed"])[:MOST_MEMBERS]),
            ", ".join(last_names(one["written"])[:MOST_MEMBERS]),
            "yes" if one["written_in_group"] else "no",
        )
        for one in rows[:MOST_STRUCTURES]
    ]
    title = f"Lines that the kernel declares read-mostly and that move, per packet, L2 {label}"
    return Table.of_texts(title, headings, cells, ("moved", "upgrades"))


def sentence(sharing: Mapping[str, Any]) -> str:
    """The moved lines in words, with the structures that move most and their members.

    For example `3.10 lines a packet move between processors: 1.20 skbuff_head_cache (next, len)`.
    """
    label, *others = sharing["moved_lines_per_packet"]

    def moved(cost: Costs) -> float:
        return float(cost["moved_lines_per_packet"][label]["value"])

    size = f" with a second level of {label}" if others else ""
    text = f"{moved(sharing):.2f} lines a packet move between processors{size}"
    most = [one for one in sharing.get("structures", []) if moved(one) >= LEAST][:MOST_NAMED]
    parts = [
        f"{moved(one):.2f} {one['structure']} "
        f"({members(one['members'], 'accessed_per_packet', MOST_NAMED_MEMBERS)})"
        for one in most
    ]
    return f"{text}: {', '.join(parts)}" if parts else text


def events(cost: Costs, label: str) -> float:
    """Moves and upgrades a packet."""
    keys = ("moved_lines_per_packet", "upgrades_per_packet")
    return sum(float(cost[key][label]["value"]) for key in keys)


def members(entries: Sequence[Mapping[str, Any]], key: str, number: int = MOST_MEMBERS) -> str:
    """The members with the highest count, the highest first."""
    most = sorted(entries, key=lambda one: -one[key])[:number]
    return ", ".join(last_names([one["member"] for one in most if one[key]]))


def last_names(names: Sequence[str]) -> list[str]:
    """The members' own names, without the names of enclosing structures."""
    return [" ".join(one.rpartition(".")[2] for one in name.split(", ")) for name in names]


def cell(estimate: Mapping[str, Any]) -> str:
    """A value, with half the width of its interval if it has one."""
    text = f"{estimate['value']:,.2f}"
    if estimate["low"] is None:
        return text
    return f"{text} ±{estimate['high'] - estimate['value']:,.2f}"
