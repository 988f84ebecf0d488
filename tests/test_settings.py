"""Each kind of setting, on the kernel of this machine, in a namespace that the test makes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from a_namespace import DEVICE, Network, net_fixture
from perpacket.advise import catalogue, journal, settings
from perpacket.advise.facts import FACTS, Facts
from perpacket.advise.journal import Restoration
from perpacket.advise.network_scope import NetworkScope
from perpacket.errors import ConfigurationError, MachineLacks, PerpacketError, RunFailed
from requirements import skip

__all__ = ["net_fixture"]

pytestmark = pytest.mark.live

TSO = {"kind": "ethtool-feature", "feature": "tx-tcp-segmentation"}
SG = {"kind": "ethtool-feature", "feature": "tx-scatter-gather"}
AUTOCORKING = {"kind": "sysctl", "name": "net.ipv4.tcp_autocorking"}
CONGESTION = {"kind": "sysctl", "name": "net.ipv4.tcp_congestion_control"}
QUEUES = "/sys/class/net/{interface}/queues"

KINDS = [
    (TSO, "off"),
    (SG, "off"),
    ({"kind": "ethtool-channels", "parameter": "rx"}, "1"),
    (AUTOCORKING, "0"),
    ({"kind": "sysctl", "name": "net.ipv4.tcp_wmem"}, "4096 65536 1048576"),
    (CONGESTION, "reno"),
    ({"kind": "file-mask", "path": f"{QUEUES}/rx-*/rps_cpus"}, "all"),
    ({"kind": "file", "path": f"{QUEUES}/rx-*/rps_flow_cnt"}, "4096"),
    ({"kind": "file-mask", "path": f"{QUEUES}/tx-*/xps_cpus"}, "0"),
    ({"kind": "link-mtu"}, "1400"),
    ({"kind": "link-largest-packet"}, "131072"),
    ({"kind": "qdisc"}, "pfifo"),
    ({"kind": "route", "attribute": "quickack"}, "1"),
    ({"kind": "route", "attribute": "initcwnd"}, "20"),
    ({"kind": "nft-rules"}, "7"),
]


def state(net: Network) -> str:
    """Everything that the kernel reports of the namespace's settings."""
    commands = (
        ("ip", "-details", "-oneline", "link"),
        ("ip", "-details", "route"),
        ("tc", "qdisc"),
        ("sysctl", "-a", "--pattern", "net.ipv4.tcp_[a-qs-z]|net.core"),
    )
    return "\n".join(net.run(*command) for command in commands)


@pytest.mark.parametrize(("table", "value"), KINDS, ids=lambda one: str(one)[:70])
def test_a_setting_is_applied_and_undone(net: Network, table: dict[str, str], value: str) -> None:
    setting = net.open(table)
    before, all_before = setting.read(), state(net)
    with journal.begin([(setting, value)]) as session:
        assert setting.read() == before
        session.apply([0])
        assert setting.read() == setting.normal(value) != before
        session.restore([0])
        assert setting.read() == before
        session.apply([0])
    assert net.open(table).read() == before
    assert state(net) == all_before
    assert [one.outcome for one in session.undone] == [Restoration.RESTORED]
    assert not journal.path().exists()


@pytest.mark.parametrize(("table", "value"), KINDS, ids=lambda one: str(one)[:70])
def test_the_printed_command_does_the_same(net: Network, table: dict[str, str], value: str) -> None:
    if table["kind"] in ("ethtool-feature", "ethtool-channels", "nft-rules"):
        return  # ethtool and nft need not be installed.
    setting = net.open(table)
    before = setting.read()
    for target in (value, before):
        # A command that forgets the namespace must not reach the machine's own.
        inside_another = ["unshare", "--net", "sh", "-c", setting.command(target)]
        subprocess.run(inside_another, check=True, capture_output=True)
        assert setting.read() == setting.normal(target)


def test_checking_changes_nothing(net: Network) -> None:
    for table, value in KINDS:
        before = state(net)
        net.open(table).check(value)
        assert state(net) == before


def test_parts_that_differ_are_restored_one_by_one(net: Network) -> None:
    setting = net.open({"kind": "file", "path": f"{QUEUES}/rx-*/rps_flow_cnt"})
    setting.write("1024;2048")
    with journal.begin([(setting, "4096")]) as session:
        session.apply([0])
        assert setting.read() == "4096"
    assert setting.read() == "1024;2048"


def test_a_feature_that_depends_on_another_is_restored_with_it(net: Network) -> None:
    for order in ([SG, TSO], [TSO, SG]):
        opened = [net.open(table) for table in order]
        with journal.begin([(setting, "off") for setting in opened]) as session:
            session.apply([0, 1])
            session.restore([0, 1])
            assert [setting.read() for setting in opened] == ["on", "on"]
            session.apply([0, 1])
        assert [setting.read() for setting in opened] == ["on", "on"]
        assert Restoration.FAILED not in [one.outcome for one in session.undone]


def test_an_algorithm_that_the_namespace_does_not_accept_is_refused(net: Network) -> None:
    setting = net.open(CONGESTION)
    allowed = net.run("cat", "/proc/sys/net/ipv4/tcp_allowed_congestion_control").split()
    available = net.run("cat", "/proc/sys/net/ipv4/tcp_available_congestion_control").split()
    for name in set(available) - set(allowed):
        with pytest.raises(MachineLacks, match="is not accepted"):
            setting.check(name)


def test_the_control_that_advice_names_is_accepted(net: Network) -> None:
    seen = cast(Facts, SimpleNamespace(seen=SimpleNamespace(scope=net.scope(), is_case=False)))
    net.open(CONGESTION).check(str(FACTS["unpaced_control"](seen)))


@pytest.mark.parametrize(
    ("table", "value", "error", "words"),
    [
        ({"kind": "nonsense"}, "1", ConfigurationError, "expected one of"),
        ({"kind": "ethtool-feature", "feature": "nonsense"}, "on", MachineLacks, "no feature"),
        (TSO, "maybe", ConfigurationError, "on or off"),
        ({"kind": "ethtool-feature", "feature": "rx-lro"}, "on", MachineLacks, "fixed"),
        ({"kind": "ethtool-channels", "parameter": "rx"}, "3", ConfigurationError, "1 to 2"),
        ({"kind": "ethtool-coalesce", "parameter": "rx-usecs"}, "9", MachineLacks, "not support"),
        ({"kind": "sysctl", "name": "net.ipv4.nonsense"}, "1", MachineLacks, "not have"),
        ({"kind": "sysctl", "name": "net.core.busy_poll"}, "1", MachineLacks, "not have"),
        (AUTOCORKING, "many", ConfigurationError, "expected a number"),
        ({"kind": "sysctl", "name": "net.ipv4.tcp_wmem"}, "1", ConfigurationError, "3 numbers"),
        (CONGESTION, "nonsense", ConfigurationError, "expected one of"),
        ({"kind": "file-mask", "path": f"{QUEUES}/rx-*/rps_cpus"}, "x", ConfigurationError, "all"),
        ({"kind": "file", "path": "/sys/nonsense"}, "1", MachineLacks, "no such file"),
        ({"kind": "irq-affinity"}, "0", MachineLacks, "no interrupts"),
        ({"kind": "link-mtu"}, "9999999", ConfigurationError, "expected 68 to 65535"),
        ({"kind": "link-mtu"}, "1000", ConfigurationError, "IPv6"),
        ({"kind": "qdisc"}, "nonsense", MachineLacks, "does not have"),
        ({"kind": "route", "attribute": "quickack"}, "x", ConfigurationError, "number"),
        ({"kind": "nft-rules"}, "x", ConfigurationError, "number"),
        ({"kind": "command", "do": "true", "undo": " "}, "done", ConfigurationError, "both"),
    ],
    ids=lambda one: str(one)[:50],
)
def test_a_setting_that_cannot_be_is_refused_before_anything_changes(
    net: Network, table: dict[str, str], value: str, error: type[PerpacketError], words: str
) -> None:
    before = state(net)
    with (
        pytest.raises(error, match=words),
        journal.begin([(net.open(AUTOCORKING), "0"), (net.open(table), value)]),
    ):
        pytest.fail("the block must not run")
    assert state(net) == before
    assert not journal.path().exists()


def test_an_unknown_interface_or_process_is_an_error_that_lists_what_exists(net: Network) -> None:
    with pytest.raises(ConfigurationError, match="trial7") as caught:
        net.open(TSO, "trial7")
    assert DEVICE in caught.value.hint
    with pytest.raises(ConfigurationError, match="no such process"):
        NetworkScope.of(pid=2**22 + 1)


def test_a_configured_discipline_is_not_replaced(net: Network) -> None:
    net.run("tc", "qdisc", "replace", "dev", DEVICE, "root", "pfifo", "limit", "77")
    with pytest.raises(MachineLacks, match="could not be restored"):
        net.open({"kind": "qdisc"}).check("bfifo")


def test_a_table_of_rules_that_is_there_already_is_left_alone(net: Network) -> None:
    setting = net.open({"kind": "nft-rules"})
    setting.write("3")
    with pytest.raises(MachineLacks, match="exists already"), journal.begin([(setting, "5")]):
        pytest.fail("the block must not run")
    assert setting.read() == "3"


def test_without_rights_nothing_is_changed() -> None:
    if os.geteuid() != 0:
        skip("root", "the test becomes another user")
    tables = [(TSO, "off"), (AUTOCORKING, "0"), ({"kind": "link-mtu"}, "1300")]
    opened = [
        (settings.open(table, NetworkScope(interface="lo")), value) for table, value in tables
    ]
    opened.append((settings.open({"kind": "nft-rules"}, NetworkScope()), "3"))
    for setting, _ in opened:
        setting.read()  # Another user may not be able to import what this needs.
    child = os.fork()
    if child == 0:
        refused = 0
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            for setting, value in opened:
                try:
                    setting.check(value)
                except MachineLacks as error:
                    refused += error.hint == "run as root"
        finally:
            os._exit(refused)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == len(opened)


def applicable() -> list[tuple[str, dict[str, str], str]]:
    """A value to try for each change of the catalogue that has a setting."""
    found = []
    for change in catalogue.load().values():
        if change.setting is None:
            continue
        if change.values:
            values = list(change.values)
        else:
            values = ["all"] if change.setting["kind"] == "file-mask" else [change.example]
        found += [(change.name, dict(change.setting), value) for value in values]
    return found


@pytest.mark.parametrize(("name", "table", "value"), applicable(), ids=lambda one: str(one)[:40])
def test_a_change_of_the_catalogue_is_applied_and_undone_or_refused(
    net: Network, name: str, table: dict[str, str], value: str
) -> None:
    before = state(net)
    try:
        setting = net.open(table)
        present = setting.read()
        setting.check(value)
    except MachineLacks:
        # A veth device, or this kernel, does not have the setting.
        assert state(net) == before
        return
    with journal.begin([(setting, value)]) as session:
        session.apply([0])
        assert setting.read() == setting.normal(value)
        session.restore([0])
        assert setting.read() == present
        session.apply([0])
    assert settings.open(table, net.scope()).read() == present
    assert state(net) == before, name
    assert Restoration.FAILED not in [one.outcome for one in session.undone]


def test_commands_run_once_each_and_in_turn(net: Network, tmp_path: Path) -> None:
    file = tmp_path / "ran"
    table = {"kind": "command", "do": f"echo do >> {file}", "undo": f"echo undo >> {file}"}
    with journal.begin([(net.open(table), "done")]) as session:
        session.restore([0])
        session.apply([0])
        session.restore([0])
        session.apply([0])
        session.apply([0])
    assert file.read_text().split() == ["do", "undo", "do", "undo"]
    with journal.begin([(net.open(table), "done")]):
        pass
    assert len(file.read_text().split()) == 4, "a command that did not run is not undone"


def test_a_command_can_start_a_program_that_stays(net: Network, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    table = {
        "kind": "command",
        "do": f"sleep 60 & echo $! > {pid}",
        "undo": f"kill $(cat {pid})",
    }
    with journal.begin([(net.open(table), "done")]) as session:
        session.apply([0])
        os.kill(int(pid.read_text()), 0)
    assert [one.outcome for one in session.undone] == [Restoration.RESTORED]


def test_a_command_that_fails_is_an_error_and_undone(net: Network, tmp_path: Path) -> None:
    file = tmp_path / "ran"
    table = {"kind": "command", "do": "echo broken >&2; exit 3", "undo": f"echo undo > {file}"}
    with (
        pytest.raises(RunFailed, match="status 3: broken"),
        journal.begin([(net.open(table), "done")]) as session,
    ):
        session.apply([0])
    assert file.read_text() == "undo\n"
