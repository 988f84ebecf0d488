"""Advice finds the known fault of a server between two namespaces, and changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from perpacket.advise import (
    catalogue,
    observation,
    settings,
)
from perpacket.advise.advice import Report, advise
from perpacket.advise.limit_kinds import What
from perpacket.advise.network_scope import NetworkScope
from perpacket.errors import MachineLacks, PerpacketError, RunFailed
from perpacket.measure import agent
from probes import need, program
from requirements import DISTURBED, skip

SERVER, CLIENT = "10.99.0.1", "10.99.0.2"


@dataclass
class Bed:
    """Two network namespaces."""

    server: str
    client: str
    stack: ExitStack

    def start(self, where: str, *command: str) -> int:
        """A program that ends with the test; returns its number."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", where, *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def stop() -> None:
            process.terminate()
            process.wait(20)

        self.stack.callback(stop)
        return process.pid

    @property
    def scope(self) -> NetworkScope:
        """The server's end of the pair of devices."""
        return NetworkScope("eth0", Path("/run/netns", self.server))

    def wait_for(self, pid: int, listens: int) -> None:
        """Wait until the server accepts connections."""
        for _ in range(200):
            text = Path(f"/proc/{pid}/net/tcp").read_text()
            if f":{listens:04X} 00000000:0000 0A" in text:
                return
            time.sleep(0.05)
        pytest.fail(f"nothing listens on port {listens}")


@pytest.fixture
def bed() -> Iterator[Bed]:
    need("netns")
    names = [f"pp-advise-{side}-{os.getpid()}" for side in "ab"]
    with ExitStack() as stack:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
        pair = ["ip", "link", "add", "eth0", "netns", names[0], "type", "veth"]
        subprocess.run([*pair, "peer", "name", "eth0", "netns", names[1]], check=True)
        for name, address in zip(names, (SERVER, CLIENT), strict=True):
            ip = ["ip", "-n", name]
            subprocess.run([*ip, "addr", "add", f"{address}/24", "dev", "eth0"], check=True)
            subprocess.run([*ip, "link", "set", "eth0", "up"], check=True)
        yield Bed(names[0], names[1], stack)


def observed(pid: int) -> Report:
    """Advice on the running server; skips without the rights for a profile."""
    need("perf")
    return advise(observation.observe(3.0, pid, ""))


def names_of(report: Report) -> list[str]:
    """The names of the changes that apply, in their order."""
    return [one.change.name for one in report.advice]


@pytest.fixture
def programs() -> str:
    try:
        return str(agent.find())
    except MachineLacks as error:
        skip("agent", error)


def load(bed: Bed, program: str, url: str) -> None:
    """Requests until the test ends."""
    bed.start(bed.client, program, "load", "http", url, "--connections", "16", "--duration", "60s")
    time.sleep(1)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a file of 612 bytes that every user can read."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    (tmp_path / "small.html").write_bytes(b"x" * 612)
    return tmp_path


@pytest.mark.live
@pytest.mark.full
def test_segmentation_that_is_off_is_first_under_bulk_sending(bed: Bed, programs: str) -> None:
    off = ("tx-tcp-segmentation", "tx-generic-segmentation")
    for name in off:
        settings.open({"kind": "ethtool-feature", "feature": name}, bed.scope).write("off")
    far = bed.start(bed.client, programs, "load", "stream", "--listen", f"{CLIENT}:7001")
    bed.wait_for(far, 7001)
    send = ["load", "stream", "--to", f"{CLIENT}:7001", "--direction", "send"]
    pid = bed.start(bed.server, programs, *send, "--duration", "60s")
    time.sleep(1)
    assert names_of(observed(pid))[0] == "tso"


@pytest.mark.live
@pytest.mark.full
def test_200_rules_in_the_path_are_first(bed: Bed, programs: str, site: Path) -> None:
    settings.open({"kind": "nft-rules"}, bed.scope).write("200")
    listen = f"{SERVER}:7002"
    pid = bed.start(bed.server, programs, "serve", "web", "--root", str(site), "--listen", listen)
    bed.wait_for(pid, 7002)
    load(bed, programs, f"http://{listen}/small.html")
    report = observed(pid)
    assert names_of(report)[0] == "netfilter"
    assert "200 rules are in the longest chain" in report.advice[0].evidence


@pytest.mark.live
@pytest.mark.full
def test_the_access_log_of_nginx_is_first_with_small_files(
    bed: Bed, programs: str, site: Path
) -> None:
    # Without sendfile nginx writes header and body together, which is cheaper for 612 bytes.
    nginx = program("nginx")
    file = site / "nginx.conf"
    folders = "".join(
        f"{name}_temp_path {site}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file.write_text(
        f"daemon off; worker_processes auto; user nobody nogroup; pid {site}/pid;"
        f"error_log stderr crit; events {{ worker_connections 256; }} http {{ {folders}"
        f"keepalive_requests 1000000000; open_file_cache max=100; sendfile off;"
        f"access_log {site}/access.log; server {{ listen {SERVER}:7003; root {site}; }} }}"
    )
    pid = bed.start(bed.server, nginx, "-c", str(file))
    bed.wait_for(pid, 7003)
    load(bed, programs, f"http://{SERVER}:7003/small.html")
    report = observed(pid)
    assert names_of(report)[0] == "access-log"
    sendfile = next(one for one in report.not_applicable if one.change.name == "sendfile")
    assert "requests were not counted" in sendfile.reason


@pytest.mark.live
def test_a_token_bucket_is_the_limit_and_requests_are_counted_in_the_namespace(
    bed: Bed, programs: str, site: Path
) -> None:
    need("perf")
    listen = f"{SERVER}:7004"
    pid = bed.start(bed.server, programs, "serve", "web", "--root", str(site), "--listen", listen)
    bed.wait_for(pid, 7004)
    subprocess.run(["ip", "-n", bed.server, "link", "set", "lo", "up"], check=True)
    shape = ["tc", "-n", bed.server, "qdisc", "add", "dev", "eth0", "root", "tbf"]
    shaped = subprocess.run(
        [*shape, "rate", "20mbit", "burst", "16kb", "latency", "50ms"], check=False
    )
    if shaped.returncode:
        skip("netns", "the kernel has no tbf")
    load(bed, programs, f"http://{listen}/small.html")
    seen = observation.observe(2.0, pid, "", f"http://{listen}/.perpacket/report")
    report = advise(seen)
    assert report.limit is not None
    assert report.limit.what is What.QUEUEING, report.limit
    assert "tbf of eth0" in report.limit.text
    assert seen.profile.number("requests") > 100
    reasons = {one.change.name: one.reason for one in report.not_applicable}
    if not seen.profile.too_few_samples:
        assert "accepts 0.00 connections of clients" in reasons["connection-reuse"]


@pytest.mark.live
@pytest.mark.parametrize(("option", "is_advised"), [("http-server-close", True), ("", False)])
def test_a_proxy_that_closes_its_connections_to_the_server_is_told_to_keep_them(
    bed: Bed, programs: str, site: Path, option: str, is_advised: bool
) -> None:
    need("perf")
    haproxy = program("haproxy")
    behind = f"{CLIENT}:7006"
    web = bed.start(bed.client, programs, "serve", "web", "--root", str(site), "--listen", behind)
    bed.wait_for(web, 7006)
    file = site / "haproxy.cfg"
    file.write_text(
        "global\n  nbthread 1\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n"
        f"  timeout server 60s\n{f'  option {option}' if option else ''}\n"
        f"frontend front\n  bind {SERVER}:7005\n  default_backend back\n"
        f"backend back\n  server web {behind}\n"
    )
    pid = bed.start(bed.server, haproxy, "-db", "-f", str(file))
    bed.wait_for(pid, 7005)
    load(bed, programs, f"http://{SERVER}:7005/small.html")
    seen = observation.observe(2.0, pid, "", f"http://{behind}/.perpacket/report")
    assert seen.profile.number("requests") > 100
    try:
        report = advise(seen)
    except RunFailed as error:
        skip(DISTURBED, error)
    if seen.profile.too_few_samples:
        skip(DISTURBED, "the profile has too few samples")
    reasons = {one.change.name: one.reason for one in report.not_applicable}
    assert "accepts 0.0" in reasons["connection-reuse"]
    advised = {one.change.name: one.evidence for one in report.advice}
    assert ("upstream-reuse" in advised) == is_advised, (advised, reasons)
    text = advised["upstream-reuse"] if is_advised else reasons["upstream-reuse"]
    opened = float(text.split("opens ")[1].split(" ")[0])
    assert 0.9 < opened < 1.1 if is_advised else opened < 0.1


@pytest.mark.live
def test_keeping_connections_open_is_cheaper(bed: Bed, programs: str, site: Path) -> None:
    """nginx with `keepalive_timeout 0` opens a connection for each request."""
    need("perf")
    nginx = program("nginx")
    subprocess.run(["ip", "-n", bed.server, "link", "set", "lo", "up"], check=True)
    file = site / "nginx.conf"
    folders = "".join(
        f"{name}_temp_path {site}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file.write_text(
        f"daemon off; user root; pid {site}/pid; error_log stderr crit;"
        f"events {{ worker_connections 256; }} http {{ {folders} access_log off;"
        f"keepalive_requests 1000000000; keepalive_timeout 0;"
        f"server {{ listen {SERVER}:7007; root {site}; }} }}"
    )
    pid = bed.start(bed.server, nginx, "-c", str(file))
    bed.wait_for(pid, 7007)
    trial = [sys.executable, "-m", "perpacket.cli", "trial", "keepalive=on", "--pid", str(pid)]
    options = ["--url", f"http://{SERVER}:7007/small.html", "--connections", "8"]
    short = ["--blocks", "3", "--window", "0.5s", "--settle", "0.3s", "--format", "json"]
    inside = ["ip", "netns", "exec", bed.client, *trial, *options, *short]
    done = subprocess.run(inside, capture_output=True, text=True, check=False)
    if "busy time is of other programs" in done.stderr:
        skip(DISTURBED, done.stderr)
    assert done.returncode == 0, done.stderr
    [outcome] = json.loads(done.stdout)["trials"]
    # Other work on the machine can make the interval of three blocks wide. It changes no packets.
    assert outcome["verdict"] in ("cheaper", "not distinguishable"), outcome["quantities"]
    packets, time = (outcome["quantities"][key] for key in ("packets_per_unit", "cpu_us_per_unit"))
    assert packets["changed"] < 0.5 * packets["before"]
    assert time["changed"] < time["before"]


@pytest.mark.live
def test_a_harmful_change_is_undone_within_one_window(bed: Bed, programs: str, site: Path) -> None:
    """A token bucket of 400 kb/s delays each response by much more than the usual p99."""
    need("perf")
    listen = f"{SERVER}:7008"
    pid = bed.start(bed.server, programs, "serve", "web", "--root", str(site), "--listen", listen)
    bed.wait_for(pid, 7008)
    tc = f"tc -n {bed.server} qdisc"
    do = f"{tc} add dev eth0 root tbf rate 400kbit burst 4kb latency 2s"
    undo = f"{tc} del dev eth0 root"
    if subprocess.run(do.split(), capture_output=True, check=False).returncode:
        skip("netns", "the kernel has no tbf")
    subprocess.run(undo.split(), check=True)
    trial = [sys.executable, "-m", "perpacket.cli", "trial", "--do", do, "--undo", undo]
    options = ["--pid", str(pid), "--url", f"http://{listen}/small.html", "--connections", "16"]
    windows = ["--blocks", "40", "--window", "1s", "--settle", "0.5s"]
    began_s = time.monotonic()
    done = subprocess.run(
        ["ip", "netns", "exec", bed.client, *trial, *options, *windows],
        capture_output=True,
        text=True,
        check=False,
    )
    if "busy time is of other programs" in done.stderr:
        skip(DISTURBED, done.stderr)
    assert done.returncode == 4, done.stderr
    assert "stopped and undone: p99 is" in done.stderr
    assert "--no-guards" in done.stderr
    # Forty blocks of two windows would last two minutes; it ends after the first with the change.
    assert time.monotonic() - began_s < 60
    queues = subprocess.run([*tc.split(), "show"], capture_output=True, text=True, check=True)
    assert "tbf" not in queues.stdout


@pytest.mark.live
def test_a_json_log_is_replayed_by_a_mapping_of_its_fields(
    bed: Bed, programs: str, site: Path
) -> None:
    listen = f"{SERVER}:7009"
    pid = bed.start(bed.server, programs, "serve", "web", "--root", str(site), "--listen", listen)
    bed.wait_for(pid, 7009)
    log = site / "own.json"
    lines = [
        {"when": 1_700_000_000.25 + number / 50, "who": f"192.0.2.{number % 7}",
         "req": {"path": "/small.html"}, "code": 200, "bytes": 612}
        for number in range(100)
    ]  # fmt: skip
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    fields = "time=when,uri=req.path,client=who,status=code,size=bytes"
    command = [programs, "load", "http", f"http://{listen}/", "--replay", str(log)]
    done = subprocess.run(
        ["ip", "netns", "exec", bed.client, *command, "--log-fields", fields, "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["requests"] == 100
    assert report["duration_s"] > 1.9  # at the log's own times, not at once


@pytest.mark.live
def test_advice_changes_no_setting_that_can_be_read(bed: Bed, programs: str, site: Path) -> None:
    listen = f"{SERVER}:7004"
    pid = bed.start(bed.server, programs, "serve", "web", "--root", str(site), "--listen", listen)
    bed.wait_for(pid, 7004)
    load(bed, programs, f"http://{listen}/small.html")
    before = every_setting(pid)
    assert len(before) > 20
    advise(observation.observe(0.5, pid, ""))
    assert every_setting(pid) == before


def every_setting(pid: int) -> dict[tuple[str, str], str]:
    """Every setting of the catalogue that can be read, and every sysctl of the network."""
    found: dict[tuple[str, str], str] = {}
    for change in catalogue.load().values():
        for interface in ("eth0", "lo"):
            try:
                setting = settings.open(change.setting or {}, NetworkScope.of(pid, interface))
                found[change.name, interface] = setting.read()
            except PerpacketError:
                continue
    found.update(NetworkScope.of(pid).inside(sysctls))
    return found


def sysctls() -> dict[tuple[str, str], str]:
    """The sysctls of the network that can be read."""
    found: dict[tuple[str, str], str] = {}
    for folder in ("net/core", "net/ipv4"):
        for path in Path("/proc/sys", folder).iterdir():
            try:
                found["sysctl", str(path)] = path.read_text()
            except OSError:
                continue
    return found


@pytest.mark.live
def test_a_profile_ends_with_its_own_status(programs: str) -> None:
    command = [sys.executable, "-m", "perpacket.cli", "profile", "--pid", str(2**22 + 1)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no such process" in done.stderr
