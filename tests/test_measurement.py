"""A measured run has server, load and profile in one window, and reports doubts.

The hosts are processes of this machine, and the agent is a fake. The tests check the commands that
the hosts get, the order of the commands, and the use of the reports.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

import fake_agent
from patience import PATIENCE_S
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure import agent, cpu_lists
from perpacket.measure.hosts.record import own_name, remove_folders, temporary_folder
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.measure import hosts as testbed
from perpacket_lab.measure import programs
from perpacket_lab.measure.host_files import PREFIX
from perpacket_lab.measure.hosts import Host, Testbed
from perpacket_lab.measure.plan import validated
from perpacket_lab.measure.web import served_files
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.measure.web.web_runner import WebRunner
from perpacket_lab.run import measured_runs, start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.study import library
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import SetupDescription
from perpacket_lab.study.study import Study
from probes import need
from quiet import skip_if_disturbed
from requirements import skip

AGENT = Path(fake_agent.__file__)
QUICK = (("run.duration_s", "0.05"), ("run.warmup_s", "0"), ("testbed.kind", "loopback"))


@dataclass
class FakeTestbed(AbstractContextManager["FakeTestbed"]):
    """Hosts of this machine, with a network that records the requested latency."""

    inner: Testbed
    network: str = "veth"
    latencies_us: list[float] = field(default_factory=list)
    limits: tuple[str, ...] = ("The hosts are this machine.",)

    @property
    def server(self) -> Host:
        return self.inner.server

    @property
    def clients(self) -> tuple[Host, ...]:
        return self.inner.clients

    def set_quickack(self, is_on: bool) -> None:
        """Raise an error, as hosts without routes of their own do."""
        if is_on:
            raise MachineLacks("no route attribute here")

    def set_latency(self, one_way_us: float) -> None:
        self.latencies_us.append(one_way_us)

    def network_report(self) -> dict[str, object] | None:
        return None if self.network == "veth" else {"kept": True}

    def __exit__(self, *raised: object) -> None:
        """Do nothing: the test removes the hosts."""


@dataclass
class OpenedTestbeds:
    """Opens testbeds and stores them for the test."""

    lacks_latency: bool = False
    opened: list[FakeTestbed] = field(default_factory=list)

    @contextmanager
    def open(self, plan: WebPlan) -> Iterator[FakeTestbed]:
        if plan.network == "delayed" and self.lacks_latency:
            raise MachineLacks("there is no network to delay")
        with testbed.loopback() as inner:
            bed = FakeTestbed(inner, "veth" if plan.network == "direct" else "link")
            self.opened.append(bed)
            yield bed


@pytest.fixture
def beds() -> OpenedTestbeds:
    return OpenedTestbeds()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces the agent by the fake one; the log of its commands."""
    file = tmp_path / "asked.jsonl"
    monkeypatch.setenv("PERPACKET_AGENT", str(AGENT))
    monkeypatch.setenv(fake_agent.LOG, str(file))
    monkeypatch.setattr("perpacket_lab.measure.measured_run.LEAD_S", 0.0)
    return file


def commands_of(log: Path, *verb: str) -> list[list[str]]:
    """The commands that begin with these words."""
    commands: list[list[str]] = [json.loads(line) for line in log.read_text().splitlines()]
    return [command for command in commands if command[: len(verb)] == list(verb)]


def point(name: str, kind: str, **parameters: object) -> Point:
    pairs = [(key.replace("__", "."), str(value)) for key, value in parameters.items()]
    return Point(name, kind, {"load": name}, (("load.kind", kind), *pairs, *QUICK))


def study_of(beds: OpenedTestbeds, *points: Point) -> Study:
    runner = WebRunner(beds.open)
    return Study("tiny", "A study", "What?", points, (1, 2), runner=runner, measured_runner=runner)


BULK = point("bulk", "stream", load__connections=4, load__rate_mbps=100)
FILE = point("ab", "file", load__connections=8, load__size_bytes=509, load__keep_alive="false")
SURGE = point("surge", "surge", load__users=25)
WEBSTONE = point("mix", "webstone", load__connections=20, load__keep_alive="false")
LATE = point("late", "stream", network__kind="delayed", network__latency_ms=5)


def test_an_observation_has_the_cost_the_rates_and_the_idle_time_of_both_sides(
    beds: OpenedTestbeds, log: Path, tmp_path: Path
) -> None:
    directory = start.run(study_of(beds, FILE, BULK), tmp_path / "run")
    assert not directory.failures()
    row = directory.observations().filter(point="ab").row(0, named=True)
    assert row["layers.tcp.cpu_ns_per_packet"] == 600.0
    assert row["layers.tcp.cpu_ns_per_segment"] == pytest.approx(300.0)
    assert (row["packets_per_s"], row["segments_per_packet"]) == (15_000.0, 2.0)
    assert row["requests_per_s"] == 508.0
    assert row["error_share"] == 0.0
    assert 0 <= row["client_idle"] <= 1
    assert 0 <= row["server_idle"] <= 1
    stream = directory.observations().filter(point="bulk").row(0, named=True)
    assert stream["goodput_mbps"] == 100.0
    assert stream["doubts.rate_missed"] is False
    raw = json.loads(directory.raw_path("ab", 1, "profile").read_text())
    assert raw["unclaimed_top"] == [{"symbol": "mystery", "share": 0.002}]
    assert json.loads(directory.raw_path("ab", 2, "server").read_text())["requests"] == 1000


def test_the_commands_of_server_and_clients_follow_the_point(
    beds: OpenedTestbeds, log: Path, tmp_path: Path
) -> None:
    start.run(study_of(beds, FILE, SURGE, BULK), tmp_path / "run")
    (serve, *_), bed = commands_of(log, "serve", "web"), beds.opened[0]
    assert serve[serve.index("--cpus") + 1] == cpu_lists.ranges(bed.server.cpus)
    load = next(one for one in commands_of(log, "load", "http") if "file" in one)
    assert load[2] == "http://127.0.0.1:8080/file-509.bin"
    assert load[load.index("--connections") + 1] == "8"
    assert load[load.index("--http") + 1] == "1.0"
    surge = next(one for one in commands_of(log, "load", "http") if "surge" in one)
    assert surge[surge.index("--users") + 1] == "25"
    (sender, *_) = [one for one in commands_of(log, "load", "stream") if "--to" in one]
    assert sender[sender.index("--to") + 1] == "127.0.0.1:9000"
    assert sender[sender.index("--bit-rate") + 1] == "100000000"
    assert sender[sender.index("--segment-size") + 1] == "1460"
    profile = commands_of(log, "profile")[0]
    assert profile[profile.index("--duration") + 1] == "0.05"
    urls = {
        one[one.index("--requests") + 1]
        for one in commands_of(log, "profile")
        if "--requests" in one
    }
    assert urls == {"http://127.0.0.1:8080/.perpacket/report"}


def test_each_block_has_its_own_seed(beds: OpenedTestbeds, log: Path, tmp_path: Path) -> None:
    start.run(study_of(beds, FILE, SURGE), tmp_path / "run")
    seeds = [one[one.index("--seed") + 1] for one in commands_of(log, "load", "http")]
    assert len(seeds) == 4
    assert sorted(set(seeds)) == sorted({seeds[0], seeds[-1]})
    assert seeds[0] == seeds[1] != seeds[2]


def test_file_sets_are_made_once_and_removed_with_the_trace(
    beds: OpenedTestbeds, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    recorded = tmp_path / "own.log"
    recorded.write_text('h - - [01/Jan/2020:00:00:00 +0000] "GET /a HTTP/1.1" 200 12\n')
    trace = point("trace", "trace", load__trace=recorded, load__connections=4)
    more = replace(trace, name="more")
    start.run(study_of(beds, trace, more, SURGE), tmp_path / "run")
    made = commands_of(log, "load", "files")
    assert sorted(one[2] for one in made) == ["surge", "trace"]
    replayed = {
        one[one.index("--trace") + 1]
        for one in commands_of(log, "load", "http")
        if "--trace" in one
    }
    assert len(replayed) == 1
    assert recorded.name not in replayed.pop()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_files_of_a_dead_study_are_removed_and_those_of_an_active_one_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    # The owner does not count as alive if another process now has its process id.
    taken = f"{os.getpid()}-1"
    for maker in (f"{dead.pid}-1", taken, own_name(), "nobody"):
        (tmp_path / f"{PREFIX}{maker}-abc").mkdir()
    remove_folders(PREFIX)
    left = {folder.name for folder in tmp_path.iterdir()}
    assert left == {f"{PREFIX}{own_name()}-abc", f"{PREFIX}nobody-abc"}


def test_a_temporary_folder_names_its_owner_and_replaces_those_of_dead_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed = "with record.temporary_folder('advise'): os.kill(os.getpid(), signal.SIGKILL)"
    script = f"import os, signal; from perpacket.measure.hosts import record\n{killed}"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=False)
    (left,) = tmp_path.iterdir()
    with temporary_folder("advise") as folder:
        assert folder.name.startswith(f"perpacket-advise-{own_name()}-")
        assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []
    assert left != folder


def test_a_server_that_dies_is_a_failed_run_with_its_last_output(
    beds: OpenedTestbeds, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fake_agent.SERVER_DIES, "surge")
    directory = start.run(study_of(beds, FILE, SURGE), tmp_path / "run")
    failures = directory.failures()
    assert [(one.point, one.seed) for one in failures] == [("surge", 1), ("surge", 2)]
    # Depending on the machine, this is detected during the run or at its end.
    assert failures[0].reason.startswith("the server on server ")
    assert "status 4: the disk is on fire" in failures[0].reason
    assert len(directory.read_observations()) == 2


def test_points_along_latency_have_separate_hosts(
    beds: OpenedTestbeds, log: Path, tmp_path: Path
) -> None:
    directory = start.run(study_of(beds, BULK, LATE), tmp_path / "run")
    direct, delayed = beds.opened
    assert direct.latencies_us == []
    assert delayed.latencies_us[-2:] == [5000.0, 5000.0]
    facts = directory.environment()["testbed"]
    assert isinstance(facts, dict)
    assert (facts["network"], facts["network_with_latency"]) == ("veth", "link")
    assert facts["could_not"] == ["pmu: time alone, no cycles"]
    assert facts["limits"] == ["The hosts are this machine."]


def test_latency_that_cannot_be_added_leaves_its_points_out(log: Path, tmp_path: Path) -> None:
    directory = start.run(
        study_of(OpenedTestbeds(lacks_latency=True), BULK, LATE), tmp_path / "run"
    )
    assert [point.name for point in directory.configuration.points] == ["bulk"]
    facts = directory.environment()["testbed"]
    assert isinstance(facts, dict)
    assert facts["left_out"] == ["late: nothing can add latency here: there is no network to delay"]


def test_more_connections_than_descriptors_are_left_out(log: Path, tmp_path: Path) -> None:
    many = point("many", "stream", load__connections=10**9)
    directory = start.run(study_of(OpenedTestbeds(), BULK, many), tmp_path / "run")
    assert [point.name for point in directory.configuration.points] == ["bulk"]
    assert "1000000000 connections need more" in json.dumps(directory.environment())


@pytest.mark.parametrize(
    ("url", "requested"),
    [
        ("http://{address}:8080/", "http://127.0.0.1:8080/file-509.bin"),
        ("http://{address}:8080/below/", "http://127.0.0.1:8080/below/file-509.bin"),
        ("http://{address}:8080/search?q=1", "http://127.0.0.1:8080/search?q=1"),
    ],
)
def test_another_server_is_started_by_its_command(
    beds: OpenedTestbeds, log: Path, tmp_path: Path, url: str, requested: str
) -> None:
    own = f"{AGENT} serve web --root {{root}} --listen {{address}} --cpus {{cpus}}"
    foreign = replace(
        FILE,
        overrides=(
            *FILE.overrides,
            ("server.command", own),
            ("server.url", url),
        ),
    )
    directory = start.run(study_of(beds, foreign), tmp_path / "run")
    assert not directory.failures()
    (serve, *_) = commands_of(log, "serve", "web")
    assert serve[serve.index("--listen") + 1] == "127.0.0.1"
    assert "{" not in " ".join(serve)
    loads = commands_of(log, "load", "http")
    assert loads[0][loads[0].index("--requests") + 1] == "1"
    assert all(load[2] == requested for load in loads)
    assert not any("--requests" in one for one in commands_of(log, "profile"))


def test_webstones_clients_request_its_mix_each_time_over_a_new_connection(
    beds: OpenedTestbeds, log: Path, tmp_path: Path
) -> None:
    assert not start.run(study_of(beds, WEBSTONE), tmp_path / "run").failures()
    (served_files, *_) = commands_of(log, "load", "files")
    assert served_files[2] == "webstone"
    load = commands_of(log, "load", "http")[0]
    assert load[load.index("--workload") + 1] == "webstone"
    assert load[load.index("--connections") + 1] == "20"
    assert load[load.index("--http") + 1] == "1.0"
    assert "--keep-alive" not in load
    kept = {"load.kind": "webstone", "load.connections": 20}
    with pytest.raises(ValueError, match=r"load\.keep_alive false: WebStone"):
        WebPlan.model_validate(kept)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("run.duration_s", "0", r"--duration \(run.duration_s\) = 0"),
        ("run.duration_s", "soon", "valid number"),
        ("load.kind", "gopher", "load.kind = gopher"),
        ("testbed.kind", "ssh", "testbed.server_host"),
        ("server.url", "http://x/", r"--server .* and --url .* together"),
        ("network.latency_ms", "5", "network.kind delayed"),
        ("nic.mips", "400", "nic.mips"),
    ],
)
def test_a_wrong_parameter_is_named_before_anything_starts(
    beds: OpenedTestbeds, tmp_path: Path, name: str, value: str, complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        start.run(study_of(beds, BULK), tmp_path / "run", overrides=((name, value),))
    assert beds.opened == []


KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_measurement as t
from patience import PATIENCE_S, be_patient
from perpacket_lab.run import start
from perpacket_lab.measure.measured_run import MeasuredRun

be_patient(t.pytest.MonkeyPatch().setattr)
path, sleep = Path(sys.argv[1]), MeasuredRun.sleep

def stay(run, duration_s, monitored):
    # The third run waits in its middle until the test kills this process.
    if len(list((path / "observations").glob("*.json"))) == 2:
        print("waiting", flush=True)
        time.sleep(PATIENCE_S)
    sleep(run, duration_s, monitored)

MeasuredRun.sleep = stay
start.run(t.study_of(t.OpenedTestbeds(), t.FILE, t.SURGE, t.BULK), path)
"""


def test_a_killed_study_leaves_no_server_and_resumes(log: Path, tmp_path: Path) -> None:
    path, folder = tmp_path / "run", str(Path(__file__).parent)
    command = [sys.executable, "-c", KILLED, str(path), folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        assert agents_alive(log)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=PATIENCE_S)
    directory = RunDirectory.open(path)
    assert len(directory.read_observations()) == 2
    assert start.resume(study_of(OpenedTestbeds(), FILE, SURGE, BULK), directory) == 4
    assert directory.missing() == []
    deadline = time.monotonic() + PATIENCE_S
    while agents_alive(log):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def agents_alive(log: Path) -> list[int]:
    """The running processes of the fake agent that write to this log."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if (
                folder.name.isdigit()
                and str(AGENT) in (folder / "cmdline").read_text()
                and f"{fake_agent.LOG}={log}\0" in (folder / "environ").read_text()
            ):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_the_published_studies_run_from_end_to_end_with_a_fake_agent(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One load of `breakdown`: its comparisons have verdicts about shares and about changes.

    The published rows are about Apache. Here `serve web` has its place, as the agent is a fake.
    """
    runner = WebRunner(OpenedTestbeds().open)
    study = replace(library.find("breakdown", only=("ab",)), runner=runner, measured_runner=runner)
    quick = tuple(pair for pair in QUICK if pair[0] != "testbed.kind")
    directory = start.run(study, tmp_path / "run", seeds=(1, 2), overrides=quick)
    again = RunDirectory.open(directory.path).study()
    assert [point.name for point in again.points] == [point.name for point in study.points]
    published = tuple(
        replace(
            row,
            point=row.point.replace("ab-worker", "ab"),
            against=row.against and row.against.replace("ab-worker", "ab"),
            among=(),
        )
        for row in library.find("breakdown").published
        if row.point in ("ab-worker-509b", "ab-worker-4096b", "ab-worker-65536b")
    )
    again = replace(again, published=published)
    rows = {row.reference.figure: row for row in analyze(again, directory).comparisons}
    driver_share = rows["patwardhan2004/ab-driver"].value
    assert driver_share is not None
    assert 0 < driver_share.value <= 100 * 300 / 2000
    assert rows["patwardhan2004/f1-kernel-509"].value is not None
    assert str(rows["patwardhan2004/ab-tput3"].verdict) == "the same"


def test_a_testbed_describes_itself_in_the_environment() -> None:
    facts = measured_runs.described(
        SetupDescription({"network": "veth"}, {"clients": 1}, {"a": "b", "c": "b"})
    )
    assert facts["testbed"] == {"network": "veth", "clients": 1, "left_out": ["a, c: b"]}


def real_agent() -> str:
    """The agent of this installation; skips the test if it cannot profile."""
    need("perf")
    try:
        return str(agent.find())
    except MachineLacks as error:
        skip("agent", error)


@pytest.mark.live
def test_server_load_and_profile_of_the_real_agent_make_an_observation(tmp_path: Path) -> None:
    """Two points of one second each on loopback: a file served, and a rate-limited sender."""
    real_agent()
    runner = WebRunner()
    second = (("run.duration_s", "1"), ("run.warmup_s", "0.2"))
    study = Study(
        "tiny", "A study", "What?", (FILE, BULK), (1,), runner=runner, measured_runner=runner
    )
    directory = start.run(study, tmp_path / "run", overrides=second)
    skip_if_disturbed(directory)
    assert [failure.reason for failure in directory.failures()] == []
    table = directory.observations()
    for name in ("ab", "bulk"):
        row = table.filter(point=name).row(0, named=True)
        shares = [value for key, value in row.items() if re.fullmatch(r"layers\.\w+\.share", key)]
        assert sum(value for value in shares if value) == pytest.approx(1.0, abs=0.01)
        # On a busy machine, the number of samples of a layer is random.
        assert row["layers.tcp.cpu_ns_per_segment"] >= 0
        assert row["segments_per_s"] > 0
    web = table.filter(point="ab").row(0, named=True)
    assert web["requests_per_s"] > 0
    assert web["profiled_requests"] > 0
    assert table.filter(point="bulk").row(0, named=True)["goodput_mbps"] > 0
    assert directory.environment()["testbed"]


@pytest.mark.live
def test_real_logs_are_replayed_by_name(shared: Path, tmp_path: Path) -> None:
    """The World Cup's log and NASA's, as levels of the trace; each has one short window."""
    real_agent()
    logs = {
        name: str(shared / "traces" / file)
        for name, file in (
            ("world-cup", "wc98-day6-sample.bin.gz"),
            ("nasa", "nasa-1995-08-01.clf.gz"),
        )
    }
    study = library.find("tr05-450", "quick", ("web",), logs)
    wanted = [point for point in study.points if point.name in ("world-cup-4c", "nasa-4c")]
    study = replace(study.limited_to(tuple(wanted)), seeds=(1,))
    here = (("testbed.kind", "loopback"), ("profile.events", "accounts"))
    directory = start.run(study, tmp_path / "run", seeds=(1,), overrides=here)
    skip_if_disturbed(directory)
    assert [failure.reason for failure in directory.failures()] == []
    results = {one.point: one.result for one in directory.read_observations()}
    assert results.keys() == {"world-cup-4c", "nasa-4c"}
    for result in results.values():
        # A few requests of the logs failed at their own servers, and fail here in another way.
        assert cast(float, result["error_share"]) < 0.01
        assert cast(float, result["requests_per_s"]) > 0


def test_two_traces_with_the_same_name_are_distinguished(
    beds: OpenedTestbeds, log: Path, tmp_path: Path
) -> None:
    """Both are called `trace.log`: a trace is its path, not its name."""
    texts = {"one": "the first", "two": "the second"}
    plans = {}
    for name, text in texts.items():
        file = tmp_path / name / "trace.log"
        file.parent.mkdir()
        file.write_text(text)
        plans[name] = validated(WebPlan, point(name, "trace", load__trace=str(file)))
    with testbed.loopback() as bed:
        names = {name: served_files.trace_name(plan) for name, plan in plans.items()}
        folders = {host.name: str(tmp_path / "host") for host in (bed.server, *bed.clients)}
        hosts = [bed.server, *bed.clients]
        made = served_files.ServedFiles(
            folders, served_files._make_traces(hosts, folders, list(plans.values()))
        )
        assert len(set(names.values())) == 2
        assert len({served_files.set_name(plan) for plan in plans.values()}) == 2
        for name, plan in plans.items():
            assert Path(made.trace(bed.clients[0], plan)).read_text() == texts[name]


def test_a_failed_probe_is_not_repeated_and_omits_no_point(
    beds: OpenedTestbeds, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_hosts: list[Host] = []

    def fail(host: Host) -> dict[str, str]:
        asked_hosts.append(host)
        raise RunFailed("the probe said nothing")

    monkeypatch.setattr("perpacket_lab.measure.host_runner.capabilities_lacking", fail)
    points = (FILE, point("any", "file", profile__events="any"))
    with WebRunner(beds.open).set_up(points) as setup:
        assert not setup.left_out
        assert "unknown: the probe said nothing" in str(setup.facts["could_not"])
    assert len(asked_hosts) == 1


def test_a_load_that_ends_within_the_window_is_a_failed_run(
    beds: OpenedTestbeds, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fake_agent.HOLD_S, "0")
    longer = (("run.duration_s", "0.5"),)
    directory = start.run(study_of(beds, FILE), tmp_path / "run", overrides=longer)
    assert "the load on client ended before the profile did" in directory.failures()[0].reason


@pytest.mark.parametrize(("events", "is_sampled"), [("best", True), ("accounts", False)])
def test_a_profile_without_samples_has_no_frequency(events: str, is_sampled: bool) -> None:
    class Here:
        cpus = (0,)

        def agent(self) -> str:
            return "agent"

    command = programs.profile(
        cast("Host", Here()), validated(WebPlan, point("p", "file", profile__events=events)), 7
    )
    (options,) = json.loads(command[-1]).values()
    assert ("frequency" in options) is is_sampled
