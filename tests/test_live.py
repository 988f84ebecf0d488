"""`top`, `doctor` and the verbs of the agent, with a shell script in place of the agent."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perpacket import machine
from perpacket.cli.app import run
from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.measure import live

MakeAgent = Callable[[str], Path]

WINDOW = {
    "schema": 1,
    "backend": "cpu-clock",
    "window_s": 2.0,
    "cpus": [0],
    "requests": 4000,
    "packets": {"sent": 20000, "received": 10000},
    "closure": {"profile_cpu_s": 1.5, "stat_cpu_s": 1.5},
    "layers": {
        "user": {"cpu_ns_per_packet": 10_000.0, "share": 0.2},
        "tcp": {"cpu_ns_per_packet": 40_000.0, "share": 0.8},
        "udp": {"cpu_ns_per_packet": 0.0, "share": 0.0},
    },
    "limits": ["no PMU: times, never cycles"],
}


@pytest.fixture
def make_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeAgent:
    """A function that installs a shell script as the agent."""

    def make(script: str) -> Path:
        agent = tmp_path / "agent"
        agent.write_text(f"#!/bin/sh\n{script}\n")
        agent.chmod(0o755)
        monkeypatch.setenv("PERPACKET_AGENT", str(agent))
        return agent

    return make


def output_of(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Exit status and standard output of a command line."""
    printed = io.StringIO()
    monkeypatch.setattr(sys, "stdout", printed)
    return run(arguments), printed.getvalue()


def test_top_prints_packets_requests_and_busy_share_per_second(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_agent(f"echo '{json.dumps(WINDOW)}'")
    status, text = output_of(["top"], monkeypatch)
    assert status == 0
    first = text.splitlines()[0]
    assert first == ("10,000 packets/s sent · 5,000 received · 2,000 requests/s · CPU 75 % busy")


def test_top_draws_a_bar_for_each_layer_with_a_cost(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_agent(f"echo '{json.dumps(WINDOW)}'")
    _, text = output_of(["top"], monkeypatch)
    bars = {line.split()[0]: line.count("█") for line in text.splitlines() if "█" in line}
    assert bars == {"user": 8, "tcp": 32}


def test_top_by_cpu_shows_the_processors_that_run_most_and_the_finding(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"cpu": cpu, "run_share": 0.98 if cpu == 77 else 0.001 * (cpu % 50), "packets": 100}
        for cpu in range(200)
    ]
    finding = "CPU 77 receives 71 % of packets and is 98 % busy; the 199 others are idle"
    window = WINDOW | {"processors": rows, "findings": [finding]}
    make_agent(f"echo '{json.dumps(window)}'")
    _, text = output_of(["top", "--by", "cpu"], monkeypatch)
    lines = [line.split() for line in text.splitlines()]
    shown = [words[0] for words in lines if len(words) > 1 and words[0].isdigit()]
    assert len(shown) == 16
    assert "77" in shown
    assert finding in text
    _, layers = output_of(["top"], monkeypatch)
    assert finding in layers
    assert "CPU  " not in layers


def test_top_shows_no_zero_for_what_was_not_counted(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_agent(f"echo '{json.dumps(WINDOW | {'packets': {}, 'requests': None})}'")
    _, text = output_of(["top"], monkeypatch)
    assert text.startswith("- packets/s sent · - received · CPU")


def test_top_prints_the_limits_of_its_numbers(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_agent(f"echo '{json.dumps(WINDOW)}'")
    assert "note: no PMU: times, never cycles" in output_of(["top"], monkeypatch)[1]


def test_top_ends_the_agent_when_its_duration_is_over(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_agent(
        f"trap 'echo stopped > {tmp_path}/end; exit 130' INT\n"
        f"while :; do echo '{json.dumps(WINDOW)}'; sleep 0.1; done"
    )
    status, _ = output_of(["top", "--duration", "0.2", "--format", "json"], monkeypatch)
    assert status == 0
    assert (tmp_path / "end").read_text() == "stopped\n"


@pytest.mark.parametrize(("status", "error"), [(2, ConfigurationError), (3, MachineLacks)])
def test_an_error_of_the_agent_is_reported_with_its_hint(
    make_agent: MakeAgent, status: int, error: type[Exception]
) -> None:
    make_agent(f"printf 'error: perf is forbidden\\n\\nhint: ask root\\n' >&2; exit {status}")
    with live.windows({}) as found, pytest.raises(error) as caught:
        list(found)
    assert str(caught.value) == "perf is forbidden"
    assert getattr(caught.value, "hint", "") == "ask root"


CAPABILITIES = {
    "schema": 1,
    "capabilities": [
        {
            "name": "perf",
            "available": False,
            "detail": "kernel.perf_event_paranoid is 3",
            "cost_of_lack": "no profile",
            "next_step": "set it to 1",
        }
    ],
}


def test_doctor_prints_what_is_missing_its_effect_and_the_next_step(
    make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_agent(f"echo '{json.dumps(CAPABILITIES)}'")
    status, text = output_of(["doctor"], monkeypatch)
    assert status == 0
    assert "kernel.perf_event_paranoid is 3" in text
    assert "no profile" in text
    assert "to get it: set it to 1" in text


def test_doctor_exits_with_3_when_a_required_capability_is_missing(make_agent: MakeAgent) -> None:
    make_agent(f"echo '{json.dumps(CAPABILITIES)}'")
    assert run(["doctor", "--require", "perf"]) == 3
    assert run(["doctor", "--require", "unicorns"]) == 2


def test_an_agent_that_does_not_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERPACKET_AGENT", "/dev/null")
    with pytest.raises(MachineLacks, match="agent"):
        machine.of_the_kernel()
