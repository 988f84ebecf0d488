"""Advice has evidence, bounds and reasons, and finds the known fault of a live set-up."""

from __future__ import annotations

import itertools
import json
import math
import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from perpacket.advise import (
    bounds,
    catalogue,
    expression,
    facts,
    glance,
    links,
    listening,
    observation,
    profile,
    servers,
)
from perpacket.advise.advice import Advice, NotApplicable, advise, judge
from perpacket.advise.counters import Counters, Processor
from perpacket.advise.expression import NotReadable
from perpacket.advise.growth import between
from perpacket.advise.limit_kinds import What
from perpacket.advise.links import Link
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.observation import Observation
from perpacket.advise.profile import Part, Profile, folded, matcher
from perpacket.advise.servers import Server
from perpacket.analysis.statistics import Interval
from perpacket.cli import agent_verbs
from perpacket.cli.app import run
from perpacket.errors import ConfigurationError, RunFailed
from perpacket.show import advice_tables as shown
from perpacket_lab.analysis import advice_of_run as of_run
from perpacket_lab.cli.demo import live_text
from perpacket_lab.demo import advice as demo_advice
from perpacket_lab.study.point import Point

CHANGES = catalogue.load()

NGINX = """
worker_processes 2;
events { worker_connections 64; }
http {
    include types.conf;      # a comment with ; and {
    log_format short "$remote_addr; {$status}";
    access_log /var/log/a.log;
    sendfile on;
    server {
        listen 127.0.0.1:80 reuseport;
        location / { root /srv; access_log off; }
        location ~ \\.(gif|jpg)$ { sendfile off; expires 1d; }
    }
    server { listen 443 ssl; access_log /var/log/b.log combined buffer=64k flush=1s; }
}
"""


def document(**counted: float) -> dict[str, object]:
    """A profile in which TCP has most of the processor time."""
    carried = {
        "packets_sent": 1000,
        "packets_received": 500,
        "bytes_sent": 1_448_000,
        "bytes_received": 33_000,
        **counted,
    }
    return {
        "schema": 1,
        "window_s": 5.0,
        "samples": 1000,
        "drops": 0,
        "idle": {"share_of_time": 0.1},
        "interfaces": {"eth0": carried},
        "layer_kinds": {"tcp": {"protocol": 0.5, "copy": 0.2}, "syscall": {"other": 0.3}},
    }


STACKS = (
    "nginx;do_writev;tcp_sendmsg;__dev_queue_xmit;dev_hard_start_xmit 400",
    "nginx;ksys_write;vfs_write 100",
    "nginx;[nginx] 100",
    "other;ksys_write 50",
    "swapper;do_idle;default_idle_call 900",
    "swapper;net_rx_action;__netif_receive_skb_one_core 350",
)


def seen(
    settings: Mapping[str, str] | None = None,
    server: Server | None = None,
    stacks: tuple[str, ...] = STACKS,
    counted: Mapping[str, float] | None = None,
) -> Observation:
    """The facts for advice: `settings` by feature or name; others cannot be read."""

    def read(table: Mapping[str, str], interface: str) -> str:
        name = table.get("feature", table.get("name", table["kind"]))
        if name not in (settings or {}):
            raise NotReadable(f"{name}: permission denied")
        return (settings or {})[name]

    measured = Profile(document(**(counted or {})), tuple(folded(stacks)))
    present = {"eth0": Link("eth0", 1500, "hardware", 1, "fq")}
    return Observation(measured, NetworkScope(), present, read, server, interfaces=("eth0",))


# Expressions.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 - 4 / 2", 5.0),
        ("n > 1 and not n == 3", True),
        ("name == 'off' or n < 0", True),
        ("max(n, 5) - min(n, 1)", 4),
        ("double(n) >= 4", True),
        ("-n < 0", True),
    ],
)
def test_an_expression_has_arithmetic_comparisons_and_facts(text: str, value: object) -> None:
    names: dict[str, expression.Value] = {"n": 2, "name": "off"}
    assert expression.evaluate(text, names, {"double": lambda n: 2 * float(n)}) == value


@pytest.mark.parametrize(
    "text", ["n.real", "n[0]", "__import__('os')", "lambda: 1", "[1]", "f'{n}'", "2 ** 99", "1 +"]
)
def test_an_expression_has_nothing_else_of_python(text: str) -> None:
    with pytest.raises(ConfigurationError):
        expression.evaluate(text, {"n": 1}, {})


@pytest.mark.parametrize("change", CHANGES.values(), ids=lambda change: str(change.name))
def test_the_expressions_of_the_catalogue_use_facts_that_exist(change: catalogue.Change) -> None:
    known = {*facts.FACTS, *facts.FUNCTIONS, *expression.BUILT_IN}
    texts = [change.bound.removable]
    if change.evidence is not None:
        texts += [one.when for one in change.directions]
        texts += [one.when for one in change.evidence.excluded]
        texts += [one.bound.removable for one in change.directions if one.bound is not None]
    assert set[str]().union(*map(expression.names, texts)) <= known


@pytest.mark.parametrize("change", CHANGES.values(), ids=lambda change: str(change.name))
def test_the_sentences_of_the_catalogue_use_facts_that_exist(change: catalogue.Change) -> None:
    class Names(dict[str, object]):
        def __missing__(self, name: str) -> object:
            assert name in facts.FACTS, name
            return 1.0

    for text in (
        change.price,
        *(text for one in change.directions for text in (one.suggest, one.text)),
        *(() if change.evidence is None else (change.evidence.otherwise,)),
        *(() if change.evidence is None else (one.text for one in change.evidence.excluded)),
    ):
        text.format_map(Names())


# Profiles and bounds.


def test_a_pattern_ends_with_a_star_or_is_the_name() -> None:
    matches = matcher(["nf_*", "tcp_ack"])
    assert [matches(name) for name in ("nf_hook", "tcp_ack", "tcp_ack_x")] == [True, True, False]


def test_idle_samples_count_in_no_share() -> None:
    part = seen().profile.chains(["__dev_queue_xmit"])
    assert (part.samples, part.of) == (400, 1000)


def test_a_part_can_be_of_one_process_with_its_own_code() -> None:
    profile = seen().profile
    assert profile.chains(["ksys_write"], "nginx").samples == 100
    assert profile.chains(["ksys_write"], "nginx", own_code=True).samples == 200
    assert profile.chains(["ksys_write"]).samples == 150


def test_the_interval_of_a_share_is_wilsons() -> None:
    # 10 of 100: 5.5 % to 17.4 %, the example of Newcombe, Statistics in Medicine 17, 1998.
    interval = bounds.wilson(Part(10, 100))
    assert interval.low == pytest.approx(0.0552, abs=1e-3)
    assert interval.high == pytest.approx(0.1744, abs=1e-3)


def test_a_bound_is_the_removable_part_and_its_gain_is_that_of_laws() -> None:
    bound = bounds.of(
        catalogue.BoundRule(layers=["tcp"], kinds=["copy"], removable="0.5"),
        seen().profile,
        lambda text: expression.number(text, {}, {}),
    )
    assert bound.share.value == pytest.approx(0.1)
    assert bound.gain.value == pytest.approx(1 / 0.9 - 1)
    assert bound.share.low < bound.share.value < bound.share.high


def test_a_bound_of_moved_lines_is_their_time_in_the_processor_time_of_the_path() -> None:
    # 20,000 packets, 1.5 lines of 100 ns each: 3 ms of the 0.5 s on the packet's path.
    document = {
        "packets": {"sent": 12_000, "received": 8_000},
        "total": {"cpu_s": 1.0},
        "layer_kinds": {"other": {"other": 0.5}},
    }
    moved = catalogue.MovedLines(
        value=1.5, low=1.0, high=2.0, n=5, latency_ns=100, source="study steering, rfs against rps"
    )
    bound = bounds.of(
        catalogue.BoundRule(moved=moved, removable="1"),
        Profile(document),
        lambda text: expression.number(text, {}, {}),
    )
    assert bound.share.value == pytest.approx(0.006)
    assert bound.share.low == pytest.approx(0.004)
    assert bound.share.high == pytest.approx(0.008)
    assert bound.gain.value == pytest.approx(0.006 / 0.994)
    assert "1.5 cache lines a packet [1, 2]" in bound.basis
    assert "an assumed 100 ns" in bound.basis
    with pytest.raises(NotReadable, match="no packets sent"):
        bounds.moved_share(moved, Profile({"total": {"cpu_s": 1.0}}))


def test_a_file_that_is_not_a_profile_is_an_error(tmp_path: Path) -> None:
    from perpacket.advise.profile import read

    file = tmp_path / "x.json"
    file.write_text("[]")
    with pytest.raises(ConfigurationError, match="not a profile"):
        read(file, None)
    with pytest.raises(ConfigurationError, match="line 1: expected"):
        list(folded(["a;b"]))


# Changes.


def test_a_change_applies_with_its_evidence_in_numbers() -> None:
    found = judge(seen({"tx-tcp-segmentation": "off"}), CHANGES["tso"], "eth0")
    assert isinstance(found, Advice)
    assert "TSO is off on eth0" in found.evidence
    assert "1448 bytes" in found.evidence
    assert found.command == "perpacket trial tso=on --interface eth0"
    assert found.bound is not None
    assert found.bound.share.value == pytest.approx(0.4 * (1 - 1448 / 65536))


@pytest.mark.parametrize(
    ("settings", "counted", "reason"),
    [
        ({"tx-tcp-segmentation": "on"}, {}, "TSO is on already on eth0"),
        ({"tx-tcp-segmentation": "off"}, {"bytes_sent": 100_000.0}, "frames of 100 bytes"),
    ],
)
def test_a_change_that_does_not_apply_has_its_reason(
    settings: dict[str, str], counted: dict[str, float], reason: str
) -> None:
    found = judge(seen(settings, counted=counted), CHANGES["tso"], "eth0")
    assert isinstance(found, NotApplicable)
    assert reason in found.reason
    assert not found.is_unread


def test_a_setting_that_cannot_be_read_is_the_reason() -> None:
    found = judge(seen(), CHANGES["tso"], "eth0")
    assert isinstance(found, NotApplicable)
    assert found.is_unread
    assert found.reason == "tx-tcp-segmentation: permission denied"


def test_a_change_that_concerns_security_is_never_applied() -> None:
    stacks = (*STACKS, "nginx;nf_hook_slow;nft_do_chain 300")
    found = judge(seen(stacks=stacks), CHANGES["netfilter"], "eth0")
    assert isinstance(found, Advice)
    assert "netfilter=" not in found.command
    assert "never changes them" in found.risk


def test_the_change_with_the_largest_bound_is_first() -> None:
    server = Server("nginx", 1, (), {"access-log": "on"})
    report = advise(seen({"tx-tcp-segmentation": "off"}, server))
    assert [one.change.name for one in report.advice] == ["tso", "access-log"]
    assert len(report.advice) + len(report.not_applicable) == len(CHANGES)


def test_without_call_chains_a_change_that_needs_them_cannot_be_judged() -> None:
    found = judge(seen(stacks=()), CHANGES["netfilter"], "eth0")
    assert isinstance(found, NotApplicable)
    assert "no call chains" in found.reason


def test_the_text_has_evidence_bound_risk_and_command() -> None:
    text = "\n".join(shown.lines(advise(seen({"tx-tcp-segmentation": "off"})), 200))
    for part in ("1. tso=on", "At most 39 % [36, 42] of processor time", "Risk:", "try it: perp"):
        assert part in text


def test_the_document_has_a_schema_and_every_change() -> None:
    found = json.loads(json.dumps(shown.document(advise(seen())), allow_nan=False))
    assert found["schema"] == shown.SCHEMA
    names = {row["change"] for row in [*found["advice"], *found["not_applicable"]]}
    assert names == set(CHANGES)


def test_an_idle_server_is_not_judged() -> None:
    idle = ("swapper;do_idle;default_idle_call 5000", "nginx;do_writev;tcp_sendmsg 49")
    report = advise(seen({"tx-tcp-segmentation": "off"}, stacks=idle))
    assert not report.advice
    assert {"49 samples" in one.reason for one in report.not_applicable} == {True}
    text = "\n".join(shown.lines(report, 300))
    assert "No change was judged" in text
    assert "profile while a load runs" in text


def of_time(**layers: float) -> Observation:
    """An observation of five seconds with the busy seconds of each layer."""
    times = {name: {"cpu_s": seconds} for name, seconds in layers.items()}
    return replace(seen(), profile=Profile({**document(), "layers": times}, tuple(folded(STACKS))))


@pytest.mark.parametrize(
    ("loaded", "reason"),
    [
        (of_time(user=0.05, tcp=0.05), r"the server is idle: it and the stack use 2\.0 % of"),
        (of_time(tcp=0.3, other=9.7), r"97 % of the busy time is of other programs"),
        (of_time(user=4.98, tcp=0.02), r"0\.4 % of the busy time is communication, and no server"),
    ],
)
def test_advice_on_an_idle_or_foreign_machine_is_an_error(loaded: Observation, reason: str) -> None:
    """Nothing was measured, so nothing is said about any change."""
    with pytest.raises(RunFailed, match=reason):
        advise(loaded)
    assert glance.quietly(lambda: loaded) is None


def test_a_busy_server_is_advised_also_if_its_own_code_dominates() -> None:
    assert advise(of_time(user=2.0, tcp=1.0)).not_applicable
    named = replace(of_time(user=4.98, tcp=0.02), pid=1)
    assert advise(named).not_applicable


def at(
    time_s: float,
    idle_s: tuple[float, ...] = (0.0, 0.0),
    *,
    thread_s: float = 0.0,
    queue: links.Queue | None = None,
    unsent: int = 0,
) -> Counters:
    """Counters of a machine with two processors, at a moment."""
    processors = {f"cpu{n}": Processor(0, 0, round(100 * time_s), s) for n, s in enumerate(idle_s)}
    queues = {} if queue is None else {"eth0": queue}
    return Counters(time_s, processors, {7: thread_s}, {}, queues, 10, unsent)


TBF = (links.Queue("tbf", 100, 0, 3000), links.Queue("tbf", 5100, 40, 64_000))


@pytest.mark.parametrize(
    ("before", "after", "what", "text"),
    [
        (at(0, queue=TBF[0]), at(5, queue=TBF[1]), What.QUEUEING, "tbf of eth0: it delayed"),
        (at(0), at(5, (0.1, 0.2)), What.ALL, "all processors: they are 97 % busy"),
        (at(0), at(5, (0.1, 4.0)), What.ONE, "cpu0 is 98 % busy, and all together 59 %"),
        (at(0), at(5, (2.5, 2.4), thread_s=4.9), What.ONE, "a thread of the server runs 98 %"),
        (at(0, unsent=8), at(5, (3.0, 3.0), unsent=9), What.CLIENT, "8 of 10 connections"),
        (at(0, unsent=8), at(5, (3.0, 4.0)), What.NOTHING, "busiest processor is 40 % busy"),
        (at(0, queue=TBF[0]), at(5, (0, 0), queue=TBF[0]), What.ALL, "100 % busy"),
    ],
)
def test_advice_begins_with_what_limits(
    before: Counters, after: Counters, what: What, text: str
) -> None:
    report = advise(replace(seen(), growth=between(before, after)))
    assert report.limit is not None
    assert report.limit.what is what
    first = " ".join(itertools.takewhile(bool, shown.lines(report, 400))).split(" 5.0 s")[0]
    assert "The limit: " in first
    assert text in first
    assert ("do not raise it" in first) == (what is What.NOTHING)
    assert ("No change of the network helps" in first) == (what in (What.QUEUEING, What.CLIENT))
    document = shown.document(report)["limit"]
    assert document == {"what": what.value, "text": report.limit.text}


def test_a_stored_profile_has_no_limit() -> None:
    assert advise(seen()).limit is None
    assert "limit" not in next(iter(shown.lines(advise(seen()), 300)))


def test_requests_a_connection_come_from_counts_or_are_not_judged() -> None:
    """haproxy with http-server-close: two connections to servers for each request of a client."""
    haproxy = Server("haproxy", 7, (), {}, "perpacket knows no options of haproxy")
    stacks = (*STACKS, "haproxy;do_syscall_64;__sys_accept4;inet_csk_accept 200")
    counts = {"requests": 1000, "connections": {"accepted": 1000, "opened": 2000}}
    measured = Profile({**document(), **counts}, tuple(folded(stacks)))
    counted = replace(seen(server=haproxy), profile=measured)
    found = {one.change.name: one for one in advise(counted).advice}
    assert "haproxy accepts 1.00 connections of clients for each request" in (
        found["connection-reuse"].evidence
    )
    assert "haproxy opens 2.00 connections" in found["upstream-reuse"].evidence
    few = Profile(
        {**measured.document, "connections": {"accepted": 10, "opened": 9}}, measured.stacks
    )
    kept = replace(counted, profile=few)
    reasons = {one.change.name: one.reason for one in advise(kept).not_applicable}
    assert "accepts 0.01 connections" in reasons["connection-reuse"]
    without = advise(replace(counted, profile=seen().profile)).not_applicable
    unread = {one.change.name: one for one in without if one.is_unread}
    for name in ("connection-reuse", "upstream-reuse"):
        assert unread[name].reason == "requests were not counted: `--requests URL`"


def test_an_nginx_that_closes_connections_is_told_to_keep_them(tmp_path: Path) -> None:
    stacks = (*STACKS, "nginx;do_syscall_64;__sys_accept4;inet_csk_accept 200")
    server = Server("nginx", 7, (), {"keepalive": "off"})
    found = {one.change.name: one for one in advise(seen(server=server, stacks=stacks)).advice}
    assert "closes each connection after one response" in found["keepalive"].evidence
    assert found["keepalive"].command.startswith("perpacket trial keepalive=on")
    for text, expected in (("0", "off"), ("0s", "off"), ("65", "on"), ("75s 60s", "on")):
        configuration = f"http {{ server {{ keepalive_timeout {text}; listen 80; }} }}"
        (tmp_path / "nginx.conf").write_text(configuration)
        options = servers.nginx_options(tuple(servers.read(str(tmp_path / "nginx.conf"))), 2)
        assert options["keepalive"] == expected, text


def test_bytes_are_not_divided_by_received_frames() -> None:
    """Half of the received frames are acknowledgments, so they are no requests."""
    server = Server("nginx", 7, (), {"sendfile": "off"})
    found = {one.change.name: one for one in advise(seen(server=server)).not_applicable}
    assert found["sendfile"].is_unread
    assert "requests were not counted" in found["sendfile"].reason


def test_samples_of_idle_processors_are_no_samples_of_a_layer() -> None:
    idle = {"total": {"cpu_s": 1.0}, "idle": {"cpu_s": 9.0}}
    assert Profile(document()).cells(["tcp"]) == Part(700, 1000)
    assert Profile({**document(), **idle}).cells(["tcp"]) == Part(70, 100)


def test_without_perf_advice_reports_no_layers() -> None:
    measured = Profile({**document(), "backend": "accounts"})
    with pytest.raises(NotReadable, match="perf is not permitted"):
        measured.cells(["other"])
    with pytest.raises(NotReadable, match="perf is not permitted"):
        measured.chains(["tcp_ack"])


# Servers.


def test_nginx_options_are_those_of_the_most_expensive_location(tmp_path: Path) -> None:
    (tmp_path / "nginx.conf").write_text(NGINX)
    (tmp_path / "types.conf").write_text('types { text/html html; } tcp_nopush "on";')
    found = servers.nginx_options(list(servers.read(str(tmp_path / "nginx.conf"))), cpus=4)
    assert found["access-log"] == "on"
    assert found["sendfile"] == "off"
    assert found["tcp-nopush"] == "on"
    assert found["workers"] == "2"
    assert found["reuseport"] == "off"
    assert found["ssl"] == "on"


@pytest.mark.parametrize("text", ["http {", "}", "sendfile on", "{ }", "a } b;"])
def test_a_configuration_that_is_not_nginxs_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "nginx.conf"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"block|}"):
        list(servers.read(str(file)))


def test_the_options_of_serve_web_are_on_its_command_line() -> None:
    command = ("perpacket-agent", "serve", "web", "--sendfile-above=1024GiB", "--coalesce", "50us")
    found = servers.web_options(servers.given_options(command) or {})
    assert (found["sendfile"], found["batch"], found["io-uring"]) == ("off", "50us", "off")


@pytest.mark.parametrize(
    "words",
    [("--pid", str(2**22 + 1)), ("--interface", "nosuch0"), ("--pid", "1", "--interface", "x0")],
)
def test_a_wrong_name_is_an_error_before_the_profile(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(profile, "measure", lambda *_: pytest.fail("it profiled"))
    assert run(["advise", *words]) == 2
    assert "profiling" not in capsys.readouterr().err


def test_a_process_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="no such process"):
        observation.observe(0.5, 2**22 + 1, "")


def test_an_unknown_interface_is_an_error_that_lists_the_interfaces() -> None:
    with pytest.raises(ConfigurationError, match="no such interface") as error:
        observation.of_profile(Profile(document()), None, "nosuch0")
    assert "lo" in error.value.hint


# The line after other verbs.


@pytest.mark.parametrize(
    ("options", "follows"),
    [
        ({}, True),
        ({"pid": "1", "format": "table"}, True),
        ({"format": "json"}, False),
        ({"every": "1"}, False),
        ({"quiet": True}, False),
        ({"events": "accounts"}, False),
        ({"command": ["server", "--quiet"]}, True),
    ],
)
def test_advice_follows_a_profile_that_prints_a_table(
    options: dict[str, object], follows: bool
) -> None:
    assert agent_verbs.prints_advice(options) is follows


def test_the_line_names_a_change_that_a_trial_can_apply() -> None:
    stacks = (*STACKS, "nginx;nf_hook_slow;nft_do_chain 3000")
    report = advise(seen({"tx-tcp-segmentation": "off"}, stacks=stacks))
    assert report.advice[0].change.name == "netfilter"
    assert shown.next_line(report).startswith("next: tso=on on eth0, at most")


# The demo.


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(90.0, 110.0, "100 ± 10"), (-20.0, 220.0, "100 ± over 100 %"), (-math.inf, math.inf, "100")],
)
def test_the_demo_prints_no_interval_wider_than_its_value(
    low: float, high: float, text: str
) -> None:
    assert live_text(Interval(100.0, low, high, 3, 0.95)) == text


def test_the_demo_tries_no_change_that_needs_root() -> None:
    report = advise(seen({"tx-tcp-segmentation": "off"}))
    assert report.to_try is not None
    assert demo_advice.tried(report, 1, "http://127.0.0.1:1/") is None


def test_a_trial_that_fails_does_not_end_the_demo() -> None:
    server = Server("serve web", 1, (), {"io-uring": "off"})
    report = advise(seen(server=server), {"io-uring": CHANGES["io-uring"]})
    assert report.to_try is not None
    assert demo_advice.tried(report, 2**22 + 1, "http://127.0.0.1:1/") is None


# The command.


def test_the_command_has_the_url_at_which_the_server_listens() -> None:
    server = servers.Server(servers.NGINX, 1, ("nginx",))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert (ip_address("127.0.0.1"), port) in set(listening.listening([os.getpid()]))
        found = listening.url(server, [os.getpid()], None, own_namespace=True)
    assert found.startswith("http://127.0.0.1:")
    assert not listening.url(server, [], None, own_namespace=True)


def test_addresses_are_read_as_the_kernel_prints_them() -> None:
    assert listening.address_of("00000000").is_unspecified
    assert str(listening.address_of("0100007F")) == "127.0.0.1"
    assert str(listening.address_of("00000000000000000000000001000000")) == "::1"


# Runs.


def stored(folder: Path, point: str, seed: int, syscall: float, samples: int) -> None:
    """A profile as a measured run stores it."""
    cells = {"tcp": {"protocol": 1 - syscall}, "syscall": {"other": syscall}}
    content = {**document(), "samples": samples, "requests": 100, "layer_kinds": cells}
    folder.mkdir(exist_ok=True)
    (folder / f"{point}.seed-{seed}.profile.json").write_text(json.dumps(content))


def test_the_profiles_of_a_point_are_pooled_by_samples(tmp_path: Path) -> None:
    stored(tmp_path / "raw", "a", 1, 0.1, 100)
    stored(tmp_path / "raw", "a", 2, 0.2, 300)
    point = Point("a", "file", {}, (("server.architecture", "events"),))
    [(found, first)] = of_run.suggestions(tmp_path, [point])
    assert (found.name, first.change.name) == ("a", "io-uring")
    assert first.bound is not None
    assert first.bound.share.value == pytest.approx(0.9 * (0.1 * 100 + 0.2 * 300) / 400)


def test_a_point_that_has_the_option_already_has_no_advice(tmp_path: Path) -> None:
    stored(tmp_path / "raw", "a", 1, 0.1, 100)
    point = Point("a", "file", {}, (("server.architecture", "uring"),))
    assert not of_run.suggestions(tmp_path, [point])


def test_a_run_without_profiles_has_no_advice(tmp_path: Path) -> None:
    assert not of_run.suggestions(tmp_path, [Point("a", "file", {})])
