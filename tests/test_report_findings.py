"""The findings of a report, its scores, its limits, and the command that runs it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from invented import BASELINE, InventedRunner, Outline, of_frame, published
from perpacket.analysis.statistics import Interval
from perpacket_lab.analysis import findings, published_score
from perpacket_lab.analysis.analysis import Analysis, analyze, commands
from perpacket_lab.analysis.findings import Finding, RunEvidence, findings_of
from perpacket_lab.analysis.published_rows import compare_all
from perpacket_lab.analysis.wording import MINUS
from perpacket_lab.run import start
from perpacket_lab.show import html, tables
from perpacket_lab.study.figure import Figure
from perpacket_lab.study.point import Point
from perpacket_lab.study.study import Study


def found_in(study: Study, analysis: Analysis, frame: pl.DataFrame) -> tuple[Finding, ...]:
    """The findings of a study whose runs are the rows of a table."""
    own = of_frame(study, analysis, frame)
    comparisons = compare_all(study, own.estimates)
    return findings_of(RunEvidence(study, own.estimates, comparisons)).rows


def test_findings_are_gains_paired_by_seed_beside_the_papers(analysis: Analysis) -> None:
    found = {finding.point: finding for finding in analysis.findings.rows}
    # The effect of a seed on both cancels out: the ratio is exactly 23,000 / 20,000.
    gain = found["W-1024-P-N-FCFS-400"]
    assert (gain.value, gain.bounds) == ("+15.0 %", "[+15.0, +15.0]")
    assert gain.published == "paper +16 %"
    loss = found["W-1024-N-N-FCFS-400"]
    assert loss.value == f"{MINUS}30.0 %"
    assert loss.published == f"paper {MINUS}30 %"
    assert "from its rates" in loss.remark
    assert "used to calibrate" in loss.remark, "the rate it is relative to was"
    assert found["W-4096-P-L-FCFS-800"].published == "no figure in the paper"


def test_a_change_whose_interval_contains_zero_is_not_distinguishable(
    study: Study, analysis: Analysis
) -> None:
    name = "W-1024-P-N-FCFS-400"
    frame = pl.DataFrame(
        {
            "point": [BASELINE] * 3 + [name] * 3,
            "seed": [1, 2, 3] * 2,
            "requests_per_s": [100.0, 100.0, 100.0, 101.0, 99.0, 100.5],
        }
    )
    (found,) = found_in(study, analysis, frame)
    assert found.point == name
    assert found.value == "not distinguishable"
    assert found.bounds.startswith("[")


@pytest.mark.parametrize(
    ("ratio", "value"),
    [
        (Interval(4.78, 2.0, 12.0, 3, 0.95), "higher"),
        (Interval(4.78, 4.0, 5.5, 3, 0.95), "+378 %"),
        (Interval(1.03, 0.99, 1.07, 3, 0.95), "not distinguishable"),
        (Interval(16.0, 14.0, 18.0, 3, 0.95), "× 16"),
    ],
)
def test_an_interval_that_does_not_show_the_size_of_a_change_is_never_a_headline(
    ratio: Interval, value: str
) -> None:
    assert findings.change_text(ratio)[0] == value


def test_the_lead_names_the_worst_and_the_best_gain(analysis: Analysis) -> None:
    assert analysis.findings.lead == (
        f"Change in requests per second: {MINUS}30.0 % [{MINUS}30.0, {MINUS}30.0] at worst "
        "(W-1024-N-N-FCFS-400), +30.0 % [+30.0, +30.0] at best (W-4096-P-L-FCFS-800)."
    )


def test_held_out_and_calibrated_values_are_counted_apart(analysis: Analysis) -> None:
    rows = analysis.comparisons
    counted = [(score.value, score.label) for score in published_score.scores(rows)]
    assert counted == [
        ("1 of 3", "published values not used to calibrate agree"),
        ("1 of 1", "published values used to calibrate agree"),
    ]
    assert "1 agree with the simulation and 2 do not" in analysis.headline
    only_calibrated = [row for row in rows if row.reference.calibration]
    assert "a fit, no prediction" in published_score.headline(only_calibrated)


def test_disagreements_are_sorted_by_distance(analysis: Analysis, outline: Outline) -> None:
    assert [row.reference.value for row in analysis.disagreements] == [30_000.0, 16.0]
    listed = next(e for e in outline.all("ul") if e.attributes.get("class") == "disagreements")
    assert "30,000" in listed.text
    assert "differs by" in listed.text


def test_a_study_without_baselines_reports_the_change_along_its_lines(analysis: Analysis) -> None:
    column = "layers.tcp.l2_misses_per_packet"
    names = [f"bulk-{connections}" for connections in (1, 2048)]
    figure = Figure("curve", "Misses", "connections", column)
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
        published=tuple(
            replace(published(name, "l2_misses.TCP", value), unit="misses/packet")
            for name, value in zip(names, (2.0, 5.0), strict=True)
        ),
    )
    frame = pl.DataFrame({"point": names * 2, "seed": [1, 1, 2, 2], column: [2.0, 5.0, 2.0, 5.0]})
    (found,) = found_in(study, analysis, frame)
    assert (found.value, found.bounds) == ("+150.0 %", "[+150.0, +150.0]")
    assert "connections from 1 to 2048" in found.subject
    assert found.published == "paper 2 and 5 misses/packet"


def test_a_study_without_a_document_reports_its_cost_and_the_gain_of_offload(
    analysis: Analysis,
) -> None:
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
    first, second = found_in(study, analysis, frame)
    assert first.value == "+100.0 %", "1,000 ns to 2,000 ns; the idle processor costs no packet"
    assert "user 75\N{NO-BREAK SPACE}%, TCP 25\N{NO-BREAK SPACE}%" in first.subject
    assert second.value.startswith("+33"), "a quarter of the processor is a third more throughput"
    stated = replace(study, published=(published("web-4c", "request_rate", 1.0),))
    assert found_in(stated, analysis, frame) == ()


def test_an_unfinished_run_is_reported_as_unfinished(study: Study, tmp_path: Path) -> None:
    run_directory = start.run(study, tmp_path / "run")
    for seed in study.seeds:
        run_directory.observation_path(BASELINE, seed).unlink()
    assert any("9 of 12 runs" in limit for limit in analyze(study, run_directory).limits)
    for point in study.points:
        for seed in study.seeds:
            run_directory.observation_path(point.name, seed).unlink(missing_ok=True)
    assert "0 of 12 runs" in html.write(
        analyze(study, run_directory), tmp_path / "empty.html"
    ).read_text(encoding="utf-8")


def test_a_run_on_an_unknown_machine_is_reported(study: Study, tmp_path: Path) -> None:
    run_directory = start.run(study, tmp_path / "run")
    (run_directory.path / "environment.json").unlink()
    environment = analyze(study, run_directory).run.environment
    (row,) = tables.environment_table(environment).rows
    assert row[-1].text == "unknown"


def test_runs_whose_packets_do_not_balance_come_first_among_the_limits(
    study: Study, tmp_path: Path
) -> None:
    broken = replace(study, runner=InventedRunner(conserved=False))
    run_directory = start.run(broken, tmp_path / "run")
    found = analyze(broken, run_directory).limits
    assert found[0].startswith("Packets do not balance")
    assert found[-1] == "Everything here is invented."


@pytest.mark.parametrize(
    ("seeds", "overrides", "expected"),
    [
        ((), (), "perpacket study run invented"),
        ((1, 2), (), "perpacket study run invented --replications 2"),
        ((), (("run.packets", "9"), ("nic.lowat", "8")),
         "perpacket study run invented --packets 9 --set nic.lowat=8"),
    ],
)  # fmt: skip
def test_the_page_has_the_command_that_runs_it_again(
    study: Study,
    tmp_path: Path,
    seeds: tuple[int, ...],
    overrides: tuple[tuple[str, str], ...],
    expected: str,
) -> None:
    run_directory = start.run(study, tmp_path / "run", seeds=seeds, overrides=overrides)
    assert commands(study, run_directory.configuration) == [expected]
