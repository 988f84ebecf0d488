"""The summary of a run: numbers from the reports of its programs, and doubts about them."""

from __future__ import annotations

import pytest

from perpacket.errors import RunFailed
from perpacket_lab.measure.plan import validated
from perpacket_lab.measure.processor_counts import Ticks, idle_share, read_frames, read_ticks
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.measure.web.web_summary import RunReports, summarize
from test_measurement import BULK, FILE, point

PROFILE = {
    "window_s": 2.0,
    "packets": {"sent": 100, "received": 100},
    "layers": {"tcp": {"cpu_s": 0.5}},
    "lost": 0,
    "closure": {"stat_cpu_s": 1.01, "difference": -0.01, "resolution": 0.005},
}
LOAD = {"requests": 990, "errors": {"reset": 10}, "requests_per_s": 99.0, "content_mbps": 1.0}


def doubts(
    plan: WebPlan, profile: dict[str, object], load: dict[str, object], client_idle: float = 0.5
) -> set[str]:
    answers = RunReports(profile, [load], None, None, 0.1, client_idle)
    found = summarize(plan, answers)["doubts"]
    assert isinstance(found, dict)
    return {name for name, is_set in found.items() if is_set}


def test_every_doubt_about_a_run_has_a_flag() -> None:
    web, bulk = validated(WebPlan, FILE), validated(WebPlan, BULK)
    assert doubts(web, PROFILE, LOAD) == set()
    assert doubts(web, PROFILE, LOAD, client_idle=0.02) == {"client_limited"}
    assert doubts(web, PROFILE, LOAD | {"errors": {"reset": 30}}) == {"many_errors"}
    assert doubts(web, PROFILE | {"lost": 3}, LOAD) == {"samples_lost"}
    others = {"categories": {"other_programs": {"share": 0.2}}}
    assert doubts(web, PROFILE | others, LOAD) == {"others_ran"}
    broken = {"closure": {"stat_cpu_s": 1.0, "difference": -0.1, "resolution": 0.01}}
    assert doubts(web, PROFILE | broken, LOAD) == {"closure_broken"}
    coarse = {"closure": {"stat_cpu_s": 1.0, "difference": -0.1, "resolution": 0.2}}
    assert doubts(web, PROFILE | coarse, LOAD) == set()
    specweb = validated(WebPlan, point("specweb", "specweb99", load__connections=16))
    assert doubts(specweb, PROFILE, LOAD | {"conforming": 16}) == set()
    assert doubts(specweb, PROFILE, LOAD | {"conforming": 12}) == {"not_conforming"}
    assert doubts(bulk, PROFILE, {"goodput_bps": 99e6}) == set()
    assert doubts(bulk, PROFILE, {"goodput_bps": 60e6}) == {"rate_missed"}


def test_a_load_that_bypassed_the_interfaces_is_a_failed_run() -> None:
    nothing = PROFILE | {"packets": {"sent": 0, "received": 0}}
    with pytest.raises(RunFailed, match="no packet crossed"):
        doubts(validated(WebPlan, FILE), nothing, LOAD)


def test_with_sampled_cycles_a_layers_time_is_its_share_of_the_busy_time() -> None:
    sampled = {"layers": {"tcp": {"cpu_s": None, "share": 0.5}}}
    answers = RunReports(PROFILE | sampled, [LOAD], None, None, 0.1, 0.5)
    layers = summarize(validated(WebPlan, FILE), answers)["layers"]
    assert isinstance(layers, dict)
    assert layers["tcp"]["cpu_ns_per_segment"] == pytest.approx(0.5 * 1.01e9 / 200)


def test_misses_a_second_are_those_of_all_layers_if_a_counter_counted_them() -> None:
    plan = validated(WebPlan, FILE)
    counted = {"tcp": {"llc_misses_per_packet": 3.0}, "ip": {"llc_misses_per_packet": 1.0}}
    for layers, misses in ((counted, 400.0), (PROFILE["layers"], None)):
        reports = RunReports(PROFILE | {"layers": layers}, [LOAD], None, None, 0.1, 0.5)
        assert summarize(plan, reports).get("cache_misses_per_s") == misses


def test_the_rates_of_several_clients_add_up_and_the_slowest_has_the_latency() -> None:
    quantiles = ({"response": {"p99": 900.0}}, {"response": {"p99": 400.0}})
    opened = {"connections_opened": 30, "duration_s": 2.0}
    loads = [LOAD | opened | {"latency_us": one} for one in quantiles]
    result = summarize(validated(WebPlan, FILE), RunReports(PROFILE, loads, None, None, 0.1, 0.5))
    assert result["requests_per_s"] == 198.0
    assert result["connections_per_s"] == 30.0
    assert result["latency_us"] == {"response": {"p99": 900.0}}


def test_frames_are_counted_over_all_interfaces_in_both_directions() -> None:
    text = (
        "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n"
        "    lo: 900 7 0 0 0 0 0 0 900 7 0 0 0 0 0 0\n"
        "  net0:1200 10 0 0 0 0 0 0 3000 20 0 0 0 0 0 0\n"
    )
    assert read_frames(text) == 44


def test_idle_time_includes_waiting_for_disks() -> None:
    text = "cpu  9 9 9 9\ncpu0 100 0 100 700 100 0 0 0 0 0\ncpu1 0 0 0 1000 0 0 0 0 0 0\nintr 5\n"
    before = {0: Ticks(0, 0), 1: Ticks(0, 0)}
    ticks = read_ticks(text)
    assert idle_share(before, ticks, (0,)) == 0.8
    assert idle_share(before, ticks, (0, 1)) == 0.9
    with pytest.raises(RunFailed, match="processor 7"):
        idle_share(before, ticks, (7,))
