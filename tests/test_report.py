"""A report stands alone, says what its numbers say, and can be read by everybody.

The runs are invented here: what a report must do does not depend on a simulator.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from perpacket import report
from perpacket.experiment import session
from perpacket.experiment.comparison import Comparison, Published, judge
from perpacket.experiment.run_directory import RunDirectory
from perpacket.experiment.study import Figure, Outcome, Point, Study
from perpacket.report import (
    agreement,
    answer,
    assembly,
    charts,
    data,
    drawing,
    limits,
    look,
    palette,
    stacks,
    tables,
    timeline,
    wording,
)
from perpacket.statistics import mean, paired_ratio

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
    """A run whose rate is the table's, times what its seed does to every point alike."""

    point: Point
    seed: int
    timeline: bool
    conserved: bool = True

    def run(self) -> Outcome:
        rate = RATES[self.point.name] * (1 + 0.01 * self.seed)
        layers = {
            "tcp": {"cycles_per_packet": 2000.0 + self.seed, "l2_misses_per_packet": 4.0},
            "driver": {"cycles_per_packet": 900.0, "l2_misses_per_packet": 1.5},
        }
        result: dict[str, object] = {
            "requests_per_s": rate,
            "host_idle": 0.25,
            "content_mbps": None,
            "layers": layers,
            "conserved": self.conserved,
        }
        states: dict[str, list[object]] = {
            "time_s": [step / 1000 for step in range(2000)],
            "connections_on_nic": list(range(2000)),
            "soft_limit": [4096] * 2000,
            "queue_packets": [1900 if step == 777 else 3 for step in range(2000)],
        }
        return Outcome(result, {"wall_s": 0.5}, states if self.timeline else None)

    def progress(self) -> tuple[int, int]:
        return 1, 1

    def cancel(self) -> None:
        """Nothing to cancel."""


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


def compare(study: Study, run_directory: RunDirectory) -> list[Comparison]:
    """Rates and gains of the invented runs beside the invented paper."""
    rates: dict[str, list[float]] = {}
    for observation in run_directory.read_observations():
        rate = observation.result["requests_per_s"]
        assert isinstance(rate, float)
        rates.setdefault(observation.point, []).append(rate)
    rows = []
    for row in study.published:
        own, base = rates.get(row.point), rates.get(row.against or "")
        simulated = None
        if own and row.against is None:
            simulated = mean(own)
        elif own and base:
            simulated = paired_ratio(own, base).map(lambda r: 100 * (r - 1))
        rows.append(judge(row, row.point, simulated, title=row.quantity.replace("_", " ")))
    return rows


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


@pytest.fixture(scope="module")
def study() -> Study:
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
            Figure("curve", "Nothing", "connections", "no_such_column"),
        ),
        published=PUBLISHED,
        compare=compare,
        ranked=("request_rate",),
        source=f"Invented {HOSTILE}",
        limits=("Everything here is invented.",),
        command="perpacket study run invented",
    )


@pytest.fixture(scope="module")
def run_directory(study: Study, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return session.run(study, tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def html(study: Study, run_directory: RunDirectory) -> str:
    destination = run_directory.path / "report.html"
    assert report.write_study(study, run_directory, destination) == destination
    return destination.read_text(encoding="utf-8")


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    parents: tuple[str, ...]
    text: str = ""


@dataclass
class Outline(HTMLParser):
    """The elements of a page in order, each with its own text and that of what it holds."""

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


@pytest.fixture(scope="module")
def outline(html: str) -> Outline:
    outline = Outline()
    outline.feed(html)
    assert not outline.open, "every element is closed"
    return outline


def test_the_page_asks_nothing_of_the_network(html: str, outline: Outline) -> None:
    assert not outline.all("link", "img", "iframe", "object", "embed", "base")
    for element in outline.elements:
        for name in ("src", "xlink:href", "srcset", "data", "action"):
            assert name not in element.attributes
        target = element.attributes.get("href") or "#"
        assert target.startswith("#") or element.tag == "a"
    style = outline.all("style")[0].text
    assert "url(" not in style
    assert "@import" not in style
    assert not re.findall(r"url\((?!#)", html)


def test_the_page_reads_the_same_without_scripts(outline: Outline) -> None:
    scripts = outline.all("script")
    kinds = [script.attributes.get("type") for script in scripts]
    assert kinds == ["application/json", None], "data, and one script that sorts"
    assert all("main" in row.parents for row in outline.all("tr"))


def test_texts_of_a_study_are_never_markup(html: str, outline: Outline) -> None:
    assert "<script>alert" not in html
    for text in (outline.all("h1")[0].text, outline.all("title")[0].text):
        assert HOSTILE in text
    assert any(HOSTILE in caption.text for caption in outline.all("figcaption"))


def test_every_configuration_is_there_with_its_numbers(outline: Outline) -> None:
    rows = [row.text for row in outline.all("tr")]
    for name in RATES:
        assert sum(row.strip().startswith(name) for row in rows) >= 1 + 3, "its means and its runs"


def test_every_value_used_to_calibrate_is_marked(
    study: Study, run_directory: RunDirectory, outline: Outline
) -> None:
    table = tables.comparison_table(study.comparisons(run_directory))
    for row, figure in zip(table.rows, study.published, strict=True):
        assert ("used to calibrate" in row[-1].text) is figure.calibration
    marked = [cell for cell in outline.all("td") if cell.attributes.get("class") == "calibrated"]
    assert len(marked) == sum(figure.calibration for figure in study.published)


def test_tables_have_captions_and_headed_rows_and_columns(outline: Outline) -> None:
    count = len(outline.all("table"))
    assert count == len(outline.all("caption")) >= 4
    for heading in outline.all("th"):
        assert heading.attributes["scope"] == ("col" if "thead" in heading.parents else "row")
    scrolled = [e for e in outline.all("div") if e.attributes.get("class") == "scroll"]
    assert len(scrolled) == count, "a wide table scrolls in its own box"
    assert all(box.attributes.get("tabindex") == "0" for box in scrolled), "by keyboard too"


def test_headings_go_down_one_level_at_a_time(outline: Outline) -> None:
    levels = [int(heading.tag[1]) for heading in outline.all("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_chart_is_named_and_described(outline: Outline) -> None:
    ids = [e.attributes["id"] for e in outline.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids)), "no id is used twice"
    drawn = outline.all("svg")
    assert len(drawn) == 2 * 5, "each figure that has data, for a desk and for a phone"
    for svg in drawn:
        assert svg.attributes["role"] == "img"
        labels = str(svg.attributes["aria-labelledby"]).split()
        named = {e.attributes.get("id"): e for e in outline.all("title", "desc")}
        assert all(named[label].text.strip() for label in labels)


def test_a_figure_without_data_says_so(outline: Outline) -> None:
    captions = [caption.text for caption in outline.all("figcaption")]
    assert sum("Nothing to draw" in caption for caption in captions) == 1


def test_charts_take_every_colour_from_the_page(html: str) -> None:
    for svg in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL):
        assert not re.findall(r'(?:fill|stroke)="#', svg), "a fixed colour fails on dark pages"


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("tone", [palette.INK, palette.MUTED, palette.GOOD, palette.BAD])
def test_words_stand_out_from_the_page_by_day_and_by_night(tone: palette.Tone) -> None:
    for theme in ("light", "dark"):
        for ground in (palette.PAPER, palette.FAINT):
            pair = sorted(luminance(getattr(each, theme)) for each in (tone, ground))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5


def test_the_data_inside_the_page_are_all_the_runs_with_all_digits(
    study: Study, run_directory: RunDirectory, outline: Outline
) -> None:
    script = next(e for e in outline.all("script") if e.attributes.get("id") == "perpacket-data")
    content = json.loads(script.text)
    frame = run_directory.observations()
    assert content["observations"]["columns"] == frame.columns
    assert [tuple(row) for row in content["observations"]["rows"]] == frame.rows()
    assert len(content["comparisons"]) == len(study.published)
    assert len(content["timelines"]["W-4096-P-L-FCFS-800.seed-1"]["rows"]) == 2000


def test_no_text_can_end_the_data_element() -> None:
    text = data.script_json({"name": "</script><!--\u2028"})
    assert "<" not in text
    assert json.loads(text) == {"name": "</script><!--\u2028"}


def test_data_that_would_swell_the_page_are_left_out_and_named(
    study: Study, run_directory: RunDirectory
) -> None:
    many = pl.DataFrame({f"column_{i}": [i / 7] * 2000 for i in range(100)})
    text, left_out = data.embedded(run_directory, many, [])
    assert len(text) < data.MOST_OBSERVATION_BYTES + data.MOST_TIMELINE_BYTES
    assert any("observations/" in sentence for sentence in left_out)
    table = tables.raw_table(many)
    assert len(table.rows) * len(table.columns) <= tables.MOST_RAW_CELLS
    assert "of 100 columns" in table.caption


def test_a_page_stays_below_three_megabytes(html: str) -> None:
    assert len(html.encode()) < 3_000_000


def test_the_same_run_gives_the_same_page(
    study: Study, run_directory: RunDirectory, html: str, tmp_path: Path
) -> None:
    again = report.write_study(study, run_directory, tmp_path / "again.html")
    assert again.read_text(encoding="utf-8") == html


def test_the_answer_is_the_gain_paired_by_seed_beside_the_papers(
    study: Study, run_directory: RunDirectory
) -> None:
    rows = study.comparisons(run_directory)
    found = {f.name: f for f in answer.findings(study, run_directory.observations(), rows)}
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
    found = answer.findings(study, frame, [])
    assert [finding.name for finding in found] == [name]
    assert "no difference can be claimed" in found[0].subject


def test_held_out_and_calibrated_values_are_counted_apart(
    study: Study, run_directory: RunDirectory
) -> None:
    rows = study.comparisons(run_directory)
    counted = [(score.value, score.label) for score in agreement.scores(rows)]
    assert counted == [
        ("1 of 3", "published values not used to calibrate agree"),
        ("1 of 1", "published values used to calibrate agree"),
    ]
    assert "meets 1 and misses 2" in agreement.headline(rows)
    only_calibrated = [row for row in rows if row.published.calibration]
    assert "a fit, not a prediction" in agreement.headline(only_calibrated)


def test_every_disagreement_is_named_the_farthest_first(
    study: Study, run_directory: RunDirectory, outline: Outline
) -> None:
    missed = agreement.disagreements(study.comparisons(run_directory))
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
    found = answer.findings(study, frame, rows)
    assert [finding.value for finding in found] == ["+150 %"], "a line is told once"
    assert "connections from 1 to 2048" in found[0].subject
    assert found[0].paper == "paper 2 and 2 misses/packet"


def test_an_unfinished_run_is_reported_and_said_to_be_unfinished(
    study: Study, tmp_path: Path
) -> None:
    run_directory = session.run(study, tmp_path / "run")
    for seed in study.seeds:
        run_directory.observation_path(BASELINE, seed).unlink()
    page = assembly.assemble(study, run_directory)
    assert any("9 of 12 runs" in limit for limit in page.limits)
    for point in study.points:
        for seed in study.seeds:
            run_directory.observation_path(point.name, seed).unlink(missing_ok=True)
    assert "0 of 12 runs" in report.write_study(
        study, run_directory, tmp_path / "empty.html"
    ).read_text(encoding="utf-8")


def test_a_run_whose_machine_is_not_known_is_reported_all_the_same(
    study: Study, tmp_path: Path
) -> None:
    run_directory = session.run(study, tmp_path / "run")
    (run_directory.path / "environment.json").unlink()
    (row,) = assembly.assemble(study, run_directory).environment.rows
    assert row[-1].text == "unknown"


def test_runs_whose_packets_do_not_balance_come_first_among_the_limits(
    study: Study, tmp_path: Path
) -> None:
    broken = replace(study, runner=InventedRunner(conserved=False))
    run_directory = session.run(broken, tmp_path / "run")
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
    run_directory = session.run(study, tmp_path / "run", seeds=seeds, overrides=overrides)
    assert assembly.commands(study, run_directory) == [expected]


def drawn(chart: look.Chart) -> str:
    return drawing.svg(chart, identifier="chart", title="A < B", description="C & D")


def beside(calibrated: Sequence[bool]) -> pl.DataFrame:
    count = len(calibrated)
    return pl.DataFrame(
        {
            "configuration": [f"W-{row}" for row in range(count)],
            "simulated": [float(row) for row in range(count)],
            "low": [row - 0.1 for row in range(count)],
            "high": [row + 0.1 for row in range(count)],
            "published_low": [row + 0.5 for row in range(count)],
            "published_high": [row + 0.5 for row in range(count)],
            "calibrated": list(calibrated),
        }
    )


def test_calibrated_values_differ_by_shape_not_only_by_colour() -> None:
    shapes = {
        flag: re.findall(r'd="(M[^"]+)"', drawn(charts.paper_beside(beside([flag]), x_title="x")))
        for flag in (True, False)
    }
    assert set(shapes[True]) != set(shapes[False])


def test_an_svg_escapes_its_title_and_description() -> None:
    svg = drawn(charts.paper_beside(beside([True, False]), x_title="x < y"))
    assert "A &lt; B" in svg
    assert "C &amp; D" in svg
    assert "x &lt; y" in svg


@pytest.mark.parametrize(
    ("levels", "kind"), [([1, 32, 2048], "log"), ([0, 10, 40], None), ([400, 600, 800], None)]
)
def test_x_is_logarithmic_where_levels_span_a_wide_ratio(
    levels: list[int], kind: str | None
) -> None:
    frame = pl.DataFrame(
        {"x": levels, "y": [1.0] * 3, "low": [0.9] * 3, "high": [1.1] * 3, "series": ["a"] * 3}
    )
    specification = charts.curve(frame, x_title="x", y_title="y").to_dict()
    scales = [layer["encoding"]["x"]["scale"] for layer in specification["layer"]]
    assert {scale.get("type") for scale in scales} == {kind}


def test_thinning_a_timeline_keeps_its_peaks() -> None:
    steps = 50_000
    frame = pl.DataFrame(
        {"time_s": [s / 1000 for s in range(steps)],
         "queue_packets": [999 if s == 31_337 else 1 for s in range(steps)]}
    )  # fmt: skip
    specification = timeline.timeline(frame, columns=["queue_packets"]).to_dict()
    rows = [row for table in specification["datasets"].values() for row in table]
    assert len(rows) <= look.WIDE
    assert max(row["high"] for row in rows) == 999


def test_every_layer_of_the_vocabulary_has_a_colour_and_unknown_ones_are_drawn() -> None:
    words = "user syscall socket tcp udp ip ethernet driver interrupt scheduler idle other"
    assert set(words.split()) <= set(palette.LAYER_TONES)
    frame = pl.DataFrame({"x": [1, 1], "layer": ["tcp", "tls"], "value": [10.0, 5.0]})
    chart = stacks.stacked_layers(frame, x_title="x", y_title="cycles per packet")
    assert ">tls<" in drawn(chart)


@pytest.mark.parametrize(
    ("shorthand", "words"),
    [
        ("W-0-N-N-FCFS-400", "World Cup, no handoff, 400 MIPS NIC"),
        ("S-256-P-L-T10-600", "SPECweb99 static, up to 256 connections on the NIC, "
         "host packets first, load control, handed off at send 10, 600 MIPS NIC"),
        ("W-4096-P-R-ORACLE-400", "World Cup, up to 4,096 connections on the NIC, "
         "host packets first, load control with active restore, chosen by an oracle, "
         "400 MIPS NIC"),
    ],
)  # fmt: skip
def test_a_configuration_can_be_read_without_knowing_the_shorthand(
    shorthand: str, words: str
) -> None:
    assert ", ".join(wording.point_parts(Point(shorthand, shorthand))) == words


@pytest.mark.parametrize(
    ("number", "text"), [(0.0, "0"), (2048.0, "2,048"), (5.5371, "5.537"), (0.46100, "0.461")]
)
def test_numbers_in_sentences_have_four_digits(number: float, text: str) -> None:
    assert wording.number(number) == text


def test_importing_the_report_draws_nothing_in() -> None:
    code = (
        "import sys, perpacket.report\n"
        "heavy = {'altair', 'polars', 'jinja2', 'vl_convert', 'numpy'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
