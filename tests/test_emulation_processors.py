"""`perpacket emulate --processors`: several processors of a server, counted exactly, repeatably."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a_server import compiled
from perpacket.cli import app
from perpacket.errors import ConfigurationError, RunFailed
from perpacket_lab.emulate import files, kernel, prepared, report, runs, steering, work
from perpacket_lab.emulate.hardware import ONE, Hardware
from perpacket_lab.emulate.session import Guest, Session, open_session
from perpacket_lab.emulate.settings import Memory, Scenario, Settings
from perpacket_lab.show.steering_tables import steering_tables
from probes import need

TWO = Hardware(2, 2)
SMALL = Settings(
    Scenario("web", 8), frames=400, warmup_frames=400, variants=1, hardware=TWO, by="layer"
)

ON_ONE = """
for name in /proc/irq/*/eth0*; do
    [ ! -d $name ] || echo 1 >${name%/*}/smp_affinity
done
"""
"""A set-up in which processor 0 gets the interrupts of all queues."""

BY_FLOW = """
echo 4096 >/proc/sys/net/core/rps_sock_flow_entries
for queue in /sys/class/net/eth0/queues/rx-*; do
    echo 2048 >$queue/rps_flow_cnt
    echo 3 >$queue/rps_cpus
done
"""
"""A set-up in which packets go to the processor on which their application runs (RFS)."""

STEERED = """
for queue in /sys/class/net/eth0/queues/rx-*; do echo 2 >$queue/rps_cpus; done
"""
"""A set-up in which processor 0 passes the packets that it receives to processor 1."""


@pytest.fixture(scope="module")
def two() -> Session:
    """A prepared machine whose server has two processors."""
    need("qemu")
    return open_session(Guest(hardware=TWO), lambda text: None)


def counts_of(session: Session, settings: Settings) -> Any:
    return runs.variant(
        session.emulator, session.plugin, session.machine, settings, 0, files=session.files
    )


def test_the_machine_of_the_documents_is_unchanged() -> None:
    assert Settings().hardware == ONE
    assert ONE.options[:2] == ("-M", "pc")
    assert ONE.options[5] == "2"
    assert "servers" not in ONE.options[-1]
    assert not {"processors", "queues"} & Settings().as_dict().keys()
    script = work.script(Settings(Scenario("web")), 0)
    assert b"taskset 1 perpacket-agent serve web" in script
    assert b"nginx.conf" not in script


@pytest.mark.parametrize(
    ("hardware", "masks"),
    [(Hardware(1), ("1", "2")), (Hardware(4, 4), ("f", "10")), (Hardware(8, 2), ("ff", "100"))],
)
def test_the_clients_have_the_processor_after_those_of_the_server(
    hardware: Hardware, masks: tuple[str, str]
) -> None:
    assert (hardware.server_mask, hardware.client_mask) == masks
    for server in ("web", "nginx", "bulk"):
        script = work.script(Settings(Scenario(server), hardware=hardware), 0).decode()
        assert f"taskset {masks[0]} " in script
        assert f"taskset {masks[1]} perpacket-agent guest count" in script
    assert f"-smp {hardware.processors + 1} " in " ".join(hardware.options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--processors 9", "expected 1 to 8"),
        ("--processors 4 --queues 5", "expected 1 to 4"),
        ("--queues 2", "add --processors"),
        ("--processors 2 --policy inclusive", "expected non-inclusive"),
        ("--processors 2 --l1 32K:8,64K:2", "expected one size"),
        ("--processors 2 --prefetch next-line", "expected none"),
    ],
)
def test_a_machine_that_cannot_be_is_an_error_with_the_next_step(
    options: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["emulate", *options.split()]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert options.split()[-2] in error


def test_a_kernel_without_the_cards_driver_is_refused_before_it_boots(tmp_path: Path) -> None:
    (tmp_path / "e1000.ko").write_bytes(b"\x7fELF")
    with pytest.raises(ConfigurationError, match="no driver for igb"):
        kernel.found_modules(tmp_path, TWO.needed)


def test_what_the_kernel_counts_is_by_packets_and_processor() -> None:
    zeros = " 00000000" * 8

    def softnet(received: int, squeezed: int) -> str:
        rows = [(received, squeezed, 0), (7, 0, 1), (9, 9, 2)]
        return "".join(f"{own:08x} 00000000 {many:08x}{zeros} 00000000 {number:08x}\n"
                       for own, many, number in rows)  # fmt: skip

    def interrupts(count: int) -> str:
        return f"CPU0 CPU1 CPU2\n25: {count} 4 0 PCI-MSIX-0000:00:04.0 0-edge eth0-rx-0"

    texts = [softnet(100, 1), interrupts(10), softnet(200, 3), interrupts(60)]
    counts = {
        "guest": {"values": [1, 40, 60, 0, 0, 0], "text": "\0".join([*texts, ""])},
        "processors": [
            {"instructions": 3000, "interrupts": 60, "polls": 25, "layers": {"tcp": 3000}},
            {"instructions": 1000, "interrupts": 20, "polls": 10, "layers": {"user": 1000}},
        ],
        "frames": {"sent": 30, "received": 70},
        "meetings": {"packets": 70, "backlogged": 7, "calls": 20, "met": 5},
        "queues": [{"sent": 30, "received": 10}, {"sent": 0, "received": 60}],
    }
    found = steering.steering([counts], [100], report.estimate)
    first, second = found["processors"]
    assert first["received_per_packet"]["value"] == 1.0
    assert first["squeezed_per_packet"]["value"] == 0.02
    assert second["received_per_packet"]["value"] == 0
    assert (first["layers"], second["layers"]) == ({"tcp": 30}, {"user": 10})
    assert found["interrupts"] == {"eth0-rx-0": [0.5, 0]}
    assert [one["received_per_packet"]["value"] for one in found["queues"]] == [0.1, 0.6]
    assert found["frames_per_poll"]["value"] == 2
    assert (found["met_share"]["value"], found["backlogged_share"]["value"]) == (0.25, 0.1)
    rows = [table.texts() for table in steering_tables(found)]
    assert [len(table) for table in rows] == [2, 2, 1, 3]


def test_the_counts_of_processors_and_queues_are_those_of_the_window(two: Session) -> None:
    counts = counts_of(two, SMALL)
    rows = [row for row in counts["counts"] if row["layer"] != "idle"]
    servers = counts["processors"]
    assert len(servers) == 2
    assert sum(one["instructions"] for one in servers) == sum(row["instructions"] for row in rows)
    assert sum(one["data_accesses"] for one in servers) == counts["data_accesses"]
    for one in servers:
        # In some windows, all connections are those of the thread on one processor.
        assert {"tcp", "driver"} <= one["layers"].keys()
        assert one["interrupts"] > 0
    assert any("user" in one["layers"] for one in servers)
    for way in ("sent", "received"):
        assert sum(queue[way] for queue in counts["queues"]) == counts["frames"][way]
    assert all(queue["received"] for queue in counts["queues"])
    assert counts["foreign_blocks"] == 0
    lost = counts["returns"]["unmatched"] / counts["returns"]["matched"]
    assert lost < 0.003


def test_lines_move_between_the_processors(two: Session) -> None:
    document: Any = two.emulate(SMALL)
    sharing = document["sharing"]
    moved = next(iter(sharing["moved_lines_per_packet"].values()))["value"]
    assert moved > 0.1
    assert {(pair["from"], pair["to"]) for pair in sharing["pairs"]} == {(0, 1), (1, 0)}


def same_bytes(session: Session, times: int) -> None:
    texts = {json.dumps(session.emulate(SMALL)) for _ in range(times)}
    assert len(texts) == 1


def test_several_processors_print_the_same_bytes_twice(two: Session) -> None:
    same_bytes(two, 2)


@pytest.mark.full
def test_several_processors_print_the_same_bytes_twenty_times(two: Session) -> None:
    same_bytes(two, 20)


@pytest.mark.full
def test_another_boot_of_several_processors_prints_the_same_bytes(
    two: Session, tmp_path: Path
) -> None:
    source = kernel.cached(TWO.needed)
    assert source is not None
    archive = files.archive(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path))
        again = prepared.prepare(
            two.emulator, two.plugin, source, archive, lambda text: None, "", TWO
        )
    assert again.state_digest == two.machine.state_digest
    assert json.dumps(replace(two, machine=again).emulate(SMALL)) == json.dumps(two.emulate(SMALL))
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("server", ["nginx", "bulk"])
def test_every_server_uses_both_processors(two: Session, server: str) -> None:
    counts = counts_of(two, replace(SMALL, scenario=Scenario(server, 8)))
    assert all(one["layers"]["user"] > 0 for one in counts["processors"])


def with_setup(session: Session, folder: Path, text: str) -> Any:
    """The steering in a document after a set-up."""
    script = folder / "setup"
    script.write_text(text)
    document: Any = session.emulate(replace(SMALL, setup=script))
    return document["steering"]


def test_affinity_moves_the_interrupts_and_rps_the_packets(two: Session, tmp_path: Path) -> None:
    def of(found: Any, key: str) -> list[float]:
        return [one[key]["value"] for one in found["processors"]]

    usual = two.emulate(SMALL)["steering"]
    assert min(of(usual, "received_per_packet")) > 0
    assert of(usual, "steered_per_packet") == [0, 0]
    on_one = with_setup(two, tmp_path, ON_ONE)
    assert of(on_one, "received_per_packet")[1] == 0
    receive = [row for name, row in on_one["interrupts"].items() if "-rx-" in name]
    assert all(second == 0 for _, second in receive)
    assert any(first > 0 for first, _ in receive)
    steered = with_setup(two, tmp_path, ON_ONE + STEERED)
    assert of(steered, "steered_per_packet")[1] > 0
    assert of(steered, "received_per_packet")[1] > 0


def test_flow_steering_brings_packets_to_their_application(two: Session, tmp_path: Path) -> None:
    by_hash = with_setup(two, tmp_path, ON_ONE)
    by_flow = with_setup(two, tmp_path, ON_ONE + BY_FLOW)
    assert by_hash["met_share"]["value"] < 0.9 < by_flow["met_share"]["value"]


def test_the_rss_table_selects_the_queues(two: Session, tmp_path: Path) -> None:
    found = with_setup(two, tmp_path, "perpacket-agent guest rss eth0 1\n")
    first, second = (one["received_per_packet"]["value"] for one in found["queues"])
    assert first < 0.01 < second


SHARING = b"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
static const char answer[] = "HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok";
static int port;
static struct { _Alignas(64) volatile long first; PAD volatile long second; } counts;
static void *serve(void *number) {
    long own = (long)number;
    cpu_set_t processor;
    CPU_ZERO(&processor);
    CPU_SET(own, &processor);
    sched_setaffinity(0, sizeof processor, &processor);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 100);
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    char request[4096];
    while (epoll_wait(poll, &event, 1, -1) == 1) {
        int connection = event.data.fd;
        if (connection == listener) {
            event = (struct epoll_event){.events = EPOLLIN, .data.fd = accept(listener, 0, 0)};
            epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
        } else if (read(connection, request, sizeof request) <= 0) {
            close(connection);
        } else {
            if (own) counts.second++; else counts.first++;
            write(connection, answer, sizeof answer - 1);
        }
    }
    return 0;
}
int main(int count, char **words) {
    pthread_t other;
    port = atoi(words[1]);
    pthread_create(&other, 0, serve, (void *)1);
    return serve(0) != 0;
}
"""
"""A server of two threads, one on each processor. Each counts its requests in a word of its own."""

WORDS = 8


def moved_words(session: Session, folder: Path, pad: bytes) -> tuple[float, float]:
    """The false sharing of the server's own memory per request: of the two words, and of others."""
    server = compiled(SHARING.replace(b"PAD", pad), folder, "-pthread")
    own = replace(session, files=files.server_archive([str(server)], ()))
    settings = replace(
        SMALL,
        scenario=Scenario(f"{server} {{port}}", 8),
        memory=Memory.of("64K:2", "1M:16", "non-inclusive", "none", 0, "invalidate"),
        frames=4000,
        by="structure",
    )
    counts = counts_of(own, settings)
    requests = sum(counts["responses"].values())
    user = [
        one
        for one in counts["sharing"]["moves"]
        if one["layer"] == "user" and one["structure"][0] == "[user memory]"
    ]
    shared = sum(one["false_sharing"][0] for one in user)
    return shared / requests, requests


def test_injected_false_sharing_is_found_and_goes_when_padded(two: Session, tmp_path: Path) -> None:
    together, requests = moved_words(two, tmp_path, b"")
    apart, _ = moved_words(two, tmp_path, b"_Alignas(64)")
    assert requests > 100
    # The processors take turns, so almost each request finds the line at the other one.
    assert 0.2 < together <= 1.2
    assert apart < 0.05


@pytest.mark.full
def test_a_guest_without_memory_for_its_server_is_an_error(two: Session, tmp_path: Path) -> None:
    script = tmp_path / "setup"
    script.write_text("mount -o remount,size=2G /tmp\ndd if=/dev/zero of=/tmp/full bs=1M\n")
    with pytest.raises(RunFailed, match="too small for 2 processors") as failed:
        two.emulate(replace(SMALL, setup=script))
    assert "--processors" in failed.value.hint
