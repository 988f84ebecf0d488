"""The tables of an emulation: costs per packet by layer, by kind and by direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perpacket.show.table import Table
from perpacket_lab.show.moved_tables import moved_tables, sentence
from perpacket_lab.show.steering_tables import steering_tables

PACKETS_OF = {"send": "sent", "receive": "received", "neither": "both"}
MOST_STRUCTURES = 20
MOST_MEMBERS = 4

Costs = Mapping[str, Mapping[str, Any]]


def tables(document: Mapping[str, Any]) -> list[Table]:
    """The tables of a document of `perpacket_lab.emulate`."""
    total = {"total": document["total"]}
    ways = {
        f"{way}, a packet {PACKETS_OF[way]}": cost for way, cost in document["directions"].items()
    }
    tables = [
        table("By layer, per packet", "layer", {**document["layers"], **total}),
        table("By kind, per packet", "kind", document["kinds"]),
        cycles_table(document["cycle_model"]["machine"], {**document["layers"], **total}),
        table("By direction", "direction", ways),
    ]
    if rows := document.get("functions"):
        named = {f"{row['function']} ({row['layer']})": row for row in rows}
        tables.append(table("Functions with most misses, per packet", "function", named))
    if costs := document.get("files"):
        tables.append(table("User code by program and library, per packet", "file", costs))
    if rows := document.get("structures"):
        tables += [structures_table(rows), lines_table(rows)]
    if rows := document.get("declared_lines"):
        tables.append(declared_table(rows))
    if sharing := document.get("sharing"):
        tables += moved_tables(sharing)
    if steering := document.get("steering"):
        tables += steering_tables(steering)
    return tables


def cycles_table(machine: str, costs: Costs) -> Table:
    """The modelled cycles by layer: a column for each second level."""
    key = "modelled_cycles_per_packet"
    shapes = list(next(iter(costs.values()))[key])
    headings = ("layer", *(f"L2 {shape}" for shape in shapes))
    rows = [(name, *(cell(cost[key][shape]) for shape in shapes)) for name, cost in costs.items()]
    title = f"Modelled cycles by layer, per packet, with the latencies of {machine}"
    return Table.of_texts(title, headings, tuple(rows), headings[1:])


def structures_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The structures with the most data misses."""
    columns = columns_of(rows[0])
    headings = ("structure", "lines", *columns)
    cells = [
        (
            row["structure"],
            str(len(row["lines"])),
            *(cell(at(row, path)) for path in columns.values()),
        )
        for row in rows[:MOST_STRUCTURES]
    ]
    title = "Structures with most misses of data, per packet"
    return Table.of_texts(title, headings, tuple(cells), headings[1:])


def lines_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The lines with the most data misses, of structures whose members are known."""
    columns = columns_of(rows[0])
    path = next(iter(columns.values()))
    lines = [(row["structure"], line) for row in rows for line in row["lines"] if line["members"]]
    lines.sort(key=lambda own: -at(own[1], path)["value"])
    headings = ("line", *columns, "members")
    cells = [
        (
            f"{name} {line['line']}",
            *(cell(at(line, path)) for path in columns.values()),
            ", ".join(last_names(line["members"])[:MOST_MEMBERS]),
        )
        for name, line in lines[:MOST_STRUCTURES]
    ]
    title = "Lines of structures with most misses of data, per packet"
    return Table.of_texts(title, headings, tuple(cells), headings[1:-1])


def last_names(members: Sequence[str]) -> list[str]:
    """The members' own names, without the names of enclosing structures."""
    return [member.rpartition(".")[2] for member in members]


def declared_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The kernel's groups of cache lines for each direction, beside the lines with misses."""
    headings = ("structure", "direction", "declared", "of them missed", "missed", "share")
    cells = [
        (
            row["structure"],
            row["direction"],
            str(len(row["declared"])),
            str(len({*row["declared"]} & {*row["missed"]})),
            str(len(row["missed"])),
            f"{100 * row['share']:.0f} %",
        )
        for row in rows
    ]
    title = (
        "Cache lines that the kernel declares for a direction, and their share of the structure's "
        "misses in that direction"
    )
    return Table.of_texts(title, headings, tuple(cells), headings[2:])


def table(title: str, first: str, costs: Costs) -> Table:
    """Costs as a table: a column for each event and cache."""
    columns = columns_of(next(iter(costs.values())))
    headings = (first, "share", *columns)
    rows = [
        (name, f"{100 * cost['share']:.1f} %", *(cell(at(cost, path)) for path in columns.values()))
        for name, cost in costs.items()
    ]
    return Table.of_texts(title, headings, tuple(rows), headings[1:])


def columns_of(cost: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The headings of a cost's events, with the keys to each."""
    columns: dict[str, tuple[str, ...]] = {}
    if (key := "instructions_per_packet") in cost:
        columns["instructions"] = (key,)
    if (key := "instructions_per_request") in cost:
        columns["a request"] = (key,)
    levels = {"l1i": "L1I", "l1d": "L1D", "l2": "L2"}
    if "l2_misses_per_packet" not in cost:
        levels["l2d"] = "L2 data"
    for level, heading in levels.items():
        key = f"{level}_misses_per_packet"
        value = cost.get(key, {})
        if isinstance(value, Mapping):
            columns |= {f"{heading} {shape}": (key, shape) for shape in value}
        else:
            columns[heading] = (key,)
    for level, heading in (("itlb", "ITLB"), ("dtlb", "DTLB")):
        if (key := f"{level}_misses_per_packet") in cost:
            columns[heading] = (key,)
    return columns


def at(cost: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    """The estimate at a path of keys."""
    key, *shape = path
    if shape:
        return dict(cost[key][shape[0]])
    return {"value": cost[key], **cost["intervals"][key]}


def cell(estimate: Mapping[str, Any]) -> str:
    """A value, with half the width of its interval if it has one."""
    value = estimate["value"]
    decimals = 0 if value >= 1000 else 1 if value >= 100 else 2
    text = f"{value:,.{decimals}f}"
    if estimate["low"] is None:
        return text
    return f"{text} ±{estimate['high'] - value:,.{decimals}f}"


def headline(document: Mapping[str, Any]) -> str:
    """A line on the emulation: the server, its clients, the packets and the machine."""
    settings, packets = document["settings"], document["packets"]
    variants = document["variants"]
    first_levels = " and ".join(document["caches"]["l1"])
    counted = (
        f"{packets['sent']:,} packets sent and {packets['received']:,} received"
        f"{requests_text(document)} in {variants} "
        f"variant{'' if variants == 1 else 's'}; first level {first_levels}; "
        f"turns of {document['turn_instructions']:,} instructions"
    )
    if sharing := document.get("sharing"):
        counted = f"{counted}; {len(sharing['processors'])} processors; {sentence(sharing)}"
    if "recording" in document:
        return f"{document['recording']}: {counted}"
    connections = settings["connections"]
    # A server that is a command with arguments may send other bytes.
    size = "" if " " in settings["server"] else f"{settings['size_bytes']:,} bytes, "
    return (
        f"{settings['server']}, {connections:,} connection{'s' if connections > 1 else ''}, "
        f"{size}latency {settings['latency_ms']:g} ms one way, "
        f"Linux {document['kernel']}: {counted}"
    )


def requests_text(document: Mapping[str, Any]) -> str:
    """The requests and the statuses of HTTP responses; empty without requests."""
    requests = document["responses"]
    if not requests["count"]:
        counted = document.get("requests", 0)
        return f", {counted:,} requests" if counted else ""
    statuses = ", ".join(f"{number:,} {status}" for status, number in requests["statuses"].items())
    return f", {requests['count']:,} requests (statuses: {statuses})"
