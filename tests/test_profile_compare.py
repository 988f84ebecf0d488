"""`profile compare`: ratios of costs with intervals, rules, and what makes them meaningless."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from perpacket.analysis.claim import Verdict
from perpacket.analysis.profile_comparison import Decision, Unit, compare, is_moved, read
from perpacket.analysis.ratios import read_rule
from perpacket.cli.app import run
from perpacket.errors import ConfigurationError, RunFailed
from perpacket.profile_document import ProfileDocument
from perpacket.show import comparison_tables as shown
from perpacket_lab.show.charts import profile_difference

Window = ProfileDocument

COSTS = {"tcp": 3000.0, "ip": 1000.0}


def window(
    costs: Mapping[str, float] = COSTS, packets: int = 20_000, size: int = 100, **more: object
) -> Window:
    """A profile of a second with costs in ns a packet by layer; all its work is protocol."""
    total = sum(costs.values())

    def cost(ns: float) -> dict[str, float]:
        return {"cpu_s": 1e-9 * ns * packets, "cpu_ns_per_packet": ns}

    document = {
        "schema": 1,
        "backend": "cpu-clock",
        "window_s": 1.0,
        "packets": {"sent": packets // 2, "received": packets // 2},
        "bytes": {"sent": packets * size // 2, "received": packets * size // 2},
        "requests": None,
        "total": cost(total),
        "layers": {name: cost(ns) for name, ns in costs.items()},
        "kinds": {"protocol": cost(total)},
        "layer_kinds": {name: {"protocol": ns / total} for name, ns in costs.items()},
        **more,
    }
    return ProfileDocument.parse(document)


def log(
    number: int, factor: float = 1.0, seed: int = 1, drift: Sequence[float] = ()
) -> list[Window]:
    """Windows with 3 % of noise; TCP costs `factor` times as much."""
    noise = random.Random(seed)
    found = []
    for index in range(number):
        by = noise.gauss(1.0, 0.03) * (drift[index] if drift else 1.0)
        found.append(window({"tcp": COSTS["tcp"] * factor * by, "ip": COSTS["ip"] * by}))
    return found


def written(path: Path, windows: Sequence[Window]) -> str:
    path.write_text("".join(json.dumps(one.document) + "\n" for one in windows))
    return str(path)


def test_a_dearer_layer_is_found_with_its_size() -> None:
    found = compare(log(40, seed=1), log(40, factor=1.2, seed=2))
    by_name = {one.quantity: one for one in found.layers}
    assert by_name["tcp"].value is not None
    assert by_name["tcp"].value.contains(1.2)
    assert by_name["tcp"].verdict is Verdict.HIGHER
    assert by_name["ip"].verdict is Verdict.NOT_DISTINGUISHABLE
    assert found.total.detail.second / found.total.detail.first == pytest.approx(1.15, rel=0.03)
    assert found.changed_most is by_name["tcp"]
    assert found.notes == ()


def test_pairs_cancel_a_drift_that_both_profiles_have() -> None:
    drift = [1.0 + 0.05 * index for index in range(30)]
    sides = log(30, seed=3, drift=drift), log(30, factor=1.1, seed=4, drift=drift)
    alone, paired = compare(*sides), compare(*sides, paired=True)
    assert alone.total.verdict is Verdict.NOT_DISTINGUISHABLE
    assert paired.total.verdict is Verdict.HIGHER


@pytest.mark.parametrize(
    ("rule", "decision"),
    [
        ("total > 1.05", Decision.BROKEN),
        ("tcp > 1.5", Decision.KEPT),
        ("total > 1.13", Decision.UNDECIDED),
        ("kind.protocol > 1.05", Decision.BROKEN),
    ],
)
def test_a_rule_is_broken_only_by_a_whole_interval(rule: str, decision: Decision) -> None:
    found = compare(log(40, seed=1), log(40, factor=1.2, seed=2), rules=[read_rule(rule)])
    assert [one.decision for one in found.judged] == [decision]


def single(costs: Mapping[str, float], half: float) -> Window:
    """A profile whose shares have intervals of +- `half` of their value."""
    whole = window({**costs, "user": 1000.0})
    total = sum(costs.values()) + 1000.0
    layers = {
        name: {
            **cost.model_dump(exclude_unset=True),
            "share": ns / total,
            "low": ns / total * (1 - half),
            "high": ns / total * (1 + half),
        }
        for (name, cost), ns in zip(whole.layers.items(), (*costs.values(), 1000.0), strict=True)
    }
    return ProfileDocument.parse({**whole.document, "layers": layers})


def test_single_profiles_use_the_intervals_of_their_shares() -> None:
    before = single({"tcp": 3000.0, "other": 4000.0}, 0.1)
    after = single({"tcp": 6000.0, "other": 4000.0}, 0.1)
    rules = [read_rule(text) for text in ("tcp > 1.5", "tcp > 1.9", "total > 1.1")]
    found = compare([before], [after], rules=rules)
    tcp = next(one for one in found.layers if one.quantity == "tcp")
    assert 1.5 < tcp.interval.low < 1.8
    assert 2.2 < tcp.interval.high < 2.6
    decisions = [one.decision for one in found.judged]
    assert decisions == [Decision.BROKEN, Decision.UNDECIDED, Decision.BROKEN]
    assert "within each profile" in found.notes[0]


def test_the_total_is_the_cost_of_the_server_and_not_of_other_programs() -> None:
    """Other programs double their time; `--fail-if total` sees nothing of it."""
    before = [window({"tcp": 3000.0, "other": 5000.0 + index}) for index in range(10)]
    after = [window({"tcp": 3000.0, "other": 10_000.0 + index}) for index in range(10)]
    found = compare(before, after, rules=[read_rule("total > 1.02"), read_rule("other > 1.5")])
    assert [one.decision for one in found.judged] == [Decision.KEPT, Decision.BROKEN]
    assert found.total.detail.first == pytest.approx(3000.0)


def test_profiles_without_a_servers_cost_are_refused() -> None:
    busy = [window() for _ in range(5)]
    foreign = [window({"tcp": 3000.0, "other": 97_000.0}) for _ in range(5)]
    idle = [window(packets=100) for _ in range(5)]
    with pytest.raises(RunFailed, match=r"profile B: 97 % of the busy time is of other programs"):
        compare(busy, foreign)
    with pytest.raises(RunFailed, match=r"profile A: the server is idle"):
        compare(idle, busy)


def test_single_profiles_without_intervals_have_a_ratio_and_decide_nothing() -> None:
    found = compare(
        [window()], [window({"tcp": 6000.0, "ip": 1000.0})], rules=[read_rule("total > 1")]
    )
    assert found.total.value is None
    assert shown.ratio_text(found.total) == "1.75"
    assert [one.decision for one in found.judged] == [Decision.UNDECIDED]
    assert "--every" in found.notes[0]


def test_other_traffic_is_reported_before_the_costs() -> None:
    found = compare(log(10), [window(size=900) for _ in range(10)])
    assert [one.quantity for one in found.traffic if is_moved(one)] == ["bytes a packet"]
    assert "different work" in found.notes[0]
    first, _ = shown.tables(found)
    assert first.caption.startswith("traffic")


def test_windows_without_packets_are_left_out() -> None:
    found = compare([*log(10), window(packets=0)], log(10, seed=5))
    assert found.notes == ("1 windows without packets are left out",)
    with pytest.raises(ConfigurationError, match="expected packets in both"):
        compare([window(packets=0)], log(3))


def test_a_layer_that_some_windows_lack_is_summed_over_several() -> None:
    sparse = [{"tcp": 3000.0, "ip": 100.0 * (index % 2)} for index in range(40)]
    found = compare([window(one) for one in sparse], [window(one) for one in sparse])
    assert found.layers[1].value is not None
    assert found.layers[1].value.value == pytest.approx(1.0)


def test_costs_of_requests_need_counted_requests() -> None:
    counted = [window(requests=100) for _ in range(5)]
    found = compare(counted, [window(requests=50) for _ in range(5)], unit=Unit.REQUEST)
    assert found.total.detail.second / found.total.detail.first == pytest.approx(2.0)
    with pytest.raises(ConfigurationError, match="counted no request"):
        compare(counted, log(5), unit=Unit.REQUEST)


def test_cycles_are_compared_where_time_was_not_sampled() -> None:
    def of_cycles(factor: float) -> Window:
        cost = {"cycles_per_packet": 500.0 * factor}
        changed = {"total": cost, "layers": {"tcp": cost}, "kinds": {}}
        return ProfileDocument.parse({**window().document, **changed})

    found = compare([of_cycles(1.0)], [of_cycles(1.5)])
    assert (found.measure, found.total.detail.second) == ("cycles", 750.0)
    with pytest.raises(ConfigurationError, match="no cost of a packet in common"):
        compare([of_cycles(1.0)], [window()])


def test_the_flame_graph_is_an_svg_with_every_layer() -> None:
    text = profile_difference.flame_graph(compare(log(5), log(5, factor=1.3)))
    names = {one.text for one in ElementTree.fromstring(text).iter() if one.text}
    assert {"total", "tcp", "ip", "protocol"} <= names


def test_the_verb_ends_with_the_decision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = written(tmp_path / "a.json", log(40, seed=1))
    after = written(tmp_path / "b.json", log(40, factor=1.2, seed=2))
    compared = ["profile", "compare", before, after]
    assert run(compared) == 0
    assert "tcp changed most, by +" in capsys.readouterr().out
    assert run([*compared, "--fail-if", "total > 1.05"]) == 1
    capsys.readouterr()
    assert run([*compared, "--fail-if", "total > 1.13"]) == 5
    assert "]; record more windows" in capsys.readouterr().err
    assert run([*compared, "--fail-if", "tpc > 1.15"]) == 2
    capsys.readouterr()
    assert run([*compared, "--format", "json", "--quiet"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["layers"]["tcp"]["verdict"] == "higher"
    assert run([*compared, "--paired"]) == 0
    assert run(["profile", "compare", before, written(tmp_path / "c", log(3)), "--paired"]) == 2


@pytest.mark.parametrize("text", ["", "words", "[]", '{"schema": 1}', '{"window_s": 1'])
def test_a_file_that_is_no_profile_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"wrong\.json"):
        read(path)
