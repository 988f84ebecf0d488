"""The closed forms have the values of their sources, and refuse input outside their assumptions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perpacket import server_cost
from perpacket.cli.app import run
from perpacket.errors import ConfigurationError
from perpacket.profile_document import ProfileDocument, read_profile
from perpacket_lab.models import (
    bandwidth,
    bounds,
    data_movement,
    handoff,
    laws,
    saturation,
    segments,
)

fractions = st.floats(0.001, 1.0)
ratios = st.floats(0.01, 100.0)


@pytest.mark.parametrize(("workload", "percent", "gamma", "gain"), laws.PUBLISHED)
def test_the_published_gains_are_within_six_tenths_of_a_point(
    workload: str, percent: float, gamma: float, gain: float
) -> None:
    computed = 100 * laws.offload(laws.gamma_of_share(percent / 100)).gain
    assert abs(computed - gain) <= 0.6, workload
    assert gamma == pytest.approx(float(laws.gamma_of_share(percent / 100)), rel=0.04)


@given(gamma=ratios, p=fractions)
def test_a_host_limited_gain_is_p_over_gamma_less_p_plus_one(gamma: float, p: float) -> None:
    gained = float(laws.offload(gamma, p).gain)
    assert gained == pytest.approx(p / (gamma - p + 1), rel=1e-9)


@given(gamma=ratios, alpha=ratios, beta=fractions, sigma=ratios)
def test_no_share_gains_more_than_the_best(
    gamma: float, alpha: float, beta: float, sigma: float
) -> None:
    best = laws.best_share(gamma, alpha, beta)
    at_best = float(laws.offload(gamma, best, alpha=alpha, beta=beta, sigma=sigma).gain)
    others = laws.offload(gamma, np.linspace(0, 1, 101), alpha=alpha, beta=beta, sigma=sigma)
    assert at_best >= others.gain.max() - 1e-9


def test_a_full_wire_gains_nothing_and_is_named() -> None:
    found = laws.offload(1.0, 1.0, sigma=1.0)
    assert float(found.gain) == 0.0
    assert laws.LIMITS[int(found.limit)] == "wire"


def test_a_slow_nic_makes_offload_a_loss() -> None:
    found = laws.offload(1.0, 1.0, alpha=4.0)
    assert float(found.gain) == pytest.approx(-0.5)
    assert laws.LIMITS[int(found.limit)] == "nic"


costs = st.builds(
    lambda host, share, nic, extra: handoff.Costs(host, host * share, nic, extra),
    st.floats(1e-6, 1e-3),
    st.floats(0.0, 0.99),
    st.floats(1e-7, 1e-3),
    st.floats(0.0, 1e-3),
)


@given(costs)
def test_no_share_of_connections_is_better_than_f_star(costs: handoff.Costs) -> None:
    best = handoff.throughput(costs, handoff.best_share(costs))
    others = handoff.throughput(costs, np.linspace(0, 1, 101))
    assert float(best) >= others.max() * (1 - 1e-9)


def test_host_and_nic_are_equally_busy_at_f_star() -> None:
    found = handoff.Costs(host_s=40e-6, saved_s=20e-6, nic_host_s=16e-6, nic_extra_s=30e-6)
    f = handoff.best_share(found)
    assert f == pytest.approx(24 / 50)
    assert 40e-6 - f * 20e-6 == pytest.approx(16e-6 + f * 30e-6)


PRINTED = {
    "Pentium4-3.06": (3640, 4264),
    "AthlonXP-3000+": (3291, 4264),
    "MIPS-R16000-700": (3640, 4264),
    "UltraSparcIII-900": (1862, 4264),
}


def bounds_by_server(*, as_printed: bool) -> dict[str, dict[str, int]]:
    """Bounds of the published transactions, rounded to whole Mb/s."""
    found: dict[str, dict[str, int]] = {}
    for item in bounds.all_bounds(bounds.read_catalogue(), as_printed=as_printed):
        found.setdefault(item.server, {})[item.transaction] = round(item.mbps)
    return found


def test_table_3_1_is_computed_as_printed() -> None:
    found = bounds_by_server(as_printed=True)
    for server, (http, forwarding) in PRINTED.items():
        assert found[server]["rtp"] == found[server]["http"] == http
        assert found[server]["ip-forwarding"] == forwarding


def test_in_consistent_units_the_bounds_are_lower() -> None:
    found = bounds_by_server(as_printed=False)
    assert [found[server]["rtp"] for server in PRINTED] == [3199, 2867, 3199, 1567]
    assert found["UltraSparcIII-900"]["ip-forwarding"] == 4264


def published_servers() -> dict[str, bounds.ServerMachine]:
    """The servers of table 3.1."""
    servers = {server.name: server for server in bounds.read_catalogue().server}
    return {name: servers[name] for name in PRINTED}


def test_equations_3_1_to_3_5_have_the_numbers_of_section_3_3_1() -> None:
    assert data_movement.stall_cycles(7, 0.5, 1, 10) == 35
    assert data_movement.stall_cycles(7, 0.5, 2, 10) == 70
    # At a miss rate of 1, an instruction waits for 10 cycles, and the ratio is 11.
    assert data_movement.stall_cycles_at_one_access(1, 1) == 10
    assert data_movement.cache_overhead(1) == 11
    assert data_movement.time_without_cache_s(1e9, 2, 0.5e-9) == 1
    # Near 0.1 the throughput is half of that without a cache.
    assert 1 / data_movement.cache_overhead(0.1) == 0.5
    assert data_movement.time_with_cache_s(1e9, 1, 1e-9, 0.1) == pytest.approx(2)
    # Mistake: the source's 6.25 % is for 16 words, but a line of 32 bytes has 8 words of 4 bytes.
    assert data_movement.sequential_miss_rate(1, 16) == 0.0625
    assert data_movement.sequential_miss_rate(4, 32) == 0.125
    assert data_movement.sequential_miss_rate(64, 32) == 1


@given(ratios, fractions, ratios)
def test_equation_3_4_as_printed_is_right_for_one_cycle_per_instruction(
    cpi: float, miss_rate: float, penalty: float
) -> None:
    def seconds(cycles: float, *, as_printed: bool) -> float:
        costs = (1.0, cycles, 1.0, miss_rate, penalty)
        return float(data_movement.time_with_cache_s(*costs, as_printed=as_printed))

    assert seconds(1, as_printed=True) == seconds(1, as_printed=False)
    without = float(data_movement.time_without_cache_s(1, cpi, 1))
    stalls = float(data_movement.stall_cycles_at_one_access(1, miss_rate, penalty))
    assert seconds(cpi, as_printed=False) == pytest.approx(without + stalls)
    assert seconds(cpi, as_printed=True) == pytest.approx(without * (1 + stalls))


@given(st.floats(1, 1e9), st.floats(1, 1e5), st.floats(1, 1e5), st.floats(0, 1e6))
def test_equations_3_6_to_3_14_are_their_formulas(
    size: float, internal: float, external: float, cpu_us: float
) -> None:
    server = data_movement.buses(internal, external)

    def same(value: float) -> object:
        return pytest.approx(value, rel=1e-9)

    assert data_movement.memory_cpu_us(size, server) == same(size / internal)
    assert data_movement.memory_cpu_us(size, server, as_printed=True) == same(size / 32 / internal)
    assert data_movement.memory_memory_us(size, server) == same(2 * size / internal)
    assert data_movement.memory_network_us(size, server) == same(size / external)
    for time_us in (data_movement.rtp_us, data_movement.http_us):
        rest = 4 * size / internal + size / external
        assert time_us(size, server, cpu_us) == same(cpu_us + size / internal + rest)
        printed = time_us(size, server, cpu_us, as_printed=True)
        assert printed == same(cpu_us + size / (32 * internal) + rest)
    assert data_movement.ip_us(size, server, cpu_us) == same(cpu_us + 2 * size / external)
    product = internal * external
    for mbps in (data_movement.rtp_mbps, data_movement.http_mbps):
        assert mbps(server) == same(8 * product / (5 * external + internal))
        printed = 8 * 32 * product / (129 * external + 32 * internal)
        assert mbps(server, as_printed=True) == same(printed)
    assert data_movement.ip_mbps(server) == same(8 * external / 2)


def test_equations_3_12_to_3_14_have_the_numbers_of_table_3_1() -> None:
    for name, server in published_servers().items():
        streams, forwarding = PRINTED[name]
        assert round(data_movement.rtp_mbps(server, as_printed=True)) == streams
        assert round(data_movement.http_mbps(server, as_printed=True)) == streams
        assert round(data_movement.ip_mbps(server)) == forwarding
        # Mistake: section 3.4.3 concludes that every server exceeds 2 GByte/s.
        assert max(streams, forwarding) / 8 < 0.54 * 1000
        # Mistake: 64 bits at 133 MHz carry 1064 MB/s.
        assert server.buses_mbytes_per_s["io"] == 1066 != 64 / 8 * 133


@given(st.floats(0, 1e3))
def test_equations_3_9_to_3_11_without_processor_time_are_the_bounds_of_table_3_1(
    cpu_us: float,
) -> None:
    size = 1e6
    for name, server in published_servers().items():
        streams, forwarding = PRINTED[name]
        times_us = {
            data_movement.rtp_us(size, server, cpu_us, as_printed=True): streams,
            data_movement.http_us(size, server, cpu_us, as_printed=True): streams,
            data_movement.ip_us(size, server, cpu_us): forwarding,
        }
        for time_us, printed_mbps in times_us.items():
            assert round(8 * size / (time_us - cpu_us)) == printed_mbps


def test_a_transaction_with_processor_time_has_a_lower_bound(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["model", "bounds", "--as-printed", "--size", "1kB", "--cpu", "30us"]
    assert run([*command, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    found = {(row["server"], row["transaction"]): row for row in rows}
    for name, server in published_servers().items():
        rtp = found[name, "rtp"]
        time_us = data_movement.rtp_us(1000, server, 30, as_printed=True)
        assert rtp["time_us"] == pytest.approx(time_us)
        assert rtp["bound_mbps"] == pytest.approx(8 * 1000 / rtp["time_us"])
        assert rtp["bound_mbps"] < PRINTED[name][0]
        assert rtp["limiting_bus"] == "processor"
    assert run([*command, "--overlap", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {round(row["time_us"]) for row in rows if row["transaction"] == "rtp"} == {30}
    assert run(["model", "bounds", "--cpu", "3us"]) == 2
    assert "expected --size too" in capsys.readouterr().err


def test_the_cost_of_misses_is_printed_for_a_rate_and_for_a_sequential_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def found(*options: str) -> dict[str, float]:
        assert run(["model", "cache", *options, "--format", "json"]) == 0
        printed: dict[str, float] = json.loads(capsys.readouterr().out)
        return printed

    assert found("--miss-rate", "0.1")["cache_overhead"] == 2
    assert found("--access", "4", "--line", "32")["miss_rate"] == 0.125
    two = ("--miss-rate", "0.1", "--cpi", "2", "--accesses", "2", "--cycle", "1s")
    assert found(*two)["time_with_cache_s"] == 4
    assert found(*two, "--as-printed")["time_with_cache_s"] == 6
    for wrong in ([], ["--access", "4"], ["--miss-rate", "0.1", "--access", "4", "--line", "32"]):
        assert run(["model", "cache", *wrong]) == 2
        assert "--miss-rate, or --access and --line" in capsys.readouterr().err


def test_buses_that_overlap_allow_at_least_as_much() -> None:
    known = bounds.read_catalogue()
    serial = bounds.all_bounds(known)
    side_by_side = bounds.all_bounds(known, overlap=True)
    for one, other in zip(serial, side_by_side, strict=True):
        assert other.mbps >= one.mbps


def test_a_users_catalogue_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        "[[path]]\nname = 'copy'\ncrossings = { memory = 2 }\nsource = 'mine'\n"
        "[[transaction]]\nname = 'relay'\npaths = { coppy = 1 }\nsource = 'mine'\n"
        "[[server]]\nname = 'box'\nbuses_mbytes_per_s = { memory = 1000 }\nsource = 'mine'\n"
    )
    with pytest.raises(ConfigurationError, match="relay: no path 'coppy'"):
        bounds.read_catalogue(file)
    file.write_text(file.read_text().replace("coppy", "copy"))
    assert [item.mbps for item in bounds.all_bounds(bounds.read_catalogue(file))] == [4000]


def bench_report(working_set_bytes: int) -> dict[str, object]:
    """A report of `bench memory` with one row, from a machine with 32 MiB of last cache."""
    row = {"operation": "copy", "stride_words": 1, "working_set_bytes": working_set_bytes}
    row |= {"mbytes_per_s": 8000.0, "low": 7900.0, "high": 8100.0, "n": 24}
    smaller = row | {"working_set_bytes": 4096, "mbytes_per_s": 90_000.0}
    caches = [{"level": 1, "size_bytes": 2**15}, {"level": 3, "size_bytes": 2**25}]
    return {"machine": {"caches": caches}, "surface": [row, smaller]}


def test_the_bandwidth_is_that_of_the_largest_copy_of_bench_memory() -> None:
    found = bandwidth.of_bench(bench_report(2**27), "b.json")
    assert (found.value, found.low, found.high, found.n) == (8000.0, 7900.0, 8100.0, 24)


@pytest.mark.parametrize(
    ("report", "complaint"),
    [
        (bench_report(2**25), "the cache"),
        ({"surface": []}, "no copy at stride 1"),
        ({"layers": {}}, "no copy at stride 1"),
    ],
)
def test_a_report_without_memory_bandwidth_is_an_error(
    report: dict[str, object], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        bandwidth.of_bench(report, "b.json")


@pytest.mark.parametrize(("part", "gain"), [(0.75, 62.6), (0.56, 40.8)])
def test_perl_at_half_its_cost_gains_what_both_readings_of_the_document_give(
    part: float, gain: float
) -> None:
    """The document prints 62.5 % (section 5.2). The 56 % of all time in its text leads to less."""
    found = 100 * float(laws.gain_of_cheaper_part(part, 0.5, 0.01))
    assert found == pytest.approx(gain, abs=0.05)
    assert laws.gain_of_cheaper_part(part, 1.0) == pytest.approx(0)


def test_a_part_that_the_profile_does_not_have_is_an_error_that_lists_the_parts() -> None:
    document = {"parts": {"costs": {"perl": {"share": 0.7}, "tls": {"share": 0.1}}}}
    profile = ProfileDocument.parse(document)
    assert profile.part_share("perl", "profile.json") == 0.7
    with pytest.raises(ConfigurationError, match="no part 'php'; there are perl, tls"):
        profile.part_share("php", "profile.json")


@pytest.mark.parametrize(
    "call",
    [
        lambda: laws.gamma_of_share(0.0),
        lambda: laws.gamma_of_share(34),
        lambda: laws.offload(1.0, 1.2),
        lambda: laws.offload(float("nan")),
        lambda: handoff.Costs(1e-6, 2e-6, 0, 0),
    ],
)
def test_impossible_machines_are_errors(call: object) -> None:
    assert callable(call)
    with pytest.raises(ConfigurationError):
        call()


def test_the_network_share_is_read_from_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "profile.json"
    layers = {"user": {"share": 0.5}, "tcp": {"share": 0.3}, "driver": {"share": 0.2}}
    file.write_text(json.dumps({"schema": 1, "layers": layers}))
    assert run(["model", "laws", "--profile", str(file), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["network_share"] == pytest.approx(0.5)
    assert found["gain"] == pytest.approx(1.0)
    with pytest.raises(ConfigurationError, match="expected layers"):
        server_cost.of_profile(ProfileDocument.parse({}), "empty")


def test_a_profile_without_network_time_has_nothing_to_offload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "idle.json"
    file.write_text(json.dumps({"schema": 1, "layers": {"user": {"share": 1.0}}}))
    assert run(["model", "laws", "--profile", str(file)]) == 2
    error = capsys.readouterr().err
    assert f"--profile {file}: its network layers used no processor time" in error
    assert "under load" in error


def test_an_io_bus_without_a_machine_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "bounds", "--io-bandwidth", "5GB"]) == 2
    assert "only --measure or --bench adds" in capsys.readouterr().err


def test_laws_prints_gamma_and_gain_as_fractions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "laws", "--network-share", "0.34", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gamma"] == pytest.approx(1.9412, rel=1e-4)
    assert found["gain"] == pytest.approx(0.5152, rel=1e-3)


def test_laws_needs_exactly_one_source_of_the_share() -> None:
    assert run(["model", "laws"]) == 2
    assert run(["model", "laws", "--network-share", "34"]) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["laws", "--published"],
        ["laws", "--network-share", "0.2", "--sweep"],
        [
            "handoff",
            "--host=40us",
            "--saved=20us",
            "--nic-host=16us",
            "--nic-extra=30us",
        ],
        ["bounds", "--as-printed"],
        ["bounds", "--size", "1460", "--cpu", "2us"],
        ["cache", "--miss-rate", "0.1"],
    ],
)
def test_every_model_prints_a_table_and_json(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["model", *arguments]) == 0
    assert capsys.readouterr().out
    assert run(["model", *arguments, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == 1


@given(st.floats(0, 1e4), st.floats(0.1, 1e3), st.integers(1, 50), st.integers(51, 500))
def test_a_line_is_recovered_from_two_of_its_points(
    fixed: float, each: float, few: int, many: int
) -> None:
    known = segments.Line(fixed, each)
    found = segments.line((few, float(known.cost(few))), (many, float(known.cost(many))))
    assert found.fixed == pytest.approx(fixed, abs=1e-6 * (1 + each * many + fixed))
    assert found.each == pytest.approx(each, rel=1e-6, abs=1e-6 * (1 + fixed))


def test_a_share_of_a_request_lies_between_that_of_its_fixed_part_and_of_a_segment() -> None:
    part, whole = segments.Line(10.0, 40.0), segments.Line(100.0, 50.0)
    shares = segments.share(part, whole, [1e-9, 2.0, 1e9])
    assert shares == pytest.approx([0.1, 90 / 200, 0.8])


def test_two_equal_sizes_define_no_line() -> None:
    with pytest.raises(ConfigurationError, match="expected two sizes"):
        segments.line((3, 10.0), (3, 12.0))


@given(st.integers(1, 10_000), st.integers(1, 100), fractions)
def test_throughput_is_bound_by_connections_and_by_the_server(
    connections: int, at: int, utilization: float
) -> None:
    ratio = float(saturation.relative_throughput(connections, at, utilization))
    assert ratio <= connections / at
    assert ratio * utilization <= 1 + 1e-12
    assert ratio == pytest.approx(connections / at) or ratio * utilization == pytest.approx(1)


def test_an_idle_server_has_no_bound() -> None:
    with pytest.raises(ConfigurationError, match="utilization"):
        saturation.relative_throughput(4, 1, 0.0)


CATALOGUE = """
[[path]]
name = "copy"
crossings = { memory = 2 }
source = "test"
[[path]]
name = "nic"
crossings = { io = 1 }
source = "test"
[[transaction]]
name = "send"
paths = { copy = 1, nic = 1 }
source = "test"
[[transaction]]
name = "think"
paths = { copy = 1 }
source = "test"
[[server]]
name = "small"
buses_mbytes_per_s = { memory = 100 }
source = "test"
"""


@pytest.mark.parametrize(
    ("part", "instead", "message"),
    [
        ("{ memory = 2 }", "{ memory = 0 }", "path copy: crossings of memory is 0"),
        ("{ memory = 2 }", "{ memory = -1 }", "path copy: crossings of memory is -1"),
        ("{ memory = 2 }", "{}", "path copy: crossings: expected at least one"),
        ("{ memory = 100 }", "{ memory = inf }", "server small: bandwidth of memory is inf"),
        ("copy = 1, nic = 1", "copy = nan", "transaction send: paths of copy is nan"),
        ('name = "nic"', 'name = "copy"', "path copy is defined more than once"),
    ],
)
def test_a_catalogue_with_impossible_numbers_or_repeated_names_is_an_error(
    tmp_path: Path, part: str, instead: str, message: str
) -> None:
    file = tmp_path / "own.toml"
    assert part in CATALOGUE
    file.write_text(CATALOGUE.replace(part, instead))
    with pytest.raises(ConfigurationError, match=message):
        bounds.read_catalogue(file)


def test_a_transaction_over_a_bus_that_a_server_lacks_is_reported_as_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.toml"
    file.write_text(CATALOGUE)
    assert run(["model", "bounds", "--catalogue", str(file), "--overlap"]) == 0
    remark = "small: no bound for send: it has no bandwidth for bus io"
    assert f"note: {remark}" in capsys.readouterr().err
    command = ["model", "bounds", "--catalogue", str(file), "--overlap", "--format", "json"]
    assert run(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["left_out"] == [remark]
    assert found["overlap"] is True
    assert [row["transaction"] for row in found["rows"]] == ["think"]


def test_the_machine_of_a_bench_accepts_an_io_bus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(bench_report(2**27)))
    bench = ["model", "bounds", "--bench", str(file), "--format", "json"]
    assert run([*bench, "--io-bandwidth", "2000MB"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert "machine of bench.json" in {row["server"] for row in rows}
    assert run(bench) == 0
    assert any("bench.json" in remark for remark in json.loads(capsys.readouterr().out)["left_out"])
    for wrong in ("-1", "0", "nan", "inf"):
        assert run([*bench, "--io-bandwidth", wrong]) == 2
        assert "--io-bandwidth" in capsys.readouterr().err


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_the_models_accept_only_finite_numbers(value: float) -> None:
    calls: list[Callable[[], object]] = [
        lambda: laws.offload(value),
        lambda: laws.offload(1.0, 0.0, alpha=value),
        lambda: laws.offload(1.0, sigma=value),
        lambda: handoff.Costs(1.0, 0.5, value, 0.0),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match="expected"):
            call()


def test_without_offload_there_is_no_gain() -> None:
    for alpha, beta in ((0.0, 1.0), (1e300, 1.0), (2.0, 0.0)):
        assert laws.offload(3.0, 0.0, alpha=alpha, beta=beta).gain == 0


def handoff_of(*costs_us: int) -> list[str]:
    names = ("--host", "--saved", "--nic-host", "--nic-extra")
    return ["handoff", *(f"{name}={cost}us" for name, cost in zip(names, costs_us, strict=True))]


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["laws", "--network-share", "1"], ("gain",)),
        (
            handoff_of(4, 4, 0, 0),
            ("best", "gain"),
        ),
    ],
)
def test_an_infinite_gain_is_null_in_json(
    arguments: list[str], place: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is no JSON")

    assert run(["model", *arguments, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    for key in place:
        found = found[key]
    assert found is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["laws", "--published", "--network-share", "0.3"], "--network-share has no effect with"),
        (["laws", "--published", "--sweep"], "--sweep has no effect with --published"),
        (["laws", "--network-share", "0.3", "--sweep", "-p", "0.4"], "--offloaded has no effect"),
        (
            handoff_of(40, 50, 1, 1),
            "--saved 50us: expected at most --host 40us",
        ),
    ],
)
def test_errors_name_the_options_that_the_user_wrote(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["model", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_laws_refuses_a_profile_of_other_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The network share is a share of the server's cost, and 3 % of a profile is no server."""

    def layers(**seconds: float) -> str:
        whole = sum(seconds.values())
        rows = {name: {"cpu_s": s, "share": s / whole} for name, s in seconds.items()}
        file = tmp_path / "profile.json"
        file.write_text(json.dumps({"schema": 1, "window_s": 5.0, "layers": rows}))
        return str(file)

    file = layers(user=1.0, tcp=1.0, other=6.0)
    profile = read_profile(Path(file), file)
    assert server_cost.of_profile(profile, file).network_share == 0.5
    assert run(["model", "laws", "--profile", layers(user=0.1, tcp=0.2, other=9.7)]) == 4
    assert "97 % of the busy time is of other programs" in capsys.readouterr().err
    assert run(["model", "laws", "--profile", layers(user=0.01, tcp=0.02)]) == 4
    assert "the server is idle" in capsys.readouterr().err
