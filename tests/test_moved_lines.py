"""Lines that move between processors: the counts of a window as a document and as tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perpacket_lab.emulate import moved_lines, report
from perpacket_lab.emulate.settings import Memory, Settings
from perpacket_lab.show import emulation, moved_tables

MEMBERS = [
    (0, "sk.__sk_common.skc_hash"),
    (8, "sk.__cacheline_group_begin__sock_read_rxtx"),
    (8, "sk.sk_err"),
    (12, "sk.sk_flags"),
    (16, "sk.__cacheline_group_end__sock_read_rxtx"),
    (16, "sk.sk_lock"),
    (64, "__cacheline_group_begin__tcp_sock_write_tx"),
    (64, "segs_out"),
    (72, "__cacheline_group_end__tcp_sock_write_tx"),
    (128, "__cacheline_group_begin__tcp_sock_read_tx"),
    (128, "max_window"),
    (136, "__cacheline_group_end__tcp_sock_read_tx"),
]
SIZES = Memory.of("32K:8", "256K:16,1M:16", "non-inclusive", "none", 0, "invalidate")
SETTINGS = Settings(memory=SIZES, by="structure", variants=2)


def move(
    structure: tuple[str, int],
    between: tuple[int | None, int],
    moved: list[int],
    upgrades: int = 0,
    layer: str = "tcp",
    **words: list[int],
) -> dict[str, Any]:
    """A move as the plugin writes it; `accessed` and `written` are words with their counts."""
    counts = {name: [0] * 8 for name in ("accessed", "written")}
    for name, own in words.items():
        for word in own:
            counts[name][word] += moved[0] + upgrades
    return {
        "layer": layer,
        "kind": "protocol",
        "direction": "receive",
        "structure": list(structure),
        "from": between[0],
        "to": between[1],
        "moved": moved,
        "modified": moved,
        "upgrades": [upgrades, upgrades],
        "true_sharing": moved,
        "false_sharing": [0, 0],
        **counts,
    }


def window(scale: int) -> dict[str, Any]:
    """The counts of 100 frames on two processors; `scale` multiplies the moves."""
    moves = [
        move(("TCP", 0), (0, 1), [40 * scale, 50 * scale], accessed=[1], written=[2]),
        move(("TCP", 1), (0, 1), [20 * scale, 20 * scale], accessed=[0], written=[0]),
        move(("TCP", 2), (1, 0), [5, 5], upgrades=5, accessed=[0], written=[0]),
        move(("kmalloc-512", 1), (1, 0), [10, 10], layer="socket", accessed=[3]),
        move(("TCP", 0), (None, 1), [0, 0], accessed=[1], written=[2]),
        move(("task_struct", 0), (0, 1), [1000, 1000], layer="idle", accessed=[0]),
    ]
    keys = (*moved_lines.CAUSES, *moved_lines.SOURCES, "upgrades")
    causes = {key: [100, 50] for key in keys}
    row = {
        "layer": "tcp",
        "kind": "protocol",
        "direction": "receive",
        "instructions": 100_000,
        **{f"{level}_misses": [0, 0] for level in ("l1i", "l1d", "l2i", "l2d")},
    }
    return {
        "frames": {"sent": 60, "received": 40},
        "counts": [row, {**row, "layer": "socket"}],
        "members": {"TCP": MEMBERS},
        "data_accesses": 1000,
        "returns": {"matched": 1, "unmatched": 0},
        "guest": {"values": [10**9], "text": ""},
        "turn_instructions": 20_000,
        "sharing": {
            "protocol": "mesi",
            "l3": None,
            "processors": [causes, causes],
            "moves": moves,
        },
    }


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The document of two variants, the second with more moves."""
    return report.report(SETTINGS, [window(1), window(2)], {"kernel": "6.12"})


def test_moves_are_per_packet_without_those_of_the_idle_loop(document: dict[str, Any]) -> None:
    moved = document["sharing"]["moved_lines_per_packet"]
    # 75 and 135 lines in 100 packets; the larger second level has ten and twenty more.
    assert moved["256K:16"]["value"] == pytest.approx(1.05)
    assert moved["1M:16"]["value"] == pytest.approx(1.20)
    assert moved["256K:16"]["low"] < 1.05 < moved["256K:16"]["high"]
    layers = document["sharing"]["layers"]
    assert layers["socket"]["moved_lines_per_packet"]["256K:16"]["value"] == pytest.approx(0.1)
    assert "idle" not in layers


def test_pairs_have_a_direction(document: dict[str, Any]) -> None:
    pairs = {(one["from"], one["to"]): one for one in document["sharing"]["pairs"]}
    values = {
        pair: one["moved_lines_per_packet"]["256K:16"]["value"] for pair, one in pairs.items()
    }
    assert values == {(0, 1): pytest.approx(0.9), (1, 0): pytest.approx(0.15)}
    assert pairs[0, 1]["structures"] == {"TCP": pytest.approx(0.9)}
    assert pairs[1, 0]["upgrades_per_packet"]["1M:16"]["value"] == pytest.approx(0.05)


def test_members_are_those_of_the_words_that_were_accessed(document: dict[str, Any]) -> None:
    tcp, other = document["sharing"]["structures"]
    assert (tcp["structure"], other["structure"]) == ("TCP", "kmalloc-512")
    accessed = {one["member"]: one["accessed_per_packet"] for one in tcp["members"]}
    assert accessed == {
        "sk.sk_err, sk.sk_flags": pytest.approx(0.6),
        "sk.sk_lock": 0,
        "segs_out": pytest.approx(0.3),
        "max_window": pytest.approx(0.1),
    }
    written = {one["member"]: one["written_per_packet"] for one in tcp["members"]}
    assert written["sk.sk_lock"] == pytest.approx(0.6)
    assert [one["member"] for one in other["members"]] == ["+88"], "line 1, word 3"


def test_a_line_of_a_declared_group_that_moves_is_listed_with_its_writers(
    document: dict[str, Any],
) -> None:
    lines = [
        (one["structure"], one["line"], one["group"], one["written_in_group"])
        for one in document["sharing"]["read_mostly"]
    ]
    # The lock beside the group moves the first; the second is written itself. A group of written
    # members is not listed.
    assert lines == [("TCP", 0, "sock_read_rxtx", False), ("TCP", 2, "tcp_sock_read_tx", True)]
    assert document["sharing"]["read_mostly"][0]["written"] == ["sk.sk_lock"]


def test_tables_name_structures_with_their_members(document: dict[str, Any]) -> None:
    tables = {table.caption.split(",")[0]: table for table in emulation.tables(document)}
    rows = tables["Structures whose lines move"].texts()
    assert rows[0][0] == "TCP"
    assert rows[0][-2].startswith("sk_err sk_flags, segs_out")
    assert [row[0] for row in tables["Lines that move"].texts()] == ["socket", "tcp", "total"]
    assert moved_tables.sentence(document["sharing"]) == (
        "1.05 lines a packet move between processors with a second level of 256K:16: 0.95 TCP "
        "(sk_err sk_flags, segs_out), 0.10 kmalloc-512 (+88)"
    )


def test_the_limits_are_those_of_several_processors(document: dict[str, Any]) -> None:
    assert report.ALONE not in document["limits"]
    assert set(report.COHERENT) < set(document["limits"])


def test_without_structures_no_members_are_counted() -> None:
    counts = window(1)
    for one in counts["sharing"]["moves"]:
        del one["structure"]
    found = report.report(replace(SETTINGS, by="layer", variants=1), [counts], {})["sharing"]
    assert "structures" not in found
    assert found["moved_lines_per_packet"]["256K:16"]["value"] == pytest.approx(0.75)
