"""The functions of `import perpacket`: their results, and their agreement with the verbs."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import perpacket
from perpacket.advise.advice import Advice, Report
from perpacket.advise.bounds import Bound
from perpacket.advise.catalogue import load
from perpacket.advise.effect import Window, effects
from perpacket.advise.trial import Outcome, Trial
from perpacket.analysis.statistics import Interval
from perpacket.errors import ConfigurationError, PerpacketError
from perpacket.results import Result
from test_profile_compare import log, written

SHORT = {"run.warmup_packets": 2_000, "run.packets": 6_000}


def advice() -> perpacket.AdviceResult:
    """One change with a bound, one without."""
    first, second = list(load().values())[:2]
    share = Interval(0.10, 0.08, 0.12, 900, 0.95)
    rows = (
        Advice(first, "on", "eth0", "seen", Bound(share, share), "", "command"),
        Advice(second, "on", "", "seen", None, "no such layer", ""),
    )
    return perpacket.AdviceResult(Report(rows, (), ("eth0",), "nginx", 5.0, 900, ()))


def trial() -> perpacket.TrialResult:
    """A change that makes packets cheaper."""
    windows = [
        Window(block, side, 1.0, 0.5, {"tcp": 0.2}, 3e4, 1e8, 1e4, 1.0, 1.0, {"p50": 9, "p99": 20})
        for block in range(4)
        for side in (0, 1, 1, 0)
    ]
    return perpacket.TrialResult(
        Outcome(trials=[Trial("gro=on", effects(windows), tuple(windows), (), is_decided=True)])
    )


def results(tmp_path: Path) -> Mapping[str, Result]:
    """A result of each function that needs no machine."""
    before = written(tmp_path / "a.json", log(10, seed=1))
    after = written(tmp_path / "b.json", log(10, factor=1.2, seed=2))
    profile = written(tmp_path / "one.json", log(1))
    return {
        "profile": perpacket.read_profile(profile),
        "advise": advice(),
        "trial": trial(),
        "compare": perpacket.compare(before, after),
        "simulate": perpacket.simulate("W-1024-P-N-FCFS-400", overrides=SHORT),
    }


def test_every_result_has_a_table_a_chart_a_frame_and_json(tmp_path: Path) -> None:
    for name, result in results(tmp_path).items():
        assert len(result.table().splitlines()) > 3, name
        assert json.loads(result.to_json()) == json.loads(json.dumps(result.as_dict())), name
        assert result.to_polars().height == len(result.records()) > 0, name
        assert result.plot().to_dict()["datasets"], name
        assert "<table>" in result._repr_html_(), name


def test_the_public_names_are_those_of_the_api_and_all_are_documented() -> None:
    assert dir(perpacket) == sorted(perpacket.__all__)
    for name in perpacket.__all__:
        value = getattr(perpacket, name)
        assert isinstance(value, str) or inspect.getdoc(value), name
    for name in ("profile", "advise", "trial", "simulate", "emulate", "run_study", "compare"):
        parameters = inspect.signature(getattr(perpacket, name)).parameters.values()
        assert all(each.annotation is not inspect.Parameter.empty for each in parameters), name


def test_advise_is_a_function_also_after_the_package_of_that_name_is_imported() -> None:
    assert "perpacket.advise" in sys.modules
    assert inspect.isfunction(perpacket.advise)


def test_overrides_are_a_mapping_or_pairs() -> None:
    by_name = perpacket.simulate("W-1024-P-N-FCFS-400", overrides=SHORT)
    by_pairs = perpacket.simulate("W-1024-P-N-FCFS-400", overrides=tuple(SHORT.items()))
    assert by_name["requests_per_s"] == by_pairs["requests_per_s"]
    with pytest.raises(ConfigurationError, match=r"nic\.lowatt"):
        perpacket.simulate("W-1024-P-N-FCFS-400", overrides={"nic.lowatt": 1})


def test_a_profile_and_a_run_cannot_be_compared(tmp_path: Path) -> None:
    profile = perpacket.read_profile(written(tmp_path / "one.json", log(1)))
    with pytest.raises(PerpacketError):
        perpacket.compare(profile, tmp_path)
