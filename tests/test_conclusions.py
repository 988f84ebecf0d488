"""A run supports a document's conclusion, contradicts it, or leaves it open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from perpacket.analysis.claim import Verdict
from perpacket.analysis.statistics import mean
from perpacket.cli import app
from perpacket_lab.analysis import published_score
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.analysis.conclusions import Truth, conclusions_of, paragraph
from perpacket_lab.analysis.published_comparison import Comparison, compare
from perpacket_lab.emulate.runner import EmulatedRunner
from perpacket_lab.run import start
from perpacket_lab.study import library
from perpacket_lab.study.point import Point
from perpacket_lab.study.published import Published
from perpacket_lab.study.runner_interfaces import RunOutcome, SetupDescription


def compared(conclusion: str, changes: list[float], **bounds: float) -> Comparison:
    """A figure that supports a conclusion, beside the changes of some runs."""
    published = Published(
        *("figure", "5.2", "change of misses", "point", "l2_misses.TCP increase", "%"),
        **bounds,  # type: ignore[arg-type]
        judged="direction",
        conclusion=conclusion,
    )
    return compare(published, "bulk", mean(changes) if changes else None)


def test_each_figure_of_a_conclusion_counts() -> None:
    rises = compared("misses rise", [10, 11, 12], value=20.0)
    falls = compared("misses rise", [-10, -11, -12], minimum=0.0)
    open_row = compared("misses rise", [-10, 0, 10], minimum=0.0)
    for rows, verdict, evidence in (
        ([rises], Truth.TRUE, "change of misses: 11.0 [8.5, 13.5] %, published 20 %"),
        ([rises, open_row], Truth.NOT_DECIDED, "change of misses: 0 [-25, 25] %"),
        ([rises, open_row, falls], Truth.NOT_TRUE, "change of misses: -11.0 [-13.5, -8.5] %"),
    ):
        (found,) = conclusions_of(rows)
        assert found.verdict is verdict
        assert found.evidence == evidence


def test_figures_without_runs_or_conclusion_are_not_tested() -> None:
    rows = [compared("misses rise", [], value=20.0), compared("", [1, 2, 3], value=20.0)]
    assert conclusions_of(rows) == []
    assert paragraph([]) == ""


def test_a_value_that_is_only_beside_the_run_is_not_counted() -> None:
    published = Published(
        *("figure", "Table 1", "instructions", "web", "instructions.TCP", "instructions/packet"),
        value=1372.0,
        judged="order",
    )
    beside = compare(published, "web", mean([3885.0, 3886.0]))
    assert beside.verdict is Verdict.NOT_JUDGED
    rises = compared("misses rise", [10, 11, 12], value=20.0)
    (score,) = published_score.scores([beside, rises])
    assert score.value == "1 of 1"
    assert published_score.disagreements([beside]) == []


def test_the_paragraph_has_each_conclusion_once() -> None:
    found = conclusions_of(
        [
            compared("misses rise", [10, 11, 12], value=20.0),
            compared("a larger cache helps", [10, 11, 12], maximum=0.0),
            compared("a prefetch helps", [-10, 0, 10], maximum=0.0),
        ]
    )
    assert paragraph(found) == (
        "3 conclusions of the document tested. True here: misses rise. Not true here: a larger "
        "cache helps (change of misses: 11.0 [8.5, 13.5] %). Not decided here: a prefetch helps "
        "(change of misses: 0 [-25, 25] %)."
    )


INSTRUCTIONS = {
    **{"user": 574, "syscall": 400, "socket": 99, "tcp": 1372},
    **{"ip": 380, "ethernet": 411, "driver": 530, "interrupt": 153},
}
"""Instructions of the layers with the report's order at 4 connections (table 1)."""


@dataclass
class Invented:
    """An emulation whose misses grow with connections and latency, and fall with the cache."""

    point: Point
    seed: int

    def run(self) -> RunOutcome:
        connections, latency, size = (
            float(self.point.factors[name]) for name in ("connections", "latency_ms", "l2_kib")
        )
        misses = (1 + self.seed / 100) * (connections + latency) / size
        misses *= 0.5 if self.point.factors["prefetch"] == "next-line" else 1
        cost = {
            "instructions_per_packet": 3000 - connections + self.seed,
            "l1d_misses_per_packet": 10 * misses,
            "l2_misses_per_packet": misses,
        }
        layers = {
            name: cost | {"instructions_per_packet": float(own + self.seed)}
            for name, own in INSTRUCTIONS.items()
        }
        return RunOutcome({**cost, "layers": layers})

    def progress(self) -> tuple[int, int]:
        return 0, 1

    def cancel(self) -> None:
        """Do nothing, because the run takes no time."""


class Runner(EmulatedRunner):
    """Prepares invented runs, and needs no machine."""

    def prepare(self, point: Point, seed: int, timeline: bool) -> Invented:
        return Invented(point, seed)

    @contextmanager
    def set_up(self, points: tuple[Point, ...]) -> Iterator[SetupDescription]:
        yield SetupDescription({})


def test_the_emulated_study_tests_the_conclusions_of_the_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    study = replace(library.find("tr05-450-emulated", "quick"), measured_runner=Runner())
    directory = start.run(study, tmp_path / "run", seeds=(1, 2, 3))
    lead = analyze(directory.study(), directory).findings.lead
    assert "True here: With 256 KB of L2, its misses rise between 128 and 512 connections;" in lead
    assert "Latency adds L2 misses" in lead
    assert "Not true" not in lead
    assert app.run(["study", "report", str(directory.path), "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert {one["verdict"] for one in found["conclusions"]} == {"true here"}
    assert len(found["comparisons"]) == len(study.published)
    orders = {
        one["figure"]: one["emulated"]["value"]
        for one in found["comparisons"]
        if one["figure"].endswith("-order") and one["emulated"]
    }
    # At 512 connections, the report has 3 of the 21 pairs of layers in another order: the driver
    # before user code, and system calls after Ethernet and IP.
    assert orders == {
        "tr05-450/t1-WC-C4-order": 1.0,
        "tr05-450/t1-WC-C512-order": pytest.approx((21 - 2 * 3) / 21),
    }
    assert app.run(["study", "report", str(directory.path)]) == 0
    assert "Conclusions of the document" in capfd.readouterr().out
    page = (directory.path / "report.html").read_text()
    assert lead.replace("'", "&#39;") in page
