"""After any end of a trial its settings are restored, by the trial, its guardian, or `undo`."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import trial_driver
from a_namespace import DEVICE, Network, net_fixture
from patience import PATIENCE_S
from perpacket.advise import crashed, guardian, journal, settings
from perpacket.advise.journal import Restoration
from perpacket.errors import MachineLacks, RunFailed

__all__ = ["net_fixture"]

pytestmark = pytest.mark.live

TSO = {"kind": "ethtool-feature", "feature": "tx-tcp-segmentation"}
SG = {"kind": "ethtool-feature", "feature": "tx-scatter-gather"}
AUTOCORKING = {"kind": "sysctl", "name": "net.ipv4.tcp_autocorking"}
MTU = {"kind": "link-mtu"}
RULES = {"kind": "nft-rules"}
CHANGES = [(SG, "off"), (TSO, "off"), (AUTOCORKING, "0"), (MTU, "1400"), (RULES, "3")]

LONGEST_WAIT_S = 0.6
"""The longest wait before a kill. A trial needs less to start its guardian and to change each
setting several times."""


def command(net: Network, changes: list[tuple[dict[str, str], str]]) -> list[str]:
    """The command that runs the driver."""
    words = [word for table, value in changes for word in (json.dumps(table), value)]
    return [sys.executable, trial_driver.__file__, str(net.holder.pid), DEVICE, *words]


@contextmanager
def driver(net: Network) -> Iterator[subprocess.Popen[str]]:
    """The driver, in a process group of its own."""
    with subprocess.Popen(
        command(net, CHANGES),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def begin(process: subprocess.Popen[str]) -> int:
    """Start a trial; returns its process number."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def status_of(process: subprocess.Popen[str]) -> int:
    """Wait for the trial's end."""
    assert process.stdout is not None
    return os.waitstatus_to_exitcode(int(process.stdout.readline()))


def guardians() -> list[int]:
    """The guardians of this test's journal."""
    file = str(journal.path()).encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if b"perpacket.advise.guardian" in words and file in words:
                found.append(int(process.name))
    return found


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition is true."""
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.005)


def kill(*pids: int) -> None:
    """Kill processes, which may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def values(net: Network) -> list[str]:
    """The present value of each setting."""
    return [net.open(table).read() for table, _ in CHANGES]


def wait_until_running(net: Network) -> int:
    """Wait until a trial has changed something; returns its guardian."""
    before = values(net)
    wait_until(lambda: bool(guardians()) and values(net) != before, "the trial begins")
    return guardians()[0]


@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.full)])
def test_a_killed_trial_leaves_every_setting_as_before(net: Network, kills: int) -> None:
    before = values(net)
    draw = random.Random(7)
    undone = 0
    with driver(net) as process:
        for number in range(kills):
            trial = begin(process)
            if number % 2:  # Otherwise the kill may come before the trial has changed anything.
                wait_until_running(net)
            time.sleep(draw.uniform(0, LONGEST_WAIT_S))
            victims = ("trial", "guardian", "both")[number % 3]
            if victims == "trial":
                kill(trial)
                status_of(process)
            elif victims == "guardian":
                wait_until(lambda: bool(guardians()), "the guardian starts")
                kill(*guardians())
                assert status_of(process) == trial_driver.FAILED
            else:
                both = [trial, *guardians()]
                draw.shuffle(both)
                kill(*both)
                status_of(process)
            wait_until(lambda: not guardians(), "the guardian ends")
            if victims == "both" and journal.leftover() is not None:
                assert all(one.outcome is not Restoration.FAILED for one in journal.undo())
                undone += 1
            assert journal.leftover() is None, victims
            assert values(net) == before, victims
    assert undone, "at least one journal was left"


def test_the_guardian_survives_signals_and_the_death_of_its_parents_group(net: Network) -> None:
    before = values(net)
    with driver(net) as process:
        begin(process)
        pid = wait_until_running(net)
        for number in guardian.IGNORED:
            os.kill(pid, number)
        assert os.getsid(pid) == pid
        os.killpg(process.pid, signal.SIGKILL)
        wait_until(lambda: not guardians(), "the guardian ends")
    assert values(net) == before
    assert not journal.path().exists()


def test_the_guardian_survives_the_end_of_the_terminal(net: Network) -> None:
    before = values(net)
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup leaves it ignored.
        words = command(net, CHANGES)
        os.execv(words[0], words)
    os.write(terminal, b"\n")
    wait_until_running(net)
    os.close(terminal)
    os.waitpid(pid, 0)
    wait_until(lambda: not guardians(), "the guardian ends")
    assert values(net) == before
    assert not journal.path().exists()


def left_by_a_crash(net: Network) -> journal.Journal:
    """Kill a trial together with its guardian, with its settings changed."""
    changed = [net.open(table).normal(value) for table, value in CHANGES]
    with driver(net) as process:
        trial = begin(process)
        pid = wait_until_running(net)
        os.kill(trial, signal.SIGSTOP)  # The guardian must not be faster than the kill.
        kill(pid, trial)
        status_of(process)
    for (table, _), value in zip(CHANGES, changed, strict=True):
        setting = net.open(table)
        if setting.read() != value:
            setting.write(value)
    left = journal.leftover()
    assert left is not None
    return left


def outcomes(undone: list[journal.Undone]) -> dict[str, Restoration]:
    """The outcome of each setting by its title."""
    return {one.title: one.outcome for one in undone}


def test_undo_restores_what_a_crash_left_and_another_trial_is_refused_before(net: Network) -> None:
    before = values(net)
    left_by_a_crash(net)
    with (
        pytest.raises(MachineLacks, match="was killed") as caught,
        journal.begin([(net.open(AUTOCORKING), "0")]),
    ):
        pytest.fail("the block must not run")
    assert "--undo" in caught.value.hint
    found = journal.undo()
    assert {one.outcome for one in found} <= {Restoration.RESTORED, Restoration.UNCHANGED}
    assert values(net) == before
    assert not journal.path().exists()
    assert journal.undo() == []


def test_the_doctor_names_what_a_crash_left_and_the_command_that_restores_it(net: Network) -> None:
    assert crashed.capability().available
    left_by_a_crash(net)
    found = crashed.capability()
    assert not found.available
    assert net.open(MTU).title() in found.detail
    assert "trial --undo" in found.next_step
    journal.path().write_text("{")
    assert "cannot be read" in crashed.capability().detail


def test_undo_leaves_what_somebody_else_changed(net: Network) -> None:
    left_by_a_crash(net)
    net.open(MTU).write("1300")
    found = outcomes(journal.undo())
    assert found[net.open(MTU).title()] is Restoration.CHANGED_BY_OTHERS
    assert net.open(MTU).read() == "1300"
    assert net.open(AUTOCORKING).read() == "1"
    assert not journal.path().exists()


@pytest.mark.parametrize("kind", ["file", "file-mask"])
def test_undo_restores_a_setting_of_which_some_parts_were_written(net: Network, kind: str) -> None:
    name = {"file": "rps_flow_cnt", "file-mask": "rps_cpus"}[kind]
    table = {"kind": kind, "path": f"/sys/class/net/{{interface}}/queues/rx-*/{name}"}
    setting = net.open(table)
    before = setting.read()
    value = {"file": "4096", "file-mask": "0"}[kind]
    with journal.begin([(setting, value)]) as session:
        session.apply([0])
        parts = [before.removeprefix(settings.MASK), setting.read().removeprefix(settings.MASK)]
        setting.write(settings.SEPARATOR.join(parts))
        assert setting.read() not in (before, setting.normal(value))
    assert setting.read() == before
    assert [one.outcome for one in session.undone] == [Restoration.RESTORED]


def test_undo_leaves_a_new_interface_of_the_same_name_alone(net: Network) -> None:
    left_by_a_crash(net)
    net.run("ip", "link", "delete", DEVICE)
    net.run("ip", "link", "add", DEVICE, "mtu", "1400", "type", "veth")
    found = outcomes(journal.undo())
    assert found[f"MTU of {DEVICE}"] is Restoration.GONE
    assert net.open(MTU).read() == "1400"
    assert net.open(AUTOCORKING).read() == "1", "a sysctl does not end with the interface"


def test_undo_reports_a_namespace_that_is_gone(net: Network) -> None:
    left_by_a_crash(net)
    net.remove()
    wait_until(lambda: {one.outcome for one in undo_again()} == {Restoration.GONE}, "it is gone")
    assert not journal.path().exists()


def undo_again() -> list[journal.Undone]:
    """Undo a copy of the journal until the kernel has removed the namespace."""
    content = journal.path().read_text()
    found = journal.undo()
    if {one.outcome for one in found} != {Restoration.GONE}:
        journal.path().write_text(content)
    return found


def test_nothing_is_undone_after_a_restart(net: Network, tmp_path: Path) -> None:
    left_by_a_crash(net)
    changed = values(net)
    content = json.loads(journal.path().read_text())
    journal.path().write_text(json.dumps({**content, "boot": "an earlier one"}))
    assert journal.leftover() is None
    assert set(outcomes(journal.undo()).values()) == {Restoration.GONE}
    assert values(net) == changed


def test_a_torn_journal_is_an_error_that_names_the_file(net: Network) -> None:
    left_by_a_crash(net)
    content = journal.path().read_text()
    journal.path().write_text(content[: len(content) // 2])
    with pytest.raises(RunFailed, match=r"trial\.json"):
        journal.undo()
    with (
        pytest.raises(RunFailed, match="cannot be read"),
        journal.begin([(net.open(AUTOCORKING), "0")]),
    ):
        pytest.fail("the block must not run")
    assert journal.path().exists()


def test_a_second_trial_is_refused_while_one_runs(net: Network) -> None:
    with journal.begin([(net.open(AUTOCORKING), "0")]):
        with pytest.raises(MachineLacks, match="runs"), journal.begin([(net.open(TSO), "off")]):
            pytest.fail("the block must not run")
        with pytest.raises(MachineLacks, match="still runs"):
            journal.undo()
    assert not journal.path().exists()


def test_a_change_of_somebody_else_stops_the_trial_and_stays(net: Network) -> None:
    setting = net.open(MTU)
    with (  # noqa: PT012
        pytest.raises(RunFailed, match="somebody else set it to 1300"),
        journal.begin([(net.open(AUTOCORKING), "0"), (setting, "1400")]) as session,
    ):
        session.apply([0, 1])
        net.run("ip", "link", "set", DEVICE, "mtu", "1300")
        session.restore([1])
    assert outcomes(session.undone)[setting.title()] is Restoration.CHANGED_BY_OTHERS
    assert (setting.read(), net.open(AUTOCORKING).read()) == ("1300", "1")


def test_an_undo_that_fails_is_reported_beside_the_error_of_the_trial(net: Network) -> None:
    pair = {"kind": "command", "do": "true", "undo": "echo no >&2; false"}
    with (  # noqa: PT012
        pytest.raises(RunFailed, match=r"no traffic; `true` was not restored .*no\)") as caught,
        journal.begin([(net.open(pair), "done")]) as session,
    ):
        session.apply([0])
        raise RunFailed("no traffic")
    assert str(journal.path()) in caught.value.hint
    assert journal.path().exists()
    Path(session.settings[0].record()["marker"]).unlink()


def test_an_interface_that_goes_away_stops_the_trial_and_the_rest_is_undone(net: Network) -> None:
    with (  # noqa: PT012
        pytest.raises(RunFailed, match="no longer exists"),
        journal.begin([(net.open(AUTOCORKING), "0"), (net.open(TSO), "off")]) as session,
    ):
        session.apply([0, 1])
        net.run("ip", "link", "delete", DEVICE)
        session.restore([0, 1])
    assert set(outcomes(session.undone).values()) == {Restoration.RESTORED, Restoration.GONE}
    assert net.run("sysctl", "-n", "net.ipv4.tcp_autocorking").strip() == "1"
    assert not journal.path().exists()


def test_a_trial_survives_the_process_that_named_its_namespace(net: Network) -> None:
    setting = net.open(AUTOCORKING)
    with journal.begin([(setting, "0")]) as session:
        session.apply([0])
        net.holder.kill()
        net.holder.wait()
        session.restore([0])
        session.apply([0])
    assert net.run("sysctl", "-n", "net.ipv4.tcp_autocorking").strip() == "1"


def test_a_setting_that_is_kept_stays_and_the_rest_is_undone(net: Network) -> None:
    opened = [net.open(AUTOCORKING), net.open(MTU)]
    with journal.begin([(opened[0], "0"), (opened[1], "1400")]) as session:
        session.apply([0, 1])
        session.restore([0, 1])
        session.keep(0)
    assert [setting.read() for setting in opened] == ["0", "1500"]
    assert outcomes(session.undone)[opened[0].title()] is Restoration.KEPT


def test_an_interrupted_trial_restores_its_settings(net: Network) -> None:
    before = values(net)
    with (  # noqa: PT012
        pytest.raises(KeyboardInterrupt),
        journal.begin([(net.open(table), value) for table, value in CHANGES]) as session,
    ):
        session.apply(range(len(CHANGES)))
        assert values(net) != before
        raise KeyboardInterrupt
    assert values(net) == before
    assert not guardians()
