"""A study names the quantities that depend on the length of the emulator's turns."""

from __future__ import annotations

import pytest

from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.turns import groups, turn_limits
from perpacket_lab.study import library
from perpacket_lab.study.quantities import Row

STUDY = library.find("tr05-450-emulated")
TURNS = groups(STUDY.points)


def rows(point: str, misses: float, instructions: float) -> dict[int, Row]:
    """Five runs of a point with TCP's misses within 0.2 and its instructions within 20."""
    return {
        seed: {
            "point": point,
            "layers.tcp.l2_misses_per_packet": misses + 0.1 * (seed - 3),
            "layers.tcp.instructions_per_packet": instructions + 10 * (seed - 3),
        }
        for seed in range(1, 6)
    }


def remarks(misses: dict[int, float]) -> list[str]:
    """The remarks if TCP's misses depend on the turns in this way; its instructions do not."""
    points = TURNS[0]
    found = {points[turn].name: rows(points[turn].name, own, 3000) for turn, own in misses.items()}
    return list(turn_limits(STUDY, Estimates(found)))


def test_the_turns_of_both_kinds_of_traffic_are_swept() -> None:
    swept = [(own[20_000].factors["traffic"], list(own)) for own in TURNS]
    lengths = [5000, 20_000, 80_000]
    assert sorted(swept) == [("bulk", lengths)] * 2 + [("web", lengths)] * 2


def test_a_quantity_whose_intervals_do_not_overlap_is_named_with_its_values() -> None:
    (remark,) = remarks({5000: 4.0, 20_000: 4.1, 80_000: 9.0})
    point = TURNS[0][5000].name
    text = f"l2_misses.TCP (4 with turns of 5,000 instructions and 9 with 80,000 at {point})"
    assert text in remark
    assert "instructions.TCP" not in remark


@pytest.mark.parametrize(
    ("misses", "text"),
    [
        ({5000: 4.0, 20_000: 4.1}, ["no quantity depends on the length of the turns beyond its"]),
        ({20_000: 4.0}, []),
    ],
)
def test_without_a_dependence_or_a_second_length_nothing_is_named(
    misses: dict[int, float], text: list[str]
) -> None:
    assert [one[: len(text[0])] for one in remarks(misses)] == text
