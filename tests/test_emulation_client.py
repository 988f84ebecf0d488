"""`perpacket emulate --client`: other clients, and the ways to count their requests."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a_server import HTTP, compiled
from perpacket.errors import ConfigurationError, RunFailed
from perpacket_lab.emulate import files
from perpacket_lab.emulate.session import Session
from perpacket_lab.emulate.settings import Scenario, Settings
from probes import program

SERVED = HTTP.replace(b"int main(", b"__attribute__((noinline, noipa)) void work() {}\nint main(")
"""The server with a function that it calls once in each request."""

CALLS = SERVED.replace(b"/* work */", b"work();")

SMALL = Settings(Scenario("server", 1), requests=50, warmup_requests=50, variants=1, by="function")

REDIS = "redis-server --port {port} --bind {address} --save '' --protected-mode no"
BENCHMARK = "redis-benchmark -h {address} -p {port} -c {connections} -n 200 -t get"


def emulated(session: Session, settings: Settings, environment: tuple[str, ...] = ()) -> Any:
    """The emulation of other servers and clients."""
    scenario = settings.scenario
    own = files.server_archive(
        scenario.command, (), None, environment, client=scenario.client_command
    )
    return replace(session, files=own).emulate(settings)


def a_request(document: Any) -> float:
    return float(document["total"]["instructions_per_request"])


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command of the small server."""
    return f"{compiled(CALLS, tmp_path_factory.mktemp('server'))} {{port}}"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"function": "f", "requests": 0}, "--count-function needs --requests"),
        ({"function": "f", "system_call": "read"}, "requests are counted in one way"),
        ({"output": "(1)"}, "--count-output needs --client, and excludes --requests"),
        ({"output": "1", "requests": 0}, "expected a regular expression with one group"),
        ({"output": "(", "requests": 0}, re.escape("--count-output (: ")),
    ],
)
def test_ways_to_count_that_contradict_are_refused(options: dict[str, Any], part: str) -> None:
    client = "wrk" if options.get("output") in ("1", "(") else ""
    with pytest.raises(ConfigurationError, match=part):
        replace(
            SMALL,
            **{"scenario": Scenario("server", client=client), "warmup_requests": 0, **options},
        )


def test_the_calls_of_a_function_and_of_a_system_call_are_the_requests(
    session: Session, server: str
) -> None:
    settings = replace(SMALL, scenario=replace(SMALL.scenario, server=server))
    responses = emulated(session, settings)
    by_function = emulated(session, replace(settings, function="work"))
    by_call = emulated(session, replace(settings, system_call="write"))
    for other in (by_function, by_call):
        assert other["requests"] == 50
        own, expected = (
            one["layers"]["user"]["instructions_per_request"] for one in (other, responses)
        )
        assert own == pytest.approx(expected, rel=0.001)
        # A timer may fall into one of the windows.
        assert a_request(other) == pytest.approx(a_request(responses), rel=0.03)


def test_what_cannot_be_counted_is_named(session: Session, server: str) -> None:
    settings = replace(SMALL, scenario=replace(SMALL.scenario, server=server))
    with pytest.raises(ConfigurationError, match=r"--count-syscall wriet: Linux .* has no such"):
        emulated(session, replace(settings, system_call="wriet"))
    with pytest.raises(
        ConfigurationError, match=r"--count-function wrok: neither .* nor a library"
    ):
        emulated(session, replace(settings, function="wrok"))


def test_user_code_is_divided_by_function_and_library(session: Session, server: str) -> None:
    settings = replace(SMALL, scenario=replace(SMALL.scenario, server=server))
    document = emulated(session, settings)
    (variant,) = document["by_variant"]
    user = {
        name.removeprefix("user "): own / 50
        for name, own in variant["instructions"]["functions"].items()
        if name.startswith("user ")
    }
    assert user["work"] == pytest.approx(1.0)
    assert user["main"] > 10
    assert {"write", "read", "epoll_wait"} <= {
        name.strip("_").removeprefix("libc_") for name in user
    }
    libraries = {name: cost["instructions_per_request"] for name, cost in document["files"].items()}
    assert set(libraries) == {"server", "libc.so.6"}
    assert sum(libraries.values()) == pytest.approx(
        document["layers"]["user"]["instructions_per_request"]
    )


def test_a_client_that_fails_is_an_error_with_its_last_lines(
    session: Session, server: str, tmp_path: Path
) -> None:
    client = tmp_path / "client"
    client.write_text("#!/bin/sh\necho cannot do $1\nexit 3\n")
    client.chmod(0o755)
    scenario = replace(SMALL.scenario, server=server, client=f"{client} {{port}}")
    with pytest.raises(RunFailed, match=r"the client ended before the window; .*: cannot do 80"):
        emulated(session, replace(SMALL, scenario=scenario))
    output = replace(SMALL, scenario=scenario, requests=0, warmup_requests=0, output=r"(\d+) done")
    with pytest.raises(RunFailed, match="the client failed; its last messages: cannot do 80"):
        emulated(session, output)
    client.write_text("#!/bin/sh\n/bin/wget -q -O /dev/null http://$1:80/\necho over\n")
    scenario = replace(scenario, client=f"{client} {{address}}")
    with pytest.raises(RunFailed, match=r"the client's output has no such number; .*: over"):
        emulated(session, replace(output, scenario=scenario))


def test_wrk_is_a_client_of_http(session: Session, server: str) -> None:
    program("wrk")
    client = "wrk -t 1 -c {connections} -d 10000s http://{address}:{port}/"
    scenario = replace(SMALL.scenario, server=server, client=client)
    document = emulated(session, replace(SMALL, scenario=scenario))
    assert document["requests"] == 50
    assert document["responses"]["statuses"].keys() == {"200"}


@pytest.mark.full
def test_redis_under_its_benchmark_costs_the_same_by_every_count(session: Session) -> None:
    program("redis-server")
    program("redis-benchmark")
    scenario = Scenario(REDIS, 1, client=f"{BENCHMARK} -l")
    # The server also wakes up ten times a second.
    settings = replace(SMALL, scenario=scenario, requests=500)
    by_function = emulated(session, replace(settings, function="processCommand"))
    by_call = emulated(session, replace(settings, system_call="read"))
    once = replace(scenario, client=BENCHMARK)
    by_output = emulated(
        session,
        replace(
            settings,
            scenario=once,
            requests=0,
            warmup_requests=0,
            output=r"(\d+) requests completed",
        ),
    )
    assert by_output["requests"] == 200
    functions = by_function["by_variant"][0]["instructions"]["functions"]
    assert any("processCommand" in name for name in functions)
    assert a_request(by_call) == pytest.approx(a_request(by_function), rel=0.02)
    # The benchmark also connects and reads the configuration of the server.
    assert a_request(by_function) < a_request(by_output) < 1.5 * a_request(by_function)
