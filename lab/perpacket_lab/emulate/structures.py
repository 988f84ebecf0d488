"""The misses of data by kernel structure, by the structure's lines, and by its declared groups.

Since Linux 6.8 the kernel declares which members the paths of packets use: markers named
`__cacheline_group_begin__` and `__cacheline_group_end__` in its structures, which
Documentation/networking/net_cachelines explains. Names of groups end in tx, rx, txrx or rxtx.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perpacket_lab.emulate.report import Row, Variant
    from perpacket_lab.emulate.settings import Settings

LINE_BYTES = 64
BEGIN, END = "__cacheline_group_begin__", "__cacheline_group_end__"
PATHS = {"send": ("tx", "txrx", "rxtx"), "receive": ("rx", "txrx", "rxtx")}
"""The endings of the groups for each direction."""

Members = Sequence[tuple[int, str]]


def by_structure(settings: Settings, variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """The structures with their misses per packet, those with the most misses first."""
    from perpacket_lab.emulate.report import events

    shown = [one for one in events(settings) if one.key.startswith(("l1d", "l2d", "dtlb"))]
    members = members_of(variants)
    totals: dict[str, int] = defaultdict(int)
    lines: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in placed(variants):
        name, line = row["structure"]
        totals[name] += row["l1d_misses"][0]
        lines[name][line] += row["l1d_misses"][0]
    most = sorted(totals, key=lambda name: (-totals[name], name))
    return [
        {
            "structure": name,
            **costs(variants, shown, name),
            "lines": [
                {
                    "line": line,
                    **costs(variants, shown, name, line),
                    "members": [
                        one
                        for at, one in members.get(name, ())
                        if at // LINE_BYTES == line and not is_marker(one)
                    ],
                }
                for line in sorted(lines[name], key=lambda line: (-lines[name][line], line))
            ],
        }
        for name in most
    ]


def is_marker(member: str) -> bool:
    """Whether a member is a marker, which has no bytes, at the begin or the end of a group."""
    return member.rpartition(".")[2].startswith((BEGIN, END))


def placed(variants: Sequence[Variant]) -> list[Row]:
    """The rows of structures."""
    return [row for variant in variants for row in variant.rows if row.get("structure")]


def members_of(variants: Sequence[Variant]) -> Mapping[str, Members]:
    """The members of each structure, which are the same in every variant."""
    found: dict[str, Members] = {}
    for variant in variants:
        found |= variant.counts.get("members", {})
    return found


def costs(
    variants: Sequence[Variant], shown: Sequence[Any], name: str, line: int | None = None
) -> dict[str, Any]:
    """The misses of a structure, or of one of its lines, per packet."""
    from perpacket_lab.emulate.report import add_misses

    def is_own(row: Row) -> bool:
        own_name, own_line = row.get("structure") or ("", None)
        return own_name == name and line in (None, own_line)

    found: dict[str, Any] = {}
    add_misses(found, variants, shown, is_own, [one.packets() for one in variants])
    return found


def declared_lines(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """The lines that the kernel declares for each direction, and the lines with misses.

    `share` is the share of the structure's first-level misses, in that direction, that are misses
    of declared lines.
    """
    found = []
    for name, members in sorted(members_of(variants).items()):
        groups = groups_of(members)
        for direction, endings in PATHS.items():
            declared = {
                line
                for group, own in groups.items()
                if group.rpartition("_")[2] in endings
                for line in own
            }
            misses: dict[int, int] = defaultdict(int)
            for row in placed(variants):
                if row["structure"][0] == name and row["direction"] == direction:
                    misses[row["structure"][1]] += row["l1d_misses"][0]
            total = sum(misses.values())
            if declared and total:
                inside = sum(count for line, count in misses.items() if line in declared)
                found.append(
                    {
                        "structure": name,
                        "direction": direction,
                        "declared": sorted(declared),
                        "missed": sorted(line for line, count in misses.items() if count),
                        "share": inside / total,
                    }
                )
    return found


def groups_of(members: Members) -> dict[str, range]:
    """The lines of each declared group."""
    return {group: lines_of(own) for group, own in group_bytes(members).items()}


def group_bytes(members: Members) -> dict[str, range]:
    """The offsets of the bytes of each declared group."""
    found = {}
    begins: dict[str, int] = {}
    for offset, path in members:
        name = path.rpartition(".")[2]
        if name.startswith(BEGIN):
            begins[name.removeprefix(BEGIN)] = offset
        elif name.startswith(END):
            group = name.removeprefix(END)
            found[group] = range(begins.get(group, offset), offset)
    return found


def lines_of(own: range) -> range:
    """The lines that bytes occupy; of an empty group, the line at which it is."""
    return range(own.start // LINE_BYTES, max(own.start, own.stop - 1) // LINE_BYTES + 1)
