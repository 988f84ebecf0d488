"""The command line: what is printed where, exit statuses, and errors a user can act on."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import split
from typing import Protocol

import polars
import pytest

from fake_core import HOLD_AFTER, RUN_S, STARTED
from patience import PATIENCE_S
from perpacket.cli import app, termination

FAKE = Path(__file__).with_name("fake_core.py")
HEAVY = ("polars", "altair", "numpy", "perpacket_lab._core")

pytestmark = pytest.mark.usefixtures("fake_core", "fake_report")


@dataclass(frozen=True)
class Done:
    """The output and the exit status of one command line."""

    status: int
    out: str
    err: str


class CommandLine(Protocol):
    """Runs one command line."""

    def __call__(self, *arguments: str) -> Done: ...


@pytest.fixture
def perpacket(capfd: pytest.CaptureFixture[str]) -> CommandLine:
    """Run a command line in this process."""

    def run(*arguments: str) -> Done:
        status = app.run(arguments)
        out, err = capfd.readouterr()
        return Done(int(status), out, err)

    return run


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["simulate", "--help"]])
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from perpacket.cli import app; status = app.run(sys.argv[1:]); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], status, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert done.stderr == "[] 0\n"
    assert "perpacket" in done.stdout


@pytest.mark.parametrize(
    "verb",
    [
        ["demo"],
        ["simulate"],
        ["trace", "info"],
        ["trace", "convert"],
        ["trace", "synthesize"],
        ["study", "list"],
        ["study", "show"],
        ["study", "run"],
        ["study", "resume"],
        ["study", "rerun"],
        ["study", "report"],
        ["study", "new"],
        ["study", "compare"],
        ["study", "export"],
    ],
)
def test_every_verb_has_format_quiet_and_help_with_an_example(
    perpacket: CommandLine, verb: list[str]
) -> None:
    done = perpacket(*verb, "--help")
    assert done.status == 0
    for part in ("--format", "--quiet", "Example:"):
        assert part in done.out
    assert done.err == ""


def test_json_is_only_the_text_of_the_simulator(perpacket: CommandLine) -> None:
    done = perpacket("simulate", "W-1024-P-N-FCFS-400", "--seed", "3", "--format", "json")
    result = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert (result["configuration"], result["seed"]) == ("W-1024-P-N-FCFS-400", 3)
    assert list(result)[:5] == ["schema", "configuration", "seed", "simulated_s", "wall_s"]


def test_the_table_names_quantities_with_units_and_marks_missing_values(
    perpacket: CommandLine,
) -> None:
    done = perpacket("simulate", "bulk")
    lines = {
        line.split()[0]: line.split()[1:] for line in done.out.splitlines() if len(line.split()) > 1
    }
    assert lines["requests_per_s"] == ["-"]
    assert lines["host_packet_delay_us.send.median"]
    assert lines["tcp"]


def test_options_of_the_bulk_sender_are_names_of_parameters(perpacket: CommandLine) -> None:
    done = perpacket(
        *split("simulate bulk --machine athlon-xp-2600 --connections 2048 --bit-rate 100Mb/s"),
        *split("--latency 0 --l2-size 256KiB --prefetch none --warmup-packets 10 --packets 20"),
        *split("--set nic.lowat=128 --show-config --format json"),
    )
    parameters = {entry["name"]: entry["value"] for entry in json.loads(done.out)}
    assert parameters == {
        "nic.mips": 400,
        "machine": "athlon-xp-2600",
        "workload.connections": "2048",
        "workload.rate_mbps": "100",
        "network.added_latency_ms": "0",
        "machine.l2.size_kib": "256",
        "host.prefetch": "none",
        "run.warmup_packets": "10",
        "run.packets": "20",
        "nic.lowat": "128",
    }


def test_show_config_prints_value_unit_and_source_of_every_parameter(
    perpacket: CommandLine,
) -> None:
    done = perpacket("simulate", "W-0-N-N-FCFS-400", "--show-config")
    assert done.status == 0
    assert "nic.mips" in done.out
    assert "OSDI 2006, 4.1" in done.out


@pytest.mark.parametrize(
    ("arguments", "named", "hint"),
    [
        (["simulate", "X"], "configuration = X", "give one such as W-1024-P-N"),
        (["simulate", "bulk", "--set", "nic.mips=0"], "nic.mips = 0", "give 1 or more"),
        (["simulate", "bulk", "--set", "nic.mips"], "--set nic.mips", "--set nic.lowat=128"),
        (["simulate", "bulk", "--timeline", "x.xls"], "--timeline x.xls", ".csv, .json, .parquet"),
        (["simulate", "bulk", "--timeline", "no/x.csv"], "--timeline no/x.csv", "make the folder"),
        (["simulate", "bulk", "--trace", "absent"], "absent: no such file", "check the file"),
        (["simulate", "bulk", "--format", "xml"], "xml", "--help"),
        (["simulate", "--nonsense"], "--nonsense", "--help"),
        (["simulate", "bulk", "--seed", "-1"], "--seed", "--help"),
        (["simulate", "bulk", "--seed", str(2**64)], "--seed", "--help"),
        (["trace", "synthesize", "w.log", "--seed", str(2**64)], "--seed", "--help"),
        (
            ["simulate", "bulk", "--timeline", "d.csv"],
            "--timeline d.csv: is a directory",
            "use a file in it",
        ),
        (["demo", "--output", "no/x.html"], "--output no/x.html: there is no folder", "make the"),
        (["demo", "--charts", "f/x"], "--charts f/x: ", "use a folder"),
        (["demo", "--output", "f/x.html"], "f is not a folder", "use a folder"),
        (["study", "report", ".", "--output", "d.csv"], "--output d.csv: is a directory", "in it"),
        (["study", "report", ".", "--charts", "f/x"], "--charts f/x: ", "use a folder"),
        (["study", "run", "osdi06", "--workers", "0"], "--workers", "--help"),
        (["study", "run", "nothing"], "no study 'nothing'", "osdi06"),
        (
            ["study", "run", "osdi06", "-q", "--output", "f/r"],
            "the run directory f/r cannot",
            "--output",
        ),
        (["study", "resume", "."], "is no run directory", "study run"),
    ],
)
def test_a_users_mistake_is_named_with_a_hint_and_exits_with_2(
    perpacket: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    named: str,
    hint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").mkdir()
    (tmp_path / "f").touch()
    done = perpacket(*arguments)
    error, blank, advice = done.err.rstrip("\n").split("\n")
    assert done.status == 2
    assert done.out == ""
    assert error.startswith("error: ")
    assert named in error
    assert blank == ""
    assert advice.startswith("hint: ")
    assert hint in advice
    assert {entry.name for entry in tmp_path.iterdir()} == {"d.csv", "f"}


def test_an_unwritable_folder_is_an_error_before_the_work(
    perpacket: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # the superuser may write everywhere
    monkeypatch.setattr("perpacket_lab.demo.run", lambda *_, **__: pytest.fail("it was run"))
    done = perpacket("demo", "--output", str(tmp_path / "x.html"))
    assert done.status == 2
    assert f"{tmp_path} cannot be written to" in done.err
    assert ".part" not in done.err


def test_without_a_verb_there_is_help_and_no_error(perpacket: CommandLine) -> None:
    for arguments in ([], ["study"], ["trace"]):
        done = perpacket(*arguments)
        assert done.status == 2
        assert "Usage: perpacket" in done.out + done.err
        assert "error:" not in done.err


def test_a_closed_standard_output_is_an_error_with_exit_status_4(
    perpacket: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        done = perpacket("study", "list")
    assert done.status == 4
    assert done.err.startswith("error: standard output is closed\n\nhint: ")


def test_lines_of_a_table_in_a_pipe_end_with_their_text(perpacket: CommandLine) -> None:
    lines = perpacket("study", "list").out.splitlines()
    assert any("osdi06" in line for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []


def test_an_empty_trace_exits_with_2_naming_file_and_offset(
    perpacket: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "empty.log").write_bytes(b"")
    done = perpacket("simulate", "bulk", "--trace", str(tmp_path / "empty.log"))
    assert done.status == 2
    assert "empty.log: offset 0: the file is empty" in done.err


def test_a_trace_is_summarized_with_its_first_rejects_on_standard_error(
    perpacket: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "torn.clf"
    file.write_text("a line")
    table = perpacket("trace", "info", str(file))
    assert table.status == 0
    assert "1,930" in table.out
    assert "line 1 was skipped: no status" in table.err
    assert "and 2 more lines" in table.err
    data = json.loads(perpacket("trace", "info", str(file), "--format", "json").out)
    assert len(data["rejects"]) == data["rejected"] == 12

    file.write_text("")
    empty = perpacket("trace", "info", str(file))
    assert empty.status == 2
    assert "torn.clf: offset 0: the file is empty" in empty.err


def test_traces_are_converted_and_synthesized_by_the_options(perpacket: CommandLine) -> None:
    done = perpacket(*split("trace convert a.log b.bin.gz --to world-cup --format json"))
    arrived = json.loads(done.out)["arguments"]
    assert arrived == ["a.log", "b.bin.gz", "world-cup", None, None, None, None]
    made = perpacket(*split("trace synthesize w.zst --workload I --seed 7 --format json"))
    arrived = json.loads(made.out)["arguments"]
    assert arrived == ["w.zst", "I", 100_000, 7, 10.0, 1.0, 2048, "common"]


def test_packets_that_do_not_balance_exit_with_1_after_the_data(perpacket: CommandLine) -> None:
    done = perpacket("simulate", "bulk", "--set", "break.conservation=1", "--format", "json")
    assert done.status == 1
    assert json.loads(done.out)["conserved"] is False
    assert "bulk, seed 1: the packets" in done.err


def test_a_panic_of_the_simulator_exits_with_4(perpacket: CommandLine, tmp_path: Path) -> None:
    done = perpacket("simulate", "bulk", "--set", "break.run=1")
    assert (done.status, done.out) == (4, "")
    assert "the simulator failed: index out of bounds" in done.err
    assert "please report" in done.err

    command = "study run osdi06 --set break.run=1 --workers 1 --output"
    done = perpacket(*split(command), str(tmp_path / "run"))
    assert done.status == 4
    assert "point W-0-N-N-FCFS-400, seed 1: the simulator failed" in done.err


def test_an_unexpected_error_has_a_traceback_and_exits_with_4(
    perpacket: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perpacket_lab.study.library.names", lambda: 1 / 0)
    done = perpacket("study", "list")
    assert done.status == 4
    assert "Traceback" in done.err
    assert "perpacket failed: ZeroDivisionError" in done.err


@pytest.mark.parametrize("arguments", [["simulate", "bulk"], ["trace", "info", "a.log"], ["demo"]])
def test_without_the_core_the_exit_status_is_3_with_a_hint(
    perpacket: CommandLine, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "perpacket_lab._core", None)
    monkeypatch.delattr("perpacket_lab._core", raising=False)
    done = perpacket(*arguments)
    assert done.status == 3
    assert "make setup" in done.err


def test_a_timeline_is_the_same_in_every_format(perpacket: CommandLine, tmp_path: Path) -> None:
    for suffix in ("csv", "json", "parquet"):
        file = tmp_path / f"timeline.{suffix}"
        done = perpacket("simulate", "W-4096-P-L-FCFS-400", "--timeline", str(file), "--quiet")
        assert (done.status, done.err) == (0, "")
    expected = json.loads((tmp_path / "timeline.json").read_text())
    with (tmp_path / "timeline.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["soft_limit"]) for row in rows] == expected["soft_limit"]
    table = polars.read_parquet(tmp_path / "timeline.parquet")
    assert table.to_dict(as_series=False) == expected


def test_a_study_runs_reports_and_compares_with_the_paper(
    perpacket: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    done = perpacket(
        *split("study run osdi06 --replications 2 --packets 1000 --format json --output"), str(path)
    )
    found = json.loads(done.out)
    assert done.status == 0
    assert (found["observations"], found["missing"]) == (86, 0)
    assert (path / "report.html").is_file()
    row = next(row for row in found["comparisons"] if row["figure"] == "osdi06/51-P4-rate")
    assert row["published"]["value"] == 12917
    assert row["simulated"]["n"] == 2
    assert f"report: {path / 'report.html'}" in done.err

    again = perpacket("study", "report", str(path), "--format", "json", "--quiet")
    assert json.loads(again.out)["comparisons"] == found["comparisons"]
    assert again.err == ""

    charts = tmp_path / "charts"
    table = perpacket("study", "report", str(path), "--charts", str(charts), "--theme", "dark")
    assert (charts / "01.svg").read_text() == "dark"
    assert f"charts: 1 files in {charts}" in table.err
    assert "c: used to calibrate" in table.out
    assert "does not hold" in table.out


def test_a_study_whose_packets_do_not_balance_exits_with_1_naming_the_runs(
    perpacket: CommandLine, tmp_path: Path
) -> None:
    command = "study run osdi06 --replications 1 --set break.conservation=1 --output"
    done = perpacket(*split(command), str(tmp_path / "run"))
    assert done.status == 1
    assert "W-0-N-N-FCFS-400 seed 1" in done.err
    assert "not judged" in done.out


def test_a_damaged_observation_stops_the_report_with_its_name(
    perpacket: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    perpacket(*split("study run osdi06 --replications 1 --quiet --output"), str(path))
    victim = next((path / "observations").iterdir())
    victim.write_text("{")
    for verb in ("report", "resume"):
        done = perpacket("study", verb, str(path))
        assert done.status == 2
        assert victim.name in done.err
    assert victim.read_text() == "{"


def test_studies_are_listed_and_shown(perpacket: CommandLine) -> None:
    assert {
        study["name"] for study in json.loads(perpacket("study", "list", "--format", "json").out)
    } >= {"osdi06", "tr05-450", "tr05-450-simulated", "breakdown"}
    shown = perpacket("study", "show", "tr05-450-simulated")
    assert "bulk-2048c-100mbps-0ms-256k-none" in shown.out


def test_the_demo_prints_six_configurations_and_writes_its_report(
    perpacket: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = perpacket("demo", "--no-live", "--format", "json")
    rows = {row["configuration"]: row for row in json.loads(done.out)["rows"]}
    assert done.status == 0
    assert len(rows) == 6
    assert rows["W-0-N-N-FCFS-400"]["gain_request_rate"]["simulated"] is None
    assert rows["W-1024-N-N-FCFS-400"]["gain_request_rate"]["published"] == -30
    assert rows["W-4096-P-N-FCFS-400"]["gain_request_rate"]["published"] == -44
    assert rows["W-4096-P-L-FCFS-800"]["request_rate"]["published"] == 36532
    assert rows["W-4096-P-L-FCFS-800"]["request_rate"]["simulated"]["n"] == 5
    assert (tmp_path / "perpacket-demo.html").is_file()

    command = ("demo", "--no-live", "--quiet", "--charts", "charts")
    table = perpacket(*command, "--output", str(tmp_path / "mine.html"))
    assert (tmp_path / "charts" / "handoff" / "01.svg").read_text() == "light"
    assert table.err == ""
    assert "too many connections" in table.out
    assert (tmp_path / "mine.html").is_file()


def observation_results(path: Path) -> dict[str, object]:
    """The deterministic part of every observation."""
    return {
        file.name: json.loads(file.read_text())["result"]
        for file in sorted((path / "observations").glob("*.json"))
    }


def start_study(path: Path) -> subprocess.Popen[str]:
    """A study in its own process, stopped after five observations."""
    command = [sys.executable, str(FAKE), *split("study run osdi06 --replications 2 --workers 2")]
    process = subprocess.Popen(
        [*command, "--output", str(path)],
        env=os.environ | {HOLD_AFTER: "5"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(process, lambda: len(list(path.glob("observations/*.json"))) >= 5)
    return process


def wait_until(process: subprocess.Popen[str], happened: Callable[[], bool]) -> None:
    """Wait until a condition is true while a process runs."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_study_stopped_in_any_way_resumes_to_the_same_results(
    perpacket: CommandLine, tmp_path: Path, stop: signal.Signals
) -> None:
    whole, path = tmp_path / "whole", tmp_path / "stopped"
    perpacket(*split("study run osdi06 --replications 2 --quiet --output"), str(whole))
    process = start_study(path)
    process.send_signal(stop)
    out, err = process.communicate(timeout=PATIENCE_S)
    stored = observation_results(path)
    assert len(stored) == 5
    assert out == ""
    if stop is signal.SIGINT:
        assert process.returncode == 130
        assert f"{len(stored)} of 86 observations are in" in err
        assert f"perpacket study resume {path}" in err
    done = perpacket("study", "resume", str(path), "--format", "json")
    assert json.loads(done.out)["missing"] == 0
    assert f"{86 - len(stored)} new observations" in done.err
    assert observation_results(path) == observation_results(whole)
    again = perpacket("study", "resume", str(path), "--format", "json")
    assert f"{path} was complete: nothing was left to run" in again.err


def test_ctrl_c_ends_a_single_simulation_with_130(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, str(FAKE), "simulate", "bulk"],
        env=os.environ | {HOLD_AFTER: "0", STARTED: str(tmp_path / "started")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(process, (tmp_path / "started").exists)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    assert err == "error: interrupted\n"


def test_there_is_no_progress_when_standard_error_is_not_a_terminal() -> None:
    done = subprocess.run(
        [sys.executable, str(FAKE), "simulate", "bulk", "--format", "json"],
        env=os.environ | {RUN_S: "0.3"},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["schema"] == 1


def test_after_sigterm_finished_runs_are_stored_and_the_exit_status_is_143(
    perpacket: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "stopped"
    process = start_study(path)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_S)
    stored = len(observation_results(path))
    assert (process.returncode, out) == (143, "")
    assert f"{stored} of 86 observations are in" in err
    assert f"perpacket study resume {path}" in err


def test_a_second_sigterm_does_not_interrupt_the_clean_up() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with termination.interrupt_on_sigterm() as request:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert request.is_requested
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("arguments", "status"),
    [("study list", 0), ("study new", 0), ("model laws --published", 0), ("simulate bulk", 0)],
)
def test_a_closed_pipe_changes_no_exit_status(arguments: str, status: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, str(FAKE), *split(arguments)],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    os.close(writing)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_terminated_fork_ends_without_a_message() -> None:
    """The library for namespaces forks, and terminates its forks with SIGTERM."""
    with termination.interrupt_on_sigterm() as request:
        child = os.fork()
        if not child:
            while True:
                time.sleep(0.01)
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM
    assert not request.is_requested


def test_an_explanation_is_printed_by_operation_and_queue(perpacket: CommandLine) -> None:
    done = perpacket("simulate", "W-0-N-N-FCFS-400", "--explain", "--quiet")
    assert done.status == 0
    for text in ("tcp.input", "lookup", "host: kernel jobs", "per request"):
        assert text in done.out
    done = perpacket("simulate", "W-0-N-N-FCFS-400", "--explain", "--format", "json", "--quiet")
    assert json.loads(done.out)["host"][0]["operation"] == "tcp.input"


NOT_DOCUMENTS = {
    "random.toml": random.Random(1).randbytes(3000),
    "compressed.toml": gzip.compress(b"name = 1\n"),
    "brackets.toml": b"a = " + b"[" * 100_000,
    "brackets.json": b"[" * 100_000,
}
"""Files that are neither JSON nor TOML."""


@pytest.mark.parametrize("name", NOT_DOCUMENTS)
@pytest.mark.parametrize(
    "verb",
    [
        ("profile", "compare", "{file}", "{file}"),
        ("advise", "--profile", "{file}"),
        ("study", "run", "{file}"),
        ("model", "bounds", "--bench", "{file}"),
    ],
    ids=lambda verb: " ".join(verb[:2]),
)
def test_a_file_that_is_no_document_is_a_mistake_and_not_a_fault(
    verb: Sequence[str], name: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(NOT_DOCUMENTS[name])
    command = [sys.executable, "-m", "perpacket.cli", *(word.format(file=file) for word in verb)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_modules_are_imported_ends_without_a_traceback() -> None:
    script = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "perpacket.cli.app":
            raise KeyboardInterrupt

from perpacket.cli import main
sys.meta_path.insert(0, Interrupt())
main()
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
