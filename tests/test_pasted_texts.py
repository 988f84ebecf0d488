"""Texts that people paste are recognized, with their facts: parsers of tools, prompts and logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpacket.advise import (
    case,
    config_texts,
    kernel_texts,
    log_texts,
    pasted,
    processor_texts,
    server_processes,
    socket_texts,
    tool_texts,
)
from perpacket.advise.advice import Advice, advise
from perpacket.advise.limit_kinds import What
from perpacket.advise.processor_texts import Shares
from perpacket.show import advice_tables

PASTE = """\
Our router drops frames, here is what I see:

```
\x1b[32mroot@r1\x1b[0m:~# cat /proc/net/softnet_stat
00001000 00000000 00000007 00000000 00000000 00000000 00000000 00000000 00000000
00002000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
[admin@r1 ~]$ sudo ethtool -S enp3s0 | grep miss
     rx_missed_errors: 91
root@r1:~# grep . /sys/class/net/enp3s0/queues/rx-*/rps_cpus
/sys/class/net/enp3s0/queues/rx-0/rps_cpus:00
```
# this is no prompt: 12
"""


def test_the_sections_of_a_paste_have_the_names_of_their_commands() -> None:
    found = dict(pasted.sections("issue.md", PASTE))
    assert list(found)[1:3] == ["/proc/net/softnet_stat", "sudo ethtool -S enp3s0 | grep miss"]
    assert found["/sys/class/net/enp3s0/queues/rx-0/rps_cpus"] == "00"
    assert "this is no prompt" in found["grep . /sys/class/net/enp3s0/queues/rx-*/rps_cpus"]


def test_a_paste_has_the_facts_of_all_its_commands(tmp_path: Path) -> None:
    file = tmp_path / "issue.md"
    file.write_text(PASTE)
    seen = case.read([file]).observation()
    assert seen.growth is not None
    assert seen.growth.backlogs["cpu0"].squeezed == 7  # the row's place in its section
    assert seen.growth.drivers == {"enp3s0": {"rx_missed_errors": 91}}
    mask = {"kind": "file-mask", "path": "/sys/class/net/{interface}/queues/rx-*/rps_cpus"}
    assert seen.read_setting(mask, "enp3s0") == "mask:00"
    assert "softnet_stat" in dict(seen.files)[str(file)]


def test_a_row_of_perf_report_is_no_prompt() -> None:
    text = "# Overhead  Command\n     1.80%  nginx  nginx  [.] main\n     2.80%  ip  ip  [.] main"
    assert len(list(pasted.sections("report", text))) == 1


def test_a_quoted_mail_is_read_without_its_marks() -> None:
    assert pasted.plain("> a: 1\r\n> b: 2\r\n") == "a: 1\nb: 2\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "%Cpu0  :  0.0 us,  1.0 sy,  0.0 ni,  0.5 id,  0.5 wa,  0.0 hi, 98.0 si,  0.0 st",
            {"cpu0": Shares(0.99, 0.98, 0.0)},
        ),
        ("Cpu1 : 1,0%us, 2,0%sy, 0,0%ni, 97,0%id, 0,0%wa", {"cpu1": Shares(0.03, 0.0, 0.0)}),
        ("%Cpu(s):  2.0 us,  1.0 sy, 97.0 id,  0.0 si, 0.0 st", {"all": Shares(0.03, 0.0, 0.0)}),
        (
            "02:11:02 PM CPU %user %nice %system %iowait %steal %idle\n"
            "02:11:07 PM all 10.00 0.00 10.00 0.00 30.00 50.00\n",
            {"all": Shares(0.5, 0.0, 0.3)},
        ),
        (
            " r b swpd free in cs us sy id wa st\n 1 0 0 91 812 91 20 20 50 5 5\n",
            {"all": Shares(0.45, 0.0, 0.05)},
        ),
        (
            "PID USER %CPU %MEM COMMAND\n14 root 97.3 0.0 [ksoftirqd/3]\n",
            {"cpu3": Shares(0.973, 0.973, 0.0)},
        ),
    ],
)
def test_times_of_processors_are_read_from_each_tool(
    text: str, expected: dict[str, Shares]
) -> None:
    found = processor_texts.processors(text)
    assert set(found) == set(expected)
    for name, shares in expected.items():
        assert found[name].busy == pytest.approx(shares.busy)
        assert found[name].softirq == pytest.approx(shares.softirq)
        assert found[name].stolen == pytest.approx(shares.stolen)


def test_softirqs_and_idle_states_are_read() -> None:
    text = "       CPU0  CPU1\n NET_TX: 1 2\n NET_RX: 900 5\n"
    assert processor_texts.received_softirqs(text) == {"cpu0": 900, "cpu1": 5}
    states = processor_texts.idle_states(
        "C1:\nFlags/Description: MWAIT 0x00\nLatency: 2\nUsage: 4\nDuration: 100\n"
        "C6:\nFlags/Description: MWAIT 0x20\nLatency: 133\nUsage: 4\nDuration: 900\n"
    )
    deepest = processor_texts.deepest(states)
    assert deepest is not None
    assert (deepest[0], deepest[1].latency_us) == ("C6", 133)


def test_sockets_are_read_from_ss_netstat_and_the_kernel() -> None:
    ss = "State Recv-Q Send-Q Local Peer\nLISTEN 129 128 0.0.0.0:80 0.0.0.0:*\n"
    assert socket_texts.sockets(ss).listeners[0].is_full
    old = "tcp   5   0 0.0.0.0:80   0.0.0.0:*   LISTEN\n" + "".join(
        f"tcp 0 0 10.0.0.1:{port} 10.0.0.2:8080 TIME_WAIT\n" for port in range(40000, 40007)
    )
    found = socket_texts.sockets(old)
    assert (found.listeners[0].waiting, found.time_wait) == (5, 7)
    assert found.peers == {"10.0.0.2:8080": 7}
    kernel = (
        "  sl  local_address rem_address   st tx_queue rx_queue\n"
        "   0: 00000000:1F90 00000000:0000 0A 00000000:00000081 00:00000000 00000000 0 0 1\n"
    )
    assert socket_texts.sockets(kernel).listeners[0] == socket_texts.Listener(":8080", 129)
    udp = (
        "   sl  local_address rem_address st tx_queue rx_queue tr drops\n"
        "   5: 00000000:1FBD 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 7 2 0 42\n"
    )
    assert socket_texts.sockets(udp).datagram_drops == {":8125": 42}
    summary = "TCP:   28911 (estab 412, closed 28231, orphaned 3, timewait 28228)\n"
    assert socket_texts.sockets(summary).time_wait == 28228
    stat = "TCP: inuse 3 orphan 1 tw 8 alloc 4 mem 9112\n"
    assert socket_texts.sockets(stat).memory_pages == 9112


def test_one_full_socket_of_several_is_uneven() -> None:
    rows = [f"LISTEN {512 if i == 3 else 0} 511 *:443 *:* " for i in range(8)]
    assert len(socket_texts.sockets("\n".join(rows)).uneven) == 8
    assert not socket_texts.sockets("\n".join(rows[:3])).uneven


def test_netstat_reads_words_by_their_section() -> None:
    text = (
        "Ip:\n    900 total packets received\n    450 reassemblies required\n"
        "Udp:\n    90 packets received\n    10 receive buffer errors\n"
        "TcpExt:\n    7 SYNs to LISTEN sockets dropped\n    TCPReqQFullDrop: 5\n"
    )
    assert tool_texts.netstat(text) == {
        "IpInReceives": 900,
        "IpReasmReqds": 450,
        "UdpInDatagrams": 90,
        "UdpRcvbufErrors": 10,
        "TcpExtListenDrops": 7,
        "TcpExtTCPReqQFullDrop": 5,
    }


def test_rules_are_counted_in_every_listing() -> None:
    saved = "*nat\n" + "[5:300] -A SVC -d 10.0.0.1/32 -j B\n" * 4
    listed = "Chain FORWARD (policy ACCEPT)\ntarget prot opt source\n" + "DROP all -- a b\n" * 3
    nft = "table ip x {\n\tchain y {\n\t\ttype filter hook input;\n\t\taccept\n\t\tdrop\n\t}\n}\n"
    assert [kernel_texts.longest_chain(text) for text in (saved, listed, nft)] == [4, 3, 2]


def test_tables_of_the_kernel_and_of_conntrack_count_what_was_dropped() -> None:
    neighbours = "entries,allocs, table_fulls\n00000400 00000001 00000005\n" * 1
    assert kernel_texts.protocols(neighbours) == {"NeighbourTableFull": 5}
    tracked = "cpu=0 found=1 invalid=2 insert_failed=0 drop=3 early_drop=9 error=0\n"
    assert kernel_texts.protocols(tracked) == {"ConntrackDrop": 3}


def test_messages_of_the_kernel_are_counted() -> None:
    text = (
        "[1.0] nf_conntrack: nf_conntrack: table full, dropping packet\n"
        "[2.0] neighbour: arp_cache: neighbor table overflow!\n"
        "connect() failed (99: Cannot assign requested address)\n"
        "[3.0] eth0: hw csum failure\n"
    )
    assert log_texts.messages(text) == {
        log_texts.TABLE_FULL: 1,
        log_texts.NEIGHBOURS_FULL: 1,
        log_texts.NO_PORT: 1,
        log_texts.CHECKSUM: 1,
    }


def test_other_texts_of_tools_are_read() -> None:
    lscpu = "NUMA node0 CPU(s):   0-15\nNUMA node1 CPU(s):   16-31\n"
    assert tool_texts.nodes(lscpu) == {0: "0-15", 1: "16-31"}
    assert tool_texts.nodes("node 0 cpus: 0 2 4\n") == {0: "0,2,4"}
    strace = " 61.20 8.8 11 800 5 write\n 17.80 2.5 12 200 read\n"
    calls = tool_texts.calls("% time seconds usecs/call calls errors syscall\n" + strace)
    assert calls == {"write": 795, "read": 200}
    link = "Settings for eth0:\n\tSupported ports: [ TP ]\n\tSpeed: 1000Mb/s\n\tDuplex: Half\n"
    assert tool_texts.speeds(link) == {"eth0": 1e9}
    assert tool_texts.half_duplex(link) == ["eth0"]
    assert tool_texts.rate_bps("[ 5] 0.00-10.00 sec 1.09 GBytes 941 Mbits/sec receiver\n") == 941e6
    assert tool_texts.kernel_release("Linux 5.15.0-91-generic (router) 11/20/26\n").startswith(
        "5.15"
    )
    missed = (
        "2: eth0: <UP> mtu 1500\n    RX: bytes packets errors dropped missed mcast\n"
        "    9 8 0 5 7 0\n"
    )
    assert tool_texts.missed(missed) == {"eth0": {"rx_packets": 8, "rx_missed_errors": 7}}
    hashed = "UDP over IPV4 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\n\n"
    assert tool_texts.hashed_fields(hashed) == {"udp4": "addresses"}
    assert tool_texts.throttled("nr_periods 100\nnr_throttled 40\n") == 0.4


def test_the_configuration_of_servers_is_read() -> None:
    text = (
        "global\n  nbthread 1\ndefaults\n  option httpclose # comment\nbackend b\n  server a b:1\n"
    )
    server = config_texts.server("haproxy.cfg", text, 8)
    assert server is not None
    assert (server.kind, server.options["workers"]) == ("haproxy", "1")
    assert server.lines["upstream-reuse"] == "option httpclose"
    nginx = "http { upstream a { server b:1; } server { location / { proxy_pass http://a; } } }"
    server = config_texts.server("nginx.conf", nginx, 8)
    assert server is not None
    assert server.options["upstream-reuse"] == "off"
    kept = nginx.replace("b:1;", "b:1; keepalive 8;").replace(
        "server {", "server { proxy_http_version 1.1;", 1
    )
    assert "upstream-reuse" not in config_texts.server("nginx.conf", kept, 8).lines  # type: ignore[union-attr]
    assert config_texts.server("note", "hello; world", 8) is None


def asked(folder: Path, **texts: str) -> tuple[list[Advice], What | None, str]:
    """Advice on some texts."""
    for name, text in texts.items():
        (folder / name).write_text(text)
    report = advise(case.read([folder]).observation())
    shown = " ".join(" ".join(advice_tables.lines(report, 200)).split())
    return list(report.advice), report.limit.what if report.limit else None, shown


@pytest.mark.parametrize(
    ("text", "limit", "change"),
    [
        ("[1.0] nf_conntrack: table full, dropping packet\n", What.TABLE, "conntrack-max"),
        (
            "[1.0] neighbour: arp_cache: neighbor table overflow!\n",
            What.NEIGHBOURS,
            "neighbour-table",
        ),
        ("[1.0] TCP: out of memory -- consider tuning tcp_mem\n", What.MEMORY, "tcp-mem"),
        ("connect() failed: Cannot assign requested address\n", What.PORTS, "upstream-reuse"),
        ("[1.0] eth0: hw csum failure\n", What.CHECKSUMS, "rx-checksum"),
        ("accept4() failed (24: Too many open files)\n", What.DESCRIPTORS, ""),
        ("NETDEV WATCHDOG: eth0 (r8169): transmit queue 0 timed out\n", What.TIMEOUT, ""),
        ("LISTEN 129 128 0.0.0.0:80 0.0.0.0:*\n", What.ACCEPT, "accept-queue"),
        ("nr_periods 100\nnr_throttled 40\n", What.QUOTA, ""),
        ("NIC statistics:\n rx_packets: 900000\n rx_crc_errors: 900\n", What.CABLE, ""),
        ("NIC statistics:\n rx_packets: 9000\n rx_flow_control_xoff: 900\n", What.PAUSE, ""),
        ("Settings for eth0:\n\tSpeed: 100Mb/s\n\tDuplex: Half\n", What.LINK, ""),
        ("ESTAB 900000 0 10.0.0.1:80 10.0.0.2:5000\n", What.READER, ""),
    ],
)
def test_a_text_shows_its_limit_and_the_change_that_moves_it(
    tmp_path: Path, text: str, limit: What, change: str
) -> None:
    found, what, shown = asked(tmp_path, text=text)
    assert what is limit
    assert found[0].change.name == change if change else "No change of the network helps" in shown


def test_advice_lists_what_it_read_and_what_each_missing_file_would_decide(tmp_path: Path) -> None:
    channels = "Channel parameters for eth0:\nPre-set maximums:\nCombined: 8\n"
    _, _, shown = asked(tmp_path, channels=channels, poem="roses are red\n")
    assert "channels: parameters of an interface" in shown
    assert f"Not recognized: {tmp_path.name}/poem" in shown
    assert "Missing facts, and the changes that each would decide:" in shown
    assert "ethtool -k: " in shown


def test_options_of_other_servers_are_read_from_their_processes(tmp_path: Path) -> None:
    def process(pid: int, name: str, command: str, environment: str = "") -> Path:
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "comm").write_text(name)
        (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode())
        (folder / "environ").write_text(environment)
        (folder / "root").symlink_to(tmp_path)
        (folder / "cwd").symlink_to("/")
        return folder

    (tmp_path / "haproxy.cfg").write_text("global\n nbthread 2\ndefaults\n http-reuse never\n")
    process(1, "haproxy", "/usr/sbin/haproxy -f /haproxy.cfg")
    process(2, "java", "java -Dio.netty.eventLoopThreads=4 -jar app.jar")
    process(3, "api", "/api", "A=1\0GOMAXPROCS=64\0B=2")
    process(4, "python", "python app.py")
    (tmp_path / "envoy.yaml").write_text(
        "static_resources:\n  clusters:\n  - name: a\n    max_requests_per_connection: 1\n"
    )
    process(5, "envoy", "/usr/bin/envoy -c /envoy.yaml --concurrency 3")
    children = process(6, "MainThread", "/usr/bin/node app.js") / "task" / "6" / "children"
    process(7, "node", "node worker.js")
    found = {pid: server_processes.find(pid, tmp_path) for pid in range(1, 8)}
    children.parent.mkdir(parents=True)
    children.write_text("4 7 7 ")
    cluster = server_processes.find(6, tmp_path)
    assert found[1].options["workers"] == "2"
    assert found[1].options["upstream-reuse"] == "off"
    assert (found[2].kind, found[2].options["workers"]) == ("java", "4")
    assert (found[3].kind, found[3].options["workers"]) == ("Go program", "64")
    assert "knows no options of python" in found[4].unread
    assert (found[5].options["workers"], found[5].options["upstream-reuse"]) == ("3", "off")
    assert (found[6].kind, found[6].options["workers"]) == ("node", "1")
    assert cluster.options["workers"] == "2"


def test_an_interrupt_in_the_idle_loop_is_busy(tmp_path: Path) -> None:
    idle = "swapper;do_idle;cpuidle_enter;"
    (tmp_path / "stacks").write_text(
        f"{idle}asm_common_interrupt;net_rx_action;ip_rcv;nf_conntrack_in 50\n{idle}intel_idle 50\n"
    )
    profile = case.read([tmp_path]).observation().profile
    assert profile.chains(["nf_conntrack_*"]).share == pytest.approx(1.0)
