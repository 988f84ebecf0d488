"""The knee of a curve of throughput is where it has 95 % of its maximum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perpacket.analysis.claim import Verdict
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.knees import knee
from perpacket_lab.analysis.published_comparison import Standing
from perpacket_lab.analysis.published_rows import compare_all
from perpacket_lab.study import library
from perpacket_lab.study.quantities import Row


@pytest.mark.parametrize(
    ("throughput", "level"),
    [
        ([50.0, 90.0, 100.0, 100.0], 30.0),
        ([96.0, 100.0, 99.0, 98.0], 10.0),
        ([20.0, 100.0, 90.0, 50.0], 10 + 10 * 75 / 80),
        ([25.0, 50.0, 75.0, 100.0], None),
        ([100.0], None),
        ([], None),
    ],
)
def test_the_knee_is_the_first_level_with_95_percent_of_the_maximum(
    throughput: list[float], level: float | None
) -> None:
    levels = [10.0, 20.0, 40.0, 80.0]
    assert knee(levels[: len(throughput)], throughput) == (
        level if level is None else pytest.approx(level)
    )


def surge(*curves: tuple[float, float, float]) -> Estimates:
    """Runs of `breakdown` under Surge: a block for each curve over 100, 400 and 8,000 users."""
    names = ("surge-worker-100u", "surge-worker-400u", "surge-worker-8000u")
    rows: dict[str, dict[int, Row]] = {
        name: {
            block: {"point": name, "seed": block, "requests_per_s": curve[place]}
            for block, curve in enumerate(curves)
        }
        for place, name in enumerate(names)
    }
    return Estimates(rows)


@pytest.mark.parametrize(
    ("curves", "standing", "value"),
    [
        ([(10.0, 40.0, 160.0)] * 3, Standing.UNTESTED, None),
        ([(50.0, 99.0, 100.0)] * 3, Standing.FAILS, 100 + 300 * 45 / 49),
        ([(10.0, 60.0, 100.0)] * 2 + [(10.0, 96.0, 95.0)] * 4, Standing.UNTESTED, None),
    ],
)
def test_a_published_knee_is_compared_where_throughput_stops_rising(
    curves: list[tuple[float, float, float]], standing: Standing, value: float | None
) -> None:
    """Throughput that still rises at the last level shows no knee."""
    study = library.find("breakdown", "full", only=("surge-servers", "surge-full"))
    wanted = tuple(row for row in study.published if row.quantity == "knee.clients")
    assert [row.figure for row in wanted] == ["patwardhan2004/f3-peak"]
    (comparison,) = compare_all(replace(study, published=wanted), surge(*curves))
    assert comparison.standing is standing
    if value is None:
        assert comparison.value is None or comparison.value.high - comparison.value.low > 1000
    else:
        assert comparison.value is not None
        assert comparison.value.value == pytest.approx(value)
        assert comparison.verdict is Verdict.DIFFERS
    assert comparison.quantity == "Clients at the knee of throughput"
