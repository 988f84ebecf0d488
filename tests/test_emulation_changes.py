"""`perpacket emulate --change`: changes of the catalogue cost what they cost, exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from perpacket.advise import catalogue
from perpacket.analysis.claim import Verdict
from perpacket.analysis.profile_comparison import TOTAL, Unit
from perpacket.cli import app
from perpacket.errors import ConfigurationError
from perpacket_lab import api
from perpacket_lab.analysis.emulation_comparison import EmulationComparison
from perpacket_lab.emulate.guest_changes import GuestChange
from perpacket_lab.emulate.hardware import Hardware
from perpacket_lab.emulate.session import Guest, Session
from perpacket_lab.emulate.settings import Scenario, Settings
from probes import program

SMALL = Settings(Scenario("web", 1), requests=50, warmup_requests=50, variants=3)
TWO = Hardware(2, 2)
IN_GUEST = [name for name, change in catalogue.load().items() if change.guest is not None]

VALUES = {
    "defer-irqs": "2;200000",
    "tcp-rmem": "4096 65536 65536",
    "mtu": "9000",
    "rfs": "4096",
    "ring": "512",
    "tx-usecs": "50",
}
"""Values for changes whose example would change nothing in the guest."""


def compared(*changes: str, settings: Settings = SMALL) -> list[EmulationComparison]:
    """The comparisons of these changes, each with the emulation without a change."""
    guest = Guest(hardware=settings.hardware)
    return list(api.emulate_changes(settings, guest, changes).values())


def function(comparison: EmulationComparison, name: str) -> float:
    """The instructions a request that a function has more with the change."""
    return sum(
        claim.detail.second - claim.detail.first
        for claim in comparison.functions
        if claim.quantity.endswith(f" {name}")
    )


def ratio(comparison: EmulationComparison, unit: Unit = Unit.REQUEST) -> float:
    """The cost with the change divided by that without."""
    detail = comparison.by_unit[unit].total.detail
    return detail.second / detail.first


@pytest.mark.parametrize(
    ("text", "offloads", "part"),
    [
        ("governor=performance", False, "governor=performance: an emulated machine cannot have"),
        ("tos=off", False, "there is no change tos"),
        ("conntrack=off", False, "conntrack=off: expected on"),
        ("mitigations", False, "expected mitigations=VALUE, with auto"),
        ("nft-rules=many", False, "nft-rules=many: expected a whole number"),
        ("tso=off", False, "tso=off: the setting has this value already"),
        ("tso=on", True, "tso=on: the setting has this value already"),
        ("tso=on", False, "without --offloads, all packets of the emulated machine have one"),
        ("sendfile=off", False, "sendfile=off: an emulated machine cannot have this change"),
    ],
)
def test_a_change_that_a_guest_cannot_have_is_refused(text: str, offloads: bool, part: str) -> None:
    server = "lighttpd" if text.startswith("sendfile") else "nginx"
    with pytest.raises(ConfigurationError, match=part):
        GuestChange.of(text, Scenario(server, offloads=offloads))


def test_the_command_of_a_change_is_that_of_its_setting() -> None:
    (command,) = GuestChange.of("autocork=0", Scenario()).commands
    assert "sysctl -w net.ipv4.tcp_autocorking=" in command
    own, other = GuestChange.of("mtu=9000", Scenario()).commands
    assert "ip link set dev eth0 mtu 9000" in own
    assert other.startswith("$inside ")
    assert "eth1 mtu 9000" in other
    assert GuestChange.of("sendfile=off", Scenario("nginx")).server_option == "sendfile off;"
    assert GuestChange.of("mitigations=auto", Scenario()).kernel_option == "mitigations=auto"
    assert GuestChange.of("nft-rules=2", Scenario()).programs == {"nft"}
    assert GuestChange.of("nothing", Scenario()) == GuestChange("nothing")


def test_a_change_of_several_processors_is_refused_on_one() -> None:
    with pytest.raises(ConfigurationError, match="needs 2 processors of the server, and it has 1"):
        compared("rps=all")


def test_nothing_changes_nothing(session: Session) -> None:
    (nothing,) = compared("nothing", settings=replace(SMALL, requests=20, variants=1))
    assert not nothing.functions
    assert ratio(nothing) == 1.0


@pytest.mark.full
def test_each_rule_of_nftables_costs_the_same(session: Session) -> None:
    program("nft")
    first, second = compared("nft-rules=100", "nft-rules=200")
    # Dearer packets are acknowledged one by one, so the costs are by call of the chain.
    costs = [
        function(one, "nft_do_chain") / function(one, "nft_do_chain_ipv4")
        for one in (first, second)
    ]
    hundred = costs[1] - costs[0]
    assert hundred > 100
    assert costs[0] == pytest.approx(hundred, rel=0.05)
    assert first.by_unit[Unit.REQUEST].paired
    assert second.by_unit[Unit.REQUEST].total.verdict is Verdict.HIGHER


@pytest.mark.full
def test_larger_frames_are_fewer(session: Session) -> None:
    (larger,) = compared("mtu=9000")
    traffic = {item.quantity: item.detail for item in larger.by_unit[Unit.REQUEST].traffic}
    assert ratio(larger) < 0.9
    assert larger.by_unit[Unit.REQUEST].total.quantity == TOTAL
    assert traffic


@pytest.mark.full
def test_an_option_of_the_server_is_a_change_too(session: Session) -> None:
    (copied,) = compared("sendfile=off", settings=replace(SMALL, scenario=Scenario("nginx", 1)))
    names = {claim.quantity.rpartition(" ")[2] for claim in copied.functions}
    assert any("sendfile" in name for name in names)


@pytest.mark.full
def test_an_option_of_the_kernel_boots_a_guest_of_its_own(session: Session) -> None:
    (careful,) = compared("mitigations=auto")
    assert not careful.by_unit[Unit.REQUEST].paired
    # Indirect calls go through thunks, which the guest without mitigations never runs.
    assert any("__x86_indirect_thunk" in one.quantity for one in careful.functions)
    assert 0.99 < ratio(careful) < 1.2


def test_the_command_line_prints_the_comparison(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    program("ethtool")
    words = ["emulate", "--server", "web", "--connections", "1", "--requests", "20", "--offloads"]
    words += ["--replications", "1", "--change", "tso=off", "--quiet", "--format", "json"]
    assert app.run(words) == 0
    document: Any = json.loads(capsys.readouterr().out)
    (change,) = document["changes"]
    assert change["change"] == "tso=off"
    total = change["per_request"]["total"]
    assert total["second"] > 1.1 * total["first"]
    assert app.run([*words, "--save", "x.json"]) == 2


@pytest.mark.full
@pytest.mark.parametrize("name", IN_GUEST)
def test_every_change_of_the_catalogue_for_guests_runs(session: Session, name: str) -> None:
    for needed in ("ethtool", "nft"):
        program(needed)
    change = catalogue.load()[name]
    assert change.guest is not None
    value = VALUES.get(name) or next(iter(change.guest.values), change.example)
    offloads = name in ("tso", "gso", "gro")
    if offloads:
        value = "off"
    scenario = replace(SMALL.scenario, offloads=offloads)
    settings = replace(SMALL, scenario=scenario, requests=20, variants=1)
    if change.guest.processors > 1:
        settings = replace(settings, hardware=TWO)
    (one,) = compared(f"{name}={value}", settings=settings)
    assert 0.3 < ratio(one) < 3
