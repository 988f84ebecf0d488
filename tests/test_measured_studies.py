"""The measured studies quote their documents correctly, and judge shapes, not times."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from perpacket.analysis.claim import Verdict
from perpacket.analysis.statistics import Interval
from perpacket.cli import app
from perpacket.errors import ConfigurationError
from perpacket_lab import api
from perpacket_lab.analysis import published_score, region_order
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.analysis.published_comparison import compare
from perpacket_lab.analysis.terms import MEASURED
from perpacket_lab.measure.plan import validated
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.run import configuration_file, start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.show import html
from perpacket_lab.show.charts import curve
from perpacket_lab.study import library, load
from perpacket_lab.study.lengths import LENGTHS, Length
from perpacket_lab.study.point import Point
from perpacket_lab.study.published import Published
from perpacket_lab.study.quantities import QUANTITIES, SEVEN
from perpacket_lab.study.runner_interfaces import NamedRunner
from perpacket_lab.study.study import Study
from printed import printed_figures
from test_measured_runs import FakeMeasuredRunner, FakeRun

REFERENCES = {
    "tr05-450": "tr05-450.toml",
    "breakdown": "patwardhan2004.toml",
    "web-servers": "isa2003.toml",
}
SERVED = tuple(REFERENCES)
"""Studies of the cost of a packet for a web server or the bulk sender. Other studies have tests of
their own."""

MEASURED_STUDIES = [name for name in library.names() if library.find(name).is_measured]

LONGEST_MS = {
    **{"breakdown": 1_800_000, "web-servers": 900_000, "tr05-450": 900_000},
    **{"tr05-450-emulated": 1_800_000, "kernel-history": 1_800_000},
    **{"double-buffer": 900_000, "media-servers": 900_000},
}
"""The longest measuring time of the default length, if it is not ten minutes."""

SCOPES = [(name, length) for name in SERVED for length in LENGTHS]


@pytest.mark.parametrize(("name", "length"), SCOPES)
def test_every_point_can_be_read_as_a_plan_and_is_named_by_its_factors(
    name: str, length: Length
) -> None:
    points = library.find(name, length).points
    assert len({tuple(point.factors.items()) for point in points}) == len(points)
    for point in points:
        plan = validated(WebPlan, point)
        assert plan.is_web == (plan.kind != "stream")
        assert plan.latency_ms == 0 or plan.network == "delayed"


@pytest.mark.parametrize("name", MEASURED_STUDIES)
def test_the_default_length_takes_at_most_ten_minutes(name: str) -> None:
    """Check the limit: fifteen minutes with two methods or disks, half an hour with six loads."""
    study = library.find(name)
    measured = [point for point in study.points if point.name not in study.simulated]
    runs = [study.runner_of(point).prepare(point, 1, timeline=False) for point in measured]
    expected_ms = sum(run.progress()[1] for run in runs)
    assert expected_ms * len(study.seeds) <= LONGEST_MS.get(name, 600_000)


def test_the_expected_time_is_in_seconds_for_a_short_study_and_in_minutes_for_a_long_one(
    tmp_path: Path,
) -> None:
    from perpacket_lab.cli.study_verbs import remaining_time

    study = library.find("breakdown", only=("ab",))

    def planned(count: int, overrides: dict[str, str]) -> start.PlannedRun:
        return api.plan_study(study, tmp_path / "run", count, overrides=overrides)

    short = remaining_time(planned(1, {"run.duration_s": "1", "run.warmup_s": "0"}))
    assert short.startswith("about 5 s of measurement: 3 points, once each")
    long = remaining_time(planned(2, {"run.duration_s": "600"}))
    assert long.startswith("about 60 min of measurement: 3 points, 2 times each")


def test_the_full_levels_are_the_published_ones() -> None:
    points = library.find("tr05-450", "full").points
    bulk = [p.factors for p in points if p.factors["load"] == "bulk"]
    single = {f["rate_mbps"] for f in bulk if f["connections"] == 1}
    assert single == set(range(100, 1000, 100))
    direct = {f["connections"] for f in bulk if f["network"] == "direct" and f["rate_mbps"] == 100}
    assert direct == {1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 16_384}
    delayed = {f["latency_ms"] for f in bulk if f["network"] == "delayed"}
    assert delayed == {0, 1, 5, 10, 20, 40}
    trace = {f["connections"] for f in (p.factors for p in points) if f["load"] == "trace"}
    assert {min(trace), max(trace)} == {4, 5120}
    breakdown = [p.factors for p in library.find("breakdown", "full").points]
    users, connections = (
        {f["clients"] for f in breakdown if f["load"] == load} for load in ("surge", "tls")
    )
    assert connections >= {50, 100, 150, 200, 250, 300, 350}
    assert users == {25, 50, 100, 150, 200, 300, 400, 500}


@pytest.mark.parametrize("name", SERVED)
def test_both_levels_of_every_published_change_are_in_the_default_study(name: str) -> None:
    """A change can be compared only if the study runs both of its levels."""
    cut = library.find(name)
    changes = [row for row in cut.published if row.judged == "direction"]
    assert len(changes) >= 4
    names = {point.name for point in cut.points}
    assert all(row.point in names and row.against in names for row in changes)


@pytest.mark.parametrize("name", SERVED)
def test_figures_of_the_document_are_those_of_the_reference(name: str) -> None:
    reference = printed_figures(REFERENCES[name])
    for row in library.find(name, "full").published:
        if row.quantity == "region_order":
            # It follows from the shares of its point, which are checked one by one.
            continue
        key = row.figure.removesuffix("-change")
        stated = reference.get(key) or reference[key.rpartition("-")[0]]
        # A fact of a figure may be repeated by a table: it counts once, and has both places.
        assert row.where.partition("; Table 4.3")[0] == stated["where"], row.figure
        if "of all CPU" in row.statement or "cycles per packet" not in row.note:
            numbers = {stated.get(one) for one in ("value", "min", "max", "recomputed")} - {None}
            own = {row.value, row.minimum, row.maximum} - {None}
            # Figures 6 and 10 of Communication Breakdown begin with 1 user and 2 clients.
            fewest = {1, 2} if row.quantity == "knee.clients" else set()
            assert own <= numbers | fewest | {0.0, -66.4, 401.0}, row.figure


def test_shares_and_changes_are_computed_from_table_1() -> None:
    reference = {name: row.get("value") for name, row in printed_figures("tr05-450.toml").items()}

    def cycles(figure: str, region: str) -> float:
        prefix = figure.partition("-L0-")[0]
        value = reference[f"{prefix}-L0-{region.replace('Stack', 'OverallStack')}-cycles"]
        assert isinstance(value, int)
        return value

    checked = 0
    for row in library.find("tr05-450", "full").published:
        if not row.figure.startswith("tr05-450/t1-") or row.quantity == "region_order":
            continue
        region = row.quantity.partition(".")[2].partition(" ")[0]
        own = cycles(row.figure, region)
        if row.quantity.startswith("busy_share."):
            expected = 100 * own / sum(cycles(row.figure, one) for one in SEVEN)
        else:
            assert row.against is not None
            base = row.figure.replace(
                f"-C{row.point.partition('-')[2].removesuffix('c')}-",
                f"-C{row.against.partition('-')[2].removesuffix('c')}-",
            )
            expected = 100 * (own / cycles(base, region) - 1)
        assert row.value == pytest.approx(expected, abs=0.051), row.figure
        checked += 1
    assert checked == 48 + 16


@pytest.mark.parametrize("name", MEASURED_STUDIES)
def test_every_figure_names_existing_quantities(name: str) -> None:
    for figure in library.find(name, "full").figures:
        if figure.kind in ("relative", "quantities-beside"):
            assert set(figure.y.split(",")) <= QUANTITIES.keys()


def test_experiments_are_selected_by_name() -> None:
    study = library.find("tr05-450", only=("packet-rate",))
    assert [point.factors["rate_mbps"] for point in study.points] == list(range(100, 1000, 100))
    assert {figure.x for figure in study.figures} == {"rate_mbps", "point"}
    with pytest.raises(ConfigurationError, match="--only seven"):
        library.find("tr05-450", only=("seven",))
    with pytest.raises(ConfigurationError, match="only one length, so --full has no effect"):
        library.find("osdi06", "full")


@pytest.mark.parametrize(("name", "length"), SCOPES)
def test_a_reopened_run_has_its_scope_and_its_command(name: str, length: Length) -> None:
    study = library.find(name, length)
    added = (("run.duration_s", "1"),)
    found = configuration_file.study_of(configuration_file.resolve(study, "1", (1,), added))
    assert found.points == study.points
    assert found.published == study.published
    assert found.command == study.command
    assert (f"--{length}" in found.command) is (length != "default")
    assert "--only" not in found.command


def test_a_reopened_part_of_a_study_is_that_part() -> None:
    study = library.find("tr05-450", only=("packet-rate", "connections"))
    found = configuration_file.study_of(configuration_file.resolve(study, "1"))
    assert found.command == "perpacket study run tr05-450 --only packet-rate,connections"
    assert found.points == study.points


def change(value: float | None, minimum: float | None = None) -> Published:
    return Published(
        *("paper/change", "1", "change", "p", "ns.TCP increase", "%"),
        value=value,
        minimum=minimum,
        against="q",
        resolution=1.0,
        judged="direction",
    )


@pytest.mark.parametrize(
    ("published", "low", "high", "verdict", "text"),
    [
        (157.0, 40.0, 60.0, Verdict.SAME_DIRECTION, "same direction, weaker"),
        (18.0, 40.0, 60.0, Verdict.SAME_DIRECTION, "same direction, stronger"),
        (50.0, 40.0, 60.0, Verdict.AGREES, "agrees"),
        (157.0, -20.0, -10.0, Verdict.OPPOSITE, "opposite direction"),
        (157.0, -20.0, 10.0, Verdict.NOT_DISTINGUISHABLE, "not distinguishable"),
        (157.0, -90.0, 900.0, Verdict.NOT_DISTINGUISHABLE, "not distinguishable"),
        (-66.0, -80.0, -70.0, Verdict.SAME_DIRECTION, "same direction, stronger"),
        (-66.0, 10.0, 20.0, Verdict.OPPOSITE, "opposite direction"),
    ],
)
def test_a_change_is_judged_by_its_direction(
    published: float, low: float, high: float, verdict: Verdict, text: str
) -> None:
    interval = Interval((low + high) / 2, low, high, 3, 0.95)
    row = compare(change(published), "c", interval)
    assert (row.verdict, row.verdict_text) == (verdict, text)


def test_an_interval_that_contains_nearly_every_value_agrees_with_none() -> None:
    share = replace(change(15.0), judged="value", quantity="busy_share.TCP", widest=20.0)
    wide, narrow = Interval(20.0, -30.0, 70.0, 2, 0.95), Interval(16.0, 12.0, 20.0, 2, 0.95)
    assert compare(share, "c", wide).verdict is Verdict.TOO_WIDE
    assert compare(share, "c", narrow).verdict is Verdict.AGREES
    assert compare(replace(share, value=90.0), "c", wide).verdict is Verdict.DIFFERS
    bound = replace(share, value=None, maximum=25.0)
    assert compare(bound, "c", wide).verdict is Verdict.TOO_WIDE


def test_the_headline_counts_intervals_that_are_too_wide() -> None:
    rows = [
        compare(change(157.0), "c", Interval(50.0, 40.0, 60.0, 3, 0.95)),
        compare(change(157.0), "c", Interval(50.0, -90.0, 900.0, 3, 0.95)),
    ]
    assert published_score.headline(rows, MEASURED) == (
        "Within 25 %, 0 of 2 published values hold, 1 hold in part, 1 cannot be tested here. "
        "Strictly: 1 of 2 published changes agrees in direction; the intervals of 1 are too wide."
    )


def test_a_published_rise_without_a_number_is_judged_by_its_direction() -> None:
    rise, fall = Interval(5.0, 1.0, 9.0, 3, 0.95), Interval(-5.0, -9.0, -1.0, 3, 0.95)
    assert compare(change(None, 0.0), "c", rise).verdict_text == "same direction"
    assert compare(change(None, 0.0), "c", fall).verdict is Verdict.OPPOSITE


numbers = st.lists(st.integers(0, 9), min_size=7, max_size=7)


@given(numbers, numbers)
def test_the_order_of_regions_is_compared_by_kendalls_tau_b(
    first: list[float], second: list[float]
) -> None:
    expected = scipy_stats.kendalltau(first, second).statistic
    found = region_order.tau(first, second)
    if found is None:
        assert len(set(first)) == 1 or len(set(second)) == 1
    else:
        assert found == pytest.approx(expected)


NS_BY_REGION = {
    "user": 155.0,
    "syscall": 60.0,
    "socket": 95.0,
    "tcp": 290.0,
    "ip": 53.0,
    "ethernet": 95.0,
    "driver": 210.0,
    "scheduler": 58.0,
}


@dataclass
class ProfiledRunner(FakeMeasuredRunner):
    """A runner with the report's profile; every doubling of connections makes packets cost more."""

    broken: str = ""
    prepared: list[FakeRun] = field(default_factory=list)

    def prepare(self, point: Point, seed: int, timeline: bool) -> FakeRun:
        return ProfiledRun(self, point, seed)


class ProfiledRun(FakeRun):
    def run(self) -> object:  # type: ignore[override]
        outcome = super().run()
        connections = self.point.factors["connections"]
        assert isinstance(connections, int)
        dearer = 1 + 0.1 * connections.bit_length() + 0.001 * self.seed
        if self.point.factors["events"] == "misses":
            return replace(outcome, result=misses_of(dearer))
        busy_ns = sum(NS_BY_REGION.values())
        layers = {
            name: {"cpu_ns_per_segment": ns * dearer, "share": ns / busy_ns}
            for name, ns in NS_BY_REGION.items()
        }
        result = {
            "layers": layers,
            "interrupts": {"per_packet": 0.5},
            "packets_per_s": 500.0 * connections,
            "goodput_mbps": float(self.point.factors["rate_mbps"] or 5000),
            "server_idle": 0.2,
            "requests_per_s": 100.0 * connections,
            "content_mbps": 10.0 * connections,
            "latency_us": {"response": {"p50": 200.0 * dearer, "p99": 900.0 * dearer}},
            "doubts": {"client_limited": self.point.name == "trace-512c"},
        }
        return replace(outcome, result=result)


def misses_of(dearer: float) -> dict[str, object]:
    """The result of a machine that counts every miss but those of instruction fetches."""
    events = ("l1d", "itlb", "dtlb", "branch")
    cost = {f"{event}_misses_per_packet": dearer for event in events}
    layers = dict.fromkeys(NS_BY_REGION, cost)
    return {"layers": layers, "regions": {"tcp": cost, "system_call": cost}, "doubts": {}}


def test_misses_are_drawn_and_compared_where_the_machine_counts_them(tmp_path: Path) -> None:
    study = library.find("tr05-450", only=("misses",))
    runner = ProfiledRunner(lambda *_: None)
    study = replace(study, runner=runner, measured_runner=runner)
    directory = start.run(study, tmp_path / "run", seeds=(1, 2, 3))
    analysis = analyze(directory.study(), directory)
    rows = {row.reference.figure: row.verdict_text for row in analysis.comparisons}
    for region in ("TCP", "SystemCall"):
        assert rows[f"tr05-450/f7-{region}-C512-l1-change"].startswith("same direction")
    drawn = {
        figure.title: plot.draw(600).to_json()
        for figure in analysis.study.figures
        if figure.kind == "curve" and (plot := curve.curves(figure, analysis)) is not None
    }
    assert set(drawn) == {
        f"Other misses per packet by connections: {part}" for part in ("TCP", "system calls")
    }
    chart = drawn["Other misses per packet by connections: TCP"]
    assert "DTLB" in chart
    assert "l1i" not in chart


def test_a_sender_without_a_rate_shows_the_limit_of_the_path(tmp_path: Path) -> None:
    study = library.find("tr05-450", "quick", only=("packet-rate", "path"))
    runner = ProfiledRunner(lambda *_: None)
    directory = start.run(
        replace(study, runner=runner, measured_runner=runner), tmp_path / "run", seeds=(1, 2)
    )
    limits = analyze(directory.study(), directory).limits
    (carried,) = (text for text in limits if "path and sender carry" in text)
    assert carried.startswith("Bulk-1c-unlimited: path and sender carry 5,000")


@pytest.fixture
def run(tmp_path: Path) -> tuple[Study, RunDirectory]:
    """The web and connections experiments with the report's own shape; one run failed."""

    def body(point: Point, seed: int) -> None:
        from perpacket.errors import RunFailed

        if (point.name, seed) == ("specweb99-16c", 2):
            raise RunFailed("the server on server died in the middle of the run, with status -11")

    study = library.find("tr05-450", only=("connections", "web"))
    left_out = {p.name: "nothing can add latency here" for p in study.points if "ms" in p.name}
    left_out = {name: why for name, why in left_out.items() if "mbps" not in name}
    runner = ProfiledRunner(body)
    runner.setup = replace(runner.setup, facts={"limits": ["one host"]}, left_out=left_out)
    study = replace(study, runner=runner, measured_runner=runner)
    directory = start.run(study, tmp_path / "run", seeds=(1, 2, 3))
    return directory.study(), directory


def test_a_profile_of_the_published_shape_agrees(
    run: tuple[Study, RunDirectory],
) -> None:
    rows = {row.reference.figure: row for row in analyze(*run).comparisons}
    for region in SEVEN:
        row = rows[f"tr05-450/t1-WC-C512-L0-{region}-cycles"]
        assert row.value is not None
        assert row.value.value == pytest.approx(row.reference.value, abs=1.0)
    order = rows["tr05-450/t1-WC-order/trace-512c"]
    assert order.value is not None
    assert order.value.value > 0.9
    assert "TCP, Driver" in order.reference.note
    growth = rows["tr05-450/f5-tcp-cyc-inc"]
    assert growth.verdict_text == "same direction, weaker"
    assert any("may have been the limit" in text for text in order.warnings) is False
    limited = rows["tr05-450/t1-WC-C512-L0-TCP-cycles"].warnings
    assert limited == ("the clients were nearly busy and may have been the limit in block 1, 2, 3",)


def test_the_page_uses_terms_of_measurements_and_lists_failed_and_left_out_points(
    run: tuple[Study, RunDirectory], tmp_path: Path
) -> None:
    page = html.write(analyze(*run), tmp_path / "report.html").read_text()
    text = page.partition('<script id="perpacket-data"')[0]
    assert "simulat" not in text
    assert "calibrat" not in text
    assert "seed" not in text.partition("Limits of this run")[0]
    assert "Failed: specweb99-16c, block 2: the server on server died" in text
    assert "Left out: trace-2048c-0ms" in text
    assert "One host." in text
    assert "perpacket study run tr05-450 --only connections,web" in text
    assert "same direction, weaker" in text
    assert text.count("<svg") == 2 * text.count('<figure id="figure-')


def test_a_failed_run_ends_the_verb_with_4_after_the_data(
    run: tuple[Study, RunDirectory], capfd: pytest.CaptureFixture[str]
) -> None:
    status = app.run(["study", "report", str(run[1].path), "--format", "json"])
    out, err = capfd.readouterr()
    assert status == 4
    found = json.loads(out)
    assert found["failures"][0]["point"] == "specweb99-16c"
    assert found["missing"] == 1
    assert found["comparisons"][0]["measured"]["n"] == 3
    assert "specweb99-16c block 2" in err
    assert "perpacket study resume" in err


ELSEWHERE = ("--url", "http://{address}:8080", "--testbed", "loopback")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["osdi06", "--plane", "xdp"], "has no --plane xdp"),
        (["osdi06-ablation", "--quick"], "--quick has no effect"),
        (["osdi06", "--only", "nothing"], "nothing"),
        (["osdi06", "--duration", "3"], "--duration: it is an option of measured"),
        (["tr05-450", "--packets", "3"], "--packets: it is an option of simulated"),
        (["tr05-450", "--cluster", "tcp://[::1]:8786"], "--cluster: it is an option of simulated"),
        (["tr05-450", "--executor", "processes"], "--executor: it is an option of simulated"),
        (["osdi06", "--cluster", "here"], "--cluster here: expected the address"),
        (["osdi06", "--cluster", "tcp://[::1]:8786", "--workers", "2"], "leave out --workers"),
        (["breakdown", "--only", "web"], "--only web"),
        (["breakdown", "--server", "nginx"], "--server (server.command) and --url (server.url)"),
        (["breakdown", "--server", "no-such -x", *ELSEWHERE], "there is no program no-such"),
        (["breakdown", "--server", "'unclosed", *ELSEWHERE], "--server (server.command) 'unclosed"),
        (["web-servers", "--server", "nginx", *ELSEWHERE], "this study has servers of its own"),
        (["breakdown", "--trace", "absent.log"], "absent.log"),
        (["tr05-450", "--trace", "a=absent.log"], "absent.log"),
        (["tr05-450", "--trace", "a.log", "--trace", "b.log"], "a.log: expected NAME=FILE"),
        (["tr05-450", "--trace", "a=x", "--trace", "a=y"], "two logs have this name"),
        (["breakdown", "--trace", f"a={__file__}"], "accepts no --trace NAME=FILE"),
        (["tr05-450", "--testbed", "ssh"], "testbed.server_host"),
    ],
)
def test_options_of_another_kind_of_study_are_errors(
    arguments: list[str], complaint: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status = app.run(["study", "run", *arguments, "--output", str(tmp_path / "run")])
    assert (status, complaint in capfd.readouterr().err) == (2, True)
    assert not (tmp_path / "run").exists()


def test_logs_by_name_replace_the_synthesized_trace() -> None:
    logs = {"world-cup": "/logs/wc.log", "nasa": "/logs/nasa.log"}
    plain, study = library.find("tr05-450"), library.find("tr05-450", traces=logs)
    names = [point.name for point in plain.points]
    replaced = [name for name in names if name.startswith("trace-")]
    assert replaced
    expected = [name for name in names if name not in replaced]
    expected += [name.replace("trace", log, 1) for log in logs for name in replaced]
    assert sorted(point.name for point in study.points) == sorted(expected)
    for point in study.points:
        log = logs.get(str(point.factors["trace"]), "")
        assert dict(point.overrides).get("load.trace", "") == log
        assert (point.factors["load"] == "trace") == bool(log)
    assert {point.factors["trace"] for point in plain.points} == {"none", "synthesized"}
    titles = [figure.title for figure in study.figures]
    for log in logs:
        assert f"Time to a response of the web server, trace, {log}" in titles
        assert f"Cost of a segment by layer: web server, trace, {log}" in titles
    assert len(titles) == len(set(titles)) > len(plain.figures)
    drawn = next(place.charts for place in study.places if place.name == "Figure 2")
    assert f"Throughput of the web server, trace, {log}" in drawn
    # The run directory stores the study with its logs.
    stored = load.of_text(study.definition, Path("study.toml"))
    assert stored.points == study.points
    assert "--trace world-cup=/logs/wc.log --trace nasa=/logs/nasa.log" in stored.command


def test_the_studies_use_the_real_runner() -> None:
    for name in SERVED:
        runner = library.find(name).measured_runner
        assert isinstance(runner, NamedRunner)
        assert runner.name == "perpacket_lab.measure.web.web_runner:WebRunner"
