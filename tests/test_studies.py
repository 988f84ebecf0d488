"""Studies have every configuration of their documents, and correct published figures."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from perpacket.analysis.claim import Verdict
from perpacket.analysis.statistics import Interval
from perpacket.errors import ConfigurationError, CorruptObservation, MissingStudy
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.analysis.doubts import chains
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.published_comparison import Comparison, compare
from perpacket_lab.analysis.published_rows import estimate, rankings
from perpacket_lab.demo import live
from perpacket_lab.demo import simulated_handoff as demo
from perpacket_lab.run import start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.study import library
from perpacket_lab.study import published_file as published
from perpacket_lab.study.point import first_names
from perpacket_lab.study.published import Published
from perpacket_lab.study.quantities import QUANTITIES, REGIONS, Row
from printed import printed_figures

STUDIES = {"osdi06": "osdi06.toml", "tr05-450-simulated": "tr05-450.toml"}


@pytest.fixture
def small_run(fake_core: None, tmp_path: Path) -> RunDirectory:
    """The demo's points with the fake core."""
    return start.run(demo.study(), tmp_path / "run", seeds=(1, 2, 3, 4, 5))


@pytest.mark.parametrize(
    "name",
    [
        *("W-0-N-N-FCFS-400", "W-256-N-N-FCFS-400", "W-1024-N-N-FCFS-400"),
        *("W-1024-P-N-FCFS-400", "W-4096-P-N-FCFS-400", "W-256-P-L-FCFS-400"),
        *(f"{workload}-4096-P-L-FCFS-{mips}" for workload in "WIDS" for mips in (400, 600, 800)),
        *(f"{workload}-0-N-N-FCFS-400" for workload in "WIDS"),
        *(f"{workload}-{n}-N-N-FCFS-400" for workload in "WIDS" for n in (1024, 4096)),
        *(f"W-256-P-L-T{threshold}-400" for threshold in (4, 10, 20, 50)),
        *(f"{workload}-{n}-P-N-FCFS-400" for workload in "ID" for n in (1024, 4096)),
        *("S-2048-N-N-FCFS-400", "S-2048-P-N-FCFS-400", "S-4096-P-N-FCFS-400"),
        *("W-256-P-L-LIFETIME-400", "W-256-P-L-ORACLE-400", "W-4096-P-R-FCFS-400"),
    ],
)
def test_osdi06_runs_every_configuration_and_pairs_it_with_its_own_baseline(name: str) -> None:
    point = library.find("osdi06").point(name)
    baseline = f"{name[0]}-0-N-N-FCFS-400"
    assert point.configuration == name
    assert point.against == (None if name == baseline else baseline)


def test_tr05_450_varies_connections_latency_cache_and_prefetch() -> None:
    points = library.find("tr05-450-simulated").points
    assert all(dict(point.overrides)["machine"] == "athlon-xp-2600" for point in points)
    web = {p.name for p in points if p.factors["traffic"] != "bulk"}
    assert {"W-4c-0ms", "W-2048c-30ms", "W-5120c-10ms", "D-1280c-0ms"} <= web
    base = [p.factors for p in points if p.factors["rate_mbps"] == 100]
    assert {f["connections"] for f in base if f["latency_ms"] == 0} == {
        *(1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048)
    }
    assert {f["latency_ms"] for f in base if f["connections"] == 2048} == {0, 1, 5, 10, 20, 40}
    assert {f["l2_kib"] for f in base} == {256, 512}
    assert {f["prefetch"] for f in base} == {"none", "0", "1"}


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_at_least_five_seeds_and_figures_of_its_own_columns(name: str) -> None:
    study = library.find(name)
    assert len(study.seeds) >= 5
    quantities = {row.quantity for row in study.published}
    for figure in study.figures:
        if figure.kind == "paper-beside":
            assert figure.y in quantities
        else:
            for factor in figure.where:
                assert factor == "point" or factor in study.points[0].factors


@pytest.mark.parametrize("name", STUDIES)
def test_published_figures_are_those_of_the_reference(name: str) -> None:
    """Every quoted figure has the reference's identifier, place and numbers."""
    reference = printed_figures(STUDIES[name])
    for row in library.find(name).published:
        # A figure of several layers together is quoted for each layer, with the layer's name.
        key = row.figure if row.figure in reference else row.figure.rpartition("-")[0]
        stated = reference[key]
        assert row.where == stated["where"]
        scale = 1000 if stated.get("unit") == "ms" and row.unit == "us" else 1
        if stated["kind"] == "exact":
            for ours, theirs in (("value", "value"), ("minimum", "min"), ("maximum", "max")):
                number = stated.get(theirs)
                assert getattr(row, ours) == (None if number is None else scale * number), key
        shorthand = stated.get("config", {}).get("shorthand")
        assert shorthand in (None, row.point)
        factors = library.find(name).point(row.point).factors
        clients = factors.get("connections", factors.get("clients"))
        assert stated.get("config", {}).get("connections") in (None, clients)


@pytest.mark.parametrize("name", STUDIES)
def test_no_figure_is_quoted_twice(name: str) -> None:
    counts = Counter(row.figure for row in library.find(name).published)
    assert max(counts.values()) == 1


def test_a_gain_is_the_paired_ratio_to_the_baseline(small_run: RunDirectory) -> None:
    """The fake core scales every configuration equally with the seed, so gains have no spread."""
    study = demo.study()
    row = next(
        row
        for row in analyze(study, small_run).comparisons
        if row.reference.figure == "osdi06/51-PL-req"
    )
    rates = {point: runs[1]["requests_per_s"] for point, runs in small_run.rows().items()}
    assert isinstance(rates["W-4096-P-L-FCFS-400"], float)
    assert isinstance(rates["W-0-N-N-FCFS-400"], float)
    gain = 100 * (rates["W-4096-P-L-FCFS-400"] / rates["W-0-N-N-FCFS-400"] - 1)
    assert row.value is not None
    assert row.value.value == pytest.approx(gain)
    assert row.value.low == pytest.approx(row.value.high)
    assert row.value.n == 5


def test_a_point_without_runs_has_the_verdict_not_simulated(
    fake_core: None, tmp_path: Path
) -> None:
    study = demo.study()
    directory = start.run(study, tmp_path / "run", seeds=(1,))
    for seed in (1,):
        directory.observation_path("W-4096-P-N-FCFS-400", seed).unlink()
    verdicts = {
        row.reference.figure: row.verdict
        for row in analyze(study, directory).comparisons
        if row.reference.point == "W-4096-P-N-FCFS-400"
    }
    assert set(verdicts.values()) == {Verdict.NO_VALUE}
    assert len(verdicts) >= 5


def test_configurations_whose_intervals_overlap_are_not_ranked(small_run: RunDirectory) -> None:
    """Two names for the same runs: they are not distinguishable."""
    study = demo.study()
    first, second = "W-1024-P-N-FCFS-400", "W-4096-P-L-FCFS-400"
    for seed in small_run.configuration.seeds:
        source = json.loads(small_run.observation_path(first, seed).read_text())
        target = small_run.observation_path(second, seed)
        content = json.loads(target.read_text())
        target.write_text(json.dumps(content | {"result": source["result"]}))
    assert rankings(study, Estimates(small_run.rows())) == [
        f"requests: neighbours are not distinguishable: {first}, {second}"
    ]


def test_overlaps_that_follow_each_other_are_one_group() -> None:
    pairs = [("a", "b"), ("b", "c"), ("d", "e")]
    assert chains(pairs) == [["a", "b", "c"], ["d", "e"]]


def test_a_long_group_names_its_first_six() -> None:
    assert first_names(list("abcdef")) == "a, b, c, d, e, f"
    assert first_names(list("abcdefgh")) == "a, b, c, d, e, f and 2 more"


def test_a_result_without_a_promised_number_is_named() -> None:
    row: Row = {"point": "W", "seed": 1}
    with pytest.raises(CorruptObservation, match="point W, seed 1: no requests_per_s"):
        QUANTITIES["request_rate"].value(row)


def test_the_numbers_of_a_null_group_are_null() -> None:
    """No host packet crosses the NIC when all connections are on it."""
    row: Row = {
        "point": "W",
        "seed": 1,
        "host_packet_delay_us.send": None,
        "host_packet_delay_us.receive.mean": 3.0,
    }
    assert QUANTITIES["packet_delay_send_median"].value(row) is None
    assert QUANTITIES["packet_delay_mean"].value(row) == 3.0


def test_regions_are_those_of_the_core() -> None:
    source = Path(__file__).parents[1] / "crates" / "base" / "cost" / "src" / "layer.rs"
    arms = re.findall(
        r"^ *((?:Self::\w+ ?\|? ?)+)=> (?:\{\s*)?Region::(\w+)", source.read_text(), re.MULTILINE
    )
    core = {region.lower(): set(re.findall(r"::(\w+)", layers.lower())) for layers, region in arms}
    assert {"tcp", "driver", "systemcall"} <= core.keys()
    for region, names in REGIONS.items():
        if region != "Stack":
            assert set(names) == core[region.lower()] - {"idle"}


def test_regions_add_up_their_layers_and_the_stack_excludes_idle() -> None:
    row: Row = {
        "point": "W",
        "seed": 1,
        "layers.user.cycles_per_packet": 100.0,
        "layers.syscall.cycles_per_packet": 60.0,
        "layers.socket.cycles_per_packet": 40.0,
        "layers.tcp.cycles_per_packet": 200.0,
        "layers.tcp.instructions_per_packet": 50.0,
        "layers.idle.cycles_per_packet": 1000.0,
    }
    assert QUANTITIES["cycles.SystemCall"].value(row) == 100.0
    assert QUANTITIES["cycles.Stack"].value(row) == 300.0
    assert QUANTITIES["ipc.TCP"].value(row) == 0.25


def test_only_seeds_that_both_runs_have_are_paired() -> None:
    own: dict[int, Row] = {
        seed: {"point": "A", "seed": seed, "requests_per_s": 110.0 * seed} for seed in (1, 2, 3)
    }
    base: dict[int, Row] = {
        seed: {"point": "B", "seed": seed, "requests_per_s": 100.0 * seed} for seed in (2, 3, 4)
    }
    interval, values = estimate(
        Estimates({"A": own, "B": base}), QUANTITIES["gain_request_rate"], "A", "B"
    )
    assert interval is not None
    assert interval.n == 2
    assert values == pytest.approx([10.0, 10.0])


def figure(**fields: object) -> Published:
    """A published figure with the given numbers."""
    stated = {"unit": "%", **fields}
    return Published("x/1", "1", "s", "W", "host_idle", **stated)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stated", "simulated", "verdict", "text"),
    [
        (figure(value=12, resolution=1), Interval(12.6, 12.4, 12.8, 5, 0.95), "agrees", "agrees"),
        (
            figure(value=12, resolution=1),
            Interval(15.0, 14.0, 16.0, 5, 0.95),
            "differs",
            "differs by +3.0 points",
        ),
        (
            figure(value=20000, unit="req/s"),
            Interval(19000.0, 18900.0, 19100.0, 5, 0.95),
            "differs",
            "differs by -5.0 %",
        ),
        (figure(maximum=10, unit="us"), Interval(9.0, 5.0, 13.0, 5, 0.95), "agrees", "agrees"),
        (
            figure(maximum=10, unit="us"),
            Interval(15.0, 14.0, 16.0, 5, 0.95),
            "outside",
            "outside by +5.0 us",
        ),
        (
            figure(minimum=70),
            Interval(60.0, 59.0, 61.0, 5, 0.95),
            "outside",
            "outside by -10 points",
        ),
        (figure(minimum=6, maximum=10), Interval(7.0, 6.0, 8.0, 5, 0.95), "agrees", "agrees"),
        (figure(value=1), None, "no value", "no value"),
    ],
)
def test_verdicts(stated: Published, simulated: Interval | None, verdict: str, text: str) -> None:
    row = compare(stated, "W-0-N-N-FCFS-400", simulated)
    assert isinstance(row, Comparison)
    assert row.verdict == verdict
    assert row.verdict_text == text


def test_a_single_run_is_judged_by_its_value() -> None:
    """The interval of one run is unbounded, and would agree with any value."""
    one = Interval(50.0, float("-inf"), float("inf"), 1, 0.95)
    assert compare(figure(value=12, resolution=1), "W", one).verdict is Verdict.DIFFERS


@pytest.mark.parametrize(
    ("printed", "step"), [(26663, 1), (12.5, 0.1), (0.92, 0.01), (4.3, 0.1), (0, 1), (1000, 1)]
)
def test_the_resolution_of_a_printed_number_is_its_last_digit(printed: float, step: float) -> None:
    assert published.step(printed) == pytest.approx(step)


GOOD = """
source = "a paper"
[[figure]]
id = "x/1"
where = "1"
statement = "idle"
configuration = "W-0-N-N-FCFS-400"
quantity = "host_idle"
unit = "%"
value = 3
[[place]]
name = "Figure 2"
title = "the parts"
reason = "a diagram"
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("value = 3", "", "either a value or min"),
        ("value = 3", "value = 3\nmax = 4", "either a value or min"),
        ('"host_idle"', '"host_idel"', "no quantity 'host_idel'"),
        ('unit = "%"', 'unit = "us"', "host_idle is in '%'"),
        ('"W-0-N-N-FCFS-400"', '"W-1"', "no point 'W-1'"),
        ("where", "whence", "where"),
        ("value = 3", 'value = 3\nagainst = "W-0-N-N-FCFS-400"', "only gains and increases"),
        ("[[figure]]", "[[figure", "cannot be read"),
        ('reason = "a diagram"', "", "Figure 2: expected charts or a reason"),
        ('reason = "a diagram"', 'charts = ["B"]', "Figure 2: the study has no chart 'B'"),
        ("Figure 2", "Plate 2", "name"),
    ],
)
def test_a_mistake_in_published_figures_is_found_and_named(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    def read() -> tuple[Published, ...]:
        content = published.read(file)
        published.places_of(content.place, {"A chart"})
        return published.rows_about(content.figure, known, is_measured=False)

    known = {point.name for point in library.find("osdi06").points}
    file = tmp_path / "published.toml"
    file.write_text(GOOD)
    assert read()[0].value == 3
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        read()
    assert any(name in str(caught.value) for name in ("published.toml", "x/1", "Figure 2"))


def test_an_unknown_study_is_an_error_that_lists_the_studies() -> None:
    with pytest.raises(MissingStudy) as caught:
        library.find("osdi07")
    assert "osdi06" in caught.value.hint


def test_the_demos_page_begins_with_the_cost_of_a_packet_and_its_largest_layer() -> None:
    point = live.study().points[-1]

    def sentence(tcp: float) -> str:
        costs = {"tcp": tcp, "user": 300.0, "driver": 100.0}
        row = {f"layers.{layer}.cpu_ns_per_packet": cost for layer, cost in costs.items()}
        return live.cost_sentence(Estimates({point.name: {1: row, 2: row}}), point)

    costs = "A packet costs {} ns of processor time at 256 connections, "
    assert sentence(1600.0) == costs.format("2,000") + "most of it TCP (80 %)."
    assert sentence(200.0) == costs.format("600") + (
        "the largest part of it the server's own code (50 %)."
    )
    assert live.cost_sentence(Estimates({point.name: {1: {}, 2: {}}}), point) == ""


def test_the_demo_compares_six_configurations_with_the_first() -> None:
    study = demo.study()
    assert [point.name for point in study.points] == list(demo.POLICIES)
    assert study.points[0].against is None
    assert {point.against for point in study.points[1:]} == {"W-0-N-N-FCFS-400"}
    assert {row.point for row in study.published} <= set(demo.POLICIES)
