"""Files of another machine are recognized by their contents, and only they are facts."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from perpacket import api
from perpacket.advise import case, kernel_texts, observation, processor_texts, tool_texts
from perpacket.advise.advice import advise
from perpacket.advise.limit_kinds import What
from perpacket.cli.app import run
from perpacket.errors import ConfigurationError
from perpacket.measure import agent
from probes import need

CAPTURE = [str(agent.find()), "capture"]

SOFTNET = "".join(
    " ".join(f"{number:08x}" for number in row) + "\n"
    for row in (
        (1000, 2, 3, 0, 0, 0, 0, 0, 0, 5, 0, 0, 7),
        (16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9),
    )
)
"""The rows of processors 7 and 9."""

SS = """\
ESTAB 0 900000 10.0.0.1:80 10.0.0.2:5000
\t cubic wscale:7,7 rto:204 cwnd:10 busy:1000ms rwnd_limited:800ms(80.0%) rcv_space:14600
ESTAB 0 0 10.0.0.1:80 10.0.0.3:5000
\t cubic cwnd:10 app_limited busy:200ms sndbuf_limited:20ms(10.0%) rcv_space:29200
"""

TC = """\
qdisc htb 1: dev eth0 root refcnt 2 r2q 10 default 0x10
 Sent 1000 bytes 10 pkt (dropped 7, overlimits 5000 requeues 0)
 backlog 64Kb 40p requeues 0
qdisc fq_codel 8001: dev eth0 parent 1:10 limit 10240p
 Sent 1000 bytes 10 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
qdisc noqueue 0: dev lo root refcnt 2
"""

CHANNELS = """\
Channel parameters for eth0:
Pre-set maximums:
Combined:\t8
Current hardware settings:
Combined:\t2
"""


def test_softnet_stat_names_the_processor_of_each_row() -> None:
    rows = kernel_texts.backlogs(SOFTNET)
    assert rows["cpu7"] == kernel_texts.Backlog(1000, 2, 3, 5)
    assert set(rows) == {"cpu7", "cpu9"}
    assert list(kernel_texts.backlogs("00000001 " * 9 + "\n")) == ["cpu0"]


def test_counters_of_protocols_have_the_names_of_nstat() -> None:
    snmp = "Tcp: InSegs OutSegs RetransSegs\nTcp: 10 20 3\nUdp: InDatagrams\nUdp: 4\n"
    assert kernel_texts.protocols(snmp)["TcpRetransSegs"] == 3
    nstat = "#kernel\nTcpExtTCPRcvCollapsed           7      0.0\nIpInReceives 5 0.0\n"
    assert kernel_texts.protocols(nstat) == {"TcpExtTCPRcvCollapsed": 7, "IpInReceives": 5}
    netstat = "Tcp:\n    100 segments sent out\n    9 segments retransmitted\n    InCsumErrors: 2\n"
    assert tool_texts.netstat(netstat) == {
        "TcpOutSegs": 100,
        "TcpRetransSegs": 9,
        "TcpInCsumErrors": 2,
    }


def test_connection_tracking_counts_what_each_processor_dropped() -> None:
    head = "entries  clashres insert_failed drop early_drop\n"
    text = head + "00040000  00000000 00000001 0000000a 00000000\n" * 2
    assert kernel_texts.protocols(text) == {"ConntrackDrop": 20}


def test_mpstat_shows_the_time_that_the_host_gave_to_others() -> None:
    text = "12:00 CPU %usr %soft %steal %idle\n12:01 0 10.0 20.0 30.0 40.0\n"
    assert processor_texts.processors(text) == {"cpu0": processor_texts.Shares(0.6, 0.2, 0.3)}


def test_a_setting_that_is_fixed_keeps_its_mark() -> None:
    text = "Features for eth0:\ngeneric-receive-offload: off [fixed]\ntx-nocache-copy: on\n"
    named = tool_texts.features(text)
    assert named is not None
    assert named[1]["rx-gro"] == "off [fixed]"
    assert named[1]["tx-nocache-copy"] == "on"


def test_interrupts_are_found_by_the_name_of_the_interface() -> None:
    text = """\
            CPU0       CPU1
  1:          9          0  IO-APIC   1-edge      i8042
 30:        100          5  PCI-MSI 1-edge      mlx5_comp0@pci:0000
 31:         70          0  PCI-MSI 2-edge      i40e-eth1-TxRx-0
 32:         10          4  PCI-MSI 3-edge      eth10-TxRx-0
NMI:          0          0   Non-maskable interrupts
"""
    rows = kernel_texts.interrupts(text)
    assert kernel_texts.of_interface(rows, "eth1") == {"i40e-eth1-TxRx-0": [70, 0]}
    assert kernel_texts.interrupt_numbers(text, ["eth10"]) == ["32"]
    own = {name: row for name, row in rows.items() if "mlx5" not in name}
    assert not kernel_texts.of_interface(own, "veth1")
    assert list(kernel_texts.of_interface(rows, "ens7")) == ["mlx5_comp0@pci:0000"]  # the only card
    virtio = {"virtio0-input.0": [5], "virtio0-config": [1]}
    assert list(kernel_texts.of_interface(virtio, "eth0")) == ["virtio0-input.0"]
    assert not kernel_texts.of_interface({**virtio, "virtio1-input.0": [5]}, "eth0")


def test_windows_and_shapers_are_read() -> None:
    senders = kernel_texts.senders(SS)
    assert (senders.count, senders.busy_ms, senders.window_ms) == (2, 1200, 800)
    assert (senders.application, senders.receive_space) == (1, 29200)
    queue = tool_texts.disciplines(TC)["eth0"]
    assert (queue.kind, queue.dropped, queue.delayed, queue.waiting_bytes) == (
        "htb",
        7,
        5000,
        65536,
    )


def test_a_case_has_the_settings_of_its_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("of_profile", "observe", "read_counters"):
        monkeypatch.setattr(observation, name, lambda *_: pytest.fail("it read this machine"))
    (tmp_path / "tc.txt").write_text(TC)
    (tmp_path / "channels.txt").write_text(CHANNELS)
    (tmp_path / "ethtool-S-eth0").write_text("NIC statistics:\n     rx_missed_errors: 0\n")
    (tmp_path / "note").write_text("hello")
    found = case.read([tmp_path])
    assert [Path(name).name for name in found.unknown] == ["note"]
    seen = found.observation()
    assert seen.interfaces == ("eth0",)
    assert seen.growth is not None
    assert seen.growth.drivers == {"eth0": {"rx_missed_errors": 0}}
    channels = {"kind": "ethtool-channels", "parameter": "combined"}
    assert seen.read_setting(channels, "eth0") == "2"
    assert seen.read_setting({**channels, "parameter": "max-combined"}, "eth0") == "8"
    report = advise(seen)
    assert report.limit is not None
    assert report.limit.what is What.QUEUEING
    reasons = {one.change.name: one.reason for one in report.not_applicable}
    assert reasons["gro"] == "no file shows rx-gro (`ethtool -k`)"
    assert "no file shows" in reasons["governor"] or "no file is" in reasons["governor"]


def test_counters_of_a_folder_before_are_subtracted(tmp_path: Path) -> None:
    for folder, uptime, dropped in (("before", "100.0 1", 5), ("after", "110.0 1", 9)):
        proc = tmp_path / folder / "proc"
        (proc / "net").mkdir(parents=True)
        (proc / "uptime").write_text(uptime)
        row = f"00001000 {dropped:08x}" + " 00000000" * 7 + "\n"
        (proc / "net" / "softnet_stat").write_text(row)
    growth = case.read([tmp_path]).observation().growth
    assert growth is not None
    assert growth.seconds == pytest.approx(10)
    assert growth.backlogs["cpu0"].dropped == 4


def test_a_file_that_does_not_exist_and_a_mixture_with_this_machine_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        case.read([tmp_path / "nothing"])
    poem = tmp_path / "poem"
    for content in (b"", b"roses are red\n", os.urandom(5000)):
        poem.write_bytes(content)
        with pytest.raises(ConfigurationError, match="poem: nothing in it was recognized"):
            case.read([poem])
    (tmp_path / "softnet_stat").write_text(SOFTNET)
    with pytest.raises(ConfigurationError, match="no such interface"):
        case.read([tmp_path]).observation("eth9")
    assert run(["advise", str(tmp_path), "--pid", "1"]) == 2
    assert "exclude --pid" in capsys.readouterr().err


def test_a_captured_case_is_private_and_read_with_its_own_facts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "here.case"
    with socket.create_server(("127.0.0.1", 0)) as server:
        peers = [socket.create_connection(server.getsockname()), server.accept()[0]]
        secret = subprocess.Popen(["sleep", "19.87654"])
        try:
            subprocess.run([*CAPTURE, "--duration", "1s", "--output", str(file)], check=True)
        finally:
            secret.kill()
            secret.wait()
            for peer in peers:
                peer.close()
    capsys.readouterr()
    assert run(["case", "show", str(file)]) == 0
    text = capsys.readouterr().out
    assert "proc/net/softnet_stat" in text
    assert "case/before/proc/stat" in text
    own = {word for word in Path("/proc/net/fib_trie").read_text().split() if word.count(".") == 3}
    hardware = {path.read_text().strip() for path in Path("/sys/class/net").glob("*/address")}
    private = {os.uname().nodename, "127.0.0.1", "19.87654", str(Path.home()), *own, *hardware}
    zeros = {"0.0.0.0", "00:00:00:00:00:00", ""}
    for word in private - zeros:
        assert not re.search(rf"(?<![\w.]){re.escape(word)}(?![\w.])", text), word
    seen = case.read([file]).observation()
    assert seen.growth is not None
    assert seen.growth.busy
    assert seen.growth.seconds > 0.5
    assert seen.cpus == os.cpu_count()
    assert run(["doctor", str(file)]) == 0
    assert capsys.readouterr().out.startswith("Capabilities that the copy shows: ")


def test_a_case_of_a_process_has_its_namespace_and_names_if_they_are_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need("netns")
    script = (
        "ip link add only0 type veth peer name only1 && ip link add only2 type bridge; "
        "ip link property add dev only0 altname enx02aabbccddee; echo made && exec sleep 100"
    )
    command = ["unshare", "--net", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "made\n"
            inside = ["nsenter", "-n", "-t", str(server.pid)]
            link = [*inside, "ip", "-json", "link", "show", "only0"]
            (row,) = json.loads(subprocess.run(link, capture_output=True, check=True).stdout)
            texts = []
            for number, names in enumerate(([], ["--names"])):
                file = str(tmp_path / f"{number}.case")
                words = ["--pid", str(server.pid), "--duration", "0.2s", "--output", file, *names]
                subprocess.run([*CAPTURE, *words], check=True)
                capsys.readouterr()
                assert run(["case", "show", file]) == 0
                texts.append(capsys.readouterr().out)
        finally:
            server.kill()
    assert all("only0" in text for text in texts)
    host = re.compile(rf"(?<![\w.]){re.escape(os.uname().nodename)}(?![\w.])")
    assert [bool(host.search(text)) for text in texts] == [False, True]
    assert [row["address"] in text for text in texts] == [False, True]
    hardware = re.compile(r"\b(?:[0-9a-f]{1,2}:){5}[0-9a-f]{1,2}\b|enx[0-9a-f]{12}")
    assert [bool(hardware.search(text)) for text in texts] == [False, True]


def test_what_no_file_shows_is_missing_and_not_denied(tmp_path: Path) -> None:
    path = tmp_path / "lscpu"
    path.write_text("Architecture:  x86_64\nCPU(s):  4\n")
    report = advise(case.read([path]).observation())
    assert report.advice == ()
    for one in report.not_applicable:
        assert one.is_unread or one.change.never_suggested, (one.change.name, one.reason)
    sources = {one.change.name: one.source for one in report.not_applicable}
    assert sources["accept-queue"] == "nstat -az"
    assert sources["backlog"] == sources["netdev-budget"] == "/proc/net/softnet_stat"
    assert sources["ring"] == "ethtool -S"
    assert sources["xps"] == "ethtool -l"


def test_a_part_of_a_drivers_counters_is_known_by_its_command(tmp_path: Path) -> None:
    path = tmp_path / "mail"
    path.write_text("# ethtool -S ens5 | grep exceeded\n  pps_allowance_exceeded: 1288121\n")
    report = advise(case.read([path]).observation())
    assert report.limit is not None
    assert report.limit.what is What.ALLOWANCE
    [ring] = [one for one in report.not_applicable if one.change.name == "ring"]
    assert ring.is_unread, "the part does not have the counters of the ring"


@pytest.mark.parametrize(
    "text",
    [
        "net.core.rmem_max = 26214nan4\nnet.netfilter.nf_conntrack_count = 2\u00b2\n",
        f"TcpInSegs {'9' * 400} 0.0\nTcpOutSegs 1 0.0\nTcpRetransSegs {'9' * 390} 0.0\n",
        "ESTAB 0 1 10.0.0.1:80 10.0.0.2:5\n\t cubic cwnd:10 rwnd_limited:5ms(9.0%)\n",
        "%Cpu0 : 4.5.0 us, 1.0 sy, 90.0 id\n",
        "/sys/class/net/eth0/queues/tx-0/xps_cpus:\nTcpInSegs 7 0.0\n",
    ],
)
def test_a_damaged_file_is_no_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / "lscpu").write_text("CPU(s): 4\n")
    (tmp_path / "damaged").write_text(text)
    assert run(["advise", str(tmp_path), "--format", "json"]) == 0


def test_the_cases_of_two_machines_are_refused_by_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cases = [packed(tmp_path, name, "tcp_ack", 1) for name in ("a", "b")]
    assert run(["advise", *map(str, cases)]) == 2
    assert "profile compare" in capfd.readouterr().err


def test_an_archive_of_another_version_is_refused_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "softnet_stat").write_text(SOFTNET)
    file = tmp_path / "new.case"

    def pack(manifest: str) -> None:
        (folder / case.MANIFEST).write_text(manifest)
        with tarfile.open(file, "w") as archive:
            archive.add(folder, "case")

    pack('{"schema": "perpacket-case", "version": 1}')
    assert not case.read([file]).unknown
    pack('{"schema": "perpacket-case", "version": 99}')
    with pytest.raises(ConfigurationError, match="version 99; expected perpacket-case, version 1"):
        case.read([file])
    pack("{")
    with pytest.raises(ConfigurationError, match=r"manifest\.json is not JSON"):
        case.read([file])


def test_the_rules_of_iptables_are_counted_by_chain(tmp_path: Path) -> None:
    text = "*nat\n:A - [0:0]\n" + "-A SVC -d 10.0.0.1/32 -j B\n" * 6 + "-A OUTPUT -j SVC\n"
    assert kernel_texts.longest_chain(text) == 6
    assert kernel_texts.longest_chain("rules in the longest chain: 6000\n") == 6000
    (tmp_path / "saved").write_text(text)
    read = case.read([tmp_path])
    assert not read.unknown
    assert read.observation().read_setting({"kind": "rules"}, "") == "6"


def test_the_script_is_printed_and_is_posix() -> None:
    script = subprocess.run(
        [*CAPTURE, "--script"], capture_output=True, text=True, check=True
    ).stdout
    assert script.startswith("#!/bin/sh")
    checked = subprocess.run(["sh", "-n"], input=script, text=True, check=False)
    assert checked.returncode == 0


def test_a_case_is_written_to_standard_output(tmp_path: Path) -> None:
    file = tmp_path / "here.case"
    with file.open("wb") as written:
        subprocess.run([*CAPTURE, "--duration", "0.2s"], stdout=written, check=True)
    assert case.read([file]).now.protocols


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_capture_without_files(tmp_path: Path, number: signal.Signals) -> None:
    words = [*CAPTURE, "--duration", "60s", "--output", str(tmp_path / "here.case"), "--quiet"]
    command = subprocess.Popen(words, env={**os.environ, "TMPDIR": str(tmp_path)})
    while not list(tmp_path.glob("*/case/before/proc/stat")):
        assert command.poll() is None
        time.sleep(0.02)
    command.send_signal(number)
    assert command.wait(50) == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["case show", "profile", "doctor"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [("hello", "no file of `perpacket capture`"), (None, "no such file or directory")],
)
def test_a_file_that_is_no_case_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], verb: str, content: str | None, reason: str
) -> None:
    path = tmp_path / "text"
    if content:
        path.write_text(content)
    assert run([*verb.split(), str(path)]) == 2
    assert reason in capfd.readouterr().err


@pytest.mark.parametrize("verb", ["advise", "top", "doctor"])
def test_a_case_without_files_is_an_error_with_its_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], verb: str
) -> None:
    (tmp_path / "manifest.json").write_text('{"schema": "perpacket-case", "version": 1}')
    path = tmp_path / "empty.case"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "manifest.json", "case/manifest.json")
    assert run([verb, str(path)]) == 2
    assert str(path) in capfd.readouterr().err


def packed(folder: Path, name: str, function: str, seconds: int) -> Path:
    """A case of 100,000 packets in each direction, with samples in a function for some seconds."""
    case_folder = folder / name / "case"
    for place, packets in (("before/proc/net", 0), ("proc/net", 100_000)):
        (case_folder / place).mkdir(parents=True)
        row = f"  eth0: {packets} {packets} 0 0 0 0 0 0 {packets} {packets} 0 0 0 0 0 0\n"
        (case_folder / place / "dev").write_text(row)
    samples = [
        f"swapper 0/0 [000] {100 + number / 100}: 10000000 cpu-clock:\n"
        f"\t0 {function}+0x0 ([kernel.kallsyms])\n\t0 net_rx_action+0x0 ([kernel.kallsyms])\n\n"
        for number in range(100 * seconds)
    ]
    (case_folder / "stacks").write_text("".join(samples))
    with tarfile.open(folder / f"{name}.case", "w:gz") as archive:
        archive.add(case_folder, "case")
    return folder / f"{name}.case"


def test_two_cases_are_compared_by_the_cost_of_their_packets(tmp_path: Path) -> None:
    first = packed(tmp_path, "first", "ip_rcv", 2)
    second = packed(tmp_path, "second", "ip_rcv", 4)
    total = api.compare_profiles(first, second).compared.total.detail
    assert (total.first, total.second) == pytest.approx((10_000, 20_000))
    folder = tmp_path / "bare"
    folder.mkdir()
    (folder / "softnet_stat").write_text(SOFTNET)
    with tarfile.open(tmp_path / "bare.case", "w") as archive:
        archive.add(folder, "case")
    with pytest.raises(ConfigurationError, match="the case has no stacks"):
        api.compare_profiles(first, tmp_path / "bare.case")
