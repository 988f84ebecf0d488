"""Studies that users write: the keys of a file, the points it defines, and its errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from perpacket.cli import app
from perpacket.errors import ConfigurationError
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.measure.plan import validated
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.run import parameter_check, start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.run.threads import ThreadExecutor
from perpacket_lab.show.charts import kinds
from perpacket_lab.show.result_tables import summary_tables
from perpacket_lab.study import figures as study_figures
from perpacket_lab.study import file as study_file
from perpacket_lab.study import library, load, stopping
from perpacket_lab.study.file import Kind, StudyFile
from perpacket_lab.study.point import Point
from perpacket_lab.study.runner_interfaces import RunOutcome
from perpacket_lab.study.stopping import Stopping
from perpacket_lab.study.study import Study

pytestmark = pytest.mark.usefixtures("fake_core", "fake_report")

HERE = Path("my.toml")

SIMULATED = """
name = "memory-and-cache"
kind = "simulated"
replications = 3
quantities = ["requests_per_s"]
scenario.configuration = "W-0-N-N-FCFS-400"
scenario.run.packets = 1000
"""

MEASURED = """
name = "sizes"
kind = "measured"
replications = 2
[scenario]
load.kind = "file"
run.duration_s = 0.5
"""


@dataclass
class FakeRun:
    point: Point
    seed: int
    value: Callable[[Mapping[str, object], int], float]

    def run(self) -> RunOutcome:
        result = {"requests_per_s": self.value(self.point.factors, self.seed)}
        return RunOutcome(result, {"wall_s": 1.0})

    def progress(self) -> tuple[int, int]:
        return 0, 1

    def cancel(self) -> None:
        """Nothing waits."""


KINDS = ("measured", "simulated")


def built(text: str) -> Study:
    """The study of a user's file whose parameters were checked, as the verbs read it."""
    study = load.build(text, HERE)
    parameter_check.check(study, HERE)
    return study


def checked(text: str, where: Path = HERE) -> StudyFile:
    """The file's content, checked."""
    return study_file.check(study_file.read_content(text, where), where)


@dataclass
class FakeRunner:
    """Prepares runs whose result is a function of the point's factors and the seed."""

    value: Callable[[Mapping[str, object], int], float]

    def prepare(self, point: Point, seed: int, timeline: bool) -> FakeRun:
        return FakeRun(point, seed, self.value)


def simulated(text: str, value: Callable[[Mapping[str, object], int], float]) -> Study:
    return replace(built(SIMULATED + text), runner=FakeRunner(value))


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_are_studies_and_name_every_key(kind: str) -> None:
    text = library.example(kind)
    study = built(text)
    assert study.is_measured == (kind == "measured")
    assert len(study.points) == 4
    for key in ("name", "quantities", "replications", "until", "replications_most", "confidence",
                "seed", "design", "[scenario]", "[factors]", "[generators]"):  # fmt: skip
        assert key in text, f"{key} is not explained"


@pytest.mark.parametrize("kind", KINDS)
def test_optional_keys_of_an_example_are_valid(kind: str) -> None:
    lines = library.example(kind).splitlines()
    wanted = ("# until", "# replications_most", "# confidence", "# seed")
    text = "\n".join(line[2:] if line.startswith(wanted) else line for line in lines)
    assert text.count("\nuntil") == 2
    study = built(text)
    least = {"measured": 8, "simulated": 5}[kind]
    assert study.stopping == Stopping("requests_per_s", 0.02, least, 0.95)
    assert len(study.seeds) == 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_stores_the_study_of_the_file(kind: str) -> None:
    study = built(library.example(kind))
    again = load.build(study.definition, Path("elsewhere/study.toml"))
    assert again.points == study.points
    assert again.definition == study.definition


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("replications = 2", "replicatoins = 2", "replicatoins: no such key: did you mean repl"),
        ("replications = 2", "replications = 0", "replications: Input should be greater than"),
        ("replications = 2", 'replications = "2"', "replications: .* integer, not '2'"),
        ("replications = 2", 'until = "2 %"', "expected until and replications_most together"),
        ("replications = 2", 'until = "2"\nreplications_most = 9', 'a share such as "2 %"'),
        ('name = "sizes"\n', "", "name: this key is required"),
        ('name = "sizes"', 'name = "my sizes"', "name: String should match"),
        ('kind = "measured"', 'kind = "guessed"', "kind: .*'measured' or 'simulated'"),
        ('kind = "measured"', 'kind = "measured"\nschema = 2', "schema: .* 1, not 2"),
        ('kind = "measured"', 'kind = "measured"\nquantities = ["speed"]', "no 'speed'; there are"),
        ('load.kind = "file"', 'load.kin = "file"', "load.kin: a measured run has no such param"),
        ('load.kind = "file"', 'load.kind = "mail"', "load.kind = mail"),
        ('load.kind = "file"', 'load.kind = ["file"]', "scenario.load.kind: expected a text"),
        ("run.duration_s = 0.5", "run.duration_s = -1", r"\(run.duration_s\) = -1"),
        ("[scenario]", "[scenario", "invalid TOML"),
        ("[scenario]", "factors.load.connections = [1]\n[scenario]", "two levels or more"),
        ("[scenario]", "factors.load.connections = [1, 1]\n[scenario]", "different levels"),
        ("[scenario]", "factors.load.connections = [1, 1.0]\n[scenario]", "different levels"),
        ("[scenario]", "factors.load.connections = [1, inf]\n[scenario]", "finite numbers"),
        ("[scenario]", 'factors.load.connections = [1, "x"]\n[scenario]', "of one type"),
        ("[scenario]", "factors.load.connections = 1\n[scenario]", "expected a list"),
        ("[scenario]", 'factors.load.kind = ["file", "surge"]\n[scenario]', "in factors and in sc"),
        ("[scenario]", 'design = "two-level"\nfactors.load.users = [1, 2, 3]\n[scenario]',
         "factor load.users has 3 levels"),
        ("[scenario]", 'design = "fraction"\nfactors.load.users = [1, 2]\n[scenario]',
         "needs generators"),
        ("[scenario]", 'generators.x = ["a", "b"]\n[scenario]', "are for the design fraction"),
        ("[scenario]", f"factors.load.users = {list(range(5000))}\n[scenario]", "5,000 combinat"),
    ],
)  # fmt: skip
def test_an_error_names_the_file_the_key_and_what_was_expected(
    old: str, new: str, complaint: str
) -> None:
    text = MEASURED.replace(old, new)
    assert text != MEASURED
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        built(text)
    assert str(caught.value).startswith("my.toml: ")
    assert caught.value.hint


def test_an_error_of_the_simulator_names_the_file() -> None:
    with pytest.raises(ConfigurationError, match=r"my\.toml: nic\.mips = 0 cannot be used"):
        built(SIMULATED + "scenario.nic.mips = 0")
    with pytest.raises(ConfigurationError, match=r"my\.toml: scenario\.configuration"):
        built(SIMULATED.replace("scenario.configuration", "scenario.machine"))
    with pytest.raises(ConfigurationError, match="order is for measured studies"):
        built('order = "random"\n' + SIMULATED)


def test_dotted_quoted_and_nested_names_of_parameters_are_one_and_the_same() -> None:
    ways = ('[scenario]\nload.kind = "file"', '[scenario]\n"load.kind" = "file"',
            '[scenario.load]\nkind = "file"')  # fmt: skip
    head = 'name = "a"\nkind = "measured"\n'
    assert len({checked(head + way).scenario["load.kind"] for way in ways}) == 1


def test_the_path_of_a_trace_is_relative_to_the_file() -> None:
    text = 'name = "a"\nkind = "measured"\nscenario.load.kind = "trace"\n'
    found = checked(text + 'scenario.load.trace = "logs/requests.log"', Path("/studies/my.toml"))
    assert found.scenario["load.trace"] == "/studies/logs/requests.log"


def test_a_full_design_has_every_combination_and_sweeps_one_factor_after_another() -> None:
    factors = "factors.nic.mips = [400, 600, 800]\nfactors.nic.lowat = [128, 256, 512]\n"
    full = built(SIMULATED + factors)
    assert len(full.points) == 9
    assert full.points[1].factors == {"mips": 400, "lowat": 256}
    assert full.points[1].overrides == (
        ("run.packets", "1000"), ("nic.mips", "400"), ("nic.lowat", "256"),
    )  # fmt: skip
    sweeps = built('design = "sweeps"\n' + SIMULATED + factors)
    levels = [tuple(point.factors.values()) for point in sweeps.points]
    assert levels == [(400, 128), (600, 128), (800, 128), (400, 256), (400, 512)]


def test_factors_with_the_same_last_word_keep_their_whole_name() -> None:
    factors = "factors.machine.l1d.ways = [2, 4]\nfactors.machine.l2.ways = [8, 16]"
    study = built(SIMULATED + factors)
    assert study.points[0].name == "machine_l1d_ways=2+machine_l2_ways=8"


def test_a_configuration_and_a_switch_may_be_factors() -> None:
    text = SIMULATED.replace('scenario.configuration = "W-0-N-N-FCFS-400"\n', "")
    text += 'factors.configuration = ["W-0-N-N-FCFS-400", "bulk"]\n'
    text += "factors.nic.host_first = [true, false]"
    study = built(text)
    assert {point.configuration for point in study.points} == {"W-0-N-N-FCFS-400", "bulk"}
    assert study.points[0].overrides[-1] == ("nic.host_first", "true")


def test_all_points_use_the_delayed_path_if_any_has_latency() -> None:
    study = built(MEASURED + "[factors]\nnetwork.latency_ms = [0, 5]")
    assert [validated(WebPlan, point).network for point in study.points] == ["delayed", "delayed"]
    assert validated(WebPlan, built(MEASURED).points[0]).network == "direct"


JAIN = {(4, 1): (15, 18, 12), (16, 1): (45, 48, 51), (4, 2): (25, 28, 19), (16, 2): (75, 75, 81)}
"""Jain, The Art of Computer Systems Performance Analysis, example 18.1: memory by cache."""

MEMORY_AND_CACHE = (
    'design = "two-level"\n' + "factors.nic.memory_mib = [4, 16]\nfactors.nic.connections = [1, 2]"
)


def worked_example(factors: Mapping[str, object], seed: int) -> float:
    memory, cache = factors["memory_mib"], factors["connections"]
    assert isinstance(memory, int)
    assert isinstance(cache, int)
    return JAIN[memory, cache][seed - 1]


def test_a_two_level_study_has_the_effects_and_shares_of_the_worked_example(
    tmp_path: Path,
) -> None:
    study = simulated(MEMORY_AND_CACHE, worked_example)
    directory = start.run(study, tmp_path / "run")
    results = analyze(study, directory).summary
    assert results is not None
    (effects,) = results.effects
    printed = {row.subject: (row.interval.value, row.detail.share) for row in effects.rows}
    assert {name: value for name, (value, _) in printed.items()} == {
        "mean": 41.0, "memory_mib": 21.5, "connections": 9.5, "memory_mib x connections": 5.0,
    }  # fmt: skip
    shares = {
        name: round(100 * share, 2) for name, (_, share) in printed.items() if share is not None
    }
    assert shares == {"memory_mib": 78.88, "connections": 15.40, "memory_mib x connections": 4.27}
    assert round(100 * effects.error_share, 2) == 1.45
    assert all(row.verdict.is_shown for row in effects.rows)
    assert any("memory_mib 4 to 16; connections 1 to 2" in remark for remark in results.remarks)


def test_the_report_of_a_two_level_study_has_its_effects(tmp_path: Path) -> None:
    study = simulated(MEMORY_AND_CACHE, worked_example)
    analysis = analyze(study, start.run(study, tmp_path / "run"))
    assert analysis.findings.lead.startswith(
        "Of the variation of requests_per_s, memory_mib explains 79 %"
    )
    results, effects = summary_tables(analysis)
    assert len(results.rows) == 4
    assert [row[2].text for row in effects.rows] == ["", "78.88", "15.40", "4.27", "1.45"]


def test_a_fraction_of_a_design_reports_its_confounded_effects() -> None:
    factors = "".join(f"factors.nic.{name} = [1, 2]\n" for name in ("lowat", "mips", "memory_mib"))
    text = 'design = "fraction"\n' + SIMULATED + factors
    study = built(text + 'generators."nic.memory_mib" = ["nic.lowat", "nic.mips"]')
    assert len(study.points) == 4
    assert all(
        (point.factors["lowat"] == point.factors["mips"]) == (point.factors["memory_mib"] == 2)
        for point in study.points
    )
    printed = " ".join(study.remarks)
    assert "has resolution 3" in printed
    assert "lowat = mips x memory_mib" in printed
    assert "memory_mib = lowat x mips" in printed


def test_effects_are_computed_from_the_seeds_that_every_point_has(tmp_path: Path) -> None:
    study = simulated(MEMORY_AND_CACHE, worked_example)
    directory = start.run(study, tmp_path / "run")
    directory.observation_path(study.points[2].name, 3).unlink()
    results = analyze(study, directory).summary
    assert results is not None
    assert results.effects[0].replications == 2
    for seed in (1, 2):
        directory.observation_path(study.points[2].name, seed).unlink()
    lacking = analyze(study, directory).summary
    assert lacking is not None
    assert lacking.effects == ()
    assert any("no effects on requests_per_s" in remark for remark in lacking.remarks)


UNTIL = 'until = "5 %"\nreplications_most = 8\n' + SIMULATED
SERIES = {400: [100, 100, 100], 800: [100, 150, 50, 100, 100, 100, 100, 100],
          1200: [10, 1000, 10, 1000, 10, 1000, 10, 1000]}  # fmt: skip
"""One level has a narrow interval at once, one after some runs, and one never."""


def stopping_study() -> Study:
    def value(factors: Mapping[str, object], seed: int) -> float:
        mips = factors["mips"]
        assert isinstance(mips, int)
        return SERIES[mips][seed - 1]

    text = UNTIL.replace('"5 %"', '"30 %"') + "factors.nic.mips = [400, 800, 1200]"
    return replace(built(text), runner=FakeRunner(value))


def runs_of(directory: RunDirectory) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in directory.read_observations():
        found.setdefault(one.point, []).append(one.seed)
    return found


def test_a_point_is_repeated_until_its_interval_is_narrow_or_the_most_runs_are_made(
    tmp_path: Path,
) -> None:
    study = stopping_study()
    directory = start.run(study, tmp_path / "run")
    counts = {name: len(seeds) for name, seeds in runs_of(directory).items()}
    assert counts["mips=400"] == 3
    assert 3 < counts["mips=800"] < 8
    assert counts["mips=1200"] == 8
    assert directory.missing() == []
    assert directory.planned() == sum(counts.values())
    rule = study.stopping
    assert rule is not None
    values: list[float | None] = [float(value) for value in SERIES[800]]
    assert stopping.runs_enough(rule, values) == counts["mips=800"]
    results = analyze(study, directory).summary
    assert results is not None
    assert (
        "mips=1200: after all 8 runs, the interval of requests_per_s is wider than 30 %"
        in results.remarks
    )


@pytest.mark.parametrize("workers", [1, 4])
def test_a_stopping_rule_leads_to_the_same_runs_after_a_loss_and_with_any_workers(
    tmp_path: Path, workers: int
) -> None:
    study = stopping_study()
    whole = start.run(study, tmp_path / "whole")
    directory = start.run(study, tmp_path / "run", executor=ThreadExecutor(workers))
    assert runs_of(directory) == runs_of(whole)
    for name, seed in (("mips=400", 1), ("mips=800", 2), ("mips=1200", 8)):
        directory.observation_path(name, seed).unlink()
    assert start.resume(study, directory, executor=ThreadExecutor(workers)) == 3
    assert runs_of(directory) == runs_of(whole)


def test_drifts_and_outliers_have_a_remark(tmp_path: Path) -> None:
    def value(factors: Mapping[str, object], seed: int) -> float:
        if factors["mips"] == 400:
            return 1000 + 10 * seed
        return 5000.0 if seed == 4 else 1000 + seed % 3

    text = SIMULATED.replace("replications = 3", "replications = 10")
    study = replace(built(text + "factors.nic.mips = [400, 800]"), runner=FakeRunner(value))
    results = analyze(study, start.run(study, tmp_path / "run")).summary
    assert results is not None
    printed = "\n".join(results.remarks)
    assert "mips=400: the 10 runs rise in the order of their seeds" in printed
    assert "mips=800: one of 10 runs is an outlier: 5,000" in printed
    assert "neighbouring intervals of requests_per_s overlap" in printed


def test_a_run_stores_its_confidence_and_order(tmp_path: Path) -> None:
    text = SIMULATED.replace("replications = 3", "replications = 3\nconfidence = 0.9")
    study = replace(built(text), runner=FakeRunner(lambda _, seed: 100.0 + seed))
    directory = RunDirectory.open(start.run(study, tmp_path / "run").path)
    assert directory.configuration.confidence == 0.9
    results = analyze(study, directory).summary
    assert results is not None
    assert results.rows[0].interval is not None
    assert results.rows[0].interval.confidence == 0.9
    listed = built('order = "as-written"\n' + MEASURED)
    assert listed.order == "as-written"


def run_verb(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = app.run(arguments)
    out, err = capfd.readouterr()
    return int(status), out, err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "my.toml"
    found.write_text(SIMULATED + "factors.nic.mips = [400, 800]")
    return found


def test_a_run_no_longer_needs_the_file_of_its_study(
    file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    arguments = ("study", "run", str(file), "--output", str(path), "--format", "json")
    status, out, err = run_verb(capfd, *arguments)
    assert status == 0, err
    content = json.loads(out)
    assert (content["study"], content["observations"], content["missing"]) == (
        "memory-and-cache", 6, 0,
    )  # fmt: skip
    assert [row["point"] for row in content["results"]] == ["mips=400", "mips=800"]
    assert (path / "observations.parquet").exists()
    file.unlink()
    RunDirectory.open(path).observation_path("mips=400", 2).unlink()
    status, out, err = run_verb(capfd, "study", "resume", str(path))
    assert status == 0, err
    assert "1 new observation\n" in err
    assert "mips=400" in out
    assert run_verb(capfd, "study", "report", str(path))[0] == 0


def test_options_of_the_other_kind_are_refused_for_files_too(
    file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for option in (["--duration", "3"], ["--full"]):
        status, _, err = run_verb(capfd, "study", "run", str(file), *option)
        assert status == 2
        assert option[0].strip("-") in err.replace("run.duration_s", "duration")
    measured = tmp_path / "measured.toml"
    measured.write_text(MEASURED)
    for option in (["--only", "web"], ["--packets", "10"]):
        assert run_verb(capfd, "study", "run", str(measured), *option)[0] == 2
    file.write_text(UNTIL)
    status, _, err = run_verb(capfd, "study", "run", str(file), "--replications", "9")
    assert status == 2
    assert "repeats until an interval is narrow" in err


def test_a_factor_cannot_have_one_value_for_all_points(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run_verb(capfd, "study", "run", str(file), "--set", "nic.mips=500")
    assert status == 2
    assert "nic.mips is a factor of study memory-and-cache" in err


def test_a_new_study_is_printed_as_a_file_that_shows_its_points(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run_verb(capfd, "study", "new", "--kind", "simulated")
    assert status == 0
    (tmp_path / "new.toml").write_text(out)
    status, out, err = run_verb(capfd, "study", "show", str(tmp_path / "new.toml"))
    assert status == 0
    assert "4 points" in out
    assert "resolution 3" in err


def test_a_run_is_repeated_and_exported(
    file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import polars

    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    assert (
        run_verb(capfd, "study", "run", str(file), "--output", first, "--set", "nic.lowat=9")[0]
        == 0
    )
    assert run_verb(capfd, "study", "rerun", first, "--output", second)[0] == 0
    before, after = RunDirectory.open(Path(first)), RunDirectory.open(Path(second))
    assert after.configuration == before.configuration
    assert ("nic.lowat", "9") in after.configuration.points[0].overrides
    table = tmp_path / "t.parquet"
    assert run_verb(capfd, "study", "export", second, "--output", str(table))[0] == 0
    assert polars.read_parquet(table).equals(after.to_polars())


@pytest.mark.parametrize("kind", ["simulated", "measured"])
def test_what_offload_could_gain_is_drawn_where_it_is_measured(kind: Kind) -> None:
    points = (Point("a", "file", {"size": 1}), Point("b", "file", {"size": 2}))
    kinds = [
        figure.kind for figure in study_figures.default_figures(kind, points, ("requests_per_s",))
    ]
    assert kinds == ["curve", "stacked-layers", *["laws"] * (kind == "measured")]


def test_runs_that_lack_a_number_are_counted(tmp_path: Path) -> None:
    study = simulated("factors.nic.mips = [400, 800]", lambda _, seed: 100.0 + seed)
    directory = start.run(study, tmp_path / "run")
    file = directory.observation_path("mips=400", 2)
    content = json.loads(file.read_text())
    content["result"] = {"packets_per_s": 1.0}
    file.write_text(json.dumps(content))
    results = analyze(study, directory).summary
    assert results is not None
    assert "mips=400: 1 of 3 runs have no requests_per_s" in results.remarks


def test_factors_that_always_change_together_are_reported() -> None:
    base, made = ["lowat", "mips"], ["memory_mib", "connections"]
    factors = "".join(f"factors.nic.{name} = [1, 2]\n" for name in base + made)
    alike = "".join(f'generators."nic.{name}" = ["nic.lowat", "nic.mips"]\n' for name in made)
    printed = " ".join(built('design = "fraction"\n' + SIMULATED + factors + alike).remarks)
    assert "has resolution 2" in printed
    assert "some factors always change together and cannot be separated" in printed


def test_a_refused_study_prints_no_expected_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    measured = tmp_path / "measured.toml"
    measured.write_text(MEASURED + "[factors]\nnetwork.latency_ms = [0, 5]")
    command = ["study", "run", str(measured), "--output", str(tmp_path / "run")]
    status, _, err = run_verb(capfd, *command, "--set", "network.latency_ms=1")
    assert status == 2
    assert "of measurement" not in err
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("kept")
    status, _, err = run_verb(capfd, *command)
    assert status == 2
    assert err.startswith("error: ")
    assert "exists already" in err


def test_a_part_of_a_design_has_its_effects_drawn(tmp_path: Path) -> None:
    def value(factors: Mapping[str, object], seed: int) -> float:
        return 1000.0 * (factors["lowat"] == 2) + [3, 1, 2][seed - 1] * (factors["mips"] == 1)

    factors = "".join(f"factors.nic.{name} = [1, 2]\n" for name in ("lowat", "mips", "memory_mib"))
    text = 'design = "fraction"\n' + SIMULATED + factors
    text += 'generators."nic.memory_mib" = ["nic.lowat", "nic.mips"]'
    study = replace(built(text), runner=FakeRunner(value))
    analysis = analyze(study, start.run(study, tmp_path / "run"))
    (drawing,) = (one for one in kinds.draw(analysis) if one.title == "Effects on requests_per_s")
    assert drawing.description.startswith("Effects whose interval excludes zero: lowat 500")
    for svg in (drawing.wide, drawing.narrow):
        assert {"lowat", "mips", "memory_mib"} <= set(re.findall(r">(\w+)</text>", svg))
        assert "<svg" in svg


def test_without_a_significant_effect_the_report_calls_no_change_significant(
    tmp_path: Path,
) -> None:
    study = simulated(MEMORY_AND_CACHE, lambda _, seed: 100.0 + 5 * seed)
    lead = analyze(study, start.run(study, tmp_path / "run")).findings.lead
    assert lead.startswith("No factor has a significant effect on requests_per_s")
