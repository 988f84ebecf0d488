"""`export` under a real Prometheus: scrapes, rules and the queries of the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from patience import PATIENCE_S, eventually
from perpacket.errors import MachineLacks
from perpacket.measure import agent
from probes import program
from requirements import skip

pytestmark = pytest.mark.live

MONITORING = Path(__file__).parents[1] / "monitoring"

SCRAPE_S = 0.5
"""Time between two scrapes of the test."""

FIRST_SCRAPE_S = 2.0
"""The documented time from the start to the first scrape. Tests do not assert it."""

REQUESTS_S = 400
"""Requests a second of the load."""


def free_port() -> int:
    """A port of loopback that no program uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def page(url: str) -> str:
    """The text of a page."""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
        return str(response.read().decode())


def responds(url: str) -> bool:
    """Whether a page can be read."""
    try:
        page(url)
    except (OSError, urllib.error.URLError):
        return False
    return True


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A program that is ended with the context."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def own_agent() -> str:
    """The agent of this installation."""
    try:
        return str(agent.find())
    except MachineLacks as error:
        skip("agent", error)


@contextmanager
def exporting(*options: str) -> Iterator[str]:
    """An exporter; yields the URL of its page."""
    with started(own_agent(), "export", "--listen", "127.0.0.1:0", *options) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("serving "), line
        yield line.split()[1]


@dataclass(frozen=True)
class Monitoring:
    """An exporter of a loaded machine and the Prometheus that scrapes it."""

    exporter: str
    prometheus: str

    def query(self, expression: str) -> list[dict[str, object]]:
        """The result of an instant query."""
        query = urllib.parse.urlencode({"query": expression})
        answer = json.loads(page(f"{self.prometheus}/api/v1/query?{query}"))
        assert answer["status"] == "success", answer
        result: list[dict[str, object]] = answer["data"]["result"]
        return result


@pytest.fixture(scope="module")
def monitoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    """A server under load, an exporter and Prometheus, all on loopback."""
    prometheus, own = program("prometheus"), own_agent()
    folder = tmp_path_factory.mktemp("prometheus")
    server = f"127.0.0.1:{free_port()}"
    requests = f"http://{server}/.perpacket/report"
    with ExitStack() as stack:
        stack.enter_context(started(own, "serve", "web", "--routes", "--listen", server, "--quiet"))
        assert eventually(lambda: responds(requests))
        load = ("load", "http", f"http://{server}/bytes/1000", "--rate", str(REQUESTS_S))
        stack.enter_context(started(own, *load, "--duration", "3600", "--quiet"))
        exporter = stack.enter_context(exporting("--by", "cgroup", "--requests", requests))
        address = urllib.parse.urlsplit(exporter).netloc
        text = (MONITORING / "prometheus.yml").read_text()
        text = text.replace("127.0.0.1:9430", address).replace("15s", f"{SCRAPE_S * 1000:.0f}ms")
        (folder / "prometheus.yml").write_text(text)
        shutil.copy(MONITORING / "perpacket.rules.yml", folder)
        listen = f"127.0.0.1:{free_port()}"
        stack.enter_context(
            started(
                *(prometheus, f"--config.file={folder}/prometheus.yml", "--log.level=error"),
                *(f"--storage.tsdb.path={folder}/data", f"--web.listen-address={listen}"),
            )
        )
        url = f"http://{listen}"
        assert eventually(lambda: responds(f"{url}/-/ready"))
        yield Monitoring(exporter, url)


def samples(text: str) -> dict[str, float]:
    """The samples of a page by their names with labels."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    pairs = [line.rsplit(" ", 1) for line in lines]
    return {name: float(value) for name, value in pairs}


def test_prometheus_scrapes_and_evaluates_every_rule(monitoring: Monitoring) -> None:
    def is_healthy() -> bool:
        answer = json.loads(page(f"{monitoring.prometheus}/api/v1/targets"))
        targets = answer["data"]["activeTargets"]
        return bool(targets) and all(target["health"] == "up" for target in targets)

    assert eventually(is_healthy)

    def states() -> list[str]:
        answer = json.loads(page(f"{monitoring.prometheus}/api/v1/rules"))
        return [rule["health"] for group in answer["data"]["groups"] for rule in group["rules"]]

    assert eventually(lambda: set(states()) == {"ok"})
    assert len(states()) == len(re.findall(r"- (record|alert):", rules()))


def rules() -> str:
    """The text of the shipped rules."""
    return (MONITORING / "perpacket.rules.yml").read_text()


def panels() -> list[tuple[str, str]]:
    """Title and query of everything that the dashboard draws."""
    board = json.loads((MONITORING / "dashboard.json").read_text())
    return [
        (panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]
    ]


@pytest.mark.parametrize(("title", "query"), panels())
def test_every_query_of_the_dashboard_has_data(
    monitoring: Monitoring, title: str, query: str
) -> None:
    expression = query.replace("$instance", ".*").replace("$__rate_interval", "1m")
    assert eventually(lambda: bool(monitoring.query(expression))), title
    for series in monitoring.query(expression):
        value = series["value"]
        assert isinstance(value, list)
        assert float(value[1]) >= 0 or title == "Headroom", (title, series)


def test_counters_agree_with_the_load(monitoring: Monitoring) -> None:
    begin, before = time.monotonic(), samples(page(monitoring.exporter))
    time.sleep(2)
    after, end = samples(page(monitoring.exporter)), time.monotonic()
    grown = {name: after[name] - before.get(name, 0.0) for name in after}
    # Every request is at least a frame there and a frame back.
    name = 'perpacket_packets_total{direction="sent",interface="lo"}'
    assert grown[name] >= 2 * 0.5 * REQUESTS_S * 1.0
    assert 0 < grown["perpacket_requests_total"] <= 2 * REQUESTS_S * (end - begin)
    assert grown["perpacket_overhead_seconds_total"] > 0
    assert all(value >= 0 for name, value in grown.items() if "_total" in name)


def test_the_page_is_openmetrics_that_promtool_accepts(monitoring: Monitoring) -> None:
    text = page(monitoring.exporter)
    assert text.endswith("# EOF\n")
    families = re.findall(r"^# TYPE perpacket_(\w+) (\w+)$", text, re.MULTILINE)
    assert {kind for _, kind in families} <= {"counter", "info", "gauge"}
    assert [name for name, kind in families if kind == "gauge"] in ([], ["missing_share"])
    for family, kind in families:
        suffix = {"counter": "_total", "info": "_info", "gauge": ""}[kind]
        lines = re.findall(rf"^perpacket_{family}\w*", text, re.MULTILINE)
        assert all(line.endswith(suffix) for line in lines if line.startswith(family)), family


class Collector(BaseHTTPRequestHandler):
    """Refuses the first push, and decodes the others."""

    protocol_version = "HTTP/1.1"
    paths: ClassVar[list[str]]
    tenants: ClassVar[list[str | None]]
    pushes: ClassVar[list[ExportMetricsServiceRequest]]

    def do_POST(self) -> None:
        """Answer one push."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.paths.append(self.path)
        self.tenants.append(self.headers["x-tenant"])
        is_first = len(self.paths) == 1
        if not is_first:
            self.pushes.append(ExportMetricsServiceRequest.FromString(body))
        answer = ExportMetricsServiceResponse().SerializeToString()
        self.send_response(503 if is_first else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


def pushed(push: ExportMetricsServiceRequest) -> dict[str, float]:
    """The values of a push, named as on the page."""
    (resource,) = push.resource_metrics
    (scope,) = resource.scope_metrics
    found = {}
    for metric in scope.metrics:
        data = metric.sum if metric.HasField("sum") else metric.gauge
        for point in data.data_points:
            assert point.start_time_unix_nano < point.time_unix_nano
            labels = ",".join(f'{one.key}="{one.value.string_value}"' for one in point.attributes)
            name = f"{metric.name}_total" if metric.HasField("sum") else metric.name
            value = point.as_double if point.HasField("as_double") else point.as_int
            found[f"{name}{{{labels}}}" if labels else name] = value
    return found


def test_a_collector_gets_the_counters_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    Collector.paths, Collector.tenants, Collector.pushes = [], [], []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b")
    with ExitStack() as stack:
        server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Collector))
        Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        url = f"http://127.0.0.1:{server.server_port}"
        options = ("--listen", "127.0.0.1:0", "--otlp", url, "--otlp-interval", "200ms")
        process = stack.enter_context(started(own_agent(), "export", *options))
        assert process.stderr is not None
        exporter = process.stderr.readline().split()[1]
        assert eventually(lambda: len(Collector.pushes) >= 3)
        shown = page(exporter)
        process.terminate()
        notes = process.stderr.read()
        process.wait()
    assert set(Collector.paths) == {"/v1/metrics"}
    assert set(Collector.tenants) == {"a b"}
    assert f"--otlp {url}/v1/metrics: http status: 503" in notes
    assert "pushes succeed again" in notes
    assert samples(shown)["perpacket_push_errors_total"] == 1
    first, *_, last = map(pushed, Collector.pushes)
    assert {name for name in samples(shown) if "_total" in name} <= set(last)
    assert samples(shown)["perpacket_packets_total" + '{direction="sent",interface="lo"}'] > 0
    for name, value in first.items():
        assert last[name] >= value or "_total" not in name, name
    assert last["perpacket_samples_total"] > first["perpacket_samples_total"]
    about = Collector.pushes[0].resource_metrics[0].resource.attributes
    assert {one.key: one.value.string_value for one in about}["host.name"] == socket.gethostname()


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "grpc://127.0.0.1:4317"])
def test_another_kind_of_collector_is_refused_with_the_kind_that_works(url: str) -> None:
    command = [own_agent(), "export", "--listen", "127.0.0.1:0", "--otlp", url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"--otlp {url}: expected http://HOST:4318" in done.stderr
    assert "4317 is for gRPC" in done.stderr


def test_a_port_in_use_is_an_error_with_the_next_step() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        command = [own_agent(), "export", "--listen", listen]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert f"--listen {listen}: Address already in use" in done.stderr
    assert "hint: " in done.stderr


def test_a_frozen_exporter_continues_its_counters() -> None:
    with started(own_agent(), "export", "--listen", "127.0.0.1:0") as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[1]
        before = samples(page(url))
        process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        process.send_signal(signal.SIGCONT)
        name = "perpacket_expected_samples_total"
        # The step after the pause expects the samples of all of it.
        assert eventually(lambda: samples(page(url))[name] > before[name] + 97)
        after = samples(page(url))
        for name, value in before.items():
            assert "_total" not in name or after[name] >= value, name


def test_pushes_without_a_pause_are_refused() -> None:
    options = ("--otlp", "http://127.0.0.1:4318", "--otlp-interval", "0s")
    command = [own_agent(), "export", "--listen", "127.0.0.1:0", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--otlp-interval 0s: expected at least 100ms" in done.stderr


def test_a_page_without_a_number_of_requests_is_a_note_and_a_counter() -> None:
    with ExitStack() as stack:
        options = ("--listen", "127.0.0.1:0")
        process = stack.enter_context(started(own_agent(), "export", *options))
        assert process.stderr is not None
        url = process.stderr.readline().split()[1]
        wrong = (*options, "--requests", url)  # The page of an exporter has no such number.
        other = stack.enter_context(started(own_agent(), "export", *wrong))
        assert other.stderr is not None
        lines = iter(other.stderr.readline, "")
        first = [line for _, line in zip(range(3), lines, strict=False)]
        (note,) = [line for line in first if line.startswith("note: ") and url in line]
        assert "expected JSON with a number at `/requests`" in note
        (served,) = [line.split()[1] for line in first if line.startswith("serving ")]
        assert samples(page(served))["perpacket_request_read_errors_total"] >= 1
        assert samples(page(served))["perpacket_requests_total"] == 0


def test_the_shipped_rules_pass_their_own_tests() -> None:
    promtool = program("promtool")
    for check in (["check", "rules", "perpacket.rules.yml"], ["test", "rules", "rules_test.yml"]):
        done = subprocess.run(
            [promtool, *check], cwd=MONITORING, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_needs_no_more_rights_than_the_unit_grants(tmp_path: Path) -> None:
    if shutil.which("setpriv") is None or Path("/proc/self/loginuid").stat().st_uid != 0:
        skip("root", "setpriv, and root to change the user")
    unit = (MONITORING / "perpacket-export.service").read_text()
    granted = re.findall(r"^AmbientCapabilities=(.*)$", unit, re.MULTILINE)[0].split()
    capabilities = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in granted)
    # Other users may not have access to the folder of the installation.
    copy = tmp_path / "perpacket-agent"
    shutil.copy(own_agent(), copy)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    user = ("--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")
    rights = tuple(f"--{kind}-caps=-all,{capabilities}" for kind in ("inh", "ambient"))
    rights = (*rights, f"--bounding-set=-all,{capabilities}")
    command = (str(copy), "export", "--listen", "127.0.0.1:0")
    with started("setpriv", *user, *rights, *command) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("serving "), line
        text = page(line.split()[1])
    assert 'backend="cpu-clock"' in text
    assert 'limit="no_symbols"' not in text
    with started("setpriv", *user, "--bounding-set=-all", "--inh-caps=-all", *command) as process:
        assert process.stderr is not None
        text = page(process.stderr.readline().split()[1])
    if Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip() not in ("-1", "0"):
        assert 'backend="accounts"' in text
        assert 'limit="no_perf"' in text


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "perpacket-export.service"
    text = (MONITORING / unit.name).read_text()
    unit.write_text(text.replace("/usr/local/bin/perpacket-agent", own_agent()))
    done = subprocess.run(
        [program("systemd-analyze"), "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert unit.name not in done.stderr  # It also prints what is wrong with other units.
