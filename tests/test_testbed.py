"""Testbeds: processes, hosts, networks and latency, and the removal of everything afterwards."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from far import far_machine
from patience import PATIENCE_S, eventually
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure import agent
from perpacket.measure.hosts import contract, record
from perpacket.measure.hosts.process import documents
from perpacket.measure.hosts.processor_division import SHARED, Division, divide
from perpacket_lab.measure import hosts
from perpacket_lab.measure.hosts import network
from perpacket_lab.measure.hosts.namespaces import Namespaces
from perpacket_lab.measure.hosts.network import address
from probes import need
from requirements import skip

PYTHON = sys.executable
NETNS = Path("/run/netns")

ECHO = """
import socket
echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
echo.bind(("0.0.0.0", 7007))
print("ready", flush=True)
while True:
    data, sender = echo.recvfrom(2048)
    echo.sendto(data, sender)
"""

pytestmark = pytest.mark.live

ASK = """
import socket, sys, time
ask = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ask.settimeout(600)
times = []
for _ in range(4):
    start = time.monotonic()
    ask.sendto(b"x", (sys.argv[1], 7007))
    ask.recv(16)
    times.append(time.monotonic() - start)
print(min(times))
"""


def shortest_round_trip_s(bed: contract.Testbed, client: int = 0) -> float:
    echo = bed.server.start([PYTHON, "-c", ECHO])
    try:
        echo.wait_for_line("^ready$", PATIENCE_S)
        commands = bed.clients[client].run(
            [PYTHON, "-c", ASK, bed.server.address], timeout_s=PATIENCE_S
        )
        assert commands.returncode == 0, commands.stderr
        return float(commands.stdout)
    finally:
        echo.stop()


@pytest.fixture(scope="module")
def needs_namespaces() -> None:
    need("netns")


@pytest.fixture(scope="module")
def needs_agent() -> None:
    try:
        agent.find()
    except MachineLacks as error:
        skip("agent", error)


@pytest.fixture
def bed() -> Iterator[contract.Testbed]:
    with hosts.loopback() as loopback:
        yield loopback


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of records that only this test uses."""
    folder = tmp_path / "records"
    folder.mkdir()
    monkeypatch.setattr(record, "folder_path", lambda: folder)
    yield folder
    record.remove_leftovers()


def run_of(records: Path, pid: int) -> str:
    """The run of the record of a process."""
    contents = [json.loads(file.read_text()) for file in records.glob("*.json")]
    (run,) = [str(one["run"]) for one in contents if one["owner"]["pid"] == pid]
    return run


def namespaces_of(run: str) -> set[str]:
    """The remaining namespaces of a run."""
    return {place.name for place in NETNS.glob(f"{record.PREFIX}{run}-*")}


def is_running(pid: int) -> bool:
    return record.start_ticks(pid) is not None


# Processes on a host.


def test_a_process_reports_its_output_and_its_end(bed: contract.Testbed) -> None:
    script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = bed.server.run([PYTHON, "-c", script], timeout_s=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_a_line_is_found_in_either_output_before_the_end(bed: contract.Testbed) -> None:
    script = "import sys, time; print('listening on 80', file=sys.stderr); time.sleep(60)"
    process = bed.server.start([PYTHON, "-c", script])
    assert process.wait_for_line(r"listening on (\d+)", PATIENCE_S)[1] == "80"
    assert process.poll() is None
    assert process.stop() != 0


def test_waiting_for_a_missing_line_ends_with_the_process_and_reports_its_output(
    bed: contract.Testbed,
) -> None:
    process = bed.server.start([PYTHON, "-c", "raise SystemExit('no such port')"])
    with pytest.raises(RunFailed, match="exit status 1") as caught:
        process.wait_for_line("^ready", PATIENCE_S)
    assert "no such port" in caught.value.hint


def test_a_process_that_ignores_requests_is_killed_with_its_children(bed: contract.Testbed) -> None:
    script = """
        import signal, subprocess, sys, time
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        print(child.pid, flush=True)
        time.sleep(3600)
    """
    process = bed.server.start([PYTHON, "-c", textwrap.dedent(script)])
    child = int(process.wait_for_line(r"^(\d+)$", PATIENCE_S)[1])
    assert process.stop(timeout_s=0.1) == -signal.SIGKILL
    assert eventually(lambda: not is_running(child))


def test_a_run_that_takes_too_long_is_stopped(bed: contract.Testbed) -> None:
    with pytest.raises(RunFailed, match="still running"):
        bed.server.run([PYTHON, "-c", "import time; time.sleep(3600)"], timeout_s=0.2)


def test_a_missing_program_is_an_error_of_the_machine(bed: contract.Testbed) -> None:
    with pytest.raises(MachineLacks, match="no-such-program"):
        bed.server.start(["no-such-program"])


def test_processes_run_on_their_hosts_processors(bed: contract.Testbed) -> None:
    script = "import os; print(sorted(os.sched_getaffinity(0)))"
    for host in (bed.server, *bed.clients):
        shown = host.run([PYTHON, "-c", script], timeout_s=PATIENCE_S).stdout.strip()
        assert shown == str(sorted(host.cpus))
    other = bed.clients[0].cpus[:1]
    shown = bed.server.run([PYTHON, "-c", script], timeout_s=PATIENCE_S, cpus=other).stdout
    assert shown == f"{[*other]}\n"


def test_leaving_a_testbed_ends_its_processes() -> None:
    with hosts.loopback() as bed:
        process = bed.server.start([PYTHON, "-c", "import time; time.sleep(3600)"])
    assert process.poll() is not None


def test_put_copies_a_file_and_makes_its_folder(bed: contract.Testbed, tmp_path: Path) -> None:
    (tmp_path / "site").write_text("hello")
    bed.server.put(tmp_path / "site", str(tmp_path / "a/b/site"))
    assert (tmp_path / "a/b/site").read_text() == "hello"


# Choices and limits.


def test_server_and_clients_have_different_processors_and_a_single_processor_is_reported() -> None:
    division = divide()
    if len(os.sched_getaffinity(0)) > 1:
        assert not set(division.server) & set(division.clients)
        assert division.limits == ()
    assert Division((0,), (0,)).limits == (SHARED,)


def test_missing_processors_are_named() -> None:
    with pytest.raises(ConfigurationError, match="server_cpus: 4096"):
        divide(server=[4096])


def test_loopback_reports_that_it_has_no_latency(bed: contract.Testbed) -> None:
    assert any("latency" in sentence for sentence in bed.limits)
    bed.set_latency(0)
    with pytest.raises(MachineLacks, match="5000"):
        bed.set_latency(5000)


def test_best_falls_back_to_loopback_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> contract.Testbed:
        raise MachineLacks("network namespace x: operation not permitted", "run as root")

    monkeypatch.setattr(hosts, "Namespaces", refuse)
    with hosts.best(one_way_latency_us=5000) as bed:
        assert bed.network == "loopback"
        assert "operation not permitted" in bed.limits[0]


def test_addresses_differ_for_a_thousand_hosts() -> None:
    assert address(0) == "10.77.0.1"
    assert len({address(number) for number in range(1001)}) == 1001


def test_the_agent_can_be_named_and_must_exist(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(agent.VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(MachineLacks, match=agent.VARIABLE):
        agent.find()
    program = tmp_path / "agent"
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv(agent.VARIABLE, str(program))
    assert agent.find() == program
    # printf '#!/bin/sh\n' | sha256sum
    assert agent.sha256(program).startswith("a8076d3d28d21e02")


# Namespaces.


@pytest.mark.usefixtures("needs_namespaces")
def test_hosts_are_connected_and_quiet_and_removed_afterwards(records: Path) -> None:
    with hosts.namespaces() as bed:
        assert (bed.network, bed.network_report()) == ("veth", None)
        run = run_of(records, os.getpid())
        assert len(namespaces_of(run)) == 2
        counters = bed.server.run(["cat", "/proc/net/dev"], timeout_s=PATIENCE_S).stdout
        assert "net0:" in counters
        assert shortest_round_trip_s(bed) > 0
        row = next(line for line in counters.splitlines() if "net0:" in line).split()
        # No host sends frames that do not belong to an experiment.
        assert row[1:3] == ["0", "0"]
    assert not namespaces_of(run)


@pytest.mark.usefixtures("needs_namespaces", "needs_agent")
def test_a_packet_has_the_delay_in_each_direction_and_the_delay_can_change() -> None:
    with hosts.namespaces(one_way_latency_us=20_000) as bed:
        assert bed.network in ("netem", "link")
        # No packet is early: both directions together take at least 40 ms on any machine.
        assert shortest_round_trip_s(bed) >= 0.040
        bed.set_latency(40_000)
        assert shortest_round_trip_s(bed) >= 0.080


@pytest.mark.usefixtures("needs_namespaces", "needs_agent")
def test_the_link_reports_carried_and_lost_frames() -> None:
    with hosts.namespaces(loss=1.0) as bed:
        assert bed.network == "link"
        words = "import socket; socket.socket(2, 2).sendto(b'x', ('{}', 7))"
        bed.clients[0].run([PYTHON, "-c", words.format(bed.server.address)], timeout_s=PATIENCE_S)

        def has_lost_a_question() -> bool:
            """Whether the client got no answer with the server's hardware address."""
            report = bed.network_report()
            assert report is not None
            assert report["schema"] == 1
            ways = [report[name] for name in ("left_to_right", "right_to_left")]
            assert all(isinstance(way, dict) and way["packets"] == 0 for way in ways)
            lost = [way["dropped"]["loss"] for way in ways if isinstance(way, dict)]
            return bool(lost[1] >= 1)

        assert eventually(has_lost_a_question)


@pytest.mark.usefixtures("needs_namespaces", "needs_agent")
def test_several_clients_have_the_same_delay_to_one_server() -> None:
    with hosts.namespaces(clients=3, one_way_latency_us=10_000) as bed:
        assert len({host.address for host in (bed.server, *bed.clients)}) == 4
        assert all(shortest_round_trip_s(bed, client) >= 0.020 for client in range(3))


@pytest.mark.usefixtures("needs_namespaces")
def test_latency_can_be_added_to_a_testbed_later(needs_agent: None) -> None:
    with hosts.namespaces(clients=2) as bed:
        assert bed.network == "veth"
        bed.set_latency(10_000)
        assert bed.network in ("netem", "link")
        assert shortest_round_trip_s(bed, 1) >= 0.020


@pytest.mark.usefixtures("needs_namespaces", "needs_agent")
def test_clients_acknowledge_each_frame_also_after_the_network_changed() -> None:
    with hosts.namespaces(clients=2) as bed:

        def is_on() -> list[bool]:
            routes = [
                client.run(["ip", "route", "show", "dev", "net0"], timeout_s=PATIENCE_S).stdout
                for client in bed.clients
            ]
            return ["quickack 1" in text for text in routes]

        assert is_on() == [False, False]
        bed.set_quickack(True)
        assert is_on() == [True, True]
        bed.set_latency(5_000)
        assert is_on() == [True, True]
        assert shortest_round_trip_s(bed, 1) >= 0.010
        bed.set_quickack(False)
        assert is_on() == [False, False]


def test_loopback_cannot_change_acknowledgments(bed: contract.Testbed) -> None:
    bed.set_quickack(False)
    with pytest.raises(MachineLacks, match="route attribute"):
        bed.set_quickack(True)


@pytest.mark.usefixtures("needs_namespaces", "needs_agent")
def test_the_link_reports_on_a_signal_at_its_end_and_when_interrupted() -> None:
    with hosts.namespaces() as bed:
        # A path in /proc also names the namespace.
        sleepers = [host.start(["sleep", "3600"]) for host in (bed.server, bed.clients[0])]
        places = [f"/proc/{sleeper.pid}/ns/net:other0" for sleeper in sleepers]
        command = [str(agent.find()), "link", "--format", "json"]
        command += ["--left", places[0], "--right", places[1], "--left-to-right-delay", "70us"]
        here = hosts.loopback()
        with here:
            done = here.server.run([*command, "--duration", "0.1"], timeout_s=PATIENCE_S)
            assert done.returncode == 0, done.stderr
            report = json.loads(done.stdout)
            assert report["left_to_right"]["settings"]["delay_us"] == 70
            assert report["right_to_left"]["settings"]["delay_us"] == 0
            assert report["kept"] is True
            link = here.server.start(command)
            link.wait_for_line("^ready", PATIENCE_S)
            link.send_signal(signal.SIGUSR1)
            assert eventually(lambda: len(documents(link.stdout)) == 1)
            assert link.stop(PATIENCE_S) == 130
            assert len(documents(link.result().stdout)) == 2


@pytest.mark.usefixtures("needs_namespaces")
def test_sysctls_apply_only_to_the_hosts() -> None:
    file = Path("/proc/sys/net/ipv4/tcp_fin_timeout")
    before = file.read_text()
    with hosts.namespaces(sysctls={"net.ipv4.tcp_fin_timeout": "7"}) as bed:
        for host in (bed.server, *bed.clients):
            assert host.run(["cat", str(file)], timeout_s=PATIENCE_S).stdout == "7\n"
        assert file.read_text() == before


@pytest.mark.usefixtures("needs_namespaces")
def test_a_testbed_that_cannot_be_set_up_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = secrets.token_hex(4)
    monkeypatch.setattr("secrets.token_hex", lambda _: run)
    with pytest.raises(MachineLacks, match=r"net\.ipv4\.no_such"):
        hosts.namespaces(sysctls={"net.ipv4.no_such": "1"})
    assert not namespaces_of(run)


# Leftovers of a killed run.

CHILD = """
import subprocess, sys, time
from pathlib import Path
from perpacket_lab.measure import hosts as testbed
from perpacket.measure.hosts import record

record.folder_path = lambda: Path(sys.argv[1])
with testbed.{kind}({latency}) as bed:
    nap = "import time; time.sleep(3600)"
    script = (
        "import subprocess, sys; "
        "print(subprocess.Popen([sys.executable, '-c', sys.argv[1]]).pid, flush=True); "
        "import time; time.sleep(3600)"
    )
    process = bed.server.start([sys.executable, "-c", script, nap])
    grandchild = process.wait_for_line(r"^(\\d+)$", 600)[1]
    print(process.pid, grandchild, flush=True)
    time.sleep(3600)
"""


def start_child(
    records: Path, kind: str, latency: str = ""
) -> tuple[subprocess.Popen[str], list[int]]:
    script = CHILD.format(kind=kind, latency=latency)
    child = subprocess.Popen(
        [PYTHON, "-c", script, str(records)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert child.stdout is not None
    words = child.stdout.readline().split()
    assert len(words) == 2, "the child did not set up its testbed"
    return child, [int(word) for word in words]


@pytest.mark.usefixtures("needs_namespaces", "needs_agent")
def test_a_run_removes_only_the_leftovers_of_a_killed_run(records: Path) -> None:
    if shutil.which("ip") is None:
        skip("netns", "iproute2's `ip` is not installed")
    foreign = f"{record.PREFIX}{secrets.token_hex(4)}-foreign"
    subprocess.run(["ip", "netns", "add", foreign], check=True)
    try:
        child, pids = start_child(records, "namespaces", "one_way_latency_us=1000")
        run = run_of(records, child.pid)
        made = namespaces_of(run)
        child.kill()
        child.wait()
        # The kernel ends processes that the run started, but not the children of these processes.
        assert eventually(lambda: not is_running(pids[0]))
        assert is_running(pids[1])
        assert made
        assert namespaces_of(run) == made
        with hosts.namespaces():
            assert not namespaces_of(run)
            assert (NETNS / foreign).exists()
            assert eventually(lambda: not is_running(pids[1]))
    finally:
        subprocess.run(["ip", "netns", "del", foreign], check=True)


@pytest.mark.parametrize("kind", ["loopback", "namespaces"])
def test_ctrl_c_removes_everything(
    kind: str, records: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "namespaces":
        request.getfixturevalue("needs_namespaces")
    child, pids = start_child(records, kind)
    run = run_of(records, child.pid)
    child.send_signal(signal.SIGINT)
    child.wait(PATIENCE_S)
    assert not namespaces_of(run)
    assert eventually(lambda: not any(map(is_running, pids)))


def test_a_run_removes_nothing_of_an_active_run(records: Path) -> None:
    child, pids = start_child(records, "loopback")
    try:
        with hosts.loopback():
            assert all(map(is_running, pids))
    finally:
        child.send_signal(signal.SIGINT)
        child.wait(PATIENCE_S)


def test_a_record_whose_process_id_was_reused_belongs_to_a_dead_run(
    records: Path,
) -> None:
    run = "feedf00d"
    owner = {"pid": os.getpid(), "start_ticks": (record.start_ticks(os.getpid()) or 0) - 1}
    content = {"schema": 1, "owner": owner, "run": run, "namespaces": ["foreign"]}
    file = records / f"{run}.json"
    file.write_text(json.dumps(content))
    assert run in record.remove_leftovers()
    assert not file.exists()


def test_files_that_are_not_records_stay(records: Path) -> None:
    file = records / "notes.json"
    file.write_text("{}")
    record.remove_leftovers()
    assert file.exists()


# Machines: an ssh server in one namespace, the testbed's run in another.

REMOTE = """
import os, sys
from pathlib import Path
from perpacket_lab.measure import hosts as testbed
from perpacket.errors import MachineLacks
from perpacket.measure import agent

machines = sys.modules["perpacket.measure.hosts.machines"]
machines.CONNECT_S = machines.COMMAND_S = 600
target, work = sys.argv[1:]
with testbed.machines(target, [target]) as bed:
    server = bed.server
    done = server.run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=600)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\\n", "err\\n"), done
    Path(work, "local").write_text("hello")
    server.put(Path(work, "local"), f"{work}/there/a file")
    assert Path(work, "there/a file").read_text() == "hello"
    place = server.agent()
    assert place.startswith(f"{work}/home/")
    assert agent.sha256(Path(place)) == agent.sha256(agent.find())
    Path(place).write_bytes(b"damaged")
    assert bed.clients[0].agent() == place
    assert agent.sha256(Path(place)) == agent.sha256(agent.find()), "a damaged copy is replaced"
    script = "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    process = server.start(["sh", "-c", script])
    process.wait_for_line("^ready$", 600)
    assert os.readlink(f"/proc/{process.pid}/ns/net") != os.readlink("/proc/self/ns/net")
    assert process.stop(600) == 7 and "interrupted" in process.result().stdout
    try:
        server.start(["no-such-program"])
    except MachineLacks as error:
        assert "no-such-program" in str(error)
    # A process that it starts ends with it.
    left = server.start(["sh", "-c", "sleep 3600 & echo $!; wait"])
    print(left.wait_for_line(r"^(\\d+)$", 600)[1], flush=True)
    if not sys.stdin.isatty():
        os.kill(os.getpid(), 9)
"""


def test_machines_over_ssh_run_the_same_and_nothing_remains_of_a_killed_run(tmp_path: Path) -> None:
    with far_machine(tmp_path) as far:
        done = far.python(REMOTE, far.target, str(tmp_path))
        assert done.returncode == -signal.SIGKILL, done.stderr
        left = int(done.stdout)
        assert eventually(lambda: not is_running(left)), "the guard ends what nobody holds"


def test_an_invalid_machine_is_named() -> None:
    with pytest.raises(ConfigurationError, match="-oProxyCommand"):
        hosts.machines("-oProxyCommand=x", ["a"])


@pytest.mark.parametrize("refused", ["prepare", "join_by_veth"])
@pytest.mark.usefixtures("needs_namespaces")
def test_a_partly_forbidden_network_falls_back_to_loopback_and_leaves_nothing(
    refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose /proc/sys is read-only, or whose kernel has no veth."""
    from pyroute2.netlink.exceptions import NetlinkError

    open_files = len(os.listdir("/proc/self/fd"))
    made: list[str] = []
    name_of = record.Record.name

    def name(self: record.Record, host: str) -> str:
        made.append(name_of(self, host))
        return made[-1]

    def prepare(cpus: tuple[int, ...]) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def join_by_veth(*_: object) -> None:
        with network.allowed("a pair of virtual Ethernet devices"):
            raise NetlinkError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(record.Record, "name", name)
    monkeypatch.setattr(network, refused, {"prepare": prepare}.get(refused, join_by_veth))
    with hosts.best() as bed:
        assert bed.network == "loopback"
        assert any("There are no network namespaces here" in limit for limit in bed.limits)
    assert made
    assert not any((NETNS / one).exists() for one in made)
    assert len(os.listdir("/proc/self/fd")) == open_files


@pytest.mark.usefixtures("needs_namespaces")
def test_errors_of_netlink_are_errors_of_the_machine() -> None:
    with hosts.namespaces() as bed:
        assert isinstance(bed, Namespaces)
        (server, _) = bed._hosts
        network.make_bridge(server)
        with pytest.raises(MachineLacks, match="a bridge"):
            network.make_bridge(server)
