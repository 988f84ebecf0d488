"""A study with invented runs, and a parser of its report, for tests without a simulator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

import polars as pl

from perpacket_lab.analysis.analysis import Analysis
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.findings import RunEvidence, findings_of
from perpacket_lab.analysis.offload import network_shares
from perpacket_lab.study.figure import Figure
from perpacket_lab.study.point import Point
from perpacket_lab.study.published import Published
from perpacket_lab.study.quantities import Row
from perpacket_lab.study.runner_interfaces import RunOutcome
from perpacket_lab.study.study import Study

RATES = {
    "W-0-N-N-FCFS-400": 20_000.0,
    "W-1024-N-N-FCFS-400": 14_000.0,
    "W-1024-P-N-FCFS-400": 23_000.0,
    "W-4096-P-L-FCFS-800": 26_000.0,
}
BASELINE = "W-0-N-N-FCFS-400"
HOSTILE = "<script>alert('x')</script> & \"more\""


@dataclass(frozen=True)
class InventedRun:
    """A run with the rate of the table, times a factor that depends only on the seed."""

    point: Point
    seed: int
    timeline: bool
    conserved: bool = True

    def run(self) -> RunOutcome:
        rate = RATES[self.point.name] * (1 + 0.01 * self.seed)
        layers = {
            name: {"cycles_per_packet": cycles, "l2_misses_per_packet": misses, "share": share}
            for name, cycles, misses, share in (
                ("tcp", 2000.0 + self.seed, 4.0, 0.3),
                ("driver", 900.0, 1.5, 0.1),
            )
        }
        result: dict[str, object] = {
            "requests_per_s": rate,
            "host_idle": 0.25,
            "content_mbps": None,
            "layers": layers,
            "response_ms": {"median": 1e6 / rate, "p99": 4e6 / rate},
            "conserved": self.conserved,
        }
        states: dict[str, list[object]] = {
            "time_s": [step / 1000 for step in range(2000)],
            "connections_on_nic": list(range(2000)),
            "soft_limit": [4096] * 2000,
            "queue_packets": [1900 if step == 777 else 3 for step in range(2000)],
        }
        return RunOutcome(result, {"wall_s": 0.5}, states if self.timeline else None)

    def progress(self) -> tuple[int, int]:
        return 1, 1

    def cancel(self) -> None:
        """Do nothing, because the run takes no time."""


@dataclass(frozen=True)
class InventedRunner:
    conserved: bool = True

    def prepare(self, point: Point, seed: int, timeline: bool) -> InventedRun:
        return InventedRun(point, seed, timeline, self.conserved)


def published(point: str, quantity: str, value: float, **more: object) -> Published:
    figure = f"paper/{point}-{quantity}"
    row = Published(figure, "5.1", f"{quantity} of {point}", point, quantity, "req/s", value)
    return replace(row, resolution=1.0, **more)  # type: ignore[arg-type]


PUBLISHED = (
    published(BASELINE, "request_rate", 20_600.0, calibration=True),
    published("W-1024-N-N-FCFS-400", "request_rate", 14_420.0),
    published("W-1024-P-N-FCFS-400", "request_rate", 30_000.0),
    published("W-1024-P-N-FCFS-400", "gain_request_rate", 16.0, unit="%", against=BASELINE),
)


def of_frame(study: Study, analysis: Analysis, frame: pl.DataFrame) -> Analysis:
    """Another study's analysis of the rows of a table."""
    rows: dict[str, dict[int, Row]] = {}
    for row in frame.iter_rows(named=True):
        own = rows.setdefault(row["point"], {})
        own[row.get("seed", len(own))] = row
    estimates = Estimates(rows)
    return replace(
        analysis,
        study=study,
        observations=frame,
        estimates=estimates,
        comparisons=(),
        network_shares=network_shares(estimates),
        findings=findings_of(RunEvidence(study, estimates)),
    )


def points() -> tuple[Point, ...]:
    return tuple(
        Point(
            name=name,
            configuration=name,
            factors={"connections": int(name.split("-")[1]), "order": name.split("-")[2]},
            against=None if name == BASELINE else BASELINE,
            timeline=name == "W-4096-P-L-FCFS-800",
        )
        for name in RATES
    )


def study() -> Study:
    """Four configurations with a figure of nearly every kind."""
    stacked = Figure("stacked-layers", "Cycles", "configuration", "cycles_per_packet")
    return Study(
        name="invented",
        title=f"Handoff {HOSTILE}",
        question=f"What does it gain? {HOSTILE}",
        points=points(),
        seeds=(1, 2, 3),
        runner=InventedRunner(),
        figures=(
            Figure("paper-beside", "Requests per second", "configuration", "request_rate"),
            replace(stacked, caption=HOSTILE),
            Figure("curve", "Rates", "connections", "requests_per_s", series="order"),
            Figure("curve", "Rates by order", "order", "requests_per_s"),
            Figure("timeline", "State", "time_s", "connections_on_nic,soft_limit,queue_packets"),
            Figure("curve", "Times", "connections", "response_ms.median,response_ms.p99"),
            Figure("laws", "Offload", "", "share"),
            Figure("curve", "Nothing", "connections", "no_such_column"),
        ),
        published=PUBLISHED,
        ranked=("request_rate",),
        source=f"Invented {HOSTILE}",
        limits=("Everything here is invented.",),
        command="perpacket study run invented",
    )


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    parents: tuple[str, ...]
    text: str = ""


@dataclass
class Outline(HTMLParser):
    """The elements of a page in order, each with its text and the text of its descendants."""

    elements: list[Element] = field(default_factory=list)
    open: list[Element] = field(default_factory=list)

    VOID = frozenset({"meta", "br", "link", "img", "input", "hr"})

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs), tuple(parent.tag for parent in self.open))
        self.elements.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> without a start"
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs), tuple(p.tag for p in self.open)))

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data

    def all(self, *tags: str) -> list[Element]:
        return [element for element in self.elements if element.tag in tags]
