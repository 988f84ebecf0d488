"""What a report says: the answer, how far it agrees, its limits, how to get it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from invented import BASELINE, InventedRunner, Outline, published
from perpacket.analysis import findings, limits, published_score
from perpacket.analysis.published import judge
from perpacket.analysis.statistics import mean
from perpacket.run import start
from perpacket.run.directory import RunDirectory
from perpacket.show import html, wording
from perpacket.show.html import assembly
from perpacket.study.study import Figure, Point, Study


def test_the_answer_is_the_gain_paired_by_seed_beside_the_papers(
    study: Study, run_directory: RunDirectory
) -> None:
    rows = study.comparisons(run_directory)
    found = {f.name: f for f in findings.findings(study, run_directory.observations(), rows)}
    # What a seed does to both cancels out: 23,000 / 20,000 exactly, whatever the seeds.
    gain = found["W-1024-P-N-FCFS-400"]
    assert (gain.value, gain.bounds) == ("+15.0 %", "[+15.0, +15.0]")
    assert gain.paper == "paper +16 %"
    loss = found["W-1024-N-N-FCFS-400"]
    assert loss.value == f"{wording.MINUS}30.0 %"
    assert loss.paper == f"paper {wording.MINUS}30 %"
    assert "from its rates" in loss.remark
    assert "used to calibrate" in loss.remark, "the rate it is relative to was"
    assert found["W-4096-P-L-FCFS-800"].paper == "no figure in the paper"


def test_no_difference_is_claimed_when_the_interval_holds_zero(study: Study) -> None:
    name = "W-1024-P-N-FCFS-400"
    frame = pl.DataFrame(
        {
            "point": [BASELINE] * 3 + [name] * 3,
            "seed": [1, 2, 3] * 2,
            "requests_per_s": [100.0, 100.0, 100.0, 101.0, 99.0, 100.5],
        }
    )
    found = findings.findings(study, frame, [])
    assert [finding.name for finding in found] == [name]
    assert "no difference can be claimed" in found[0].subject


def test_held_out_and_calibrated_values_are_counted_apart(
    study: Study, run_directory: RunDirectory
) -> None:
    rows = study.comparisons(run_directory)
    counted = [(score.value, score.label) for score in published_score.scores(rows)]
    assert counted == [
        ("1 of 3", "published values not used to calibrate agree"),
        ("1 of 1", "published values used to calibrate agree"),
    ]
    assert "meets 1 and misses 2" in published_score.headline(rows)
    only_calibrated = [row for row in rows if row.published.calibration]
    assert "a fit, not a prediction" in published_score.headline(only_calibrated)


def test_every_disagreement_is_named_the_farthest_first(
    study: Study, run_directory: RunDirectory, outline: Outline
) -> None:
    missed = published_score.disagreements(study.comparisons(run_directory))
    assert [row.published.value for row in missed] == [30_000.0, 16.0]
    listed = next(e for e in outline.all("ul") if e.attributes.get("class") == "disagreements")
    assert "30,000" in listed.text
    assert "differs by" in listed.text


def test_a_study_without_baselines_tells_the_course_of_its_lines() -> None:
    names = [f"bulk-{connections}" for connections in (1, 2048)]
    figure = Figure("curve", "Misses", "connections", "misses")
    study = Study(
        name="bulk",
        title="",
        question="",
        points=tuple(
            Point(name, "bulk", {"connections": int(name.split("-")[1])}) for name in names
        ),
        seeds=(1, 2),
        runner=InventedRunner(),
        figures=(figure, replace(figure, title="The same line again")),
    )
    frame = pl.DataFrame({"point": names * 2, "seed": [1, 1, 2, 2], "misses": [2.0, 5.0, 2.0, 5.0]})
    paper = replace(published(names[0], "l2_misses", 2.0), unit="misses/packet")
    rows = [judge(replace(paper, point=name), "bulk", mean([v, v]))
            for name, v in zip(names, (2.0, 5.0), strict=True)]  # fmt: skip
    found = findings.findings(study, frame, rows)
    assert [finding.value for finding in found] == ["+150 %"], "a line is told once"
    assert "connections from 1 to 2048" in found[0].subject
    assert found[0].paper == "paper 2 and 2 misses/packet"


def test_what_is_compared_with_nothing_tells_its_cost_and_what_offload_could_gain() -> None:
    points = tuple(Point(f"web-{n}c", "file", {"connections": n}) for n in (4, 256))
    cost = Figure("stacked-layers", "Cost", "connections", "cpu_ns_per_packet", y_title="time (ns)")
    study = Study(
        name="own",
        title="",
        question="",
        points=points,
        seeds=(1, 2),
        runner=InventedRunner(),
        figures=(cost, Figure("laws", "Offload", "", "share")),
    )
    frame = pl.DataFrame(
        {
            "point": [point.name for point in points for _ in (1, 2)],
            "seed": [1, 2, 1, 2],
            "layers.user.cpu_ns_per_packet": [600.0, 600.0, 1500.0, 1500.0],
            "layers.tcp.cpu_ns_per_packet": [400.0, 400.0, 500.0, 500.0],
            "layers.idle.cpu_ns_per_packet": [9000.0] * 4,
            "layers.user.share": [0.6, 0.6, 0.75, 0.75],
            "layers.tcp.share": [0.4, 0.4, 0.25, 0.25],
        }
    )
    first, second = findings.findings(study, frame, [])
    assert first.value == "+100 %", "1,000 ns to 2,000 ns; the idle processor costs no packet"
    assert "user 75\N{NO-BREAK SPACE}%, TCP 25\N{NO-BREAK SPACE}%" in first.subject
    assert second.value.startswith("+33"), "a quarter of the processor is a third more throughput"
    stated = replace(study, published=(published("web-4c", "request_rate", 1.0),))
    assert findings.findings(stated, frame, []) == []


@pytest.mark.parametrize(
    ("percent", "text"),
    [(-31.8, "−32 %"), (999.0, "+999 %"), (1489.0, "× 16"), (176_000.0, "× 1,761")],
)
def test_what_grows_many_times_is_told_in_times(percent: float, text: str) -> None:
    assert findings.grown(percent) == text


def test_an_unfinished_run_is_reported_and_said_to_be_unfinished(
    study: Study, tmp_path: Path
) -> None:
    run_directory = start.run(study, tmp_path / "run")
    for seed in study.seeds:
        run_directory.observation_path(BASELINE, seed).unlink()
    page = assembly.assemble(study, run_directory)
    assert any("9 of 12 runs" in limit for limit in page.limits)
    for point in study.points:
        for seed in study.seeds:
            run_directory.observation_path(point.name, seed).unlink(missing_ok=True)
    assert "0 of 12 runs" in html.write_study(
        study, run_directory, tmp_path / "empty.html"
    ).read_text(encoding="utf-8")


def test_a_run_whose_machine_is_not_known_is_reported_all_the_same(
    study: Study, tmp_path: Path
) -> None:
    run_directory = start.run(study, tmp_path / "run")
    (run_directory.path / "environment.json").unlink()
    (row,) = assembly.assemble(study, run_directory).environment.rows
    assert row[-1].text == "unknown"


def test_runs_whose_packets_do_not_balance_come_first_among_the_limits(
    study: Study, tmp_path: Path
) -> None:
    broken = replace(study, runner=InventedRunner(conserved=False))
    run_directory = start.run(broken, tmp_path / "run")
    found = limits.limits(broken, run_directory, run_directory.observations(), [])
    assert found[0].startswith("Packets do not balance")
    assert found[-1] == "Everything here is invented."


@pytest.mark.parametrize(
    ("seeds", "overrides", "expected"),
    [
        ((), (), "perpacket study run invented"),
        ((1, 2), (), "perpacket study run invented --seeds 2"),
        ((), (("run.packets", "9"), ("nic.lowat", "8")),
         "perpacket study run invented --packets 9 --set nic.lowat=8"),
    ],
)  # fmt: skip
def test_the_page_says_how_to_get_the_same_run_again(
    study: Study,
    tmp_path: Path,
    seeds: tuple[int, ...],
    overrides: tuple[tuple[str, str], ...],
    expected: str,
) -> None:
    run_directory = start.run(study, tmp_path / "run", seeds=seeds, overrides=overrides)
    assert assembly.commands(study, run_directory) == [expected]
