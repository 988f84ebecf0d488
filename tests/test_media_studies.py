"""The studies of stored media: their commands, their results and their published figures.

Most runs here use a fake agent. One run uses the real agent, and its test asserts only facts that
are true on every machine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fake_agent
from patience import PATIENCE_S
from perpacket.analysis.two_level import Design
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure.agent import find as installed_agent
from perpacket.measure.hosts import contract as hosts
from perpacket.measure.hosts.local import free_ports
from perpacket.measure.hosts.process import documents
from perpacket.measure.hosts.record import own_name
from perpacket_lab.analysis import variation
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.measure import hosts as testbed
from perpacket_lab.measure.media import disk, gstreamer, media_programs, media_summary, memory
from perpacket_lab.measure.media.media_plan import MediaPlan
from perpacket_lab.measure.media.media_runner import MediaRunner, check_commands, impossible
from perpacket_lab.measure.plan import RunPlan, validated
from perpacket_lab.measure.summary import cache_misses
from perpacket_lab.run import measured_runs, start
from perpacket_lab.show import html
from perpacket_lab.study import library
from perpacket_lab.study.lengths import LENGTHS, Length
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import RunOutcome, SetupDescription
from printed import printed_figures
from quiet import skip_if_disturbed
from requirements import skip
from test_measured_runs import FakeMeasuredRunner, FakeRun

NAMES = ("media-servers", "sensitivity", "double-buffer")


def design_of_sensitivity() -> Design:
    """The design of the study `sensitivity`."""
    design = library.find("sensitivity").design
    assert design is not None
    return design.design


DESIGN = design_of_sensitivity()

PARTS = (*DESIGN.factors, "interactions", "error")
AGENT = Path(fake_agent.__file__)
QUICK = {"run.duration_s": 0.05, "run.warmup_s": 0, "testbed.kind": "loopback"}


def point(name: str, **parameters: object) -> Point:
    """A short point with few clients, with additional parameters."""
    all_of_them = {"media.clients": 4, "media.rate_bps": 1_000_000, **QUICK}
    all_of_them |= {key.replace("__", ".", 1): value for key, value in parameters.items()}
    pairs = tuple((key, str(value)) for key, value in all_of_them.items())
    return Point(name, "media", {"name": name}, pairs)


def plan(**parameters: object) -> MediaPlan:
    return validated(MediaPlan, point("any", **parameters))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces the agent by the fake one; the log of its commands."""
    file = tmp_path / "asked.jsonl"
    monkeypatch.setenv("PERPACKET_AGENT", str(AGENT))
    monkeypatch.setenv(fake_agent.LOG, str(file))
    monkeypatch.setattr("perpacket_lab.measure.media.media_run.LEAD_S", 0.0)
    monkeypatch.setattr("perpacket_lab.measure.media.media_plan.RAMP_LEAST_S", 0.0)
    return file


def requested(log: Path, *verb: str) -> list[dict[str, str]]:
    """The options of the commands that begin with these words."""
    commands: list[list[str]] = [json.loads(line) for line in log.read_text().splitlines()]
    return [
        {name: value for name, value in pairwise(command) if name.startswith("--")}
        for command in commands
        if command[: len(verb)] == list(verb)
    ]


def measured(*points: Point) -> tuple[list[RunOutcome], SetupDescription]:
    """The result of a run of each point, and the state of the disk during the runs."""
    runner = MediaRunner()
    with runner.set_up(points) as setup:
        return [runner.prepare(each, 1, timeline=False).run() for each in points], setup


def test_an_observation_has_the_results_of_clients_and_their_cost_at_the_server(log: Path) -> None:
    (outcome,), setup = measured(point("double", server__buffering="double"))
    result = outcome.result
    assert (result["clients"], result["played"], result["refused"]) == (4, 3, 1)
    assert (result["throughput_mbps"], result["loss_share"]) == (4.0, 0.01)
    assert result["not_playing_share"] == 0.25
    # The fake agent's reports are two seconds apart. These are its counts in that time.
    assert (result["server_cpu_percent"], result["packets_per_s"]) == (25.0, 500.0)
    assert (result["page_faults_per_s"], result["context_switches_per_s"]) == (11.0, 155.0)
    assert result["cpu_us_per_packet"] == 500.0
    (served,) = requested(log, "serve", "media")
    assert (served["--buffering"], served["--read-delay"]) == ("double", "0ms")
    assert "streams" not in json.dumps(outcome.raw["load"])
    # No program counted cache misses. The result omits them and has the reason.
    assert not [
        name for name in result if name.startswith(("cache_misses", "l1d_misses", "memory_read"))
    ]
    could_not = setup.facts["could_not"]
    assert isinstance(could_not, list)
    assert "pmu: time alone, no cycles" in could_not


def test_misses_of_both_levels_are_rates_where_they_are_counted() -> None:
    profile: dict[str, object] = {
        "window_s": 2.0,
        "packets": {"sent": 900, "received": 100},
        "layers": {
            "ip": {"l1d_misses_per_packet": 3.0, "llc_misses_per_packet": 1.0},
            "user": {"l1d_misses_per_packet": 1.0, "llc_misses_per_packet": None},
        },
    }
    # 500 packets a second; a miss of the last level reads a line of 64 bytes.
    assert cache_misses(profile) == {
        "cache_misses_per_packet": 1.0,
        "cache_misses_per_s": 500.0,
        "l1d_misses_per_s": 2000.0,
        "memory_read_mbytes_per_s": 0.032,
    }
    assert cache_misses({**profile, "layers": {"ip": {"cpu_s": 1.0}}}) == {}


def test_multiple_media_are_dropped_and_read_slowly_and_the_report_explains_it(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fake_agent.WRONG_BYTES, "2")
    slow = point("slow", media__distribution="multiple", disk__read_ms=9_999)
    (outcome,), setup = measured(slow)
    assert outcome.result["read_delay_ms"] == 9_999
    assert requested(log, "serve", "media")[0]["--read-delay"] == "9999ms"
    (loaded,) = requested(log, "load", "media")
    assert (loaded["--files"], loaded["--first-file"]) == ("4", "0")
    limits = setup.facts["limits"]
    assert isinstance(limits, list)
    assert any("A slow disk is emulated" in limit for limit in limits)
    assert setup.identity["slow_disk"] == "emulated"
    # Bytes that differ from the media's are a doubt about the run.
    doubts = outcome.result["doubts"]
    assert isinstance(doubts, dict)
    assert doubts["content_wrong"]
    folders = {Path(made["--into"]).parent for made in requested(log, "media", "synthesize")}
    assert len(folders) == 1
    assert not any(folder.exists() for folder in folders)


def test_a_server_that_does_not_report_fails_the_run(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perpacket_lab.measure.media.media_run.REPORT_S", 0.1)
    monkeypatch.setattr("perpacket.measure.hosts.process.documents", lambda _: [])
    with pytest.raises(RunFailed, match="did not report"):
        measured(point("any"))


def test_media_larger_than_the_disk_are_an_error_with_both_sizes(log: Path) -> None:
    huge = point(
        "huge", media__clients=100_000, media__most_files=100_000, media__rate_bps=1_000_000_000
    )
    huge = replace(huge, overrides=(*huge.overrides, ("media.distribution", "multiple")))
    with testbed.loopback() as bed, pytest.raises(MachineLacks, match=r"GB, and .* GB left"):  # noqa: SIM117
        with disk.media_files(bed.server, [validated(MediaPlan, huge)]):
            pass


def test_a_file_is_dropped_from_memory_and_a_missing_one_is_named(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"stream-{number:05d}.ts").write_bytes(b"G" * 65_536)
    with testbed.loopback() as bed:
        disk.forget(bed.server, str(tmp_path), 2)
        with pytest.raises(RunFailed, match=r"stream-00002\.ts"):
            disk.forget(bed.server, str(tmp_path), 3)


class IdleHost:
    """A host that runs no command."""

    cpus = (0, 1)
    address = "127.0.0.1"

    def agent(self) -> str:
        return "perpacket-agent"


HERE = cast("hosts.Host", IdleHost())


@dataclass
class RecordingHost:
    """A host that records its commands and returns the results of a test."""

    inner: hosts.Host
    returncode: int

    def run(self, command: list[str], *, timeout_s: float) -> testbed.Completed:
        self.requested = command
        return testbed.Completed(self.returncode, "", "")


def test_memory_is_limited_only_for_multiple_media_and_where_possible() -> None:
    with testbed.loopback() as bed:
        host = RecordingHost(bed.server, 0)
        group = memory.MemoryGroup(host, "/sys/fs/cgroup/g/memory.max")  # type: ignore[arg-type]
        many = plan(media__distribution="multiple")
        command, limit = group.confined(["serve"], many)
        assert (command[:2], command[-2:]) == (["sh", "-c"], ["/sys/fs/cgroup/g", "serve"])
        assert limit == memory.OWN_BYTES + 4 * memory.OWN_BYTES_PER_CLIENT + many.cache_bytes
        assert host.requested[-1] == str(limit)
        assert group.confined(["serve"], plan()) == (["serve"], None)
        foreign = plan(media__distribution="multiple", server__kind="gstreamer")
        assert group.confined(["serve"], foreign) == (["serve"], None)
        host.returncode = 1
        assert group.confined(["serve"], many) == (["serve"], None)


def test_control_groups_of_finished_and_killed_studies_are_removed() -> None:
    name = f"perpacket-test-{id(object())}"
    with testbed.loopback() as bed:
        with memory.memory_group(bed.server, f"{name}-{own_name()}") as group:
            if not group.can_limit:
                skip("cgroup", "none can be made")
            folder = Path(group.limit).parent
            # A process that has ended, and one whose number another process has now.
            left_behind = [
                folder.with_name(f"{name}-{maker}")
                for maker in (f"{2**22 + 1}-1", f"{os.getpid()}-1")
            ]
            for left in left_behind:
                left.mkdir()
            with memory.memory_group(bed.server, f"{name}-1-1"):
                assert folder.exists()
            command, limit = group.confined(
                ["sh", "-c", "cat /proc/self/cgroup"], plan(media__distribution="multiple")
            )
            assert limit is not None
            assert folder.name in bed.server.run(command, timeout_s=PATIENCE_S).stdout
        assert not folder.exists()
        assert not any(left.exists() for left in left_behind)


@given(
    clients=st.integers(1, 30_000),
    machines=st.integers(1, 5),
    most_files=st.integers(1, 2_000),
)
def test_every_client_plays_in_one_process_and_every_file_exists(
    clients: int, machines: int, most_files: int
) -> None:
    asked_for = plan(
        media__clients=clients, media__distribution="multiple", media__most_files=most_files
    )
    parts = media_programs.parts(asked_for, machines)
    covered = [first + number for _, first, count in parts for number in (0, count - 1) if count]
    assert sum(count for _, _, count in parts) == clients
    assert covered == sorted(covered)
    assert all(count <= media_programs.CLIENTS_PER_PROCESS for _, _, count in parts)
    for _, first, count in parts:
        command = media_programs.play(HERE, asked_for, "rtsp://h", first, count)
        (options,) = json.loads(command[-1]).values()
        assert options["first-file"] + options["files"] <= asked_for.files


@given(cut=st.integers(0, 200))
def test_reports_are_read_while_the_last_is_being_written(cut: int) -> None:
    whole = [json.dumps({"uptime_s": number, "page_faults": {}}, indent=1) for number in range(4)]
    text = "\n".join(whole)[:cut]
    ends = [len("\n".join(whole[: number + 1])) for number in range(4)]
    found = documents(text)
    assert [one["uptime_s"] for one in found] == list(range(sum(end <= cut for end in ends)))


def test_impossible_parameters_are_errors_that_name_them() -> None:
    with pytest.raises(ConfigurationError, match=r"media\.clients = 0"):
        plan(media__clients=0)
    with pytest.raises(ConfigurationError, match=r"server\.buffering = triple"):
        plan(server__buffering="triple")
    with pytest.raises(ConfigurationError, match=r"expected network\.kind direct"):
        plan(network__kind="delayed")
    with pytest.raises(ConfigurationError, match=r"load\.connections = 3: .* no such parameter"):
        plan(load__connections=3)


def test_points_with_more_sockets_than_a_process_may_have_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = {"few": plan(media__clients=1000), "many": plan(media__clients=10_000)}
    with testbed.loopback() as bed:
        monkeypatch.setattr("resource.getrlimit", lambda _: (1024, 4096))
        monkeypatch.setattr("os.geteuid", lambda: 1000)
        assert list(impossible(plans, bed.server)) == ["many"]
        monkeypatch.setattr("os.geteuid", lambda: 0)
        assert not impossible(plans, bed.server)
        monkeypatch.undo()


def test_without_gstreamers_server_its_points_are_left_out_and_the_reason_names_the_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = {"own": plan(), "peer": plan(server__kind="gstreamer")}
    with testbed.loopback() as bed:
        monkeypatch.setattr(gstreamer, "PYTHON", "/usr/bin/no-such-python")
        (reason,) = impossible(plans, bed.server).values()
        assert "there is no /usr/bin/no-such-python" in reason
        assert "gir1.2-gst-rtsp-server-1.0" in reason
        # This Python exists and has no bindings.
        monkeypatch.setattr(gstreamer, "PYTHON", sys.executable)
        monkeypatch.setattr(gstreamer, "_program", lambda: "import no_such_bindings")
        assert list(impossible(plans, bed.server)) == ["peer"]
        assert "no_such_bindings" in impossible(plans, bed.server)["peer"]


def test_another_server_replaces_ours_only_in_studies_of_one_server() -> None:
    own = {"server__command": "no-such-server {root}", "server__url": "rtsp://{address}:8554"}
    with pytest.raises(ConfigurationError, match=r"--server .* and --url .* together"):
        plan(server__command="x")
    both = {"peer": plan(server__kind="gstreamer", **own)}
    with testbed.loopback() as bed:
        assert "replaces `serve media`" in impossible(both, bed.server)["peer"]
        with pytest.raises(ConfigurationError, match="no program no-such-server"):
            check_commands(bed.server, [plan(**own)])
        ways = [plan(server__buffering=way, **own) for way in ("single", "double")]
        with pytest.raises(ConfigurationError, match="servers of its own"):
            check_commands(bed.server, ways)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_every_point_can_be_read_as_a_plan_and_is_named_by_its_factors(
    name: str, length: Length
) -> None:
    points = library.find(name, length).points
    assert len({tuple(point.factors.items()) for point in points}) == len(points)
    for each in points:
        asked_for = validated(MediaPlan, each)
        assert asked_for.clients == each.factors["clients"]
        assert isinstance(asked_for, RunPlan)
        assert (asked_for.read_ms > 0) == (asked_for.distribution == "multiple")
        assert asked_for.server_kind == each.factors.get("program", "perpacket")


def test_the_full_levels_are_the_published_ones_and_higher_ones() -> None:
    servers = [p.factors for p in library.find("media-servers", "full").points]
    clients = {int(factors["clients"]) for factors in servers}
    assert {1, 1000} < clients
    assert max(clients) == 10_000
    assert {factors["rate_kbps"] for factors in servers} == {56, 300}
    buffers = [p.factors for p in library.find("double-buffer", "full").points]
    ways = {factors["buffering"] for factors in buffers}
    assert ways == {"unbuffered", "single", "double", "shared", "mapped"}
    assert {factors["rate_kbps"] for factors in buffers} == {300}
    design = [tuple(p.factors.values()) for p in library.find("sensitivity").points]
    assert set(design) == {
        (clients, rate, media)
        for clients in (1, 1000)
        for rate in (56, 300)
        for media in ("unique", "multiple")
    }


@pytest.mark.parametrize("name", NAMES)
def test_figures_of_the_document_are_those_of_the_reference(name: str) -> None:
    reference = printed_figures("isa2003.toml")
    ours = {"isa2003/56-gain": "isa2003/56-db"}
    for row in library.find(name, "full").published:
        # A figure is quoted once a response (`/throughput`), or once a part (`-threads`).
        key = row.figure
        while key not in reference and key not in ours:
            key = key[: max(key.rfind("-"), key.rfind("/"))]
            assert "/" in key, row.figure
        stated = reference[ours.get(key, key)]
        assert stated["where"].startswith(row.where.partition(",")[0].partition(";")[0])
        if row.judged == "value" and row.value is not None:
            assert row.value == stated["value"], row.figure
    gain = reference["isa2003/56-db"]["value"] / reference["isa2003/56-rtp"]["value"]
    buffers = {row.figure: row for row in library.find("double-buffer").published}
    assert buffers["isa2003/56-gain"].value == pytest.approx(100 * (gain - 1), abs=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_published_changes_are_between_levels_of_the_default_study(name: str) -> None:
    cut, full = library.find(name), library.find(name, "full")
    assert [row.figure for row in cut.published] == [row.figure for row in full.published]


def test_the_variation_is_shares_of_responses_by_the_effects_of_the_design() -> None:
    # 10 + 4 clients + 2 encoding + 1 clients x encoding, with +1 and -1 as levels.
    responses = [[10 + 4 * a + 2 * b + a * b] * 3 for a, b, _ in DESIGN.runs]
    parts = variation.shares_of_responses(DESIGN, responses)
    explained = {part: share.value for part, share in parts.items()}
    expected = {"clients": 16, "rate_kbps": 4, "distribution": 0, "interactions": 1, "error": 0}
    assert explained == pytest.approx({part: 100 * n / 21 for part, n in expected.items()})
    assert all(share.high - share.low == pytest.approx(0, abs=1e-6) for share in parts.values())


@given(
    st.lists(
        st.lists(st.floats(-1000, 1000), min_size=4, max_size=4), min_size=8, max_size=8
    ).filter(lambda rows: max(map(max, rows)) - min(map(min, rows)) > 1)
)
def test_the_parts_of_the_variation_sum_to_100(responses: list[list[float]]) -> None:
    parts = variation.shares_of_responses(DESIGN, responses)
    assert tuple(parts) == PARTS
    assert sum(share.value for share in parts.values()) == pytest.approx(100)
    assert all(0 <= share.low <= share.value + 1e-6 for share in parts.values())
    assert all(share.value <= share.high + 1e-6 <= 100 + 2e-6 for share in parts.values())


class StreamsRunner(FakeMeasuredRunner):
    """A runner whose servers keep up; their cost depends on clients and rate."""

    def prepare(self, point: Point, seed: int, timeline: bool) -> FakeRun:
        return StreamsRun(self, point, seed)


class StreamsRun(FakeRun):
    def run(self) -> RunOutcome:
        outcome = super().run()
        clients, rate = float(self.point.factors["clients"]), float(self.point.factors["rate_kbps"])
        result = {
            "throughput_mbps": clients * rate / 1000,
            "server_cpu_percent": 0.1 + 0.01 * clients + 0.001 * self.seed,
            "page_faults_per_s": 3.0 + self.seed,
            "context_switches_per_s": 100.0 + clients * rate / 50 + self.seed,
            "mean_gap_difference_us": {"mean": 50.0 / clients},
            "lost": 0,
            "threads_per_stream": 2.0 if "double" in self.point.name else 1.0,
            "not_playing_share": 0.0,
            "loss_share": 0.0,
            "lateness_us": {"p99": 100.0 + self.seed},
            "doubts": {"client_limited": False},
        }
        return replace(outcome, result=result)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_compared_with_every_figure_and_its_report_draws_them(
    name: str, tmp_path: Path
) -> None:
    study = library.find(name)
    runner = StreamsRunner()
    directory = start.run(replace(study, runner=runner, measured_runner=runner), tmp_path / "run")
    found = directory.study()
    rows = {row.reference.figure: row for row in analyze(found, directory).comparisons}
    # Charts take time, so draw two of each study.
    drawn = replace(found, figures=found.figures[:2])
    page = html.write(analyze(drawn, directory), tmp_path / "report.html").read_text()
    assert "Nothing to draw" not in page
    if name == "sensitivity":
        assert len(rows) == 5 * 4
        clients = rows["isa2003/441-var-clients/server_cpu"]
        assert clients.reference.value == 62.29
        assert clients.value is not None
        assert clients.value.value > 99
        # Only the replication changes them.
        error = rows["isa2003/441-var-error/page_faults"]
        assert error.value is not None
        assert error.value.value == pytest.approx(100)
    elif name == "double-buffer":
        assert str(rows["isa2003/53-threads"].verdict) == "agrees"
        assert str(rows["isa2003/54-threads"].verdict) == "agrees"
    else:
        # These servers do not fail at the loads at which the published ones did.
        assert str(rows["isa2003/48-break"].verdict) == "opposite direction"
        assert rows["isa2003/46-l2"].value is None


@contextmanager
def loopback(_: RunPlan) -> Iterator[hosts.Testbed]:
    with testbed.loopback() as bed:
        yield bed


@pytest.mark.live
@pytest.mark.parametrize("buffering", ["unbuffered", "double"])
def test_the_real_agent_serves_and_plays_a_run(buffering: str, tmp_path: Path) -> None:
    # The numbers of threads and packets depend on the speed of a busy machine.
    runner = MediaRunner(loopback)
    quick = {"run__duration_s": 0.3, "run__warmup_s": 1.0, "media__distribution": "multiple"}
    asked_for = point("real", server__buffering=buffering, disk__read_ms=5, **quick)
    study = library.find("double-buffer")
    study = replace(study, points=(asked_for,), seeds=(1,), figures=(), published=())
    study = replace(study, runner=runner, measured_runner=runner)
    directory = start.run(study, tmp_path / "run")
    skip_if_disturbed(directory)
    assert [failure.reason for failure in directory.failures()] == []
    (observation,) = directory.read_observations()
    result = observation.result
    assert (result["clients"], result["content_errors"]) == (4, 0)
    assert result["read_delay_ms"] in (0, 5)
    assert measured_runs.remaining(directory) == []


@pytest.mark.live
@pytest.mark.parametrize("kind", ["gstreamer", "command"])
def test_another_rtsp_server_is_measured_with_the_same_clients(kind: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    if kind == "gstreamer":
        which = {"server__kind": "gstreamer"}
    else:
        command = f"serve media --root {{root}} --listen {{address}}:{port}"
        which = {
            "server__command": f"{installed_agent()} {command}",
            "server__url": f"rtsp://{{address}}:{port}",
        }
    quick = {"run__duration_s": 0.5, "run__warmup_s": 1.0, "media__distribution": "multiple"}
    asked_for = point("peer", disk__read_ms=20, **which, **quick)
    with testbed.loopback() as bed:
        if kind == "gstreamer" and (lack := gstreamer.lack(bed.server)):
            skip("peers", lack)
    runner = MediaRunner(loopback)
    study = library.find("media-servers")
    study = replace(study, points=(asked_for,), seeds=(1,), figures=(), published=())
    study = replace(study, runner=runner, measured_runner=runner)
    directory = start.run(study, tmp_path / "run")
    skip_if_disturbed(directory)
    assert [failure.reason for failure in directory.failures()] == []
    (observation,) = directory.read_observations()
    result = observation.result
    assert (result["played"], result["content_errors"]) == (4, 0)
    assert result["read_delay_ms"] == 0
    for name in ("packets_per_s", "throughput_mbps", "cpu_us_per_packet", "server_cpu_percent"):
        value = result[name]
        assert isinstance(value, float)
        assert value > 0, name


def test_clients_that_did_not_play_have_no_start_up_time_and_affect_no_others() -> None:
    playing = {
        "clients": 2,
        "played": 2,
        "lateness_us": {"p50": 10.0, "p99": 40.0},
        "start_up_ms": {"p99": 7.0},
        "jitter_us": {"mean": 3.0},
        "mean_gap_difference_us": {"mean": 1.0},
    }
    found = media_summary._clients([playing, {"clients": 1, "played": 0}])
    assert found["lateness_us"] == {"p50": 10.0, "p99": 40.0}
    assert found["start_up_ms"] == {"p99": 7.0}
    assert found["jitter_us"] == {"mean": 3.0}
