"""Two runs compared: pairs by seed, samples without common seeds, rules, and remarks."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perpacket.analysis.claim import Claim, Pair, Verdict
from perpacket.analysis.ratios import read_rule
from perpacket.analysis.statistics import paired_ratio, unpaired_ratio
from perpacket.cli import app
from perpacket.errors import ConfigurationError
from perpacket_lab.analysis import run_comparison
from perpacket_lab.run import start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.study import load
from test_user_studies import SIMULATED, FakeRunner

pytestmark = pytest.mark.usefixtures("fake_core")

Value = Callable[[int, int], float]
"""The requests per second of a level and a seed."""


def a_run(path: Path, value: Value, levels: str = "[400, 800]", seeds: str = "3") -> RunDirectory:
    text = SIMULATED.replace("replications = 3", f"replications = {seeds}")
    study = load.build(text + f"factors.nic.mips = {levels}", Path("my.toml"))

    def of(factors: object, seed: int) -> float:
        assert isinstance(factors, dict)
        return value(factors["mips"], seed)

    return start.run(replace(study, runner=FakeRunner(of)), path)


def slowed(mips: int, seed: int) -> float:
    """A tenth slower at one level only; the seed changes both runs equally."""
    return before(mips, seed) * (0.9 if mips == 400 else 1.0)


def before(mips: int, seed: int) -> float:
    return mips * (1 + seed / 3)


def ratios(compared: run_comparison.RunComparison) -> dict[str, Claim[Pair]]:
    return {ratio.subject: ratio for ratio in compared.ratios}


def test_the_effect_of_a_seed_on_both_runs_cancels_out(tmp_path: Path) -> None:
    first, second = a_run(tmp_path / "a", before), a_run(tmp_path / "b", slowed)
    found = ratios(run_comparison.compare(first, second, ["requests_per_s"]))
    slower, same = found["mips=400"], found["mips=800"]
    assert slower.detail.paired
    assert slower.value is not None
    assert slower.value.low == pytest.approx(0.9)
    assert slower.value.high == pytest.approx(0.9)
    assert slower.verdict is Verdict.LOWER
    assert same.verdict is Verdict.SAME


def test_swapping_the_runs_inverts_the_ratio(tmp_path: Path) -> None:
    noise = random.Random(5)
    factor = {seed: noise.uniform(0.8, 1.1) for seed in (1, 2, 3)}
    first = a_run(tmp_path / "a", before)
    second = a_run(tmp_path / "b", lambda mips, seed: before(mips, seed) * factor[seed])
    there = ratios(run_comparison.compare(first, second, ["requests_per_s"]))["mips=400"].value
    back = ratios(run_comparison.compare(second, first, ["requests_per_s"]))["mips=400"].value
    assert there is not None
    assert back is not None
    assert there == paired_ratio(
        [before(400, seed) * factor[seed] for seed in factor],
        [before(400, seed) for seed in factor],
    )
    assert (1 / there.high, 1 / there.low) == pytest.approx((back.low, back.high))


def test_runs_without_common_seeds_have_the_interval_of_welch(tmp_path: Path) -> None:
    from scipy import stats

    first = [101.0, 104.0, 99.0, 102.5, 97.0]
    second = [111.0, 90.0, 105.0, 118.0]
    own = unpaired_ratio(second, first, 0.95)
    logs = [[math.log(value) for value in values] for values in (second, first)]
    oracle = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    # Degrees of freedom are rounded down: the interval is that of the oracle or a little wider.
    assert math.log(own.low) <= oracle.low
    assert math.log(own.high) >= oracle.high
    assert math.log(own.high) - math.log(own.low) < 1.2 * (oracle.high - oracle.low)
    assert math.log(own.value) == pytest.approx((oracle.low + oracle.high) / 2)

    text = "seed = 100\n" + SIMULATED
    other = replace(
        load.build(text + "factors.nic.mips = [400, 800]", Path("my.toml")),
        runner=FakeRunner(lambda factors, seed: 1000.0 + seed),
    )
    later = start.run(other, tmp_path / "b")
    compared = run_comparison.compare(a_run(tmp_path / "a", before), later, ["requests_per_s"])
    assert not any(ratio.detail.paired for ratio in compared.ratios)
    assert any("no common seeds" in remark for remark in compared.remarks)


def test_one_run_each_and_runs_of_zero_claim_nothing(tmp_path: Path) -> None:
    first = a_run(tmp_path / "a", before, seeds="1")
    second = a_run(tmp_path / "b", slowed, seeds="1")
    found = run_comparison.compare(first, second, ["requests_per_s"])
    assert {ratio.verdict for ratio in found.ratios} == {Verdict.NO_INTERVAL}
    idle = a_run(tmp_path / "c", lambda mips, seed: 0.0)
    printed = ratios(run_comparison.compare(idle, idle, ["requests_per_s"]))["mips=400"]
    assert printed.value is None
    assert printed.verdict is Verdict.SAME


def test_points_of_one_run_alone_are_named(tmp_path: Path) -> None:
    first = a_run(tmp_path / "a", before)
    second = a_run(tmp_path / "b", before, levels="[800, 1200]")
    compared = run_comparison.compare(first, second, ["requests_per_s"])
    assert [ratio.subject for ratio in compared.ratios] == ["mips=800"]
    assert {f"only in {first.path}: mips=400", f"only in {second.path}: mips=1200"} <= set(
        compared.remarks
    )
    apart = a_run(tmp_path / "c", before, levels="[1, 2]")
    with pytest.raises(ConfigurationError, match="no observation of the same point"):
        run_comparison.compare(first, apart)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("requests_per_s < 0.97", ("requests_per_s", "<", 0.97)),
        ("layers.tcp.cycles_per_packet>=1.05", ("layers.tcp.cycles_per_packet", ">=", 1.05)),
        (" ns.Stack  >  1 ", ("ns.Stack", ">", 1.0)),
    ],
)
def test_a_rule_is_read(text: str, rule: tuple[str, str, float]) -> None:
    found = read_rule(text)
    assert (found.quantity, found.sign, found.limit) == rule


@pytest.mark.parametrize("text", ["", "requests_per_s", "requests_per_s = 1", "< 0.9", "a < 1.2.3"])
def test_a_text_that_is_not_a_rule_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--fail-if") as caught:
        read_rule(text)
    assert "total > 1.05" in caught.value.hint


def verb(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = app.run(["study", "compare", *arguments])
    out, err = capfd.readouterr()
    return int(status), out, err


def test_a_broken_rule_fails_and_the_table_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    a_run(tmp_path / "a", before)
    a_run(tmp_path / "b", slowed)
    runs = (str(tmp_path / "a"), str(tmp_path / "b"))
    status, out, err = verb(capfd, *runs)
    assert (status, "lower" in out, "the same" in out) == (0, True, True)
    status, out, err = verb(capfd, *runs, "--fail-if", "requests_per_s < 0.89")
    assert status == 0
    rules = ("--fail-if", "requests_per_s < 0.97", "--fail-if", "requests_per_s > 2")
    status, out, err = verb(capfd, *runs, *rules, "--format", "json")
    assert status == 1
    assert "requests_per_s < 0.97: at mips=400 it is 0.9" in err
    assert json.loads(out)["rules"] == [
        {
            "rule": "requests_per_s < 0.97",
            "broken_at": ["mips=400"],
            "certain_at": ["mips=400"],
            "unjudged_at": [],
        },
        {"rule": "requests_per_s > 2", "broken_at": [], "certain_at": [], "unjudged_at": []},
    ]


def test_a_rule_that_only_the_value_breaks_is_a_note_and_not_a_failure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    noise = {1: 0.7, 2: 1.2, 3: 0.95}
    a_run(tmp_path / "a", before)
    a_run(tmp_path / "b", lambda mips, seed: before(mips, seed) * noise[seed])
    runs = (str(tmp_path / "a"), str(tmp_path / "b"))
    status, _, err = verb(capfd, *runs, "--fail-if", "requests_per_s < 0.97")
    assert status == 0
    assert "requests_per_s < 0.97: at mips=400 it is 0.928" in err
    assert "not distinguishable from 0.97" in err


def test_a_rule_without_a_ratio_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    a_run(tmp_path / "a", lambda mips, seed: 0.0)
    runs = (str(tmp_path / "a"), str(tmp_path / "a"))
    status, _, err = verb(capfd, *runs, "--fail-if", "requests_per_s < 0.97")
    assert status == 1
    assert "there is no ratio at" in err


def test_an_unknown_quantity_is_named_with_those_there_are(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    a_run(tmp_path / "a", before)
    runs = (str(tmp_path / "a"), str(tmp_path / "a"))
    for arguments in (("--fail-if", "speed < 1"), ("--quantity", "speed")):
        status, out, err = verb(capfd, *runs, *arguments)
        assert (status, out) == (2, "")
        assert "no quantity 'speed'" in err
        assert "requests_per_s" in err.partition("hint: ")[2]


def test_a_remark_counts_the_differences_that_chance_would_show(tmp_path: Path) -> None:
    noise = random.Random(9)
    levels = str(list(range(1, 41)))
    first = a_run(tmp_path / "a", lambda mips, seed: noise.uniform(90, 110), levels)
    second = a_run(tmp_path / "b", lambda mips, seed: noise.uniform(90, 110), levels)
    compared = run_comparison.compare(first, second)
    assert "of 40 comparisons at 95 %, expect about 2 to differ" in compared.remarks[0]


def test_a_second_run_without_a_value_at_a_point_fails_the_rule(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    a_run(tmp_path / "a", before)
    a_run(tmp_path / "zero", lambda mips, seed: 0.0 if mips == 400 else before(mips, seed))
    a_run(tmp_path / "failed", before, levels="[800, 1200]")
    for second in ("zero", "failed"):
        runs = (str(tmp_path / "a"), str(tmp_path / second))
        rule = ("--fail-if", "requests_per_s < 0.97", "--format", "json")
        status, out, err = verb(capfd, *runs, *rule)
        assert status == 1
        assert "requests_per_s < 0.97: there is no ratio at mips=400" in err
        assert json.loads(out)["rules"][0]["unjudged_at"] == ["mips=400"]


def test_a_ratio_beyond_the_range_of_a_float_is_infinite() -> None:
    found = unpaired_ratio([1e300, 1e-300], [1e-300, 1e-300], 0.95)
    assert (found.low, found.high) == (0.0, math.inf)
