"""A change has a direction only from evidence. A limit that is not the processor comes first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from perpacket.advise import catalogue
from perpacket.advise.advice import Advice, NotApplicable, Report, advise, judge
from perpacket.advise.counters import Counters
from perpacket.advise.expression import NotReadable
from perpacket.advise.facts import Facts
from perpacket.advise.growth import Growth, between
from perpacket.advise.kernel_texts import Backlog, Senders
from perpacket.advise.limit_kinds import What
from perpacket.advise.links import Link, Queue
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.observation import Observation
from perpacket.advise.profile import Profile, folded
from perpacket.show import advice_tables as shown

CHANGES = catalogue.load()

BUSY = Growth(5, {"cpu0": 0.97, "cpu1": 0.2}, {"cpu0": 0.9, "cpu1": 0.05})

RECEIVING = "ksoftirqd/0;net_rx_action;__netif_receive_skb_one_core;ip_rcv;tcp_v4_rcv 400"


def seen(
    *stacks: str,
    settings: Mapping[str, str] | None = None,
    growth: Growth | None = None,
    link: Link | None = None,
    frame_bytes: int = 1400,
) -> Observation:
    """An observation of an interface; settings by feature, parameter, name or kind."""

    def read(table: Mapping[str, str], interface: str) -> str:
        keys = ("feature", "parameter", "name", "kind")
        name = next(table[key] for key in keys if key in table)
        if name not in (settings or {}):
            raise NotReadable(f"{name}: not read")
        return (settings or {})[name]

    link = link or Link("eth0", 1500, "hardware", 4, "mq")
    carried = {
        "packets_sent": 1000,
        "packets_received": 1000,
        "bytes_sent": 1000 * frame_bytes,
        "bytes_received": 1000 * frame_bytes,
        "interrupts": 900,
    }
    lines = stacks or (RECEIVING,)
    document = {
        "window_s": 5.0,
        "samples": sum(int(line.rpartition(" ")[2]) for line in lines),
        "idle": {"share_of_time": 0.4},
        "interfaces": {link.name: carried},
        "layer_kinds": {"tcp": {"protocol": 0.9}, "interrupt": {"other": 0.1}},
    }
    return Observation(
        Profile(document, tuple(folded(lines))),
        NetworkScope(),
        {link.name: link},
        read,
        growth=growth,
        interfaces=(link.name,),
    )


def value_of(change: str, observed: Observation) -> str:
    """The proposed value; empty if the change is judged not to apply."""
    found = judge(observed, CHANGES[change], observed.interfaces[0])
    if isinstance(found, NotApplicable):
        assert not found.is_unread, found.reason
        return ""
    assert isinstance(found, Advice)
    return found.value


def test_queues_become_more_if_one_processor_is_full_of_softirqs() -> None:
    settings = {"combined": "1", "max-combined": "8"}
    cpus = len(BUSY.busy)
    assert value_of("queues", seen(settings=settings, growth=BUSY)) == str(cpus)
    calm = Growth(5, {"cpu0": 0.3, "cpu1": 0.2}, {"cpu0": 0.1, "cpu1": 0.05})
    many = {"combined": "4", "max-combined": "4"}
    assert not value_of("queues", seen(settings=many, growth=BUSY))
    quiet = seen(settings=many, growth=calm)
    quiet.profile.document["idle"]["share_of_time"] = 0.8  # type: ignore[index]
    assert value_of("queues", quiet) == "1"


def test_interrupts_and_the_frames_with_them_are_of_the_same_time() -> None:
    """The counters are read before the agent starts and after it ends: for 12 s, not 5 s."""
    first, last = (
        Counters(
            *(seconds, {}),
            interrupts={"eth0-0": [50 * seconds]},
            devices={"eth0": {"packets_received": 100 * seconds}},
        )
        for seconds in (3, 15)
    )
    observed = seen(growth=between(first, last))
    del observed.profile.document["interfaces"]["eth0"]["interrupts"]  # type: ignore[index]
    read = Facts(observed, CHANGES["gro"], "eth0")
    assert (read["received_frames"], read["interrupts_per_frame"]) == (1000, 0.5)


def test_receive_buffers_become_smaller_if_the_kernel_collapses_them() -> None:
    collapsing = "nginx;tcp_v4_rcv;tcp_data_queue;tcp_prune_queue;tcp_collapse 100"
    large = {"net.ipv4.tcp_rmem": "4096 131072 33554432"}
    found = seen(RECEIVING, collapsing, settings=large, growth=BUSY)
    assert value_of("tcp-rmem", found) == "4096 131072 4194304"
    advice = judge(found, CHANGES["tcp-rmem"], "eth0")
    assert isinstance(advice, Advice)
    assert advice.bound is not None
    assert advice.bound.share.value == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("space", "pruned", "value"),
    [(14_600, 0, ""), (200_000, 0, "4096 131072 33554432"), (200_000, 7, "")],
)
def test_receive_buffers_become_larger_only_if_windows_need_them(
    space: int, pruned: int, value: str
) -> None:
    counts = {"TcpInSegs": 10_000, "TcpExtPruneCalled": pruned}
    growth = Growth(
        5, BUSY.busy, BUSY.softirq, protocols=counts, senders=Senders(3, receive_space=space)
    )
    small = {"net.ipv4.tcp_rmem": "4096 16384 262144"}
    assert value_of("tcp-rmem", seen(settings=small, growth=growth)) == value


@pytest.mark.parametrize(
    ("chain", "applies"),
    [
        ("__dev_queue_xmit;sch_direct_xmit;_raw_spin_lock;native_queued_spin_lock_slowpath", True),
        ("ep_poll_callback;_raw_read_lock_irqsave;queued_spin_lock_slowpath", False),
        ("iommu_dma_map_page;alloc_iova;_raw_spin_lock_irqsave;queued_spin_lock_slowpath", False),
        ("do_syscall_64;futex_wait;_raw_spin_lock;native_queued_spin_lock_slowpath", False),
    ],
)  # fmt: skip
def test_xps_needs_the_lock_of_a_send_queue(chain: str, applies: bool) -> None:
    observed = seen(RECEIVING, f"server;{chain} 100", settings={"file-mask": "mask:0"})
    assert bool(value_of("xps", observed)) == applies
    shaped = Link("eth0", 1500, "hardware", 4, "htb")
    observed = seen(RECEIVING, f"server;{chain} 100", settings={"file-mask": "mask:0"}, link=shaped)
    assert not value_of("xps", observed)


def test_an_offload_that_breaks_a_tunnel_is_turned_off() -> None:
    tunnel = Link("vx0", 1450, "vxlan", 1, "noqueue")
    settings = {"tx-checksum-ip-generic": "on"}
    broken = Growth(
        5, BUSY.busy, BUSY.softirq, protocols={"TcpOutSegs": 1000, "TcpRetransSegs": 150}
    )
    report = advise(seen(settings=settings, growth=broken, link=tunnel))
    assert report.limit is not None
    assert report.limit.what is What.OFFLOAD
    assert report.first is not None
    assert (report.first.change.name, report.first.value) == ("tx-checksum", "off")
    sound = Growth(5, BUSY.busy, BUSY.softirq, protocols={"TcpOutSegs": 1000, "TcpRetransSegs": 1})
    assert not value_of("tx-checksum", seen(settings=settings, growth=sound, link=tunnel))
    # On a tunnel, computing checksums is never moved to the interface.
    summing = "nginx;tcp_write_xmit;skb_checksum_help;csum_partial 100"
    off = {"tx-checksum-ip-generic": "off"}
    assert not value_of(
        "tx-checksum", seen(RECEIVING, summing, settings=off, growth=sound, link=tunnel)
    )
    assert value_of("tx-checksum", seen(RECEIVING, summing, settings=off, growth=sound)) == "on"


def test_a_shaper_is_not_replaced() -> None:
    shaping = "server;__dev_queue_xmit;htb_enqueue 100"
    shaper = Link("eth0", 1500, "hardware", 4, "htb")
    assert not value_of("qdisc", seen(RECEIVING, shaping, settings={"qdisc": "htb"}, link=shaper))
    fair = "server;__dev_queue_xmit;fq_codel_enqueue 100"
    assert value_of("qdisc", seen(RECEIVING, fair, settings={"qdisc": "fq_codel"})) == "fq"


@pytest.mark.parametrize(
    ("delivered", "allowance", "applies"), [(990, 0, False), (300, 0, True), (300, 50, False)]
)
def test_xdp_needs_packets_that_reach_the_machine_and_are_dropped_there(
    delivered: int, allowance: int, applies: bool
) -> None:
    growth = Growth(
        5,
        BUSY.busy,
        BUSY.softirq,
        protocols={"IpInReceives": 1000, "IpInDelivers": delivered},
        drivers={"eth0": {"pps_allowance_exceeded": allowance}},
    )
    assert bool(value_of("xdp", seen(growth=growth))) == applies


# Limits.


def limit_of(growth: Growth, link: Link | None = None) -> Report:
    report = advise(seen(growth=growth, link=link, settings={"rx-gro": "off"}))
    assert report.limit is not None
    return report


@pytest.mark.parametrize(
    ("growth", "what", "text"),
    [
        (Growth(5, drivers={"eth0": {"bw_out_allowance_exceeded": 7}}), What.ALLOWANCE, "bw_out"),
        (Growth(5, protocols={"TcpInSegs": 999, "TcpInCsumErrors": 5}), What.OFFLOAD, "5 received"),
        (Growth(5, queues={"eth0": Queue("htb", 5000, 3, 64000)}), What.QUEUEING, "htb of eth0"),
        (Growth(0, queues={"eth0": Queue("tbf", 5000, 3, 64000)}), What.QUEUEING, "5,000 times,"),
        (Growth(5, backlogs={"cpu3": Backlog(1000, 9, 0)}), What.BACKLOG, "that of cpu3"),
        (Growth(5, drivers={"eth0": {"rx_missed_errors": 9}}), What.RING, "9 frames found no room"),
        (Growth(5, backlogs={"cpu1": Backlog(1000, 0, 3)}), What.SQUEEZE, "cpu1 ended 3 polls"),
        (Growth(5, senders=Senders(2, 1000, 900)), What.WINDOW, "for 90 % of the time"),
        (Growth(5, senders=Senders(2, 1000, 0, 900)), What.BUFFER, "their buffers were full"),
        (Growth(5, protocols={"TcpOutSegs": 100, "TcpRetransSegs": 9}), What.LOSS, "9.0 %"),
        (Growth(5, {"cpu0": 0.03}), What.IDLE, "the machine is idle"),
        (Growth(5, {"cpu0": 0.97}, stolen={"cpu0": 0.4}), What.STOLEN, "for 40 % of the time"),
        (
            Growth(5, protocols={"IpInReceives": 1000, "ConntrackDrop": 7}),
            What.TABLE, "dropped 7 packets",
        ),
        (
            Growth(5, protocols={"TcpInSegs": 900, "TcpExtSyncookiesSent": 800}),
            What.FLOOD, "only 0 cookies came back",
        ),
        (
            Growth(5, protocols={"TcpPassiveOpens": 900, "TcpExtListenOverflows": 90}),
            What.ACCEPT, "90 connections found no room",
        ),
        (
            Growth(5, protocols={"UdpInDatagrams": 60, "UdpRcvbufErrors": 40}),
            What.DATAGRAMS, "40 of 100 datagrams",
        ),
    ],
)  # fmt: skip
def test_a_limit_that_is_not_the_processor_is_named(growth: Growth, what: What, text: str) -> None:
    report = limit_of(growth)
    assert report.limit is not None
    assert report.limit.what is what
    assert text in report.limit.text
    first = next(iter(shown.lines(report, 500)))
    assert first.startswith("No change of the network helps.") == report.limit.is_elsewhere


def test_a_limit_outside_comes_before_a_full_processor() -> None:
    exceeded = {"eth0": {"pps_allowance_exceeded": 9}}
    full = Growth(5, BUSY.busy, BUSY.softirq, drivers=exceeded)
    report = limit_of(full)
    assert report.limit is not None
    assert report.limit.what is What.ALLOWANCE
    text = "\n".join(shown.lines(report, 300))
    assert "These save processor time only" in text


def test_a_change_that_moves_the_limit_comes_before_a_larger_bound() -> None:
    settings = {"rx-gro": "off", "file-mask": "mask:0"}
    report = advise(seen(settings=settings, growth=BUSY))
    names = [one.change.name for one in report.advice]
    assert names.index("rps") < names.index("gro")


def test_cookies_that_come_back_are_no_flood() -> None:
    busy = {"TcpInSegs": 900, "TcpExtSyncookiesSent": 800, "TcpExtSyncookiesRecv": 790}
    report = advise(seen(growth=Growth(5, {"cpu0": 0.5}, protocols=busy)))
    assert report.limit is not None
    assert report.limit.what is What.NOTHING


@pytest.mark.parametrize(
    ("counts", "settings", "change", "value"),
    [
        ({}, {"net.netfilter.nf_conntrack_count": "99", "net.netfilter.nf_conntrack_max": "100"},
         "conntrack-max", "200"),
        ({"IpInReceives": 1000, "ConntrackDrop": 7}, {}, "conntrack-max", "524288"),
        ({"TcpExtListenOverflows": 9}, {"net.core.somaxconn": "128"}, "accept-queue", "4096"),
        ({"TcpExtListenOverflows": 9}, {}, "accept-queue", "8192"),
        ({"UdpRcvbufErrors": 9}, {"net.core.rmem_default": "4096"}, "datagram-buffer", "8192"),
        ({"UdpRcvbufErrors": 9}, {}, "datagram-buffer", "425984"),
    ],
)  # fmt: skip
def test_a_full_queue_of_the_kernel_becomes_larger(
    counts: dict[str, int], settings: dict[str, str], change: str, value: str
) -> None:
    """The value is never below the usual one, and twice it where no file shows the present size."""
    report = advise(seen(growth=Growth(5, {"cpu0": 0.9}, protocols=counts), settings=settings))
    assert report.first is not None
    assert (report.first.change.name, report.first.value) == (change, value)


def test_a_flood_of_requests_is_answered_before_the_stack() -> None:
    counts = {"TcpInSegs": 900, "TcpExtSyncookiesSent": 800}
    report = advise(seen(growth=Growth(5, {"cpu0": 0.9}, protocols=counts)))
    assert report.first is not None
    assert report.first.change.name == "xdp"


FOUR = {f"eth0-rx-{number}": [100 * (number == cpu) for cpu in range(4)] for number in range(4)}
"""The interrupts of four queues, each on a processor of its own."""


def test_rps_is_turned_off_where_it_passes_the_frames_of_all_queues_to_one_processor() -> None:
    mask = {"file-mask": "mask:01"}
    spread = Growth(5, BUSY.busy, BUSY.softirq, interrupts=FOUR)
    assert value_of("rps", seen(settings=mask, growth=spread)) == "none"
    on_one = {name: [100, 0, 0, 0] for name in FOUR}
    assert not value_of(
        "rps", seen(settings=mask, growth=Growth(5, BUSY.busy, BUSY.softirq, interrupts=on_one))
    )


def test_the_two_interrupts_of_one_queue_are_not_spread() -> None:
    virtio = {"virtio0-input.0": [90, 0], "virtio0-output.0": [20, 0]}
    one = Growth(5, BUSY.busy, BUSY.softirq, interrupts=virtio)
    observed = seen(settings={"file-mask": "mask:0"}, growth=one)
    unplaced = judge(observed, CHANGES["irq-affinity"], "eth0")
    assert isinstance(unplaced, NotApplicable)
    virtio |= {"virtio0-input.1": [90, 0], "virtio0-output.1": [20, 0]}
    two = Growth(5, BUSY.busy, BUSY.softirq, interrupts=virtio)
    assert value_of("irq-affinity", seen(growth=two)) == "spread"


@pytest.mark.parametrize(("received", "value"), [((9, 1), "1"), ((1, 9), "")])
def test_interrupts_move_to_the_node_of_the_interface(
    received: tuple[int, int], value: str
) -> None:
    rows = {f"cpu{cpu}": Backlog(count, 0, 0) for cpu, count in enumerate(received)}
    observed = seen(growth=Growth(5, {"cpu0": 0.7}, {"cpu0": 0.5}, backlogs=rows, interrupts=FOUR))
    files = {"/sys/class/net/{interface}/device/numa_node": "1",
             "/sys/devices/system/node/node1/cpulist": "1"}  # fmt: skip

    def read(table: Mapping[str, str], interface: str) -> str:
        if table.get("path") not in files:
            raise NotReadable("not read")
        return files[table["path"]]

    observed = replace(observed, read_setting=read)
    judged = judge(observed, CHANGES["irq-affinity"], "eth0")
    assert (judged.value if isinstance(judged, Advice) else "") == value


def test_a_value_that_the_driver_fixes_is_not_proposed() -> None:
    fixed = judge(seen(settings={"rx-gro": "off [fixed]"}), CHANGES["gro"], "eth0")
    assert isinstance(fixed, NotApplicable)
    assert fixed.reason.endswith("its driver allows no other value")
    assert value_of("gro", seen(settings={"rx-gro": "off"})) == "on"


def test_a_small_mtu_becomes_that_of_ethernet_first() -> None:
    small = Link("eth0", 576, "hardware", 4, "mq")
    chain = "ksoftirqd/0;net_rx_action;ip_rcv 400"
    observed = seen(chain, link=small, frame_bytes=570)
    observed.profile.document["layer_kinds"] = {"ip": {"protocol": 1.0}}  # type: ignore[index]
    assert value_of("mtu", observed) == "1500"


SIGNING = "nginx;main;SSL_do_handshake;tls_construct_server_key_exchange;RSA_sign;bn_mul_mont 100"


@pytest.mark.parametrize(
    ("chain", "change", "value"),
    [
        (SIGNING, "tls-resumption", "on"),
        ("docker-proxy;runtime.goexit;io.Copy;ksys_write;tcp_sendmsg 100", "userland-proxy", "off"),
        ("swapper;net_rx_action;ip_rcv;ip_local_deliver;ip_defrag 100", "fragments", "fit"),
    ],
)
def test_the_work_of_programs_and_senders_has_a_name(chain: str, change: str, value: str) -> None:
    counts = {"IpInReceives": 80, "IpReasmReqds": 70}
    growth = Growth(5, {"cpu0": 0.9}, protocols=counts)
    assert value_of(change, seen(RECEIVING, chain, growth=growth)) == value
    calm = Growth(5, {"cpu0": 0.9}, protocols={"IpInReceives": 80, "IpReasmReqds": 0})
    assert not value_of(change, seen(RECEIVING, growth=calm))


def test_handshakes_are_not_judged_without_the_names_of_functions() -> None:
    judged = judge(seen(RECEIVING, "nginx;[libcrypto.so.3] 300"), CHANGES["tls-resumption"], "eth0")
    assert isinstance(judged, NotApplicable)
    assert judged.is_unread
