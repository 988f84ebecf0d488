"""`perpacket emulate` with a guest: real frames between two cards, counted exactly and repeatably.

The guest is booted once and stored in the cache folder of the user.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from a_server import HTTP, compiled
from perpacket.cli import app
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket_lab.emulate import files, kernel, prepared, report, runs
from perpacket_lab.emulate.footprint import footprint
from perpacket_lab.emulate.machine import Machine
from perpacket_lab.emulate.prepared import Prepared
from perpacket_lab.emulate.session import Session
from perpacket_lab.emulate.settings import Memory, Scenario, Settings

BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"
"""A process that never waits, and that ends with the process of the tests."""

NO_HTTP = HTTP.replace(b"HTTP/1.1", b"-ERR 1.1")

SMALL = Settings(Scenario("web", 2), frames=200, warmup_frames=200, variants=1)

HALTING = replace(SMALL, scenario=Scenario("web", 1, latency_ms=1), frames=500)
"""Both processors are halted after each round trip."""


@pytest.fixture
def busy() -> Iterator[None]:
    """A process on every processor that never waits."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in range(2)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def same_bytes(session: Session, times: int) -> None:
    texts = {json.dumps(session.emulate(SMALL)) for _ in range(times)}
    assert len(texts) == 1


def test_the_same_command_prints_the_same_bytes_beside_a_busy_machine(
    session: Session, busy: None
) -> None:
    same_bytes(session, 3)


@pytest.mark.full
def test_the_same_command_prints_the_same_bytes_twenty_times(session: Session) -> None:
    same_bytes(session, 20)


@pytest.mark.full
def test_the_same_command_prints_the_same_bytes_two_hundred_times(
    session: Session, busy: None
) -> None:
    same_bytes(session, 200)


def test_a_monitor_that_is_asked_all_the_time_changes_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question wakes QEMU's main thread, which moves the clock if no processor runs."""
    expected = json.dumps(session.emulate(HALTING))

    def ask(machine: Machine, text: str, on_wait: object = None) -> None:
        while text not in machine.console + machine.messages:
            try:
                for _ in range(100):
                    machine._monitor.execute("query-status")
            except RunFailed:  # the machine may end, with the text, between two questions
                assert text in machine.console + machine.messages

    monkeypatch.setattr(Machine, "wait_for", ask)
    assert json.dumps(session.emulate(HALTING)) == expected


def boot_again(session: Session, cache: Path, times: int) -> None:
    """Boot the guest of `session` so many times, and compare states and counts."""
    source = kernel.cached()
    assert source is not None
    archive = files.archive(source)
    expected = json.dumps(session.emulate(SMALL))
    for number in range(times):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(cache / str(number)))
            again = prepared.prepare(
                session.emulator, session.plugin, source, archive, lambda text: None
            )
        assert again.folder != session.machine.folder
        assert again.state_digest == session.machine.state_digest
        assert json.dumps(replace(session, machine=again).emulate(SMALL)) == expected
        shutil.rmtree(cache)


def test_another_boot_prints_the_same_bytes(session: Session, tmp_path: Path) -> None:
    boot_again(session, tmp_path / "cache", 1)


@pytest.mark.full
def test_five_boots_beside_a_busy_machine_print_the_same_bytes(
    session: Session, busy: None, tmp_path: Path
) -> None:
    boot_again(session, tmp_path / "cache", 4)


def test_a_window_of_requests_has_so_many(session: Session) -> None:
    settings = replace(
        SMALL, scenario=Scenario("web", 1), warmup_frames=0, requests=20, warmup_requests=10
    )
    document: Any = session.emulate(settings)
    assert document["responses"] == {"count": 20, "errors": 0, "statuses": {"200": 20}}
    (counts,) = document["by_variant"]
    whole = sum(counts["instructions"]["layer_kinds"].values())
    assert document["total"]["instructions_per_request"] == pytest.approx(whole / 20)
    # Each response of 10 KiB has eight segments of 1448 bytes.
    assert counts["packets"]["sent"] == 20 * 8
    assert document["data_accesses_per_packet"]["value"] > 1000


def test_a_server_that_does_not_answer_http_is_an_error(session: Session, tmp_path: Path) -> None:
    server = compiled(NO_HTTP, tmp_path)
    words = f"{server} {{port}}"
    own = replace(session, files=files.server_archive([str(server)], ()))
    with pytest.raises(
        RunFailed, match=r"the server sent no HTTP response: .* every request failed"
    ):
        own.emulate(replace(SMALL, scenario=Scenario(words)))


def test_errors_alone_are_no_sound_responses() -> None:
    counts = {"responses": {"404": 3, "500": 1}}
    with pytest.raises(RunFailed, match="but 3 of status 404, 1 of status 500"):
        runs.check_responses(SMALL, counts)
    runs.check_responses(SMALL, {"responses": {"404": 3, "304": 1}})
    runs.check_responses(replace(SMALL, scenario=Scenario("bulk")), {"responses": {}})


def test_a_server_may_become_a_daemon(session: Session, tmp_path: Path) -> None:
    server = compiled(HTTP.replace(b"/* daemon */", b"if (fork()) return 0;"), tmp_path)
    own = replace(session, files=files.server_archive([str(server)], ()))
    document: Any = own.emulate(replace(SMALL, scenario=Scenario(f"{server} {{port}}")))
    assert document["responses"]["statuses"].keys() == {"200"}


def test_the_window_ends_with_the_burst_that_completes_its_frames(session: Session) -> None:
    counts: Any = runs.variant(session.emulator, session.plugin, session.machine, SMALL, 0)
    frames = counts["frames"]
    # Several frames can arrive in the turn of the other processor. Then they count together.
    assert 0 <= frames["sent"] + frames["received"] - SMALL.frames < 16
    # Every instruction of processor 0 is in one row.
    assert sum(row["instructions"] for row in counts["counts"]) == counts["instructions"]
    layers = {row["layer"] for row in counts["counts"]}
    assert {"user", "syscall", "socket", "tcp", "ip", "ethernet", "driver"} <= layers


def test_latency_is_in_the_guests_time(session: Session) -> None:
    delayed = replace(SMALL, scenario=Scenario("web", 1, latency_ms=20), frames=100)
    document: Any = session.emulate(delayed)
    # A response of 10 KiB has 13 frames or fewer, and each request waits for a round trip.
    window_s = document["guest_window_s"]
    assert window_s[0] > 100 / 25 * 0.04


def test_bulk_data_and_several_caches_in_one_pass(session: Session) -> None:
    memory = Memory.of("32K:8,64K:2", "256K:16,1M:16", "inclusive", "next-line", 64, "allocate")
    settings = replace(SMALL, scenario=Scenario("bulk", 4, rate_mbps=50), memory=memory)
    document: Any = session.emulate(settings)
    assert any("those shown are for 256K:16" in limit for limit in document["limits"])
    misses = document["total"]["l2_misses_per_packet"]
    assert list(misses) == ["32K:8 256K:16", "32K:8 1M:16", "64K:2 256K:16", "64K:2 1M:16"]
    assert misses["64K:2 1M:16"]["value"] <= misses["64K:2 256K:16"]["value"]
    assert document["packets"]["sent"] > document["packets"]["received"]


@pytest.mark.parametrize(
    ("server", "layer"),
    [("bulk-receive", "tcp"), ("datagrams", "udp"), ("forward", "ip"), ("web-tls", "user")],
)
def test_other_traffic_is_counted_in_its_layer(session: Session, server: str, layer: str) -> None:
    document: Any = session.emulate(replace(SMALL, scenario=Scenario(server, 4)))
    sent, received = (document["packets"][way] for way in ("sent", "received"))
    share = {name: cost["share"] for name, cost in document["layers"].items()}
    assert share[layer] > 0.05
    if server == "bulk-receive":
        assert received > 1.3 * sent
    elif server == "web-tls":
        assert sent > 1.3 * received
        assert share[layer] > 0.5  # encryption without instructions for it
    else:  # each datagram is answered or forwarded
        assert abs(sent - received) <= 8
        assert "tcp" not in share
    if server == "forward":
        assert "user" not in share


def test_misses_by_structure_are_those_of_data(session: Session) -> None:
    settings = replace(SMALL, scenario=Scenario("bulk", 8, rate_mbps=50))
    by_layer: Any = session.emulate(settings)
    by_structure: Any = session.emulate(replace(settings, by="structure"))
    for part in ("packets", "total", "layers", "kinds", "directions"):
        assert by_structure[part] == by_layer[part]
    rows = {row["structure"]: row for row in by_structure["structures"]}
    own = sum(row["l1d_misses_per_packet"] for row in rows.values())
    assert own == pytest.approx(by_layer["total"]["l1d_misses_per_packet"])
    members = {name for line in rows["TCP"]["lines"] for name in line["members"]}
    assert {"snd_nxt", "write_seq"} <= {name.rpartition(".")[2] for name in members}
    assert {"[user memory]", "[stack]", "[pages]"} <= rows.keys()


def test_the_costs_of_all_functions_are_those_of_all_layers(session: Session) -> None:
    by_layer: Any = session.emulate(SMALL)
    by_function: Any = session.emulate(replace(SMALL, by="function"))
    for part in ("packets", "total", "layers", "kinds", "directions"):
        assert by_function[part] == by_layer[part]
    functions, layers = by_function["functions"], by_layer["layers"].values()
    *most, others = functions
    assert others["function"] == report.OTHERS
    misses = [sum(level["value"] for level in row["l2_misses_per_packet"].values()) for row in most]
    assert misses == sorted(misses, reverse=True)
    name = "instructions_per_packet"
    assert sum(row[name] for row in functions) == pytest.approx(sum(row[name] for row in layers))
    for cache in ("l1i", "l1d"):
        name = f"{cache}_misses_per_packet"
        own, expected = (sum(row[name] for row in rows) for rows in (functions, layers))
        assert own == pytest.approx(expected), cache
    for cache in ("l2i", "l2d"):
        name = f"{cache}_misses_per_packet"
        for shape in by_layer["total"].get(name, {}):
            own, expected = (
                sum(row[name][shape]["value"] for row in rows) for rows in (functions, layers)
            )
            assert own == pytest.approx(expected), (cache, shape)


def test_own_rules_come_before_the_built_in_ones(session: Session, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[layers]]\nlayer = "socket"\nfunctions = ["tcp_*"]\n')
    built_in: Any = session.emulate(SMALL)
    own: Any = session.emulate(replace(SMALL, rules=rules))
    name = "instructions_per_packet"
    assert own["total"] == built_in["total"]
    assert own["layers"]["tcp"][name] < built_in["layers"]["tcp"][name] / 2
    assert own["layers"]["socket"][name] > built_in["layers"]["socket"][name]
    rules.write_text('[[layers]]\nlayer = "network"\nfunctions = ["f"]\n')
    with pytest.raises(RunFailed, match=r"rules\.toml.*network") as failed:
        session.emulate(replace(SMALL, rules=rules))
    assert "docs/howto/rules.md" in failed.value.hint


def test_a_kernel_without_types_has_no_structures(session: Session, tmp_path: Path) -> None:
    for file in session.machine.folder.iterdir():
        if file.name != "types":
            (tmp_path / file.name).symlink_to(file)
    bare = replace(session, machine=Prepared(tmp_path, session.machine.kernel))
    with pytest.raises(ConfigurationError, match="has no type information") as failed:
        bare.emulate(replace(SMALL, by="structure"))
    assert "CONFIG_DEBUG_INFO_BTF" in failed.value.hint


def random_shapes(random: Random) -> Memory:
    """Caches that a filtered recording must suffice for."""

    def shape(least: int, most: int) -> str:
        ways = random.choice([1, 2, 3, 5, 8, 12])
        return f"{4 * ways << random.randint(least, most)}K:{ways}"

    first = ",".join({shape(0, 4) for _ in range(2)})
    second = ",".join({shape(3, 6) for _ in range(3)})
    policy = random.choice(["non-inclusive", "exclusive"])
    prefetch = random.choice(["none", "next-line"])
    tlb = random.choice([0, 64, 256])
    return Memory.of(
        first, second, policy, prefetch, tlb, random.choice(["invalidate", "allocate"])
    )


def test_a_recording_replays_with_random_caches_as_they_count_live(
    session: Session, tmp_path: Path
) -> None:
    from perpacket_lab.emulate.replay import replay

    # The recording has several chunks.
    settings = replace(SMALL, scenario=Scenario("bulk", 4), frames=1000)
    file = tmp_path / "bulk.rec"
    session.emulate(settings, record=file)
    assert file.stat().st_size > 3 << 18
    random = Random(37)
    for _ in range(2):
        memory = random_shapes(random)
        live: Any = session.emulate(replace(settings, memory=memory))
        again = replay(file, memory)
        for part in ("packets", "total", "layers", "kinds", "directions"):
            assert again[part] == live[part], memory


def test_a_replay_equals_the_emulation_that_was_recorded(session: Session, tmp_path: Path) -> None:
    from perpacket_lab.emulate.replay import replay

    settings = replace(SMALL, memory=Memory.of("64K:2", "256K:16", "exclusive", "none", 64, "none"))
    file = tmp_path / "web.rec"
    live: Any = session.emulate(settings, record=file)
    again = replay(file, settings.memory)
    assert [path.name for path in tmp_path.iterdir()] == ["web.rec"]
    for part in ("packets", "total", "layers", "kinds", "directions"):
        assert again[part] == live[part]
    with pytest.raises(ConfigurationError, match="not a recording of a bulk sender"):
        footprint(file)


def test_a_server_that_does_not_start_is_an_error_of_the_guest(session: Session) -> None:
    # The guest has no such program; one that ends at once fails in the same way.
    settings = replace(SMALL, scenario=Scenario("absent-program --port {port}"))
    with pytest.raises(RunFailed, match=r"listen at 10\.0\.0\.1:80: it ended") as failed:
        session.emulate(settings)
    assert "perpacket emulate shell" in failed.value.hint


def test_the_last_messages_of_a_server_are_in_its_error(session: Session) -> None:
    settings = replace(SMALL, scenario=Scenario("ip no-such-object"))
    with pytest.raises(RunFailed, match=r'its last messages: Object "no-such-object" is unknown'):
        session.emulate(settings)


def test_a_guest_without_symbols_is_an_error_that_names_the_file(
    session: Session, tmp_path: Path
) -> None:
    for file in session.machine.folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "symbols").unlink()
    (tmp_path / "symbols").touch()
    bare = replace(session, machine=Prepared(tmp_path, session.machine.kernel))
    with pytest.raises(RunFailed, match=r"/symbols: no function has an address") as failed:
        bare.emulate(SMALL)
    assert "CONFIG_KALLSYMS" in failed.value.hint


@pytest.mark.usefixtures("session")
def test_the_shell_runs_commands_in_the_guest() -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "perpacket.cli", "emulate", "shell"]
    shell = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = ""

    def read_until(text: str) -> None:
        nonlocal printed
        while text not in printed:
            ready, _, _ = select.select([ours], [], [], 60)
            assert ready, f"the shell printed only {printed!r}"
            printed += os.read(ours, 4096).decode(errors="replace")

    try:
        read_until("# ")
        os.write(ours, b"echo $((6 * 7)) $(uname -r) in $(ls /)\n")
        read_until("42 6")
        read_until("www")
        os.write(ours, b"exit\n")
        assert shell.wait(60) == 0
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def test_a_recording_whose_name_has_a_comma_is_complete(session: Session, tmp_path: Path) -> None:
    from perpacket_lab.emulate.replay import replay

    # These caches need accesses that a filtered recording lacks.
    settings = replace(SMALL, memory=Memory.of("2K:1", "256K:16", "inclusive", "none", 16, "none"))
    file = tmp_path / "a,b=c.rec"
    live: Any = session.emulate(settings, record=file)
    assert replay(file, settings.memory)["total"] == live["total"]


def test_a_recording_with_every_access_has_the_same_misses_of_translations(
    session: Session, tmp_path: Path
) -> None:
    from perpacket_lab.emulate.replay import replay

    file = tmp_path / "every.rec"
    inclusive = Memory.of("64K:2", "256K:16", "inclusive", "none", 0, "invalidate")
    session.emulate(replace(SMALL, memory=inclusive), record=file)
    memory = Memory.of("64K:2", "256K:16", "non-inclusive", "none", 64, "invalidate")
    live: Any = session.emulate(replace(SMALL, memory=memory))
    assert replay(file, memory)["total"] == live["total"]


def cut(state: bytes) -> bytes:
    return state[: len(state) // 2]


def of_another_format(state: bytes) -> bytes:
    return state[:4] + struct.pack(">I", 99) + state[8:]


def of_another_machine(state: bytes) -> bytes:
    return state.replace(b"pc-i440fx-", b"pc-i440xf-", 1)


@pytest.mark.parametrize("damage", [cut, of_another_format, of_another_machine])
def test_a_snapshot_that_cannot_be_restored_is_an_error_that_names_it(
    session: Session, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    for file in session.machine.folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "state").unlink()
    (tmp_path / "state").write_bytes(damage(session.machine.state.read_bytes()))
    damaged = Prepared(tmp_path, session.machine.kernel)
    with pytest.raises(RunFailed, match=r"/state: the machine's state cannot be") as failed:
        runs.variant(session.emulator, session.plugin, damaged, SMALL, 0)
    assert failed.value.hint == f"remove {tmp_path}; the next emulation prepares the machine again"


def test_an_emulator_that_refuses_the_plugin_is_named(session: Session, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.so"
    plugin.write_bytes(b"not a library")
    with pytest.raises(MachineLacks, match=r"plugin\.so: .* refuses the plugin") as lack:
        replace(session, plugin=plugin).emulate(SMALL)
    assert "QEMU 10.0 or newer" in lack.value.hint


def test_without_memory_the_error_names_what_a_machine_needs(
    session: Session, tmp_path: Path
) -> None:
    program = tmp_path / "qemu"
    program.write_text(f'#!/bin/sh\nulimit -v 700000\nexec {session.emulator.program} "$@"\n')
    program.chmod(0o755)
    small = replace(session, emulator=replace(session.emulator, program=program))
    with pytest.raises(MachineLacks, match=r"emulator: .*memory") as lack:
        small.emulate(SMALL)
    assert "MiB" in lack.value.hint


def test_an_error_of_the_plugin_has_its_hint(session: Session) -> None:
    with pytest.raises(RunFailed, match="option `by=nothing`") as failed:
        session.emulate(replace(SMALL, by="nothing"))  # type: ignore[arg-type]  # on purpose
    assert "perpacket emulate --help" in failed.value.hint


def test_the_verb_prints_its_table_and_its_notes(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session.plugin.is_file()
    options = (
        "--server web --connections 2 --frames 200 --warmup-frames 200 --replications 2 --quiet"
    )
    assert app.run(["emulate", *options.split()]) == 0
    printed = capsys.readouterr()
    assert "turns of 20,000 instructions" in printed.out
    assert "By layer, per packet" in printed.out
    assert "intervals are over 2 variants" in printed.out
    assert not printed.err
