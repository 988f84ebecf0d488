"""The statistics of simulated trials, and live trials over veth and loopback."""

from __future__ import annotations

import json
import math
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from a_namespace import DEVICE, Network, network
from perpacket.advise import added, servers, slope, trial, twin, windows
from perpacket.advise.effect import ALL, PATH, CostVerdict, Window, effects
from perpacket.advise.network_scope import NetworkScope
from perpacket.advise.servers import NGINX, Directive, Server
from perpacket.advise.trial import Plan, Trial, targets
from perpacket.advise.windows import order
from perpacket.cli.trial_verb import UNDO_LEFT, with_plain_undo
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket.measure import agent
from perpacket.show import trial_tables as shown

TRIALS = 100
BLOCKS = 10
SHORT = ("--window", "0.3s", "--settle", "0.05s")


def simulated(seed: int, difference: float, drift: float = 0.0, alike: float = 0.0) -> list[Window]:
    """A trial whose windows are noisy, drift, and are correlated with their neighbours."""
    chance = random.Random(seed)
    state = chance.gauss(0, 1)
    found: list[Window] = []
    for block in range(BLOCKS):
        for side in order(2, block, seed):
            state = alike * state + math.sqrt(1 - alike**2) * chance.gauss(0, 1)
            heavy = 0.03 * state * (5 if chance.random() < 0.05 else 1)
            cost = 20e-6 * math.exp(heavy + drift * len(found) / (4 * BLOCKS))
            cost *= 1 + difference * side
            window = Window(block, side, 1.0, cost * 1e4, {"tcp": cost * 5e3}, 3e4, 1e8, 1e4)
            found.append(window)
    return found


def of_an_option(difference: float, null: float) -> list[Window]:
    """A trial of an option, in which the server itself differs from a second server."""
    chance = random.Random(3)
    factors = (1.0, 1 + difference, 1 + null)
    return [
        Window(block, side, 1.0, cost * 1e4, {"tcp": cost * 5e3}, 3e4, 1e8, 1e4)
        for block in range(BLOCKS)
        for side in order(3, block, 1)
        for cost in [20e-6 * factors[side] * math.exp(chance.gauss(0, 0.002))]
    ]


def test_a_processor_that_lost_samples_counts_its_run_time() -> None:
    """Samples that fall short of the run time must not make a side of a trial look cheaper."""

    def processor(cpu: int, run_s: float, sampled_s: float) -> dict[str, object]:
        layers = {"tcp": 0.75, "other": 0.25} if sampled_s else {}
        return {"cpu": cpu, "run_s": run_s, "sampled_s": sampled_s, "layers": layers}

    slice_: dict[str, object] = {
        "window_s": 0.1,
        # The second processor lost half of its samples. The third ran too short a time to know.
        "processors": [processor(0, 0.1, 0.1), processor(1, 0.06, 0.03), processor(2, 0.01, 0.004)],
        "total": {"cpu_s": 0.134},
        "layers": {"tcp": {"cpu_s": 0.1005}, "other": {"cpu_s": 0.0335}},
        "closure": {"profile_cpu_s": 0.134},
    }
    window = windows.measured(0, 0, [slice_] * 10, None)
    assert window.cpu_s == pytest.approx(1.64)
    assert window.layers == pytest.approx({"tcp": 1.23, "other": 0.41})
    # Passes of other events took half of each slice.
    halved = slice_ | {"total": {"cpu_s": 0.268}}
    assert windows.measured(0, 0, [halved] * 10, None).cpu_s == pytest.approx(3.28)
    # The kernel's accounts have no samples of a processor.
    accounts = slice_ | {"processors": [processor(0, 0.1, 0.0)]}
    assert windows.measured(0, 0, [accounts] * 10, None).cpu_s == pytest.approx(1.34)


def test_an_option_is_judged_by_how_far_servers_without_a_change_differ() -> None:
    """The interval of 3 % excludes zero, but two servers with the same options differ by 5 %."""
    small = effects(of_an_option(0.03, 0.05))
    assert small.cost.ratio is not None
    assert small.cost.ratio.low > 1.02
    assert small.null is not None
    assert small.null.contains(1.05)
    assert small.verdict is CostVerdict.NOT_DISTINGUISHABLE
    assert effects(of_an_option(0.2, 0.05)).verdict is CostVerdict.DEARER
    assert effects(of_an_option(0.03, 0.0)).verdict is CostVerdict.DEARER
    line = shown.headline(Trial("multi-accept=on", small, (), (), is_decided=True))
    assert "without a change, the server itself costs +5.0 % [" in line


def claims(difference: float, drift: float, alike: float) -> int:
    """The number of trials, of a hundred, that claim a change."""
    verdicts = [
        effects(simulated(seed, difference, drift, alike)).verdict for seed in range(TRIALS)
    ]
    return sum(verdict is not CostVerdict.NOT_DISTINGUISHABLE for verdict in verdicts)


@pytest.mark.parametrize(("drift", "alike"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.6), (0.3, 0.6)])
def test_a_change_without_effect_is_claimed_in_at_most_five_of_a_hundred_trials(
    drift: float, alike: float
) -> None:
    assert claims(0.0, drift, alike) <= 5


@pytest.mark.parametrize(("drift", "alike"), [(0.0, 0.0), (0.3, 0.6)])
def test_a_change_of_a_tenth_is_found_with_its_size_inside_the_interval(
    drift: float, alike: float
) -> None:
    assert claims(0.10, drift, alike) >= 90
    inside = [effects(simulated(seed, 0.10, drift, alike)).cost.ratio for seed in range(TRIALS)]
    assert sum(ratio is not None and ratio.contains(1.10) for ratio in inside) >= 88


def test_each_side_is_twice_in_a_block_and_the_second_half_reverses_the_first() -> None:
    for sides in (2, 4):
        for block in range(20):
            found = order(sides, block, seed=7)
            assert sorted(found) == sorted([*range(sides), *range(sides)])
            assert found == found[::-1]
    assert {tuple(order(2, block, 7)) for block in range(20)} == {(0, 1, 1, 0), (1, 0, 0, 1)}


def test_the_verdict_is_on_the_work_and_not_on_packets_that_shrank() -> None:
    """Without TSO, a packet costs less. A request costs more, because it has more packets."""
    found = [
        replace(
            window,
            layers={"tcp": window.layers["tcp"] * (1.4 if window.side else 1)},
            packets=3e4 + 7e4 * window.side,
        )
        for window in simulated(1, 0.0)
    ]
    result = effects(found)
    by_key = {one.quantity.key: one for one in result.others}
    assert result.verdict is CostVerdict.DEARER
    assert by_key["cpu_ns_per_packet"].verdict is CostVerdict.CHEAPER


def beside_another_program() -> list[Window]:
    """Windows with a change of a tenth, of which some have as much time of another program."""
    chance = random.Random(5)
    found = []
    for window in simulated(1, 0.10):
        other_s = chance.choice((0.0, window.cpu_s))
        layers = {**window.layers, "other": other_s}
        found.append(replace(window, cpu_s=window.cpu_s + other_s, layers=layers))
    return found


def test_the_time_of_another_program_does_not_hide_a_change() -> None:
    found = beside_another_program()
    assert effects(found).counted == PATH
    assert effects(found).verdict is CostVerdict.DEARER
    assert effects(found, counted=ALL).verdict is CostVerdict.NOT_DISTINGUISHABLE


def test_without_layers_and_with_a_command_the_time_of_all_programs_counts() -> None:
    found = [replace(window, layers={}) for window in simulated(1, 0.0)]
    assert effects(found).counted == ALL
    assert Plan(do="start", undo="stop").counted == ALL
    assert Plan(changes=("gro=on",)).counted == PATH


# The slope.


def slowed(
    worth_per_ns: float, amounts: tuple[int, ...], ns_of_amount: float, noise_ns: float = 0.0
) -> list[Window]:
    """Windows in which each nanosecond a packet in `ip` costs a share of the throughput."""
    chance = random.Random(3)
    found: list[Window] = []
    for block in range(6):
        for side in order(len(amounts), block, 1):
            added_ns = amounts[side] * ns_of_amount
            rate = 1e4 * math.exp(-worth_per_ns * added_ns + chance.gauss(0, 0.002))
            ip_ns = 200 + added_ns + chance.gauss(0, noise_ns)
            layers = {"ip": ip_ns * 1e-9 * 3 * rate, "tcp": 0.1}
            found.append(Window(block, side, 1.0, 1.0, layers, 3 * rate, 1e8, rate))
    return found


def test_the_slope_is_found_and_the_removal_of_the_layer_is_extrapolated() -> None:
    amounts = (0, 100, 200)
    fitted = slope.fit("ip", "rules", slowed(2e-4, amounts, 1.5), amounts, 0.95)
    assert fitted.ns_of_amount.value == pytest.approx(1.5)
    assert fitted.layer_ns == pytest.approx(200)
    assert fitted.rate_change_per_ns.contains(-2e-4)
    assert fitted.removal.contains(0.04)
    assert "Extrapolated, not measured" in "".join(shown.slope_lines(fitted))


def test_a_cost_that_the_profile_does_not_show_has_no_slope() -> None:
    with pytest.raises(RunFailed, match="so there is no slope"):
        slope.fit("ip", "rules", slowed(2e-4, (0, 100), 0.0, noise_ns=5.0), (0, 100), 0.95)


def test_a_layer_that_cannot_be_slowed_is_refused_with_those_that_can() -> None:
    with pytest.raises(ConfigurationError) as caught:
        added.cost_at("tcp", NetworkScope(), "")
    assert all(layer in caught.value.hint for layer in ("ip", "ethernet", "user"))
    with pytest.raises(ConfigurationError, match="work"):
        list(added.cost_at("user", NetworkScope(), "http://127.0.0.1/index.html").commands())


@pytest.mark.parametrize(
    ("ignored", "name"),
    [
        ({"changes": ("tso=off",)}, "CHANGE"),
        ({"factorial": True}, "--factorial"),
        ({"do": "a"}, "--do"),
    ],
)
def test_a_slope_refuses_options_that_it_would_ignore(
    ignored: dict[str, object], name: str
) -> None:
    plan = Plan(slope="ip", **ignored)  # type: ignore[arg-type]
    for use in (lambda: list(trial.commands(plan)), lambda: trial.run(plan)):
        with pytest.raises(ConfigurationError, match=name):
            use()


DATAGRAMS = 10


def spend_on_loopback() -> dict[str, int]:
    """The cost of 2 us a packet while datagrams are sent, in the network of the calling thread."""
    command = [str(agent.find()), "add-cost", "--interface", "lo"]
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("2000\n")
        process.stdin.flush()
        process.stdout.readline()
        for _ in range(DATAGRAMS):
            sender.sendto(b"x", ("127.0.0.1", 9))
        process.stdin.write("0\n")
        process.stdin.close()
        spent: dict[str, int] = json.loads(process.stdout.readline())
    return spent


@pytest.mark.live
def test_traffic_control_spends_the_time_on_every_packet() -> None:
    with network() as net:
        done = net.scope("lo").inside(spend_on_loopback)
    assert done["packets"] >= 2 * DATAGRAMS, "each datagram is sent and received"
    assert done["spent_ns"] >= done["packets"] * 2000


def test_without_requests_a_unit_of_work_is_a_kib() -> None:
    found = [replace(window, requests=None) for window in simulated(1, 0.0)]
    assert effects(found).unit == "KiB"
    assert effects(found).cost.quantity.title == "processor time a KiB"


def test_windows_of_an_interrupted_trial_that_lack_a_block_change_nothing_of_the_others() -> None:
    found = simulated(3, 0.1)
    assert effects(found[:-2]).blocks == BLOCKS or effects(found[:-2]).blocks == BLOCKS - 1


def test_a_plain_undo_is_an_option_of_its_own() -> None:
    assert with_plain_undo(["trial", "--undo"]) == ["trial", UNDO_LEFT]
    pair = ["trial", "--do", "a", "--undo", "b"]
    assert with_plain_undo(pair) == pair
    assert with_plain_undo(["top", "--undo"]) == ["top", "--undo"]


def test_the_twin_of_an_nginx_differs_in_the_directives_and_its_address() -> None:
    inner = (
        Directive("sendfile", ("on",)),
        Directive("log_format", ("main", '$remote_addr "$request"')),
        Directive(
            "server",
            (),
            (
                Directive("listen", ("80", "default_server")),
                Directive("listen", ("[::]:80",)),
                Directive("location", ("/",), (Directive("sendfile", ("on",)),)),
            ),
        ),
    )
    configuration = (Directive("pid", ("/run/nginx.pid",)), Directive("http", (), inner))
    server = Server(NGINX, 1, ("nginx",), configuration=configuration)
    options = ["sendfile off;", "multi_accept on;"]
    found = twin.twin_directives(server, options, "127.0.0.1:81", Path("/tmp/x"))
    text = "".join(one.text for one in found)
    assert text.count("multi_accept on;") == 0  # there is no block `events`
    assert text.count("sendfile") == 1
    assert "sendfile off;" in text
    assert text.count("listen") == 1
    assert "listen 127.0.0.1:81;" in text
    assert text.count("pid ") == 1
    assert '"$remote_addr \\"$request\\""' in text


@contextmanager
def served(tmp_path: Path, prefix: Sequence[str] = ()) -> Iterator[tuple[int, str]]:
    """`serve web` on loopback: its process and the URL of a file. `prefix` runs its command."""
    (tmp_path / "file").write_bytes(os.urandom(10_240))
    tmp_path.chmod(0o755)
    command = [*prefix, str(agent.find()), "serve", "web", "--root", str(tmp_path)]
    command += ["--listen", "127.0.0.1:0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        assert server.stderr is not None
        line = next(line for line in server.stderr if "listening on" in line)
        url = line.split("listening on ")[1].split()[0].rstrip("/")
        yield server.pid, f"{url}/file"
    finally:
        server.terminate()
        server.wait()
        if server.stderr is not None:
            server.stderr.close()


def perpacket(
    *words: str, timeout_s: float = 120, prefix: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the command line. `prefix` runs its command."""
    return subprocess.run(
        [*prefix, sys.executable, "-m", "perpacket.cli", *words],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def inside(net: Network) -> list[str]:
    """The prefix of a command that runs in a namespace, where no other program has traffic."""
    return ["ip", "netns", "exec", net.name]


@pytest.mark.live
def test_an_option_of_a_server_is_tried_on_a_twin_that_ends_with_the_trial(tmp_path: Path) -> None:
    with network() as net, served(tmp_path, inside(net)) as (pid, url):
        before = Path(f"/proc/{pid}/cmdline").read_bytes()
        done = perpacket(
            *("trial", "sendfile=off", "--pid", str(pid), "--url", url, "--connections", "8"),
            *("--blocks", "3", *SHORT, "--format", "json", "--quiet"),
            prefix=inside(net),
        )
        assert done.returncode == 0, done.stderr
        (found,) = json.loads(done.stdout)["trials"]
        assert found["change"] == "sendfile=off"
        assert found["unit"] == "request"
        assert len(found["windows"]) == 18
        assert 0 < found["null"]["low"] < found["null"]["high"]
        assert found["quantities"]["cpu_us_per_unit"]["before"] > 0
        assert found["layers"] or any("no layers" in note for note in found["notes"])
        if found["layers"]:
            for side in (0, 1, 2):
                windows = [own for own in found["windows"] if own["side"] == side]
                assert sum(own["layers"].get("user", 0) for own in windows) > 0, side
        assert Path(f"/proc/{pid}/cmdline").read_bytes() == before
    assert "--sendfile-above 1024GiB" not in processes()


@pytest.mark.live
def test_other_clients_of_a_server_end_a_trial_on_its_twin(tmp_path: Path) -> None:
    words = ("--connections", "4", "--blocks", "3", *SHORT, "--quiet")
    with network() as net, served(tmp_path, inside(net)) as (pid, url), ExitStack() as stack:
        load = [str(agent.find()), "load", "http", url, "--connections", "8", "--duration", "60s"]
        other = subprocess.Popen([*inside(net), *load], stdout=subprocess.DEVNULL)
        stack.callback(other.wait)
        stack.callback(other.terminate)
        options = ("--pid", str(pid), "--url", url, *words)
        refused = perpacket("trial", "sendfile=off", *options, prefix=inside(net))
        assert refused.returncode == 4, refused.stderr
        assert "packets/s without the trial's load" in refused.stderr.replace("\n  ", " ")
        assert "stop the other load" in refused.stderr.replace("\n  ", " ")
        reported = perpacket("trial", "nothing", *options, "--format", "json", prefix=inside(net))
        assert reported.returncode == 0, reported.stderr
        (found,) = json.loads(reported.stdout)["trials"]
        assert any("includes the work for other clients" in note for note in found["notes"])
    assert "--sendfile-above 1024GiB" not in processes()


@pytest.mark.live
def test_a_load_that_does_not_reach_the_server_is_refused_before_it_starts(tmp_path: Path) -> None:
    with network() as net, served(tmp_path) as (pid, url):
        windows.HttpLoad(url, 8).check(pid)
        with pytest.raises(RunFailed, match=f"does not lead to process {net.holder.pid}"):
            windows.HttpLoad(url, 8).check(net.holder.pid)
        with pytest.raises(RunFailed, match="1 unexpected_status"):
            windows.HttpLoad(f"{url}x", 8).check(pid)


@pytest.mark.live
def test_a_change_that_is_there_already_is_refused() -> None:
    with network() as net:
        scope = net.scope()
        with pytest.raises(ConfigurationError, match="the setting has this value already"):
            targets(Plan(("tso=on",), interface=DEVICE), scope)


@pytest.mark.live
def test_a_twin_listens_in_the_network_namespace_of_its_server(tmp_path: Path) -> None:
    with network() as net, served(tmp_path, inside(net)) as (pid, url):
        scope = NetworkScope.of(pid, "")
        os.sched_setaffinity(pid, {0})
        with twin.running(servers.find(pid), ["--coalesce 100us"], url, scope) as second:
            assert urlsplit(second.url).port != urlsplit(url).port
            answered = net.run(str(agent.find()), "load", "http", second.url, "--requests", "1")
            assert "200" in answered
            threads = [int(task.name) for task in Path(f"/proc/{second.pid}/task").iterdir()]
            assert all(os.sched_getaffinity(thread) == {0} for thread in threads)
            assert os.getsid(second.pid) == second.pid
            groups = (Path(f"/proc/{one}/cgroup").read_text() for one in (pid, second.pid))
            assert len(set(groups)) == 1


@pytest.mark.live
def test_a_trial_of_an_option_names_a_loopback_device_that_is_down(tmp_path: Path) -> None:
    with network() as net, served(tmp_path, inside(net)) as (pid, url):
        net.run("ip", "link", "set", "lo", "down")
        scope = NetworkScope.of(pid)
        command = f"nsenter --net=/proc/{pid}/ns/net ip link set lo up"
        second = twin.running(servers.find(pid), ["--coalesce 100us"], url, scope)
        with pytest.raises(MachineLacks, match="`lo` is down") as lacks, second:
            pass
        assert f"`{command}`" in lacks.value.hint
        subprocess.run(command.split(), check=True)
        with twin.running(servers.find(pid), ["--coalesce 100us"], url, scope):
            pass


def test_a_server_in_the_scheduling_group_of_the_load_is_named(tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    for pid, group in (
        (1, "autogroup-7 nice 0"),
        (2, "autogroup-7 nice 0"),
        (3, "autogroup-8 nice 0"),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "autogroup").write_text(f"/{group}\n")
        (tmp_path / str(pid) / "cgroup").write_text("0::/a/b\n")
    assert list(twin.cpu_groups(1, tmp_path)) == [(Path("/sys/fs/cgroup"), "/a/b")]
    if twin.AUTOGROUP.exists() and twin.AUTOGROUP.read_text().strip() == "1":
        assert "one scheduling group (autogroup-7)" in twin.group_note(1, 2, tmp_path)
    assert twin.group_note(1, 3, tmp_path) == ""
    assert twin.group_note(1, 4, tmp_path) == ""


@pytest.mark.live
def test_options_of_a_server_are_combined_on_a_twin_each(tmp_path: Path) -> None:
    with network() as net, served(tmp_path, inside(net)) as (pid, url):
        done = perpacket(
            *("trial", "sendfile=off", "batch=100us", "--factorial", "--pid", str(pid)),
            *("--url", url, "--connections", "8", "--blocks", "3", *SHORT),
            *("--format", "json", "--quiet"),
            prefix=inside(net),
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)["factorial"]
        both = ["sendfile=off", "batch=100us"]
        assert [row["changes"] for row in found["effects"]] == [both[:1], both[1:], both]
        assert all(row["ratio"]["low"] < row["ratio"]["high"] for row in found["effects"])
    assert "--sendfile-above 1024GiB" not in processes()


@pytest.mark.live
def test_a_trial_of_nothing_prints_its_floor(tmp_path: Path) -> None:
    with served(tmp_path) as (_, url):
        done = perpacket(
            *("trial", "nothing", "--url", url, "--connections", "8"),
            *("--blocks", "3", *SHORT, "--quiet"),
        )
    assert done.returncode == 0, done.stderr
    assert "windows without a change differ by" in done.stdout.replace("\n  ", " ")


@pytest.mark.live
def test_commands_of_the_user_are_run_and_undone(tmp_path: Path) -> None:
    mark, log, site = tmp_path / "mark", tmp_path / "log", tmp_path / "site"
    site.mkdir()
    with served(site) as (_, url):
        done = perpacket(
            *("trial", "--do", f"touch {mark}; echo do >> {log}", "--undo", f"rm -f {mark}"),
            *("--url", url, "--connections", "8", "--blocks", "3", *SHORT, "--quiet"),
        )
    assert done.returncode == 0, done.stderr
    assert log.read_text().count("do") >= 3
    assert not mark.exists()


@pytest.mark.live
def test_ctrl_c_prints_what_was_measured_and_restores(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    site = tmp_path / "site"
    site.mkdir()
    with served(site) as (_, url):
        command = [sys.executable, "-m", "perpacket.cli"]
        process = subprocess.Popen(
            [
                *(*command, "trial", "--do", f"touch {mark}", "--undo", f"rm -f {mark}"),
                *("--url", url, "--connections", "8", *SHORT, "--format", "json"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 60
        while not mark.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert mark.exists()
        time.sleep(3)
        process.send_signal(2)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads(out)["interrupted"] is True
    assert not mark.exists()


@pytest.mark.full
@pytest.mark.live
def test_twenty_live_trials_of_nothing_claim_a_change_at_most_once(tmp_path: Path) -> None:
    claimed = 0
    with served(tmp_path) as (_, url):
        for seed in range(20):
            done = perpacket(
                *("trial", "nothing", "--url", url, "--connections", "16", "--seed", str(seed)),
                *("--blocks", "5", "--window", "0.3s", "--settle", "0.1s", "--format", "json"),
            )
            assert done.returncode == 0, done.stderr
            (found,) = json.loads(done.stdout)["trials"]
            claimed += found["verdict"] != "not distinguishable"
    assert claimed <= 1


def test_without_traffic_a_trial_fails_with_the_next_step() -> None:
    done = perpacket("trial", "gor=on")
    assert done.returncode == 2
    assert "there is no change gor" in done.stderr
    done = perpacket("trial", "netfilter=off")
    assert done.returncode == 2
    assert "never applies" in done.stderr
    assert "perpacket trial nft-rules=RULES --interface INTERFACE" in done.stderr
    done = perpacket("trial", "sendfile=off")
    assert done.returncode == 2
    assert "--pid and --url" in done.stderr.replace("\n", " ")


@pytest.mark.live
def test_what_the_machine_lacks_ends_a_trial_with_its_own_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The profiler runs at that time, and its own lack of rights is another error."""
    monkeypatch.setenv("PERPACKET_JOURNAL", str(tmp_path))
    done = perpacket("trial", "governor=none-such", "--quiet")
    assert done.returncode in (2, 3), done.stderr
    assert "perpacket failed" not in done.stderr


@pytest.mark.live
def test_the_way_to_keep_a_change_names_the_namespace_of_the_server() -> None:
    with network() as net:
        pid = net.holder.pid
        plan = Plan(changes=("tso=off",), pid=pid, interface=DEVICE, keep_if="cheaper")
        (target,) = targets(plan, net.scope())
    assert f"/proc/{pid}/ns/net" in target.permanent


def test_the_headline_of_an_undecided_trial_reports_the_floor() -> None:
    found = effects(simulated(1, 0.0))
    line = shown.headline(Trial("gro=on", found, (), (), is_decided=True))
    assert line.startswith("gro=on: not distinguishable")
    assert "windows without a change differ by" in line


def processes() -> str:
    """The command lines of all processes."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(lines)
