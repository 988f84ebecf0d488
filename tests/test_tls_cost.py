"""The cost of TLS: the fit, and servers that serve over TLS as a point requires."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perpacket.errors import ConfigurationError
from perpacket_lab.analysis import tls
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.measure.plan import validated
from perpacket_lab.measure.web import peers
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.study import library
from perpacket_lab.study.point import Point
from probes import need, program

HANDSHAKE_US, BYTE_US, REQUEST_US = 700.0, 0.0005, 3.0


def added_us(point: Point) -> float:
    """The cost that TLS adds to a request of a point, by the model."""
    requests, size_bytes = float(point.factors["requests"]), float(point.factors["size_bytes"])
    is_plain = point.factors["security"] == tls.PLAIN
    return 0.0 if is_plain else REQUEST_US + HANDSHAKE_US / requests + BYTE_US * size_bytes


def test_the_fit_finds_the_costs_and_their_intervals() -> None:
    points = library.find("tls-cost").points
    rows = {
        point.name: {
            seed: {tls.COST: 20 + seed + added_us(point) * (1 + 0.01 * (seed - 2))}
            for seed in (1, 2, 3)
        }
        for point in points
    }
    kinds = [("rustls", "plain"), ("rustls", "tls1.3-rsa"), ("openssl", "tls1.2-rsa")]
    first, second = tls.fitted_costs(Estimates(rows), points, kinds, 0.95)
    assert (first.server, second.security) == ("rustls", "tls1.2-rsa")
    assert first.handshake_us.value == pytest.approx(HANDSHAKE_US)
    assert first.handshake_us.low < HANDSHAKE_US < first.handshake_us.high
    assert first.byte_ns.value == pytest.approx(1000 * BYTE_US)
    assert first.request_us.value == pytest.approx(REQUEST_US)
    assert first.worst_us == pytest.approx(0, abs=1e-6)


def test_a_case_that_the_model_does_not_explain_is_the_misfit() -> None:
    points = library.find("tls-cost").points
    odd = "rustls-tls1.3-rsa-1r-262144b"
    rows = {p.name: {1: {tls.COST: added_us(p) + 40 * (p.name == odd)}} for p in points}
    (cost,) = tls.fitted_costs(Estimates(rows), points, [("rustls", "tls1.3-rsa")], 0.95)
    assert cost.worst_us == pytest.approx(10)  # the four cases share it equally


@pytest.mark.parametrize("length", ["quick", "default", "full"])
def test_every_point_asks_for_the_tls_of_its_name(length: str) -> None:
    for point in library.find("tls-cost", length).points:  # type: ignore[arg-type]
        plan = validated(WebPlan, point)
        security = str(point.factors["security"])
        version, _, rest = security.removeprefix("tls").partition("-")
        key, _, resumed = rest.partition("-")
        assert plan.tls_key == ("" if security == "plain" else key)
        assert plan.tls_version == ("" if security == "plain" else version)
        assert plan.tls_resumption == (security == "plain" or resumed == "resumed")
        assert plan.server_kind == (
            "nginx" if point.factors["server"] == "openssl" else "perpacket"
        )


@pytest.mark.parametrize(
    "parameters",
    [
        {"load.kind": "file", "load.tls_version": "1.3"},
        {"load.kind": "file", "server.kind": "apache", "server.tls_key": "rsa"},
        {"load.kind": "surge", "load.users": "1", "load.requests_per_connection": "2"},
    ],
)
def test_an_option_without_effect_is_an_error(parameters: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        validated(WebPlan, Point("one", "one", {}, tuple(parameters.items())))


def test_nginx_with_tls_has_the_certificate_and_both_versions() -> None:
    text = peers.with_tls(peers.NGINX.replace("{{", "{"), "/a.crt", "/a.key")
    assert (
        "ssl_certificate /a.crt; ssl_certificate_key /a.key; ssl_protocols TLSv1.2 TLSv1.3;" in text
    )
    assert "ssl backlog=4096;" in text


STUDY = """
name = "small"
kind = "measured"
replications = 1
scenario.load.kind = "file"
scenario.load.size_bytes = 1024
scenario.load.connections = 2
scenario.run.duration_s = 0.3
scenario.run.warmup_s = 0.1
scenario.profile.events = "any"
scenario.server.tls_key = "ecdsa"
factors.server.kind = ["perpacket", "nginx"]
factors.load.tls_version = ["1.2", "1.3"]
"""


@pytest.mark.live
def test_both_servers_serve_both_versions_over_tls(tmp_path: Path) -> None:
    need("perf")
    program("nginx")
    (tmp_path / "small.toml").write_text(STUDY)
    words = ("study", "run", str(tmp_path / "small.toml"), "--output", str(tmp_path / "run"))
    done = subprocess.run(
        [sys.executable, "-m", "perpacket.cli", *words, "--quiet"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = [
        json.loads(file.read_text())["result"]
        for file in (tmp_path / "run" / "observations").glob("*.json")
    ]
    assert len(results) == 4
    assert all(result["requests_per_s"] > 0 and not result["error_share"] for result in results)
