"""The language of a study's file; the built-in studies in it are those of the first version."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import tomli_w

from perpacket.errors import ConfigurationError, MissingStudy
from perpacket_lab.cli.study_verbs import chosen, length_of
from perpacket_lab.run import configuration_file
from perpacket_lab.study import library, load
from perpacket_lab.study.file import read_content
from perpacket_lab.study.lengths import LENGTHS, Length, has_lengths
from perpacket_lab.study.study import Study

HERE = Path("my.toml")

MEASURED = [name for name in library.names() if library.find(name).is_measured]


@cache
def found(name: str, length: Length = "default") -> Study:
    return library.find(name, length)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", MEASURED)
def test_every_length_has_at_least_eight_windows_a_point(name: str, length: Length) -> None:
    # Variants of a deterministic machine differ less than windows of a real one.
    emulated = {
        "tr05-450-emulated": {"quick": 2, "default": 5, "full": 5},
        "kernel-history": {"quick": 2, "default": 3, "full": 5},
        "steering": {"quick": 2, "default": 5, "full": 5},
    }
    least = emulated[name][length] if name in emulated else 8
    assert len(found(name, length).seeds) >= least


@pytest.mark.parametrize("name", MEASURED)
def test_the_quick_length_takes_under_two_minutes_of_measuring(name: str) -> None:
    """Check the time of the quick length: more for six workloads, and for an emulation."""
    study = found(name, "quick")
    measured = [point for point in study.points if point.name not in study.simulated]
    runs = [study.runner_of(point).prepare(point, 1, timeline=False) for point in measured]
    expected_ms = sum(run.progress()[1] for run in runs)
    longer = ("breakdown", "tr05-450-emulated")
    assert 0 < expected_ms * len(study.seeds) < (300_000 if name in longer else 120_000)


@pytest.mark.parametrize("name", MEASURED)
def test_the_quick_length_has_points_of_the_default_one_and_a_warning(name: str) -> None:
    quick = found(name, "quick")
    every = {point.name for point in found(name).points}
    assert {point.name for point in quick.points} <= every
    assert load.QUICK_LIMIT in quick.limits
    assert load.QUICK_LIMIT not in found(name).limits


@pytest.mark.parametrize("name", library.names())
def test_the_study_in_a_run_directory_is_the_study_that_ran(name: str) -> None:
    study = found(name)
    run = configuration_file.resolve(study, "1")
    again = configuration_file.study_of(run)
    for field in ("points", "figures", "published", "contests", "methods", "design", "summary"):
        assert getattr(again, field) == getattr(study, field), field
    assert again.limits == study.limits
    assert again.command == study.command
    assert again.definition == study.definition


def test_a_run_directory_names_a_point_that_its_study_lacks() -> None:
    study = found("breakdown")
    run = configuration_file.resolve(study, "0")
    gone = replace(run, points=(*run.points, replace(study.points[0], name="ab-7b")))
    with pytest.raises(ConfigurationError, match="ab-7b"):
        configuration_file.study_of(gone)
    with pytest.raises(MissingStudy, match=r"no\s+study\.toml"):
        configuration_file.study_of(replace(run, definition=""))


BASE = """
name = "small"
kind = "measured"
[scenario]
"load.kind" = "file"
"load.connections" = "{clients}"
[levels]
clients = 1
server = "events"
"""


def test_cases_come_before_factors_and_rules_add_parameters_and_levels() -> None:
    study = load.build(
        BASE
        + """
[labels]
server = { events = "event loop" }
[[when]]
if = { clients = [8, 16] }
scenario = { "server.threads" = 64 }
levels = { many = "yes" }
[[without]]
clients = 16
server = "uring"
[[experiment]]
point = "{server}-{clients}"
levels = { many = "no" }
cases = [{ server = "events" }, { server = "uring" }]
factors = { clients = [1, 8, 16] }
""",
        HERE,
    )
    names = ["events-1", "events-8", "events-16", "uring-1", "uring-8"]
    assert [point.name for point in study.points] == names
    few, many = study.points[:2]
    assert few.factors == {"clients": 1, "server": "event loop", "many": "no"}
    assert many.factors == {"clients": 8, "server": "event loop", "many": "yes"}
    assert dict(many.overrides) == {
        "load.kind": "file",
        "load.connections": "8",
        "server.threads": "64",
    }
    assert "server.threads" not in dict(few.overrides)


def test_a_factor_that_the_scenario_does_not_insert_is_a_parameter() -> None:
    text = '[[experiment]]\nfactors = { clients = [1, 2], "run.duration_s" = [0.5, 1.0] }\n'
    point = load.build(BASE + text, HERE).points[1]
    assert point.name == "clients=1+duration_s=1.0"
    assert dict(point.overrides)["run.duration_s"] == "1.0"
    assert "clients" not in dict(point.overrides)


def test_a_length_without_a_value_has_the_default_value() -> None:
    text = BASE.replace("[levels]", '"run.duration_s" = { quick = 0.2, default = 1.0 }\n[levels]')
    durations = [
        dict(load.build(text, HERE, length).points[0].overrides)["run.duration_s"]
        for length in LENGTHS
    ]
    assert durations == ["0.2", "1.0", "1.0"]
    with pytest.raises(ConfigurationError, match=r"my\.toml: .* --full has no effect"):
        load.build(BASE, HERE, "full")


def test_an_experiment_on_request_runs_only_when_it_is_named() -> None:
    text = """
[[experiment]]
name = "usual"
point = "usual"
[[experiment]]
name = "rare"
on_request = true
point = "rare"
"""
    assert [p.name for p in load.build(BASE + text, HERE).points] == ["usual"]
    assert [p.name for p in load.build(BASE + text, HERE, only=("rare",)).points] == ["rare"]
    with pytest.raises(ConfigurationError, match="--only none") as caught:
        load.build(BASE + text, HERE, only=("none",))
    assert caught.value.allowed == "use one or more of usual,rare"


def test_own_values_override_an_included_file_and_limits_are_joined(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('limits = ["a"]\nquestion = "Q?"\n' + BASE)
    file = tmp_path / "own.toml"
    file.write_text('include = "base.toml"\nname = "own"\nlimits = ["b"]\n[levels]\nclients = 9\n')
    study = load.load(file)
    assert (study.name, study.question, study.limits) == ("own", "Q?", ("a", "b"))
    assert dict(study.points[0].overrides)["load.connections"] == "9"


def test_figures_and_contests_repeat_over_lists_and_keep_the_types_of_levels() -> None:
    text = """
[[lists.sizes]]
bytes = 5
[[lists.sizes]]
bytes = 10
[[lists.aims]]
aim = "Least"
least = true
[[figure]]
each = ["sizes"]
kind = "laws"
title = "{bytes} B"
y = ["share", "b"]
where = { clients = "{bytes}" }
[[contest]]
each = ["sizes", "aims"]
title = "{aim} at {bytes} B"
competitor = "server"
along = "clients"
quantity = "server_cpu"
where = { clients = "{bytes}" }
lower_wins = "{least}"
[[experiment]]
factors = { clients = [5, 10] }
"""
    study = load.build(BASE + text, HERE)
    assert [(f.title, f.y, f.where) for f in study.figures] == [
        ("5 B", "share,b", {"clients": 5}),
        ("10 B", "share,b", {"clients": 10}),
    ]
    assert [one.title for one in study.contests] == ["Least at 5 B", "Least at 10 B"]
    assert all(one.lower_wins is True for one in study.contests)
    with pytest.raises(ConfigurationError, match="no list 'none'; there are sizes, aims"):
        load.build(BASE + text.replace('each = ["sizes"]', 'each = ["none"]'), HERE)


@pytest.mark.parametrize("value", ["\x7f", "\x1b[0m", 'quote " and \\', "tab\tnewline\n", "ü€😀"])
def test_the_files_of_a_run_preserve_any_text(value: str) -> None:
    study = load.build(tomli_w.dumps({"title": value}) + BASE, HERE)
    assert study.title == value
    assert tomllib.loads(study.definition)["title"] == value
    point = replace(study.points[0], overrides=(("server.command", value),))
    run = configuration_file.resolve(replace(study, points=(point,)), "1")
    content = tomllib.loads(configuration_file.to_toml(run))
    assert content["point"][0]["overrides"] == [["server.command", value]]


@pytest.mark.parametrize("name", library.names())
def test_every_length_and_experiment_of_every_study_can_be_run(name: str) -> None:
    default = library.find(name)
    file = library.HERE / name.replace("-", "_") / library.FILE
    if has_lengths(read_content(file.read_text(), file)):
        for length in ("quick", "full"):
            assert chosen(name, length_of(length == "quick", length == "full"), None, None).points
    for experiment in library.experiments(name):
        part = chosen(name, "default", experiment, None)
        assert part.points
        assert part.seeds == default.seeds
