"""A router between hosts: its study, its testbed and the results of its runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from patience import PATIENCE_S
from perpacket.cli import app
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket_lab.cli.study_verbs import chosen
from perpacket_lab.measure import hosts as testbed
from perpacket_lab.measure.hosts.routed import Port, Routed
from perpacket_lab.measure.plan import validated, with_available_events
from perpacket_lab.measure.router.router_plan import RouterPlan, flows
from perpacket_lab.measure.router.router_run import RoutedTestbed
from perpacket_lab.measure.router.router_runner import RouterRunner
from perpacket_lab.measure.router.router_summary import (
    RouterWindow,
    loss_at,
    summarize_loss,
    summarize_search,
    summarize_tcp,
)
from perpacket_lab.run import configuration_file, start
from perpacket_lab.study import library
from perpacket_lab.study.lengths import LENGTHS, Length
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import QUANTITIES
from printed import printed_figures
from probes import need
from quiet import skip_if_disturbed, skip_or_fail

EXPERIMENTS = library.experiments("router")

ETHERNET_MOST_BYTES = 1514
"""A frame without its check sequence on a device with an MTU of 1500."""


# The senders and receivers.


def test_the_eight_configurations_are_those_of_the_document() -> None:
    assert flows(1) == ((0, 1),)
    assert flows(3) == ((0, 1), (2, 3))
    assert flows(5) == ((0, 1), (0, 2), (0, 3))
    assert flows(7) == ((0, 1), (1, 2), (2, 3), (3, 0))
    for simplex in (1, 3, 5, 7):
        duplex = flows(simplex + 1)
        assert duplex[: len(duplex) // 2] == flows(simplex)
        assert set(duplex) == {pair for way in flows(simplex) for pair in (way, way[::-1])}


# The study.


def test_every_configuration_has_every_message_size() -> None:
    factors = [point.factors for point in library.find("router", only=("tcp-kernel",)).points]
    assert {(one["configuration"], one["bytes"]) for one in factors} == {
        (configuration, size) for configuration in range(1, 9) for size in (64, 10_240, 65_536)
    }


def test_the_full_search_has_the_frame_sizes_of_rfc_2544() -> None:
    points = library.find("router", "full", ("search-xdp",)).points
    assert [point.factors["bytes"] for point in points] == [64, 128, 256, 512, 1024, 1280, 1518]


@pytest.mark.parametrize("length", LENGTHS)
def test_every_point_is_a_plan(length: Length) -> None:
    for point in library.find("router", length).points:
        plan = validated(RouterPlan, point)
        assert (plan.kind, plan.plane) == (point.factors["load"], point.factors["plane"])


@pytest.mark.parametrize("name", ["router", "memory-surface", "switch-cost"])
def test_the_default_length_takes_at_most_ten_minutes(name: str) -> None:
    study = library.find(name)
    runs = [study.runner_of(point).prepare(point, 1, timeline=False) for point in study.points]
    assert sum(run.progress()[1] for run in runs) * len(study.seeds) <= 600_000


def test_a_plane_selects_its_experiments() -> None:
    def names(only: str | None = None, plane: str | None = None) -> set[str]:
        points = chosen("router", "default", only, plane).points
        return {f"{point.factors['load']}-{point.factors['plane']}" for point in points}

    assert names() == {"tcp-kernel", "search-kernel", "search-xdp", "loss-kernel", "loss-xdp"}
    assert names(plane="xdp") == {"tcp-xdp", "search-xdp", "loss-xdp"}
    assert names("tcp", "kernel") == {"tcp-kernel"}
    with pytest.raises(ConfigurationError, match="no --plane xdp"):
        chosen("breakdown", "default", None, "xdp")
    with pytest.raises(ConfigurationError, match="--only trees with --plane kernel"):
        names("trees", "kernel")


@pytest.mark.parametrize("only", [(), ("tcp-xdp",), EXPERIMENTS])
def test_a_run_has_its_study(only: tuple[str, ...]) -> None:
    study = library.find("router", only=only)
    run = configuration_file.resolve(study, "1", (1,), ())
    again = configuration_file.study_of(run)
    assert {point.name for point in again.points} == {point.name for point in study.points}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["osdi06", "--plane", "xdp"], "osdi06 has no --plane"),
        (["router", "--set", "router.configuration=9"], "router.configuration = 9"),
        (["router", "--set", "load.frame_bytes=63"], "load.frame_bytes = 63"),
        (["router", "--testbed", "loopback"], "(testbed.kind) = loopback"),
    ],
)
def test_impossible_parameters_of_a_router_are_errors(
    arguments: list[str], complaint: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status = app.run(["study", "run", *arguments, "--output", str(tmp_path / "run")])
    assert (status, complaint in capfd.readouterr().err) == (2, True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["router", "memory-surface", "switch-cost"])
def test_published_figures_are_those_of_the_reference(name: str) -> None:
    reference = printed_figures("isa2003.toml")
    for row in library.find(name, "full").published:
        key = row.figure
        while key not in reference:
            key, _, cut = key.rpartition("-")
            assert cut, f"{row.figure} is no figure of the document"
        assert row.where == reference[key]["where"], row.figure
        # Notes have the rates of the machine of 2003; only its share of the processor is compared.
        if row.value is not None:
            assert row.value == reference[key]["value"], row.figure
        assert row.quantity in QUANTITIES


# The result of a run.


def window(**changed: object) -> RouterWindow:
    """A window of a second with 1000 forwarded frames."""
    profile: dict[str, object] = {
        "window_s": 2.0,
        "packets": {"sent": 1000, "received": 1000},
        "bytes": {"sent": 1_500_000, "received": 1_500_000},
        "interfaces": {
            "lo": {"bytes_sent": 7, "bytes_received": 7},
            "port0": {"bytes_sent": 100_000, "bytes_received": 1_400_000},
        },
        "context_switches": 4000,
        "layers": {
            "user": {"cpu_s": 0.5, "share": 0.2},
            "ip": {"cpu_s": 0.001, "share": 0.3},
            "driver": {"cpu_s": 0.002, "share": 0.5},
        },
        "closure": {"stat_cpu_s": 0.5, "difference": 0.0, "resolution": 0.1},
    }
    return RouterWindow(
        profile={**profile, **changed},
        loads=[{"goodput_bps": 4e6}, {"goodput_bps": 1e6}],
        router_idle=0.4,
        router_user=0.0,
        hosts_idle=0.05,
        active_bytes=8192.0,
    )


def plan(**parameters: str) -> RouterPlan:
    given = {"load.kind": "tcp"} | {k.replace("__", "."): v for k, v in parameters.items()}
    return validated(RouterPlan, Point("p", "tcp", overrides=tuple(given.items())))


def test_a_forwarded_packet_counts_once_and_bytes_are_counted_by_interface() -> None:
    result = summarize_tcp(plan(), window())
    assert result["forwarded_packets_per_s"] == 500
    assert result["packets_per_s"] == 1000
    assert result["forwarded_mbps"] == 6.0
    assert result["goodput_mbps"] == 5.0
    assert result["mean_packet_bytes"] == 1500
    assert result["interfaces"] == {"port0": {"received_mbps": 5.6, "sent_mbps": 0.4}}
    assert (result["context_switches_per_s"], result["active_pages"]) == (2000, 2)
    doubts = result["doubts"]
    assert isinstance(doubts, dict)
    assert {name for name, held in doubts.items() if held} == {"client_limited", "others_ran"}


def test_user_code_is_not_a_cost_of_a_forwarded_packet() -> None:
    found = summarize_tcp(plan(), window())["layers"]
    assert isinstance(found, dict)
    assert "cpu_ns_per_forwarded_packet" not in found["user"]
    assert found["ip"]["cpu_ns_per_forwarded_packet"] == pytest.approx(1000)


def test_in_xdp_the_routers_processor_time_is_not_reported() -> None:
    result = summarize_tcp(plan(router__plane="xdp"), window())
    assert (result["server_idle"], result["layers"]) == (None, None)


def test_a_router_that_forwards_nothing_is_a_failed_run() -> None:
    with pytest.raises(RunFailed, match="forwarded nothing"):
        summarize_tcp(plan(), window(packets={"sent": 0, "received": 9}))


def test_a_search_reports_its_rate_the_loss_above_it_and_the_limit() -> None:
    steps = [
        {"rate_pps": 2000.0, "loss": 0.25},
        {"rate_pps": 1000.0, "loss": 0.0},
        {"rate_pps": 2000.0, "loss": 0.5},
    ]
    answer = {
        "throughput_pps": 1000.0,
        "failed_pps": 2000.0,
        "generator_limited": True,
        "steps": steps,
    }
    result = summarize_search(plan(load__kind="search", load__frame_bytes="125"), answer)
    assert (result["throughput_pps"], result["throughput_mbps"]) == (1000, 1)
    assert (result["loss_at_failed"], result["trials"]) == (0.5, 3)
    assert result["doubts"] == {"generator_limited": True}
    assert loss_at(steps, 3000.0) is None
    none = summarize_search(plan(load__kind="search"), {**answer, "throughput_pps": None})
    assert (none["throughput_pps"], none["throughput_mbps"]) == (None, None)
    with pytest.raises(RunFailed, match="no trial"):
        summarize_search(plan(load__kind="search"), {"steps": []})


def test_a_trial_reports_its_loss_and_whether_the_rate_was_offered() -> None:
    step = {"rate_pps": 1000.0, "sent": 500, "received": 400, "loss": 0.2, "duration_s": 0.5}
    commands = plan(load__kind="loss", load__rate_pps="1000")
    stored = summarize_loss(commands, {"steps": [step]})
    assert (stored["loss"], stored["sent_pps"]) == (0.2, 1000)
    assert stored["doubts"] == {"generator_limited": False}
    slow = summarize_loss(commands, {"steps": [step | {"duration_s": 1.0}]})
    assert slow["doubts"] == {"generator_limited": True}
    with pytest.raises(RunFailed, match="no trial"):
        summarize_loss(commands, {"steps": []})


# A run works without forbidden kernel features and reports them.


@dataclass
class FakeCompleted:
    """A command that ended."""

    returncode: int
    stdout: str = ""
    stderr: str = ""


@dataclass
class FailedProcess:
    """A process that failed immediately."""

    completed: FakeCompleted
    pid: int = 1

    def poll(self) -> int:
        return self.completed.returncode

    def stop(self, timeout_s: float = 5) -> int:
        return self.completed.returncode

    def result(self, timeout_s: float | None = None) -> FakeCompleted:
        return self.completed

    def wait_for_line(self, pattern: str, timeout_s: float) -> re.Match[str]:
        raise RunFailed("ended without a line")


def verb_of(command: Sequence[str]) -> str:
    """The verb of the document that a command sends to the agent; empty for other commands."""
    return str(next(iter(json.loads(command[2])))) if command[1] == "run" else ""


@dataclass
class FakeHost:
    """A host whose kernel forbids BPF, and whose router breaks one rule."""

    name: str = "host"
    address: str = "10.77.0.2"
    cpus: tuple[int, ...] = (0,)
    FORBIDDEN = FakeCompleted(3, stderr="error: cannot load a program: operation not permitted")

    def agent(self) -> str:
        return "agent"

    def put(self, local: Path, remote: str) -> None:
        raise NotImplementedError

    def start(self, command: Sequence[str], *, cpus: Sequence[int] | None = None) -> FailedProcess:
        assert verb_of(command) == "route plane"
        return FailedProcess(self.FORBIDDEN)

    def run(
        self, command: Sequence[str], *, timeout_s: float, cpus: Sequence[int] | None = None
    ) -> FakeCompleted:
        if verb_of(command) == "route check":
            cases = [{"case": "TTL 1", "breach": "nothing came"}, {"case": "MTU", "breach": None}]
            return FakeCompleted(1, json.dumps({"cases": cases}))
        if verb_of(command) == "route throughput":
            return self.FORBIDDEN
        return FakeCompleted(0, json.dumps({"capabilities": []}))


@dataclass
class FakeRouted:
    """A router among fake hosts."""

    network: str = "veth"
    limits: tuple[str, ...] = ("It is invented.",)
    server: FakeHost = field(default_factory=FakeHost)
    clients: tuple[FakeHost, ...] = field(default_factory=lambda: (FakeHost(),) * 4)
    ports: tuple[Port, ...] = tuple(Port(f"r:port{n}", f"h{n}:net0") for n in range(4))
    inner_addresses: tuple[str, ...] = ()

    def steer(self, number: int, cpus: Sequence[int] | None) -> None:
        raise NotImplementedError

    def set_latency(self, one_way_us: float) -> None:
        raise NotImplementedError

    def network_report(self) -> None:
        return None


def test_without_bpf_the_router_is_loaded_by_batches_and_points_in_xdp_are_left_out() -> None:
    runner = RouterRunner(lambda plan: nullcontext(cast("RoutedTestbed", FakeRouted())))
    points = library.find("router", only=("search-kernel", "search-xdp")).points
    with runner.set_up(points) as setup:
        assert setup.identity["generator"] == "socket"
        assert setup.left_out.keys() == {"search-xdp-64b"}
        assert "operation not permitted" in next(iter(setup.left_out.values()))
        assert setup.facts["oracle"] == {"kernel": "2 cases, 1 wrong"}
        captured = setup.facts["limits"]
        assert isinstance(captured, list)
        assert any("first TTL 1: nothing came" in limit for limit in captured)
        assert any("batches from a packet socket" in limit for limit in captured)


@pytest.mark.parametrize(
    ("commands", "may_sample", "sampled"),
    [("any", True, "best"), ("any", False, "accounts"), ("clock", False, "clock")],
)
def test_where_perf_is_forbidden_the_kernels_accounts_are_used(
    commands: str, may_sample: bool, sampled: str
) -> None:
    found = with_available_events(plan(profile__events=commands), may_sample)
    assert found.profile_events == sampled


# The testbed, where namespaces can be made.


@pytest.fixture(scope="module")
def bed() -> Iterator[Routed]:
    need("netns")
    with testbed.routed(hosts=3) as routed:
        yield routed


def test_hosts_reach_each_other_only_through_the_router(bed: Routed) -> None:
    def forwarded() -> int:
        done = bed.server.run(["cat", "/proc/net/snmp"], timeout_s=PATIENCE_S)
        lines = [line.split() for line in done.stdout.splitlines() if line.startswith("Ip: ")]
        return int(dict(zip(*lines, strict=True))["ForwDatagrams"])

    before = forwarded()
    first, _, last = bed.clients
    listen = [last.agent(), "load", "stream", "--listen", f"{last.address}:5001", "--once"]
    far_end = last.start([*listen, "--format", "json"])
    far_end.wait_for_line("listening on", PATIENCE_S)
    send = [first.agent(), "load", "stream", "--to", f"{last.address}:5001", "--duration", "0.5"]
    sent = first.run([*send, "--segment-size", "65536", "--format", "json"], timeout_s=PATIENCE_S)
    assert sent.returncode == 0, sent.stderr
    received = json.loads(far_end.result(PATIENCE_S).stdout)
    if not received["bytes"]:
        skip_or_fail("nothing was sent in half a second")
    # No frame is larger than the MTU, so there are at least as many packets as the bytes fill.
    assert forwarded() - before >= received["bytes"] / ETHERNET_MOST_BYTES


def test_devices_neither_merge_frames_nor_omit_checksums(bed: Routed) -> None:
    from pyroute2.ethtool import Ethtool

    from perpacket_lab.measure.hosts.network import OFFLOADS, Namespace

    def look() -> None:
        ethtool = Ethtool()
        try:
            features = ethtool.get_features("net0").features
            on.extend(name for name, one in features.items() if one.enable)
        finally:
            ethtool.close()

    on: list[str] = []
    name, _, device = bed.ports[0].host.rpartition(":")
    assert device == "net0"
    with (Path("/run/netns") / name).open() as held:
        Namespace(name, held.fileno()).inside(look)
    assert on
    assert not [name for name in on if name.startswith(OFFLOADS)]


@pytest.mark.live
def test_a_router_is_removed_and_adds_no_latency() -> None:
    need("netns")
    with testbed.routed(hosts=2) as routed:
        names = [port.router.rpartition(":")[0] for port in routed.ports]
        assert all((Path("/run/netns") / name).exists() for name in names)
        routed.set_latency(0)
        with pytest.raises(MachineLacks, match="latency"):
            routed.set_latency(5)
    assert not any((Path("/run/netns") / name).exists() for name in names)


@pytest.mark.parametrize("hosts", [1, 251])
def test_a_router_needs_two_hosts(hosts: int) -> None:
    with pytest.raises(ConfigurationError, match="hosts"):
        testbed.routed(hosts=hosts)


@pytest.mark.live
def test_the_real_router_makes_observations(tmp_path: Path) -> None:
    """A window of bulk TCP and a search, through the driver. The test judges no time."""
    wanted = {"kernel-2-10240b", "search-kernel-1518b"}
    study = library.find("router")
    chosen = tuple(point for point in study.points if point.name in wanted)
    study = replace(study.limited_to(chosen), seeds=(1,))
    quick = (
        ("run.duration_s", "0.5"),
        ("run.warmup_s", "0"),
        ("search.trial_s", "0.02"),
        ("search.resolution", "0.9"),
        ("profile.events", "accounts"),
    )
    need("netns")
    try:
        directory = start.run(study, tmp_path / "run", seeds=(1,), overrides=quick)
    except RunFailed as error:
        skip_or_fail(str(error))
    captured = directory.environment()["testbed"]
    assert isinstance(captured, dict)
    # The oracle has tests of its own; this test only checks that its result is stored.
    assert int(str(captured["oracle"]["kernel"]).partition(" cases, ")[0]) > 60
    skip_if_disturbed(directory)
    reasons = [failure.reason for failure in directory.failures()]
    results = {one.point: one.result for one in directory.read_observations()}
    assert results.keys() == wanted, reasons
    tcp = results["kernel-2-10240b"]
    assert isinstance(tcp["interfaces"], dict)
    assert {"port0", "port1"} <= tcp["interfaces"].keys()
    assert isinstance(tcp["mean_packet_bytes"], float)
    assert 40 < tcp["mean_packet_bytes"] <= ETHERNET_MOST_BYTES
    trials = results["search-kernel-1518b"]["trials"]
    assert isinstance(trials, int)
    assert trials >= 1
