"""Values of options, compared with the table that the agent's tests use too."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from perpacket.cli import quantities
from perpacket.measure import cpu_lists

TABLE = tomllib.loads((Path(__file__).parent / "quantities.toml").read_text(encoding="utf-8"))

PARSERS: dict[str, Callable[[str], object]] = {
    "time": quantities.seconds,
    "size": quantities.size_bytes,
    "bit-rate": quantities.bits_per_s,
    "rate": quantities.per_s,
    "cpus": lambda text: cpu_lists.numbers(quantities.cpu_list(text)),
}


def test_every_kind_of_the_shared_table_has_a_parser() -> None:
    assert set(PARSERS) == set(TABLE)


@pytest.mark.parametrize("kind", PARSERS)
def test_the_shared_table_is_read_as_documented(kind: str) -> None:
    for text, expected in TABLE[kind]["read"].items():
        assert PARSERS[kind](text) == pytest.approx(expected), text


@pytest.mark.parametrize("kind", PARSERS)
def test_invalid_values_of_the_shared_table_are_errors_with_the_expected_form(kind: str) -> None:
    for text in TABLE[kind]["refused"]:
        with pytest.raises(typer.BadParameter, match="expected"):
            PARSERS[kind](text)


def test_a_time_that_is_too_short_is_an_error_with_the_shortest() -> None:
    with pytest.raises(typer.BadParameter, match=r"at least 0\.1 seconds"):
        quantities.seconds_from(0.1)("50ms")
