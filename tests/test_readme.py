"""The README shows the output of this version."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


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
    from perpacket.cli.demo import paper_text, simulated_text
    from perpacket.demo import handoff

    heading = "| configuration | gain in requests/s, published | simulated |\n|---|---|---|\n"
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in README.partition(heading)[2].partition("\n\n")[0].splitlines()
    ]
    first, *others = handoff.run(tmp_path / "run").rows.items()
    assert first[0] == "W-0-N-N-FCFS-400"
    for (name, cells), (words, published, simulated) in zip(others, shown, strict=True):
        assert handoff.POLICIES[name] in words
        assert published.replace(" %", "").lstrip("+") == paper_text(cells[0])
        assert simulated.replace(" %", "").lstrip("+") == simulated_text(cells[0])
