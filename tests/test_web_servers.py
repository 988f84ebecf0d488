"""A comparison of web servers: equal set-up of peers, complete counts, leads and crossings."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patience import PATIENCE_S, eventually
from perpacket.cli import app
from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.measure.hosts import processor_division
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.analysis.contests import ContestResult, compare
from perpacket_lab.measure import hosts, process_tree
from perpacket_lab.measure.plan import validated, with_available_events
from perpacket_lab.measure.web import peers, web_run
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.measure.web.web_runner import WebRunner, check_reachable
from perpacket_lab.run import start as session
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.show import html
from perpacket_lab.study import library
from perpacket_lab.study.contest import Contest
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import RunOutcome
from perpacket_lab.study.study import Study
from quiet import skip_if_disturbed
from requirements import skip
from test_measured_runs import FakeMeasuredRunner, FakeRun
from test_measurement import real_agent

pytestmark = pytest.mark.live

PEERS: tuple[peers.PeerKind, ...] = ("nginx", "apache")


def peer_point(kind: str) -> Point:
    """The smallest point of nginx or Apache."""
    return library.find("web-servers").point(f"{kind}-10000b-20c")


@pytest.fixture
def host() -> Iterator[hosts.Host]:
    with hosts.loopback() as bed:
        yield bed.server


def skip_without(host: hosts.Host, kind: peers.PeerKind) -> None:
    if lack := peers.lack(host, kind):
        skip("peers", lack)


@pytest.mark.parametrize("kind", PEERS)
def test_a_peer_serves_keeps_connections_and_ends_with_all_its_workers(
    host: hosts.Host, kind: peers.PeerKind
) -> None:
    """A worker for each processor, and more requests per connection than by default."""
    skip_without(host, kind)
    # Beside pytest's own folders, which only their owner may read: servers give up their rights.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        root = Path(folder) / "files"
        root.mkdir()
        content = b"perpacket" * 100
        (root / "one.bin").write_bytes(content)
        plan = validated(WebPlan, peer_point(kind))
        command, url = peers.prepare(host, kind, plan, str(root), folder)
        process = host.start(command)
        place = urlsplit(url)
        wait_until_it_answers(process, f"{url}/one.bin")
        with closing(
            HTTPConnection(place.hostname or "", place.port, timeout=PATIENCE_S)
        ) as stored:
            stored.connect()
            socket = stored.sock
            for _ in range(1100):
                stored.request("GET", "/one.bin")
                answer = stored.getresponse()
                assert (answer.status, answer.read()) == (200, content)
            assert stored.sock is socket
        counts = process_tree.read(host, process.pid)
        assert counts is not None
        assert counts.processes == 1 + len(host.cpus)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.stop()
        exes = [Path(f"/proc/{child}/exe") for child in children]
        assert eventually(lambda: not any(exe.exists() for exe in exes))


def wait_until_it_answers(process: hosts.Process, url: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not answers(url):
        assert process.poll() is None, process.stderr
        assert time.monotonic() < deadline
        time.sleep(0.02)


def plan_of(server: str, clients: int) -> WebPlan:
    """The plan of a server with a file of 5 bytes."""
    point = library.find("web-servers", "full").point(f"{server}-5b-{clients}c")
    return validated(WebPlan, point)


def answers(url: str) -> bool:
    """Whether a server answers at that address."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return bool(answer.read())
    except OSError:
        return False


def test_apache_has_a_thread_for_every_client_and_nginx_a_connection(host: hosts.Host) -> None:
    for clients in (1, 20, 400):
        plan = plan_of("apache", clients)
        text = peers._apache(host, plan, "/r", "/f", 80, ["apache2", "/m"])
        threads = int(text.partition("MaxRequestWorkers ")[2].split()[0])
        assert threads >= clients
        assert clients < peers.DESCRIPTORS
    for clients in (1, 400):
        assert plan_of("threads", clients).server_threads > clients


TREE = """
import contextlib, mmap, os, time
os.fork()
pages = 2000
memory = mmap.mmap(-1, pages * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
with contextlib.suppress(OSError):
    memory.madvise(mmap.MADV_NOHUGEPAGE)
os.write(1, b"r")
os.read(0, 1)
for page in range(pages):
    memory[page * mmap.PAGESIZE] = 1
for _ in range(100):
    time.sleep(0.0001)
os.write(1, b"d")
os.read(0, 1)
"""


def test_the_counts_are_of_all_that_a_server_started(host: hosts.Host) -> None:
    """Two processes that each touch 2000 new pages and sleep 100 times."""
    command, pipe = [sys.executable, "-c", TREE], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        printed = process.stdout.read(1) + process.stdout.read(1)
        before = process_tree.read(host, process.pid)
        process.stdin.write(b"gg")
        printed += process.stdout.read(1) + process.stdout.read(1)
        after = process_tree.read(host, process.pid)
        process.stdin.close()
        assert printed == b"rrdd"
    assert before is not None
    assert after is not None
    assert (before.processes, after.processes) == (2, 2)
    assert after.minor_faults - before.minor_faults >= 2 * 2000
    assert after.context_switches - before.context_switches >= 2 * 100
    # The kernel's count of pages in memory lags a little: see proc_pid_statm(5).
    assert after.resident_pages - before.resident_pages >= 2000
    rates = process_tree.between(before, after)
    assert rates is not None
    window_s = rates["window_s"]
    assert isinstance(window_s, float)
    assert rates["page_faults_per_s"] == pytest.approx(
        (after.minor_faults + after.major_faults - before.minor_faults - before.major_faults)
        / window_s
    )


def test_a_process_may_have_any_name_and_an_ended_one_has_no_counts(
    host: hosts.Host,
) -> None:
    name = "my (odd) 1 2 3"
    stat = f"7 ({name}) S 1 7 7 0 -1 0 11 0 3 0 200 100 0 0 20 0 4 0 99 0 0"
    text = (
        f"1000\n/proc/7/stat:{stat}\n/proc/7/statm:900 50 1 1 0 1 0\n"
        "/proc/7/task/7/status:voluntary_ctxt_switches:\t5\n"
        "/proc/7/task/7/status:nonvoluntary_ctxt_switches:\t2\n"
    )
    found = process_tree.parse(text)
    assert found is not None
    assert found.cpu_s == 300 / os.sysconf("SC_CLK_TCK")
    exact = process_tree.parse(text + "/proc/7/task/7/schedstat:2500000000 1 9\n")
    assert exact is not None
    assert exact.cpu_s == 2.5
    assert (found.processes, found.threads, found.minor_faults, found.major_faults) == (1, 4, 11, 3)
    assert (found.resident_pages, found.context_switches) == (50, 7)
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert process_tree.read(host, ended.pid) is None
    assert process_tree.between(None, found) is None


def points_of(levels: tuple[float, ...], names: str) -> list[Point]:
    return [
        Point(f"{name}-{level:g}", name, {"server": name, "size": level})
        for level in levels
        for name in names
    ]


def contest_of(values: dict[str, list[list[float]]], lower_wins: bool = False) -> ContestResult:
    """A contest along levels 1, 10, 100, ...; values by competitor, level and block."""
    count = len(next(iter(values.values())))
    levels = tuple(float(10**power) for power in range(count))
    table = {
        f"{name}-{level:g}": dict(enumerate(blocks))
        for name, own in values.items()
        for level, blocks in zip(levels, own, strict=True)
    }
    contest = Contest("Most", "server", "size", "request_rate", lower_wins=lower_wins)
    return compare(contest, points_of(levels, "".join(values)), table)


def around(value: float, spread: float = 0.01) -> list[float]:
    return [value * (1 - spread), value, value * (1 + spread)]


def test_the_winner_changes_where_one_is_clearly_ahead_before_and_another_after() -> None:
    found = contest_of({"a": [around(100), around(10)], "b": [around(50), around(20)]})
    assert [level.leader for level in found.levels] == ["a", "b"]
    (crossing,) = found.crossings
    assert (crossing.before, crossing.after, crossing.may_stay) == ("a", "b", ())
    assert (crossing.low, crossing.high) == (1.0, 10.0)
    assert crossing.position is not None
    # 100/50 falls to 10/20: in logarithms the lines cross in the middle.
    assert crossing.position.value == pytest.approx(math.sqrt(10))


def test_no_lead_and_no_crossing_is_claimed_where_intervals_overlap() -> None:
    found = contest_of({"a": [around(100, 0.5), around(10)], "b": [around(90), around(20)]})
    assert found.levels[0].not_distinguishable == ("b",)
    assert found.crossings == ()
    once = contest_of({"a": [[100.0], [10.0]], "b": [[50.0], [20.0]]})
    assert once.crossings == ()
    assert all(level.not_distinguishable for level in once.levels)


def test_a_crossing_spans_the_levels_that_decide_nothing() -> None:
    found = contest_of(
        {
            "a": [around(100), around(30, 0.3), around(10)],
            "b": [around(50), around(30, 0.3), around(20)],
        }
    )
    (crossing,) = found.crossings
    assert (crossing.low, crossing.high) == (1.0, 100.0)


def test_competitors_that_never_lead_have_no_crossing() -> None:
    found = contest_of(
        {
            "a": [around(100), around(10)],
            "b": [around(50), around(20)],
            "w": [around(1000), around(1000)],
        }
    )
    assert found.crossings == ()
    assert {level.leader for level in found.levels} == {"w"}


def test_the_winner_may_stay_where_one_competitor_may_lead_at_both_levels() -> None:
    found = contest_of(
        {
            "a": [around(100), around(10)],
            "b": [around(50), around(20)],
            "c": [around(100, 0.3), around(20, 0.3)],
        }
    )
    (crossing,) = found.crossings
    assert (crossing.before, crossing.after, crossing.may_stay) == ("a", "b", ("c",))


def test_where_less_is_better_the_lowest_leads() -> None:
    values = {"a": [around(100), around(10)], "b": [around(50), around(20)]}
    found = contest_of(values, lower_wins=True)
    assert [level.leader for level in found.levels] == ["b", "a"]
    assert [(one.before, one.after) for one in found.crossings] == [("b", "a")]


slopes = st.floats(0.2, 2.0)


@given(slopes, slopes, st.floats(1.5, 60.0))
def test_lines_that_cross_by_a_power_law_cross_where_they_do(
    first: float, second: float, place: float
) -> None:
    """Power laws of the level: one falls, the other rises, and they cross at `place`."""
    levels = (1.0, 10.0, 100.0)
    found = contest_of(
        {
            "a": [[(place / level) ** first] * 3 for level in levels],
            "b": [[(level / place) ** second] * 3 for level in levels],
        }
    )
    (crossing,) = found.crossings
    assert crossing.low <= place <= crossing.high
    assert crossing.position is not None
    assert crossing.position.value == pytest.approx(place)


def test_the_levels_reach_from_5_bytes_to_50_megabytes_and_to_400_clients() -> None:
    servers = {"events", "single", "threads", "processes", "uring", "nginx", "apache"}
    servers |= {"apache-prefork"}
    for study, more in (
        (library.find("web-servers"), set()),
        (library.find("web-servers", "full"), {"apache-worker"}),
    ):
        points = study.points
        assert {point.factors["server"] for point in points} == servers | more
        sizes = {point.factors["size_bytes"] for point in points}
        clients = {point.factors["clients"] for point in points}
        assert {5, 50_000_000} <= sizes
        assert {1, 400} <= clients


def test_a_server_that_is_not_installed_is_omitted_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peers, "FIND_NGINX", "exit 1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    loopback = (("testbed.kind", "loopback"),)
    points = tuple(
        replace(point, overrides=point.overrides + loopback)
        for point in (peer_point("nginx"), peer_point("events"))
    )
    with WebRunner().set_up(points) as setup:
        (name, reason) = next(iter(setup.left_out.items()))
        assert list(setup.left_out) == ["nginx-10000b-20c"] == [name]
        assert reason == "there is no nginx on server: install it (Debian: nginx-light)"
    assert list(tmp_path.iterdir()) == []


def test_misses_are_measured_only_with_performance_counters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    loopback = (("testbed.kind", "loopback"),)
    misses = library.find("tr05-450").point("bulk-32c-100mbps-misses")
    time = library.find("tr05-450").point("bulk-32c-100mbps")
    points = tuple(replace(point, overrides=point.overrides + loopback) for point in (misses, time))
    for lacking, left_out in (
        ({"pmu": "only time"}, ["server has no performance counters that count misses"]),
        ({}, []),
    ):
        monkeypatch.setattr(
            "perpacket_lab.measure.host_runner.capabilities_lacking", lambda _, found=lacking: found
        )
        with WebRunner().set_up(points) as setup:
            assert list(setup.left_out.values()) == left_out
            assert set(setup.left_out) <= {misses.name}


@pytest.mark.parametrize("may_sample", [True, False])
def test_without_sampling_the_kernels_accounts_are_used(
    may_sample: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = {} if may_sample else {"perf_cpu_wide": "only the kernel's accounts"}
    monkeypatch.setattr("perpacket_lab.measure.host_runner.capabilities_lacking", lambda _: lacking)
    point = peer_point("events")
    point = replace(point, overrides=(*point.overrides, ("testbed.kind", "loopback")))
    runner = WebRunner()
    with runner.set_up((point,)):
        plan = with_available_events(validated(WebPlan, point), runner.setup().may_sample)
    assert plan.profile_events == ("best" if may_sample else "accounts")


class RacingRunner(FakeMeasuredRunner):
    """Servers whose rates of requests fall with size, apache's least."""

    def prepare(self, point: Point, seed: int, timeline: bool) -> FakeRun:
        return RacingRun(self, point, seed)


class RacingRun(FakeRun):
    def run(self) -> RunOutcome:
        outcome = super().run()
        size, server = self.point.factors["size_bytes"], self.point.factors["server"]
        assert isinstance(size, int)
        slope = {"apache": 0.3, "nginx": 0.45}.get(str(server), 0.5)
        start = {"apache": 5e4, "nginx": 9e4}.get(str(server), 1e5)
        rate = start * (size / 5) ** -slope * (1 + 0.001 * self.seed)
        result = {
            "requests_per_s": rate,
            "content_mbps": rate * size * 8 / 1e6,
            "latency_us": {"response": {"p50": 1e6 / rate, "p99": 2e6 / rate}},
            "server_idle": 0.0,
            "server_cpu_us_per_request": 1e6 / rate,
            "server_process": {"page_faults_per_s": 1.0, "context_switches_per_s": 2.0},
            "doubts": {"client_limited": server == "events"},
        }
        return replace(outcome, result=result)


@pytest.fixture
def run(tmp_path: Path) -> tuple[Study, RunDirectory]:
    study = library.find("web-servers", only=("size",))
    runner = RacingRunner(lambda *_: None)
    directory = session.run(replace(study, runner=runner, measured_runner=runner), tmp_path / "run")
    return directory.study(), directory


def test_the_verb_prints_where_the_winner_changes(
    run: tuple[Study, RunDirectory], fake_report: None, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = run[1]
    assert app.run(["study", "report", str(directory.path), "--format", "json"]) == 0
    found = {one["title"]: one for one in json.loads(capfd.readouterr().out)["contests"]}
    most = found["Most requests by file size: 20 clients"]
    together = {"processes", "single", "threads", "uring", "apache-prefork"}
    assert set(most["standings"][0]["not_told_apart"]) == together
    assert most["standings"][0]["doubts"] == [
        "the clients were nearly busy and may have been the limit"
    ]
    assert most["standings"][-1]["leader"] == "apache"
    crossing = next(one for one in most["crossings"] if one["before"] == "events")
    # 1e5 x**-0.5 meets 5e4 x**-0.3 at x = 2**5.
    assert (crossing["after"], crossing["may_stay"]) == ("apache", [])
    assert crossing["position"]["value"] == pytest.approx(5 * 2**5)
    assert app.run(["study", "report", str(directory.path)]) == 0
    assert "Crossings: one competitor leads" in capfd.readouterr().out


def test_the_page_shows_where_the_winner_changes(
    run: tuple[Study, RunDirectory], tmp_path: Path
) -> None:
    study, directory = run
    plain = replace(study, figures=())
    page = html.write(analyze(plain, directory), tmp_path / "report.html").read_text()
    text = page.partition('<script id="perpacket-data"')[0]
    assert "between 5 and 10,000 file size (bytes)" in text
    assert text.count('id="crossings"') == text.count('id="standings"') == 1


@pytest.mark.parametrize(
    ("values", "is_logarithmic"), [((1.0, 5e4), True), ((1.0, 50.0), False), ((0.0, 5e4), False)]
)
def test_values_over_many_decades_are_drawn_in_logarithms(
    values: tuple[float, float], is_logarithmic: bool
) -> None:
    from perpacket_lab.show.charts import curve

    frame = polars.DataFrame(
        {
            "x": [1.0, 10.0],
            "y": list(values),
            "low": [-1.0, 1.0],
            "high": [2.0, 9e4],
            "series": ["a", "a"],
        }
    )
    chart = curve.curve(frame, x_title="x", y_title="y").to_dict()
    scales = {layer["encoding"]["y"]["scale"].get("type") for layer in chart["layer"]}
    assert scales == {"log" if is_logarithmic else None}
    (rows,) = chart["datasets"].values()
    assert (min(row["low"] for row in rows) > 0) is is_logarithmic


@pytest.mark.parametrize("server", ["processes", "apache-prefork", *PEERS])
def test_a_server_is_measured_with_its_whole_tree(
    server: str, host: hosts.Host, tmp_path: Path
) -> None:
    """One short run each with the real agent: requests, none failed, and the kernel's counts."""
    real_agent()
    if server != "processes":
        skip_without(host, server)  # type: ignore[arg-type]
    runner = WebRunner()
    study = Study(
        "tiny",
        "A study",
        "What?",
        (peer_point(server),),
        (1,),
        runner=runner,
        measured_runner=runner,
    )
    quick = (("run.duration_s", "0.3"), ("run.warmup_s", "0"), ("testbed.kind", "loopback"))
    directory = session.run(study, tmp_path / "run", overrides=quick)
    skip_if_disturbed(directory)
    assert [failure.reason for failure in directory.failures()] == []
    row = directory.observations().row(0, named=True)
    assert row["requests_per_s"] > 0
    assert row["error_share"] == 0
    least = {"processes": 64, "apache-prefork": 65}.get(server, 2)
    assert row["server_process.processes"] >= least
    assert row["server_process.resident_pages"] > 0
    assert row["server_process.context_switches_per_s"] >= 0


def test_two_points_for_one_place_of_a_contest_are_named() -> None:
    points = [
        Point(f"a-1-{cpus}", "a", {"server": "a", "size": 1.0, "cpus": cpus}) for cpus in (1, 2)
    ]
    values = {point.name: {1: 10.0} for point in points}
    contest = Contest("Who leads", "server", "size", "requests_per_s")
    with pytest.raises(ConfigurationError, match="a-1-1 and a-1-2 are both a at size = 1"):
        compare(contest, points, values)


@pytest.mark.parametrize(
    ("kind", "module", "pool"),
    [
        ("apache", "mpm_event_module", "ThreadsPerChild 508"),
        ("apache-worker", "mpm_worker_module", "ThreadsPerChild 508"),
        ("apache-prefork", "mpm_prefork_module", "StartServers 508"),
    ],
)
def test_apache_has_a_thread_or_a_process_for_every_client(
    kind: peers.PeerKind, module: str, pool: str, tmp_path: Path
) -> None:
    plan = WebPlan.model_validate(
        {"load.kind": "file", "load.connections": 500, "server.kind": kind}
    )
    with hosts.loopback(server_cpus=(0,)) as bed:
        if reason := peers.lack(bed.server, kind):
            skip("apache", reason)
        peers.prepare(bed.server, kind, plan, "/srv", str(tmp_path))
    text = (tmp_path / f"{kind}.conf").read_text()
    assert module in text
    assert pool in text.splitlines()


def test_the_processors_of_the_server_do_not_change_those_of_the_clients() -> None:
    usable = sorted(os.sched_getaffinity(0))
    one, every = processor_division.with_server(1), processor_division.with_server(len(usable))
    assert one.server == (usable[0],)
    assert every.server == tuple(usable)
    assert one.clients == every.clients == processor_division.divide().clients
    with pytest.raises(MachineLacks, match=f"this machine has {len(usable)}"):
        processor_division.with_server(len(usable) + 1)


def test_a_window_of_requests_is_as_long_as_they_need_at_the_rate_of_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accepted = iter([1000, 3000])
    times = iter([10.0, 10.5])
    monkeypatch.setattr(web_run, "accepted_of", lambda _: next(accepted))
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    monkeypatch.setattr(web_run.WebRun, "sleep", lambda *_: None)
    plan = WebPlan.model_validate(
        {
            "load.kind": "file",
            "load.keep_alive": False,
            "load.requests": 10_000,
            "run.duration_s": 60.0,
        }
    )
    run = web_run.WebRun.__new__(web_run.WebRun)
    assert web_run._with_window(plan, run, None, None).window_s == pytest.approx(10_000 / 4000)  # type: ignore[arg-type]


def test_points_on_more_processors_than_the_machine_has_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    more = str(len(os.sched_getaffinity(0)) + 1)
    point = peer_point("events")
    loopback = (("testbed.kind", "loopback"),)
    points = tuple(
        replace(
            point, name=count, overrides=(*point.overrides, *loopback, ("server.processors", count))
        )
        for count in ("1", more)
    )
    runner = WebRunner()
    with runner.set_up(points) as setup:
        assert list(setup.left_out) == [more]
        chosen = runner.setup().testbed(validated(WebPlan, points[0])).server.cpus
    assert len(chosen) == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "http://localhost:80/a", "http://[::1]:1"]
)
def test_a_server_on_loopback_is_an_error_if_its_clients_are_elsewhere(url: str) -> None:
    with pytest.raises(ConfigurationError, match="another loopback interface") as caught:
        check_reachable(url, "198.18.7.1")
    assert "{address}" in caught.value.hint
    check_reachable(url, "127.0.0.1")
    check_reachable("http://{address}:8080", "198.18.7.1")
    check_reachable("", "198.18.7.1")
