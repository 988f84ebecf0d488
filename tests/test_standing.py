"""A published value holds within its tolerance, by the interval, beside the strict verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpacket.analysis.claim import Verdict
from perpacket.analysis.statistics import mean
from perpacket_lab.analysis.analysis import analyze
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.analysis.published_comparison import Comparison, Standing, compare
from perpacket_lab.analysis.published_rows import extreme
from perpacket_lab.analysis.wording import points_in_words
from perpacket_lab.run import start
from perpacket_lab.study import library
from perpacket_lab.study.published import Published


def row(values: list[float], **keys: object) -> Comparison:
    published = Published(
        *("figure", "5.2", "a value", "point", "request_rate", "%"),
        **keys,  # type: ignore[arg-type]
    )
    return compare(published, "bulk", mean(values) if values else None)


def test_a_difference_of_1_percent_holds_and_one_of_100_percent_does_not() -> None:
    near = row([101.0, 101.1, 101.2], value=100.0)
    assert (near.verdict, near.standing) == (Verdict.DIFFERS, Standing.HOLDS)
    assert (near.difference_text, near.strict_text) == ("+1.1 points", "differs")
    wide = row([0.0, 200.0, 400.0], value=100.0)
    assert (wide.verdict, wide.standing) == (Verdict.AGREES, Standing.UNTESTED)
    assert row([199.0, 200.0, 201.0], value=100.0).standing is Standing.FAILS
    assert row([199.0, 200.0, 201.0], value=100.0, tolerance=150.0).standing is Standing.HOLDS


@pytest.mark.parametrize(
    ("values", "standing"),
    [
        ([19.0, 20.0, 21.0], Standing.HOLDS),
        ([39.0, 40.0, 41.0], Standing.IN_PART),
        ([-41.0, -40.0, -39.0], Standing.FAILS),
        ([-1.0, 0.0, 1.0], Standing.FAILS),
        ([-90.0, 20.0, 90.0], Standing.UNTESTED),
        ([], Standing.UNTESTED),
    ],
)
def test_a_change_of_the_published_direction_and_another_size_holds_in_part(
    values: list[float], standing: Standing
) -> None:
    for judged in ("value", "direction"):
        assert row(values, value=20.0, against="base", judged=judged).standing is standing


def test_an_extreme_that_the_document_reached_is_not_a_bound_that_zero_satisfies() -> None:
    low, high = "ab-worker-509b", "ab-worker-4096b"
    reached = Published(
        *("figure", "4.1.1", "scheduling, up to", low, "cpu_share.scheduling", "%"),
        value=25.0,
        among=(low, high),
    )
    rows = {
        point: {
            seed: {"point": point, "seed": seed, "layers.scheduler.share": share + seed / 1000}
            for seed in (1, 2, 3)
        }
        for point, share in ((low, 0.01), (high, 0.02))
    }
    highest = extreme(library.find("breakdown"), reached, Estimates(rows))
    assert highest.point == high
    assert row([2.1, 2.2, 2.3], value=25.0).standing is Standing.FAILS
    (published,) = [
        one
        for one in library.find("breakdown").published
        if one.quantity == reached.quantity and one.against is None
    ]
    assert (published.value, published.maximum, len(published.among)) == (25, None, 3)


def test_the_documents_static_server_is_the_multithreaded_apache() -> None:
    rows = library.find("breakdown").published
    static = {row.point for row in rows if row.where[:5] in ("4.1.1", "4.1.2", "Table", "5.1")}
    applications = ("forum", "tls", "trade")
    assert {point.split("-")[1] for point in static if not point.startswith(applications)} == {
        "worker"
    }
    surge = [row for row in rows if row.point.startswith("surge") and row.against is None]
    assert {row.point for row in surge} == {"surge-worker-8000u"}


@pytest.mark.parametrize("study", library.names())
def test_each_published_fact_counts_once(study: str) -> None:
    facts = [
        (row.point, row.against, row.quantity, row.value, row.minimum, row.maximum, row.among)
        for row in library.find(study, "full" if study == "breakdown" else "default").published
    ]
    assert len(set(facts)) == len(facts)
    judged = [row for row in library.find("sensitivity").published if row.judged != "order"]
    vectors = [row.quantity.split(".")[1] for row in judged]
    assert len(set(vectors)) == len(vectors)


def test_a_run_with_changed_parameters_is_labelled_by_them_and_not_judged(tmp_path: Path) -> None:
    whole = library.find("osdi06")
    names = ("W-0-N-N-FCFS-400", "W-4096-P-L-FCFS-400")
    study = whole.limited_to(tuple(whole.point(name) for name in names))
    short = (("run.packets", "2000"), ("run.warmup_packets", "500"))
    for folder, overrides in (("same", short), ("changed", (*short, ("nic.mips", "1000")))):
        made = start.run(study, tmp_path / folder, seeds=(1, 2), overrides=overrides)
        found = analyze(study, made)
        judged = [one for one in found.comparisons if one.is_judged]
        words = points_in_words(found.study.points)["W-4096-P-L-FCFS-400"]
        if folder == "same":
            assert judged
            assert "nic.mips" not in found.study.title
        else:
            assert not judged
            assert found.study.title.endswith(", with nic.mips=1000")
            assert "nic.mips=1000" in found.headline
            assert found.run.commands[0].endswith("--set nic.mips=1000")
            assert "400 MIPS" not in words
