"""Help, error messages and the doctor's table, compared with the files in `tests/snapshots`."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import split

import pytest

from perpacket import machine
from perpacket.cli import app
from perpacket.machine import bpf, kernel, leftovers, memory, network, processors, programs
from perpacket.machine.capability import Capability, Check

FOLDER = Path(__file__).with_name("snapshots")
RENEW = "UPDATE_SNAPSHOTS"
"""Environment variable: write the snapshots; the agent's tests use the same one."""

HELP = (
    *("", "demo", "doctor", "top", "simulate"),
    *("emulate", "emulate prepare", "emulate shell", "emulate replay"),
    *("model", "model laws", "model handoff", "model bounds", "model cache"),
    *("study", "study list", "study show", "study run", "study resume", "study rerun"),
    *("study report", "study new", "study compare", "study export"),
    *("trace", "trace info", "trace convert", "trace synthesize"),
)
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
    "doctor --require unicorns",
    "doctor --require agent,xdp",
    "top --every 1ms",
    "emulate --l2 512K:7",
    "emulate --rate-mbps 10",
    "absent",
)

pytestmark = pytest.mark.usefixtures("fake_core")


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


@pytest.mark.parametrize("verb", HELP)
def test_the_help_of_a_verb_is_the_snapshot(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    name = "-".join(["help", *verb.split()])
    compare(f"{name}.txt", block(f"{verb} --help".strip(), capfd))


def test_the_table_of_the_doctor_is_the_snapshot(capfd: pytest.CaptureFixture[str]) -> None:
    compare("doctor.txt", block("doctor", capfd))


def test_errors_and_their_hints_are_the_snapshot(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_and_xdp = [one for one in capabilities() if one.name in {"agent", "xdp"}]
    monkeypatch.setattr(machine, "examine", lambda: agent_and_xdp)
    compare("errors.txt", "\n".join(block(command, capfd) for command in ERRORS))
