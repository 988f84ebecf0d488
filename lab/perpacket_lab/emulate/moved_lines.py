"""Cache lines that move between processors, per packet: by layer, processor, pair and structure.

A line moves if the private caches of another processor supply it. An upgrade is a store to a line
that others share: their copies are removed, and no data move. Both have the row of the access, the
processor that had the line (`from`) and the one that accessed it (`to`). The idle loop is left out,
as in all costs per packet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perpacket_lab.emulate import structures

if TYPE_CHECKING:
    from perpacket_lab.emulate.report import Variant

WORD_BYTES = 8
WORDS = structures.LINE_BYTES // WORD_BYTES
MOST_STRUCTURES = 40
READ = "_read_"
"""A part of the names of the kernel's groups of members that are read much more than written."""

COUNTS = {
    "moved_lines_per_packet": "moved",
    "modified_lines_per_packet": "modified",
    "upgrades_per_packet": "upgrades",
    "true_sharing_per_packet": "true_sharing",
    "false_sharing_per_packet": "false_sharing",
}
"""The counts of moves: the key of the document, and the plugin's."""

PARTS: Mapping[str, tuple[str, ...]] = {
    "sk_buff": ("skbuff_head_cache", "skbuff_fclone_cache", "skbuff_small_head"),
    "socket": ("TCP", "sock_inode_cache", "eventpoll_epi", "eventpoll_pwq"),
    "backlog": ("softnet_data",),
}
"""The structures of each part, by the name of their slab cache or variable. The wait queue of a
socket is in `sock_inode_cache`."""

TRANSMIT = "transmit"
"""The part that is code: the layers below IP in the direction send, with locks and rings."""
TRANSMIT_LAYERS = ("ethernet", "driver")

CAUSES = ("cold", "capacity", "conflict", "true_sharing", "false_sharing", "device")
SOURCES = ("from_processors", "from_shared", "from_memory")

Move = Mapping[str, Any]
Select = Callable[[Move], bool]
Estimate = Callable[[Sequence[float], Sequence[int]], dict[str, Any]]


def moved_lines(
    variants: Sequence[Variant],
    labels: Sequence[str],
    layers: Iterable[str],
    estimate: Estimate,
    *,
    with_structures: bool,
) -> dict[str, Any]:
    """What several processors cost each other, for the document of an emulation.

    `labels` are the shapes of the second levels, and `estimate` computes a count per packet. Values
    are per packet, by the shape of the second level. Causes and sources include the idle loop.
    """
    counts = MoveCounts(variants, tuple(labels), estimate)
    pairs = sorted({(one["from"], one["to"]) for one in counts.every if one["from"] is not None})
    first = variants[0].counts["sharing"]
    found = {
        "protocol": first["protocol"],
        "l3": first["l3"],
        **counts.costs(lambda _: True),
        "causes": {name: counts.by_processor(name, None) for name in CAUSES},
        "sources": {name: counts.by_processor(name, None) for name in SOURCES},
        "processors": [
            {
                "processor": number,
                "causes": {name: counts.by_processor(name, number) for name in CAUSES},
                "sources": {name: counts.by_processor(name, number) for name in SOURCES},
                "upgrades_per_packet": counts.by_processor("upgrades", number),
            }
            for number in range(len(first["processors"]))
        ],
        "pairs": [
            {
                "from": source,
                "to": target,
                **counts.costs(is_pair(source, target)),
                "structures": structures_of(counts, is_pair(source, target)),
            }
            for source, target in pairs
        ],
        "layers": {name: counts.costs(is_layer(name)) for name in layers},
    }
    if with_structures:
        found["parts"] = {name: counts.costs(is_part(name)) for name in (*PARTS, TRANSMIT)}
        found["structures"] = by_structure(counts)
        found["read_mostly"] = read_mostly(counts)
    return found


def is_pair(source: int, target: int) -> Select:
    """Select the moves between two processors."""
    return lambda one: (one["from"], one["to"]) == (source, target)


def is_layer(name: str) -> Select:
    """Select the moves of a layer's code."""
    return lambda one: bool(one["layer"] == name)


def is_part(name: str) -> Select:
    """Select the moves of a part."""
    if name == TRANSMIT:
        return lambda one: one["layer"] in TRANSMIT_LAYERS and one["direction"] == "send"
    return lambda one: (one.get("structure") or ("",))[0] in PARTS[name]


def is_structure(name: str, line: int | None = None) -> Select:
    """Select the moves of a structure's lines, or of one of its lines."""

    def select(one: Move) -> bool:
        own_name, own_line = one.get("structure") or ("", None)
        return bool(own_name == name and line in (None, own_line))

    return select


@dataclass(frozen=True, slots=True)
class MoveCounts:
    """The moves of all variants."""

    variants: Sequence[Variant]
    labels: tuple[str, ...]
    """The shape of each configuration."""

    per_packets: Estimate
    """Computes the mean of a count per packet over the variants, with its interval."""

    @property
    def every(self) -> list[Move]:
        """The moves of all variants, without those of the idle loop."""
        return [one for variant in self.variants for one in moves_of(variant)]

    def costs(self, select: Select) -> dict[str, Any]:
        """The counts of the selected moves per packet, by the shape of the second level."""
        return {
            key: {
                label: self.estimate(
                    sum(one[name][place] for one in moves_of(variant) if select(one))
                    for variant in self.variants
                )
                for place, label in enumerate(self.labels)
            }
            for key, name in COUNTS.items()
        }

    def by_processor(self, name: str, number: int | None) -> dict[str, Any]:
        """A count of one processor, or of all, per packet and by the shape of the second level."""

        def count(variant: Variant, place: int) -> int:
            own = variant.counts["sharing"]["processors"]
            chosen = own if number is None else [own[number]]
            return sum(one[name][place] for one in chosen)

        return {
            label: self.estimate(count(variant, place) for variant in self.variants)
            for place, label in enumerate(self.labels)
        }

    def estimate(self, values: Iterable[float]) -> dict[str, Any]:
        """The mean over variants of a count per packet, with its interval."""
        return self.per_packets(list(values), [max(1, one.packets()) for one in self.variants])

    def per_packet(self, count: float) -> float:
        """A count of all variants per packet."""
        return count / max(1, sum(one.packets() for one in self.variants))


def moves_of(variant: Variant) -> list[Move]:
    """The moves of one variant, without those of the idle loop."""
    return [one for one in variant.counts["sharing"]["moves"] if one["layer"] != "idle"]


def weight(one: Move) -> int:
    """The events of a move by which structures and members are ordered: first configuration."""
    return int(one["moved"][0] + one["upgrades"][0])


def by_structure(counts: MoveCounts) -> list[dict[str, Any]]:
    """The structures whose lines move most, with the members that were accessed and written."""
    members = structures.members_of(counts.variants)
    totals: Counter[str] = Counter()
    lines: dict[str, Counter[int]] = {}
    for one in placed(counts):
        name, line = one["structure"]
        totals[name] += weight(one)
        lines.setdefault(name, Counter())[line] += weight(one)
    most = sorted(totals, key=lambda name: (-totals[name], name))
    return [
        {
            "structure": name,
            **counts.costs(is_structure(name)),
            "members": touched(counts, name, members.get(name, ())),
            "lines": [
                {"line": line, **counts.costs(is_structure(name, line))}
                for line in sorted(lines[name], key=lambda line: (-lines[name][line], line))
            ],
        }
        for name in most[:MOST_STRUCTURES]
        if totals[name]
    ]


def structures_of(counts: MoveCounts, select: Select) -> dict[str, float]:
    """The lines of each structure that the selected moves moved, per packet, the most first.

    The counts are those of the first second level; empty if structures were not counted.
    """
    totals: Counter[str] = Counter()
    for one in filter(select, placed(counts)):
        totals[one["structure"][0]] += one["moved"][0]
    most = sorted(totals, key=lambda name: (-totals[name], name))
    return {name: counts.per_packet(totals[name]) for name in most if totals[name]}


def placed(counts: MoveCounts) -> list[Move]:
    """The moves of structures."""
    return [one for one in counts.every if one.get("structure")]


def touched(
    counts: MoveCounts, name: str, members: structures.Members, line: int | None = None
) -> list[dict[str, Any]]:
    """The members of a structure that were accessed when its lines moved, the most frequent first.

    `accessed_per_packet` counts the moves whose access touched the member's word of eight bytes,
    `written_per_packet` those before which others had written the word. Members of one word share
    an entry. A structure without known members has entries such as `+64`, offsets in bytes.
    """
    accessed: Counter[int] = Counter()
    written: Counter[int] = Counter()
    for one in filter(is_structure(name, line), counts.every):
        begin = one["structure"][1] * WORDS
        for word in range(WORDS):
            accessed[begin + word] += one["accessed"][word]
            written[begin + word] += one["written"][word]
    words = [word for word in {*accessed, *written} if accessed[word] or written[word]]
    words.sort(key=lambda word: (-accessed[word] - written[word], word))
    return [
        {
            "member": ", ".join(members_in(members, word * WORD_BYTES)) or f"+{word * WORD_BYTES}",
            "line": word // WORDS,
            "accessed_per_packet": counts.per_packet(accessed[word]),
            "written_per_packet": counts.per_packet(written[word]),
        }
        for word in words
    ]


def members_in(members: structures.Members, begin: int) -> list[str]:
    """The members that occupy bytes of the word at an offset."""
    own = [(offset, name) for offset, name in members if not structures.is_marker(name)]
    before = [(offset, name) for offset, name in own if offset <= begin]
    found = [name for offset, name in own if begin < offset < begin + WORD_BYTES]
    if before:
        # A union has several members at one offset; the last one listed is as good as the first.
        at = max(offset for offset, _ in before)
        found = [name for offset, name in before if offset == at][:1] + found
    return list(dict.fromkeys(found))


def read_mostly(counts: MoveCounts) -> list[dict[str, Any]]:
    """The lines that the kernel declares read-mostly and that move or are upgraded nevertheless.

    A declared group may begin or end within a line that has other members too. `accessed` and
    `written` are members as in `touched`; `written_in_group` is whether one of the written words
    belongs to the group, so that the declaration itself is not kept.
    """
    found = []
    for name, members in sorted(structures.members_of(counts.variants).items()):
        for group, own in structures.group_bytes(members).items():
            if READ not in f"{group}_":
                continue
            for line in structures.lines_of(own):
                select = is_structure(name, line)
                if not any(map(weight, filter(select, counts.every))):
                    continue
                words = touched(counts, name, members, line)
                written = written_words(counts, name, line)
                found.append(
                    {
                        "structure": name,
                        "group": group,
                        "line": line,
                        **counts.costs(select),
                        "accessed": [one["member"] for one in words if one["accessed_per_packet"]],
                        "written": [one["member"] for one in words if one["written_per_packet"]],
                        "written_in_group": any(
                            own.start <= word * WORD_BYTES < own.stop for word in written
                        ),
                    }
                )
    label = counts.labels[0]
    found.sort(key=lambda one: -one["moved_lines_per_packet"][label]["value"])
    return found


def written_words(counts: MoveCounts, name: str, line: int) -> set[int]:
    """The words of a line, from the start of its structure, that others wrote before a move."""
    return {
        line * WORDS + word
        for one in filter(is_structure(name, line), counts.every)
        for word in range(WORDS)
        if one["written"][word]
    }
