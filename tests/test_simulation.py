"""The compiled core has the documented behaviour of the library."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perpacket import simulate
from perpacket.errors import ConfigurationError, Interrupted, TraceError
from perpacket_lab import traces
from perpacket_lab.run import start
from perpacket_lab.run.observation_file import RunObservation, to_row
from perpacket_lab.run.simulation_runner import SimulationRunner
from perpacket_lab.run.threads import ThreadExecutor
from perpacket_lab.simulation import Simulation
from perpacket_lab.study import library
from perpacket_lab.study.quantities import QUANTITIES, number
from perpacket_lab.study.study import Study

SHORT = (("run.warmup_packets", "2000"), ("run.packets", "5000"))
"""The lengths of a run that is long enough for every number to have a value."""

KEYS = [
    *("schema", "configuration", "seed", "simulated_s", "wall_s", "packets_per_wall_s"),
    *("requests_per_s", "content_mbps", "packets_per_s", "nic_packet_share"),
    *(
        "connections_per_s",
        "handed_off_share",
        "host_idle",
        "nic_idle",
        "host_cycles",
        "stack_share",
    ),
    *("layers", "host_packet_delay_us", "response_ms", "drops", "retransmissions", "timeouts"),
    *("connections_on_nic", "conserved"),
]
"""The keys every result has; there may be more."""


def test_a_result_has_the_promised_keys_and_conserves_its_packets() -> None:
    result = simulate("W-1024-P-N-FCFS-400", seed=1, overrides=SHORT)
    assert set(KEYS) <= set(result)
    assert result["conserved"] is True
    assert (result["configuration"], result["seed"]) == ("W-1024-P-N-FCFS-400", 1)


@pytest.mark.parametrize("configuration", ["W-4096-P-L-FCFS-400", "bulk"])
def test_the_same_seed_has_the_same_result_and_another_seed_another(configuration: str) -> None:
    def without_timing(seed: int) -> str:
        result = simulate(configuration, seed=seed, overrides=SHORT)
        stored = {key: value for key, value in result.items() if "wall" not in key}
        return json.dumps(stored)

    assert without_timing(1) == without_timing(1)
    if configuration != "bulk":  # a bulk sender has no random values
        assert without_timing(1) != without_timing(2)


def test_one_worker_and_two_produce_the_same_observations(tmp_path: Path) -> None:
    whole = library.find("osdi06")
    study = Study(
        name=whole.name,
        title=whole.title,
        question=whole.question,
        points=(whole.point("W-0-N-N-FCFS-400"), whole.point("W-4096-P-L-FCFS-400")),
        seeds=(1, 2),
        runner=SimulationRunner(),
    )

    def results(workers: int) -> list[tuple[str, int, str]]:
        path = tmp_path / str(workers)
        made = start.run(study, path, overrides=SHORT, executor=ThreadExecutor(workers))
        return [(o.point, o.seed, json.dumps(o.result)) for o in made.read_observations()]

    assert results(1) == results(2)


@pytest.mark.parametrize(
    "name", [name for name in library.names() if not library.find(name).is_measured]
)
def test_every_point_of_a_study_has_every_compared_number(name: str) -> None:
    study = library.find(name)
    quantities = {row.quantity for row in study.published}
    for point in study.points:
        run = SimulationRunner().prepare(
            type(point)(point.name, point.configuration, point.factors, point.overrides + SHORT),
            seed=1,
            timeline=False,
        )
        outcome = run.run()
        row = to_row(point, RunObservation(point.name, 1, outcome.result, outcome.timing))
        for quantity in sorted(quantities):
            value = QUANTITIES[quantity].value(row)
            assert value is None or value >= 0, (point.name, quantity)
        assert number(row, "packets_per_s")


@pytest.mark.parametrize(
    ("configuration", "overrides", "parameter", "value"),
    [
        ("W-1024", (), "configuration", "W-1024"),
        ("X-1024-P-N-FCFS-400", (), "", "X"),
        ("W-1024-P-N-FCFS-0", (), "nic.mips", "0"),
        ("W-1024-P-N-FCFS-400", (("nic.mips", "0"),), "nic.mips", "0"),
        ("W-1024-P-N-FCFS-400", (("nic.speed", "9"),), "nic.speed", ""),
        ("W-4096-P-L-FCFS-400", (("nic.lowat", "2000"),), "nic.lowat", "2000"),
        ("W-1024-P-N-FCFS-400", (("run.packets", "many"),), "run.packets", "many"),
    ],
)
def test_an_invalid_value_is_named_with_the_accepted_values(
    configuration: str, overrides: tuple[tuple[str, str], ...], parameter: str, value: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Simulation(configuration, overrides=overrides)
    assert parameter in caught.value.parameter
    assert value in caught.value.value
    assert caught.value.allowed


@pytest.mark.parametrize("seed", [-1, 2**64, "a", 1.5])
def test_an_invalid_seed_is_named_with_its_range(seed: int, tmp_path: Path) -> None:
    for use in (
        lambda: Simulation("bulk", seed=seed),
        lambda: traces.synthesize(tmp_path / "w.log", seed=seed),
    ):
        with pytest.raises(ConfigurationError, match=f"seed = {seed} cannot be used") as caught:
            use()
        assert (caught.value.parameter, caught.value.value) == ("seed", str(seed))
        assert str(2**64 - 1) in caught.value.allowed


def test_overrides_are_pairs_and_their_values_may_be_numbers() -> None:
    as_number = Simulation("W-1024-P-N-FCFS-400", overrides=[("nic.lowat", 128)])
    as_text = Simulation("W-1024-P-N-FCFS-400", overrides=[("nic.lowat", "128")])
    assert as_number.parameters() == as_text.parameters()
    with pytest.raises(ConfigurationError, match="overrides = ") as caught:
        Simulation("bulk", overrides=["nic.lowat"])  # type: ignore[list-item]
    assert caught.value.parameter == "overrides"


def test_a_trace_without_requests_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_bytes(b"")
    with pytest.raises(TraceError, match=r"empty\.log"):
        Simulation("W-1024-P-N-FCFS-400", trace=tmp_path / "empty.log")
    with pytest.raises(OSError, match="absent"):
        Simulation("W-1024-P-N-FCFS-400", trace=tmp_path / "absent.log")


REPLAY = """
import resource, sys
from perpacket_lab import _core

megabytes, connections, trace = int(sys.argv[1]), sys.argv[2], sys.argv[3]
with open("/proc/self/statm") as statm:
    pages = int(statm.read().split()[0])
most = pages * resource.getpagesize() + megabytes * 1_000_000
resource.setrlimit(resource.RLIMIT_AS, (most, most))
overrides = [
    ("workload.connections", connections), ("run.packets", "4000"), ("run.warmup_packets", "4000")
]
try:
    _core.Simulation("W-64-P-N-FCFS-400", overrides, 1, trace=trace).run()
except _core.TraceError as error:
    print(error)
"""
"""Replays a trace with this much memory more than an idle interpreter."""


def replay_in(megabytes: int, connections: int, trace: Path) -> str:
    """What a replay with so little memory prints; a process that was aborted is an error."""
    command = [sys.executable, "-c", REPLAY, str(megabytes), str(connections), str(trace)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def log_of_a_proxy(folder: Path, requests: int) -> Path:
    """A log whose requests have one client: they are one session."""
    line = 'proxy - - [01/Jul/1995:00:00:00 -0400] "GET /f{} HTTP/1.0" 200 {}\n'
    log = folder / "proxy.log"
    log.write_text("".join(line.format(i % 997, i % 30_000) for i in range(requests)))
    return log


def test_clients_that_replay_one_session_share_its_memory(tmp_path: Path) -> None:
    """A copy of the session for each connection has 240 MB here, the trace 2 MB."""
    assert replay_in(60, 400, log_of_a_proxy(tmp_path, 50_000)) == ""


@pytest.mark.parametrize("megabytes", [2, 6, 10])
def test_a_trace_that_does_not_fit_in_memory_is_an_error(tmp_path: Path, megabytes: int) -> None:
    assert "not enough memory" in replay_in(megabytes, 4, log_of_a_proxy(tmp_path, 300_000))


def test_every_parameter_has_a_unit_and_a_source_and_shows_its_override() -> None:
    parameters = Simulation("W-1024-P-N-FCFS-400", overrides=(("nic.lowat", "128"),)).parameters()
    assert {item.name: str(item.value) for item in parameters}["nic.lowat"] == "128"
    assert len(parameters) > 20
    assert [item.name for item in parameters if not item.source] == []


def test_cancelling_ends_a_long_run() -> None:
    simulation = Simulation("W-1024-P-N-FCFS-400", overrides=(("run.packets", "1000000000"),))
    timer = threading.Timer(0.3, simulation.cancel)
    timer.start()
    with pytest.raises(Interrupted):
        simulation.run()
    done, total = simulation.progress()
    assert 0 < done < total


def test_a_timeline_has_equal_columns_in_order_of_time() -> None:
    simulation = Simulation("W-4096-P-L-FCFS-400", overrides=SHORT, timeline=True)
    simulation.run()
    columns = simulation.timeline()
    assert {"time_s", "connections_on_nic", "soft_limit", "queue_packets", "state"} <= set(columns)
    assert len({len(column) for column in columns.values()}) == 1
    assert columns["time_s"] == sorted(columns["time_s"], key=float)  # type: ignore[arg-type]
