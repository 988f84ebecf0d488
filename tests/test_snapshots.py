"""Help, error messages and tables, compared with the files in `tests/snapshots`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from shlex import split
from typing import Any

import pytest
from typer.main import get_command

from perpacket import machine
from perpacket.cli import agent_verbs, app
from perpacket.machine import bpf, kernel, leftovers, memory, network, processors, programs
from perpacket.machine.capability import Capability, Check

FOLDER = Path(__file__).with_name("snapshots")
RENEW = "UPDATE_SNAPSHOTS"
"""Environment variable: write the snapshots; the agent's tests use the same one."""

ERRORS = (
    "simulate W-1024-P-N",
    "simulate bulk --set nic.lowat",
    "simulate bulk --seed -1",
    "trace info absent.log",
    "demo --output absent/report.html",
    "demo --charts file/charts",
    "study run absent",
    "study run osdi06 --only latency",
    "study resume absent",
    "study rerun absent",
    "study report absent",
    "study show absent",
    "study list extra",
    "study new extra",
    "study compare absent file",
    "study export absent --output absent.parquet",
    "model laws --network-share 2",
    "model part --share 2",
    "model handoff --host 0us --saved 1us",
    "model bounds --bench absent",
    "model cache --miss-rate 2",
    "model tls absent",
    "trace convert absent.log out.log --to squid",
    "trace synthesize out.log --connections 0",
    "doctor --require unicorns",
    "doctor --require agent,xdp",
    "top --every 1ms",
    "emulate --l2 512K:7",
    "emulate --bit-rate 10Mb/s",
    "emulate prepare --kernel file",
    "emulate shell --kernel absent",
    "application list extra",
    "application prepare absent",
    "application start absent",
    "application check absent",
    "application stop absent",
    "advise --pid 0",
    "trial unicorns",
    "trial",
    "profile compare absent file",
    "absent",
)

RECORDING = Path(__file__).parents[1] / "lab" / "crates" / "emulate" / "tests" / "data" / "bulk.rec"


def verbs(command: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Every verb below a command, except those whose help is the agent's."""
    if words and words[0] in agent_verbs.VERBS:
        return
    yield " ".join(words)
    for name, below in getattr(command, "commands", {}).items():
        yield from verbs(below, (*words, name))


HELP = [*verbs(get_command(app.app)), "profile compare"]


@pytest.fixture(autouse=True)
def fixed_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same terminal, folder and machine for every snapshot."""
    for name in ("GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PERPACKET_JOURNAL", str(tmp_path / "journal"))
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    monkeypatch.setattr(machine, "examine", capabilities)


def capabilities() -> list[Capability]:
    """A machine that has an agent and two processors, and lacks everything else."""
    modules = (kernel, network, leftovers, bpf, processors, memory)
    questions = [
        value for module in modules for value in vars(module).values() if type(value) is Check
    ]
    available = {kernel.AGENT: "runs", "two_processors": "2 usable: 0-1"}
    found = [
        check.result(check.name in available, available.get(check.name, "not found"))
        for check in questions
    ]
    return [*found, *programs.capabilities(lambda _: None)]


def compare(file: str, actual: str) -> None:
    """Fail unless the snapshot `file` has the text `actual`; write it with UPDATE_SNAPSHOTS."""
    path = FOLDER / file
    if os.environ.get(RENEW):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(actual, encoding="utf-8")
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    assert actual == expected, (
        f"{path.name} differs: read the change, then `{RENEW}=1 pytest tests/test_snapshots.py`"
    )


def block(command: str, capfd: pytest.CaptureFixture[str]) -> str:
    """A command with its exit status, standard output and standard error."""
    status = int(app.run(split(command)))
    out, err = (trimmed(text) for text in capfd.readouterr())
    return f"$ perpacket {command}\n[exit status {status}]\n--- stdout\n{out}--- stderr\n{err}"


def trimmed(text: str) -> str:
    """The text without white space at the ends of lines and without the test's folder."""
    text = text.replace(str(Path.cwd()), "/folder")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@pytest.mark.usefixtures("fake_core")
@pytest.mark.parametrize("verb", HELP)
def test_the_help_of_a_verb_is_the_snapshot(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    name = "-".join(["help", *verb.split()])
    compare(f"{name}.txt", block(f"{verb} --help".strip(), capfd))


def test_no_snapshot_of_help_has_lost_its_verb() -> None:
    names = {"-".join(["help", *verb.split()]) for verb in HELP}
    assert {path.stem for path in FOLDER.glob("help*.txt")} == names


def test_a_replay_of_a_recording_prints_the_tables_of_the_snapshot(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path(RECORDING.name).symlink_to(RECORDING)
    commands = (
        f"emulate replay {RECORDING.name} --l2 256K:16,1M:16",
        "emulate replay file",
        "emulate footprint absent",
    )
    compare("replay.txt", "\n".join(block(command, capfd) for command in commands))


def test_the_table_of_the_doctor_is_the_snapshot(capfd: pytest.CaptureFixture[str]) -> None:
    compare("doctor.txt", block("doctor", capfd))


@pytest.mark.usefixtures("fake_core")
def test_errors_and_their_hints_are_the_snapshot(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_and_xdp = [one for one in capabilities() if one.name in {"agent", "xdp"}]
    monkeypatch.setattr(machine, "examine", lambda: agent_and_xdp)
    compare("errors.txt", "\n".join(block(command, capfd) for command in ERRORS))
