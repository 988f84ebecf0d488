"""Routes of the router by RIP, cross traffic, and the processors of its ports."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import pytest

from far import SSHD
from patience import PATIENCE_S, eventually
from perpacket import executables
from perpacket.errors import ConfigurationError, RunFailed
from perpacket.measure import agent
from perpacket.measure.hosts import record
from perpacket.measure.hosts.contract import Host
from perpacket_lab.measure import hosts as testbed
from perpacket_lab.measure.host_files import text_of
from perpacket_lab.measure.hosts.network import mask_of
from perpacket_lab.measure.hosts.routed import Routed
from perpacket_lab.measure.plan import validated
from perpacket_lab.measure.router import rip
from perpacket_lab.measure.router.router_plan import RouterPlan
from perpacket_lab.measure.router.router_run import RoutedTestbed, placed
from perpacket_lab.measure.router.router_runner import RouterRunner
from perpacket_lab.measure.router.router_summary import RouterWindow, summarize_tcp
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.study import library
from perpacket_lab.study.point import Point
from probes import need
from quiet import skip_if_disturbed
from requirements import skip
from test_router import FakeRouted

INJECTED = 40
"""More routes than one message of RIP has: 25 (RFC 2453, section 4)."""

KERNEL_TABLE = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
port0\t00004D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
port1\t00014E0A\t02014D0A\t0003\t0\t0\t32\t00FFFFFF\t0\t0\t0
"""


def plan(**parameters: str) -> RouterPlan:
    given = {"load.kind": "tcp"} | {k.replace("__", "."): v for k, v in parameters.items()}
    return validated(RouterPlan, Point("p", "tcp", overrides=tuple(given.items())))


def test_every_configuration_is_measured_by_rip_and_with_cross_traffic() -> None:
    for name in ("rip-kernel", "cross-kernel"):
        points = library.find("router", only=(name,)).points
        assert {point.factors["configuration"] for point in points} == set(range(1, 9))
    plans = [validated(RouterPlan, point) for point in library.find("router").points]
    assert {one.routes for one in plans} == {"static", "rip"}
    assert {one.processors for one in plans} == {"divided", "one", "pairs"}


def test_cross_traffic_has_a_path_of_no_flow_and_goes_both_ways_in_duplex() -> None:
    for configuration in range(1, 9):
        one = plan(router__configuration=str(configuration), cross__rate_bps="1000000")
        assert not set(one.cross_flows) & set(one.flows)
        assert len(one.cross_flows) == (1 if configuration % 2 else 2)
    assert plan().cross_flows == ()


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"router.routes": "rip", "load.kind": "loss"}, "load.kind tcp"),
        ({"cross.rate_bps": "1000", "router.plane": "xdp"}, "router.plane kernel"),
        ({"router.processors": "pairs", "router.configuration": "5"}, "flows within pairs"),
        ({"router.processors": "one", "cross.rate_bps": "1000"}, "flows within pairs"),
        ({"router.routes": "rip", "router.injected_routes": "251"}, "router.injected_routes"),
    ],
)
def test_options_that_do_not_fit_together_are_errors(
    parameters: dict[str, str], complaint: str
) -> None:
    given = {"load.kind": "tcp"} | parameters
    with pytest.raises(ConfigurationError, match=complaint):
        validated(RouterPlan, Point("p", "tcp", overrides=tuple(given.items())))


def test_without_the_daemon_its_points_are_left_out_and_the_reason_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executables, "find", lambda name: None)
    runner = RouterRunner(lambda plan: nullcontext(cast("RoutedTestbed", FakeRouted())))
    points = library.find("router", "quick", only=("rip-kernel", "tcp-kernel")).points
    with runner.set_up(points) as setup:
        assert setup.left_out.keys() == {"rip-8-65536b"}
        assert "Debian's package bird2" in setup.left_out["rip-8-65536b"]


def test_a_table_of_the_kernel_has_the_gateway_of_each_network() -> None:
    if sys.byteorder != "little":
        pytest.skip("processors: the table is that of a little-endian machine")
    assert rip.gateways(KERNEL_TABLE) == {
        "10.77.0.0/24": "0.0.0.0",
        "10.78.1.0/24": "10.77.1.2",
    }


def test_the_processors_of_a_mask_are_words_of_32_bits() -> None:
    assert mask_of([]) == "00000000"
    assert mask_of([0, 1]) == "00000003"
    assert mask_of([33]) == "00000002,00000000"


def test_with_hosts_on_its_processors_the_router_has_no_processor_time() -> None:
    profile: dict[str, object] = {
        "window_s": 1.0,
        "packets": {"sent": 10, "received": 10},
        "bytes": {"sent": 1000, "received": 1000},
        "layers": {"user": {"cpu_s": 0.5, "share": 0.9}, "ip": {"cpu_s": 0.1, "share": 0.1}},
    }
    window = RouterWindow(
        profile=profile,
        loads=[{"goodput_bps": 4e6}],
        router_idle=0.0,
        router_user=0.9,
        hosts_idle=0.0,
        active_bytes=0.0,
        cross=[{"goodput_bps": 1e6}],
    )
    apart = summarize_tcp(plan(router__processors="pairs"), window)
    assert (apart["layers"], apart["server_idle"], apart["router_user"]) == (None, None, None)
    assert apart["cross_mbps"] is None
    assert isinstance(apart["doubts"], dict)
    assert not any(apart["doubts"].values())
    crossed = summarize_tcp(plan(cross__rate_bps="1000000"), window)
    assert (crossed["goodput_mbps"], crossed["cross_mbps"]) == (4, 1)


# The daemons and the devices, where namespaces can be made.


@pytest.fixture(scope="module")
def bed() -> Iterator[Routed]:
    need("netns")
    with testbed.routed(hosts=4) as routed:
        yield routed


@pytest.fixture
def needs_daemon() -> None:
    if reason := rip.lack():
        skip("peers", reason)


SOURCE = """
import socket, sys
connected = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
connected.connect((sys.argv[1], 9))
print(connected.getsockname()[0])
"""
"""Prints the address from which a host sends to another."""


def learned(bed: Routed) -> list[int]:
    """The number of routes of the router and of each host to networks that RIP spreads."""
    tables = [text_of(host, "/proc/net/route") for host in (bed.server, *bed.clients)]
    return [
        sum(network.startswith(("10.78.", "10.79.")) for network in rip.gateways(table))
        for table in tables
    ]


@pytest.mark.live
@pytest.mark.usefixtures("needs_daemon")
def test_daemons_spread_the_routes_of_every_host_and_take_them_back(bed: Routed) -> None:
    assert rip.version(bed.server).startswith("BIRD version 2")
    assert learned(bed) == [0] * 5
    with rip.spread(bed, INJECTED) as routes:
        assert learned(bed) == [4 + INJECTED, 3, 3 + INJECTED, 3 + INJECTED, 3 + INJECTED]
        routes.check()
        first, last = bed.clients[0], bed.clients[3]
        # The way back is a learned route too.
        source = first.run(
            [sys.executable, "-c", SOURCE, bed.inner_addresses[3]], timeout_s=PATIENCE_S
        )
        assert source.stdout.strip() == bed.inner_addresses[0]
        inner = bed.inner_addresses[3]
        listen = [last.agent(), "load", "stream", "--listen", f"{inner}:5001", "--format", "json"]
        far_end = last.start([*listen, "--once"])
        far_end.wait_for_line("listening on", PATIENCE_S)
        send = [first.agent(), "load", "stream", "--to", f"{inner}:5001", "--duration", "0.2"]
        sent = first.run([*send, "--format", "json"], timeout_s=PATIENCE_S)
        assert sent.returncode == 0, sent.stderr
        assert json.loads(far_end.result(PATIENCE_S).stdout)["bytes"] > 0
    assert learned(bed) == [0] * 5


@pytest.mark.live
@pytest.mark.usefixtures("needs_daemon")
def test_a_lost_route_or_daemon_is_an_error_of_the_run(bed: Routed) -> None:
    with rip.spread(bed, 1) as routes:
        routes.daemons[2].process.stop()
        with pytest.raises(RunFailed, match="the daemon of RIP on host1"):
            routes.check()
    with rip.spread(bed, 0) as routes:
        wanted: dict[Host, dict[str, str]] = {bed.server: {"10.79.0.0/24": "10.77.0.2"}}
        assert "router has no route to 10.79.0.0/24" in rip.missing_route(wanted)
        assert not rip.missing_route(routes.expected)


@pytest.mark.live
def test_the_receive_work_of_a_pair_moves_to_a_processor_and_back(bed: Routed) -> None:
    look = "mount -t sysfs sysfs /sys && cat /sys/class/net/port2/queues/rx-0/rps_cpus"
    command = ["unshare", "--mount", "sh", "-c", look]

    def processors() -> int:
        done = bed.server.run(command, timeout_s=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return int(done.stdout.replace(",", ""), 16)

    before = processors()
    apart = plan(router__processors="one", router__configuration="3")
    lowest = min(bed.server.cpus + bed.clients[0].cpus)
    with placed(bed, apart) as cpus:
        assert cpus == [(lowest,)] * 4
        assert processors() == 1 << lowest
    assert processors() == int(mask_of(bed.server.cpus).replace(",", ""), 16)
    assert before in (0, processors())


CHILD = """
import sys, time
from pathlib import Path
from perpacket_lab.measure import hosts as testbed
from perpacket.measure.hosts import record
from perpacket_lab.measure.router import rip

record.folder_path = lambda: Path(sys.argv[1])
with testbed.routed(hosts=2) as bed, rip.spread(bed, 0) as routes:
    print(*(daemon.process.pid for daemon in routes.daemons), flush=True)
    time.sleep(3600)
"""


@pytest.mark.live
@pytest.mark.usefixtures("needs_daemon", "bed")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_daemon_or_file_remains_of_an_interrupted_or_killed_run(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Paths of sockets must be short: unix(7).
    with tempfile.TemporaryDirectory() as records, tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder)
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, records],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": folder},
        )
        assert child.stdout is not None
        daemons = [int(pid) for pid in child.stdout.readline().split()]
        assert len(daemons) == 3, child.communicate()[1]
        assert len(list(temporary.glob(f"{record.PREFIX}rip-*/*.ctl"))) == 3
        child.send_signal(number)
        child.wait(PATIENCE_S)
        assert eventually(lambda: all(record.start_ticks(pid) is None for pid in daemons))
        if number == signal.SIGKILL:
            monkeypatch.setattr(record, "folder_path", lambda: Path(records))
            monkeypatch.setattr(tempfile, "tempdir", folder)
            assert len(record.remove_leftovers()) == 1
        assert not list(temporary.glob(f"{record.PREFIX}*"))
        assert not list(Path(records).iterdir())


# Over ssh: each namespace has an ssh server, and host 0 runs the study.

SSH = """\
Host *
    User root
    IdentityFile {folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile /dev/null
    StrictHostKeyChecking no
"""

OVER_SSH = """
import json, sys
from dataclasses import replace
from pathlib import Path
import patience
patience.be_patient(setattr)
from perpacket.errors import RunFailed
from perpacket.measure.hosts import record
from perpacket_lab.run import start
from perpacket_lab.study import library

records, output, overrides = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
record.folder_path = lambda: Path(records)
study = library.find("router")
wanted = ("kernel-2-65536b", "rip-1-65536b", "search-kernel-64b")
points = tuple(point for point in study.points if point.name in wanted)
study = replace(study.limited_to(points), seeds=(1,))
start.run(study, output, seeds=(1,), overrides=[tuple(pair) for pair in overrides])
"""


@pytest.mark.live
def test_a_router_over_ssh_is_measured_where_flows_cross_it(bed: Routed, tmp_path: Path) -> None:
    if not Path(SSHD).exists() or shutil.which("ssh-keygen") is None:
        skip("sshd", "OpenSSH's server is not installed")
    for name in ("host", "key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True)
    for name in ("home", "temporary", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "config").write_text(SSH.format(folder=tmp_path))
    ssh = tmp_path / "bin/ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/config "$@"\n')
    ssh.chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)
    settings = [
        *("Port=2222", "PidFile=none", "PasswordAuthentication=no", "StrictModes=no", "UsePAM=no"),
        *("PermitRootLogin=yes", f"HostKey={tmp_path}/host", "MaxStartups=100"),
        f"AuthorizedKeysFile={tmp_path}/key.pub",
        f"SetEnv=HOME={tmp_path}/home TMPDIR={tmp_path}/temporary",
    ]
    options = [word for setting in settings for word in ("-o", setting)]
    for host in (bed.server, *bed.clients):
        host.start([SSHD, "-D", "-e", "-f", "/dev/null", *options]).wait_for_line(
            "listening on", PATIENCE_S
        )
    addresses = [host.address for host in bed.clients]
    overrides = {
        "testbed.kind": "ssh",
        "testbed.server_host": f"{bed.server.address}:2222",
        "testbed.client_hosts": ",".join(f"{address}:2222" for address in addresses),
        "router.addresses": ",".join(addresses),
        "run.duration_s": "0.3",
        "run.warmup_s": "0",
        "profile.events": "accounts",
    }
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PERPACKET_AGENT": str(agent.find()),
        "PATH": f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}",
    }
    given = ["env", *(f"{name}={value}" for name, value in environment.items())]
    with tempfile.TemporaryDirectory() as records:
        script = [sys.executable, "-c", OVER_SSH, records, str(tmp_path / "run")]
        ran = bed.clients[0].run(
            [*given, *script, json.dumps(list(overrides.items()))], timeout_s=PATIENCE_S
        )
        assert ran.returncode == 0, ran.stderr
    directory = RunDirectory.open(tmp_path / "run")
    skip_if_disturbed(directory)
    reasons = [failure.reason for failure in directory.failures()]
    (tcp,) = directory.read_observations()
    assert tcp.point == "kernel-2-65536b", reasons
    assert isinstance(tcp.result["forwarded_mbps"], float)
    assert tcp.result["forwarded_mbps"] > 0
    assert {"port0", "port1"} <= cast("dict[str, object]", tcp.result["interfaces"]).keys()
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"testbed.client_hosts": "a,b"}, "expected 4 hosts in --client-host"),
        ({"router.addresses": "10.0.0.1"}, "expected 4 hosts in router.addresses"),
        ({"testbed.server_host": ""}, "expected --server-host"),
    ],
)
def test_a_router_over_ssh_has_four_hosts(parameters: dict[str, str], complaint: str) -> None:
    given = {
        "load.kind": "tcp",
        "testbed.kind": "ssh",
        "testbed.server_host": "r",
        "testbed.client_hosts": "a,b,c,d",
    }
    with pytest.raises(ConfigurationError, match=complaint):
        validated(RouterPlan, Point("p", "tcp", overrides=tuple((given | parameters).items())))


def test_flows_that_bypass_the_router_are_a_failed_run() -> None:
    profile: dict[str, object] = {
        "window_s": 1.0,
        "packets": {"sent": 10, "received": 10},
        "bytes": {"sent": 1000, "received": 1000},
        "layers": {"user": {"cpu_s": 0.5, "share": 1.0}},
    }
    bypassed = RouterWindow(profile, [{"goodput_bps": 4e6}], 0.5, 0.0, 0.5, 0.0)
    over_ssh = plan(testbed__kind="ssh", testbed__server_host="r", testbed__client_hosts="a,b,c,d")
    with pytest.raises(RunFailed, match="do not cross the router"):
        summarize_tcp(over_ssh, bypassed)
    assert summarize_tcp(plan(), bypassed)["goodput_mbps"] == 4
