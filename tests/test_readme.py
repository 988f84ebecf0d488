"""The README shows the output of this version."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from dataclasses import replace
from pathlib import Path

from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.cli.demo import paper_text, simulated_text
from perpacket_lab.demo import simulated_handoff
from perpacket_lab.run import start
from perpacket_lab.run.threads import ThreadExecutor

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
sys.path.insert(0, str(ROOT / "docs"))

from from_code import kept_runs  # noqa: E402


def test_the_python_example_prints_the_output_of_the_readme() -> None:
    block = re.search(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", README, re.DOTALL)
    assert block is not None
    code, expected = block.groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue().splitlines() == [line[4:] for line in expected.splitlines()]


def test_the_first_simulation_has_the_rate_of_the_readme() -> None:
    from perpacket import simulate

    shown = re.search(r"requests_per_s +([\d,]+)\n +nic_packet_share", README)
    assert shown is not None
    outcome = simulate("W-1024-P-N-FCFS-400", seed=1)
    assert f"{outcome['requests_per_s']:,.0f}" == shown.group(1)


def test_the_handoff_table_has_the_gains_that_the_demo_prints(tmp_path: Path) -> None:
    """The demo makes runs that the kept run of the study has; one seed of each is made again."""
    heading = "| configuration | gain in requests/s, published | simulated |\n|---|---|---|\n"
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in README.partition(heading)[2].partition("\n\n")[0].splitlines()
    ]
    demo = simulated_handoff.study()
    kept = kept_runs.unpacked(kept_runs.RUNS / "osdi06.tar.xz", tmp_path / "kept")
    first, *others = simulated_handoff.table(analyze(demo, kept)).items()
    assert first[0] == "W-0-N-N-FCFS-400"
    for (name, cells), (words, published, simulated) in zip(others, shown, strict=True):
        assert simulated_handoff.POLICIES[name] in words
        assert published.replace(" %", "").lstrip("+") == paper_text(cells[0])
        assert simulated.replace(" %", "").lstrip("+") == simulated_text(cells[0])
    again = start.run(
        replace(demo, seeds=demo.seeds[:1]), tmp_path / "again", executor=ThreadExecutor()
    )
    results = {(one.point, one.seed): one.result for one in kept.read_observations()}
    made = again.read_observations()
    assert len(made) == len(simulated_handoff.POLICIES)
    assert all(one.result == results[one.point, one.seed] for one in made)
