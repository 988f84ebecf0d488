"""A change that harms the users of a server is undone in the window that shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perpacket.advise import guards, trial
from perpacket.advise.effect import BEFORE, CHANGED, ITSELF, Window, effects
from perpacket.advise.network_scope import NetworkScope
from perpacket.show import trial_tables


def window(side: int, p99_us: float = 2000.0, retransmissions: float = 1.0) -> Window:
    """A window of a second with a thousand packets."""
    latency = {"p50": 500.0, "p99": p99_us}
    return Window(
        0, side, 1.0, 0.5, {"tcp": 0.5}, 1000.0, 1e6, 500.0, retransmissions, 0.0, latency
    )


@pytest.mark.parametrize(
    ("last", "harm"),
    [
        (window(CHANGED), ""),
        (window(CHANGED, p99_us=49_000.0), ""),
        (window(CHANGED, p99_us=55_000.0), "p99 is 55.0 ms, and was 2.0 ms at most"),
        (window(CHANGED, retransmissions=19.0), ""),
        (window(CHANGED, retransmissions=30.0), "retransmissions are 3.0 %"),
        (replace(window(CHANGED), drops=50.0), "drops are 5.0 %"),
        (window(BEFORE, p99_us=90_000.0), ""),
        (window(ITSELF, p99_us=90_000.0), ""),
    ],
)
def test_harm_is_far_above_the_worst_window_without_the_change(last: Window, harm: str) -> None:
    found = guards.harm([window(BEFORE), window(BEFORE, p99_us=1000.0), last])
    assert found.startswith(harm) if harm else not found


def test_without_a_window_before_nothing_can_be_compared() -> None:
    assert not guards.harm([window(CHANGED, p99_us=50_000.0)])


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_harmful_change_is_undone_in_its_window(
    is_guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = trial.Plan(("tso=off",), blocks=2, is_guarded=is_guarded)
    runner = trial._TrialRunner(plan, NetworkScope(), None)
    applied: list[int] = []

    def measured(_runner: object, _block: int, side: int, _url: str) -> Window:
        return window(side, p99_us=60_000.0 if side == CHANGED else 2000.0)

    def switch(side: int) -> str:
        applied.append(side)
        return ""

    monkeypatch.setattr(trial._TrialRunner, "_window", measured)
    monkeypatch.setattr(trial._TrialRunner, "_require_load", lambda *_: None)
    monkeypatch.setattr(trial._TrialRunner, "_packets_per_s", lambda _: 0.0)
    found: list[Window] = []
    if is_guarded:
        with pytest.raises(guards.Harmful, match=r"tso=off: stopped and undone: p99 is 60\.0 ms"):
            runner.blocks(2, switch, found, lambda *_: None, "tso=off")
        assert applied[-1] == BEFORE
        assert applied.count(CHANGED) <= 2
    else:
        assert runner.blocks(2, switch, found, lambda *_: None, "tso=off")
        assert len(found) == 8


@pytest.mark.parametrize(("factor", "is_first"), [(2.0, True), (1.05, False)])
def test_a_large_change_of_throughput_comes_before_the_cost(factor: float, is_first: bool) -> None:
    found = [
        replace(
            window(side),
            block=block,
            requests=500.0 * (factor if side else 1.0) * (1 + block / 1e3),
        )
        for block in range(8)
        for side in (BEFORE, CHANGED, CHANGED, BEFORE)
    ]
    text = trial_tables.headline(trial.Trial("tso=on", effects(found), tuple(found), (), True))
    assert text.startswith("tso=on: requests/s +100") == is_first
    assert ("requests/s" in text.split("processor time")[0]) == is_first
