"""`perpacket emulate compare`: known changes of a server are found, with their size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a_server import HTTP, compiled
from perpacket.analysis.profile_comparison import Unit
from perpacket.cli import app
from perpacket.errors import ConfigurationError
from perpacket_lab.analysis import emulation_comparison as comparison
from perpacket_lab.emulate import files
from perpacket_lab.emulate.session import Session
from perpacket_lab.emulate.settings import Scenario, Settings
from perpacket_lab.study.quantities import EMULATION_SCHEMA

CHECKED = Settings(
    Scenario("server", 1), requests=50, warmup_requests=50, variants=3, by="function"
)

WORK = b"/* work */"

NOISE = 0.001
"""The share of a request by which layers may differ that the change of a server does not concern:
the phase of acknowledgments and of timers changes with its work."""


def instructions(number: int) -> bytes:
    """The server with so many more instructions in each request."""
    return HTTP.replace(WORK, f'__asm__ volatile(".rept {number}; nop; .endr");'.encode())


HEADER = HTTP.replace(b"Content-Length", b"X-More: 1\\r\\nContent-Length")

SYSTEM_CALL = HTTP.replace(WORK, b"syscall(SYS_getppid);")


def variant(scale: float, requests: int, functions: Mapping[str, float]) -> dict[str, Any]:
    return {
        "packets": {"sent": 2 * requests, "received": requests},
        "requests": requests,
        "window_s": 0.1,
        "instructions": {
            "layer_kinds": {"user user": 1000 * requests, "tcp protocol": scale * 2000 * requests},
            "functions": {name: own * requests for name, own in functions.items()},
        },
    }


def document(scale: float = 1.0, functions: Mapping[str, float] | None = None) -> dict[str, Any]:
    """An invented emulation of five variants."""
    own = functions or {"tcp tcp_ack": 200.0, "tcp tcp_old": 10.0}
    return {
        "schema": EMULATION_SCHEMA,
        "kernel": "6.1",
        "state": "a",
        "settings": {"server": "web", "connections": 1},
        "variants": 5,
        "by_variant": [variant(scale * (1 + number / 1e5), 100, own) for number in range(5)],
    }


def test_the_functions_that_changed_are_new_gone_or_grown() -> None:
    from perpacket_lab.show import emulation_comparison_tables as shown

    first = document()
    second = document(1.1, {"tcp tcp_ack": 230.0, "tcp tcp_new": 20.0})
    second["state"] = "b"
    second["kernel"] = "6.12"
    compared = comparison.compare(first, second)
    assert compared.unit is Unit.REQUEST
    assert not compared.by_unit[Unit.REQUEST].paired
    names = {claim.quantity: shown.state(claim) for claim in compared.functions}
    assert list(names) == ["tcp tcp_ack", "tcp tcp_new", "tcp tcp_old"]
    assert (names["tcp tcp_new"], names["tcp tcp_old"]) == ("new", "gone")
    assert any("6.1 in A, 6.12 in B" in note for note in compared.notes)
    assert any("not paired" in note for note in compared.notes)
    written: Any = shown.document(compared)
    assert written["functions"]["tcp tcp_ack"]["ratio"]["value"] == pytest.approx(1.15)
    assert written["per_packet"]["layers"]["tcp"]["ratio"]["value"] == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ("instructions_per_request > 1.06", 1),
        ("instructions_per_request > 1.07", 0),
        ("instructions_per_packet.tcp > 1.05", 1),
        ("tcp > 1.2", 0),
        ("kind.protocol > 1.05", 1),
        ("instructions_per_request.udp > 1", 2),
        ("instructions_per_joule > 1", 2),
    ],
)
def test_a_rule_decides_the_exit_status(rule: str, status: int, tmp_path: Path) -> None:
    for name, saved in (("a", document()), ("b", document(1.1))):
        (tmp_path / name).write_text(json.dumps(saved))
    command = ["emulate", "compare", str(tmp_path / "a"), str(tmp_path / "b"), "--fail-if", rule]
    assert app.run(command) == status


def test_one_variant_decides_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, scale in (("a", 1.0), ("b", 1.1)):
        saved = document(scale)
        saved |= {"variants": 1, "by_variant": saved["by_variant"][:1]}
        (tmp_path / name).write_text(json.dumps(saved))
    command = ["emulate", "compare", str(tmp_path / "a"), str(tmp_path / "b")]
    assert app.run([*command, "--fail-if", "tcp > 1.05"]) == 5
    assert "emulate with more --replications" in capsys.readouterr().err


def test_a_flame_graph_of_the_differences_is_written(tmp_path: Path) -> None:
    for name, saved in (("a", document()), ("b", document(1.1, {"tcp tcp_ack": 300.0}))):
        (tmp_path / name).write_text(json.dumps(saved))
    svg = tmp_path / "c.svg"
    assert (
        app.run(
            ["emulate", "compare", *map(str, (tmp_path / "a", tmp_path / "b")), "--svg", str(svg)]
        )
        == 0
    )
    text = svg.read_text()
    assert text.startswith("<svg")
    assert "tcp_ack: 300.0, +100.0" in text
    assert "tcp_old: 0.0, -10.0" in text


def test_a_small_layer_that_changed_is_shown_with_the_digits_of_its_ratio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, own in (("a", 1.0), ("b", 3.0)):
        saved = document()
        for one in saved["by_variant"]:
            one["instructions"]["layer_kinds"]["user other"] = own
        (tmp_path / name).write_text(json.dumps(saved))
    assert app.run(["emulate", "compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    (user, *_) = (row for row in rows if row[:1] == ["user"])
    (total, *_) = (row for row in rows if row[:1] == ["total"])
    assert user[-1] == "higher"
    assert float(total[3]) > 1
    assert len(total[3]) > len("1.00")


def test_different_numbers_of_variants_are_not_called_different_guests() -> None:
    fewer = document()
    fewer |= {"variants": 4, "by_variant": fewer["by_variant"][:4]}
    (note,) = comparison.compare(document(), fewer).notes
    assert note.endswith("because the numbers of variants differ")


def test_another_version_of_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(json.dumps({**document(), "schema": 2}))
    with pytest.raises(ConfigurationError, match="expected schema 1, got 2"):
        comparison.read(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"by_variant": []}', "\\xff"])
def test_a_file_that_is_no_emulation_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(content)
    assert app.run(["emulate", "compare", str(tmp_path / "a"), str(tmp_path / "a")]) == 2


def emulated(session: Session, program: bytes, folder: Path) -> dict[str, Any]:
    """The emulation of a server, always under the same name."""
    server = compiled(program, folder)
    own = replace(session, files=files.server_archive([str(server)], ()))
    scenario = replace(CHECKED.scenario, server=f"{server} {{port}}")
    return own.emulate(replace(CHECKED, scenario=scenario))


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, float]:
    """The instructions a request that each layer of the second has more."""
    compared = comparison.compare(first, second).by_unit[Unit.REQUEST]
    assert compared.paired
    return {claim.quantity: claim.detail.second - claim.detail.first for claim in compared.layers}


@pytest.fixture(scope="module")
def base(session: Session, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The server without a change."""
    return emulated(session, HTTP, tmp_path_factory.mktemp("base"))


@pytest.mark.parametrize(
    "number", [1, *(pytest.param(more, marks=pytest.mark.full) for more in (10, 100, 1000))]
)
def test_more_instructions_are_counted_exactly(
    session: Session, base: dict[str, Any], tmp_path: Path, number: int
) -> None:
    more = differences(base, emulated(session, instructions(number), tmp_path))
    assert more["user"] == pytest.approx(number, abs=0.1)
    assert abs(more["tcp"]) < NOISE * base["total"]["instructions_per_request"]


def test_one_more_system_call_is_in_the_layer_of_system_calls(
    session: Session, base: dict[str, Any], tmp_path: Path
) -> None:
    changed = emulated(session, SYSTEM_CALL, tmp_path)
    more = differences(base, changed)
    assert more["syscall"] > 20
    assert abs(more["tcp"]) < NOISE * base["total"]["instructions_per_request"]
    functions = comparison.compare(base, changed).functions
    assert any("getppid" in claim.quantity and not claim.detail.first for claim in functions)


def test_one_more_header_costs_the_server_nothing(
    session: Session, base: dict[str, Any], tmp_path: Path
) -> None:
    more = differences(base, emulated(session, HEADER, tmp_path))
    assert abs(more["user"]) < 0.1
    # A timer that ends in one window and not in the other is in these two layers.
    of_packets = sum(more.values()) - more["interrupt"] - more["scheduler"]
    assert abs(of_packets) < NOISE * base["total"]["instructions_per_request"]


def test_the_same_server_has_no_difference(base: dict[str, Any]) -> None:
    assert not comparison.compare(base, deepcopy(base)).functions
