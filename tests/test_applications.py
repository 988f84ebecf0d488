"""Applications: their files, their sessions, and one that runs for real."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from perpacket.errors import ConfigurationError, RunFailed
from perpacket.measure.hosts import record
from perpacket.measure.hosts.record import start_ticks
from perpacket_lab.measure import hosts
from perpacket_lab.measure.applications import (
    application_file,
    packages,
    preparation,
    running,
    sessions,
)
from perpacket_lab.measure.applications.application_file import Definition
from perpacket_lab.measure.applications.folder import Folder
from perpacket_lab.measure.host_runner import ProbeResult
from perpacket_lab.measure.web.web_plan import WebPlan
from perpacket_lab.measure.web.web_runner import Lacks, impossible
from perpacket_lab.measure.web.web_summary import RunReports, summarize
from probes import need
from requirements import skip

NAME = "public-inbox"

PART = {
    "public-inbox": "perl",
    "request-tracker": "perl",
    "wordpress": "php",
    "daytrader": "jit compiler",
    "specweb99-tls": "tls",
    "specweb99-nginx": "tls",
}
"""A part of each application that is large soon after its start."""


@pytest.mark.parametrize("name", application_file.names())
def test_every_application_of_the_library_is_complete(name: str) -> None:
    definition = application_file.load(name)
    with hosts.loopback() as bed:
        folder = Folder(
            definition, Path("/nowhere"), bed.server, dict.fromkeys(definition.ports, 1)
        )
        for place, part in definition.parts:
            for one in part.files:
                folder.fill((place / one).read_text(encoding="utf-8"), one)
        for program in definition.programs:
            folder.command(program.command)
        for _, step in definition.steps():
            folder.command(step.command)


SMALL = """
title = "a small one"
ports = ["web"]

[[program]]
name = "server"
part = "web server"
command = ["server", "--port", "@web_port@"]
ready = "web"

[session]
start = "front"
page.front = { path = "/", contains = "hello", next = { front = 0.5 } }
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title", "extra = 1\ntitle", "extra"),
        ('ready = "web"', 'ready = "other"', "there is no port other"),
        ('ports = ["web"]', 'ports = ["database"]', "expected a port of the name web"),
        ("title", "uses = ['nosuch']\ntitle", "there is no component nosuch"),
    ],
)
def test_an_error_in_a_file_names_the_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / application_file.FILE).write_text(SMALL.replace(old, new, 1))
    with pytest.raises(ConfigurationError, match=message):
        application_file.load(str(tmp_path))


OPTION = SMALL.replace(
    "[[program]]",
    """
[settings]
speed = "1"

[option.fast]
title = "twice as fast"
settings = { speed = "2" }

[[program]]""",
).replace('"@web_port@"', '"@web_port@", "--speed", "@speed@"')


def test_an_option_changes_settings_and_shares_the_prepared_folder(tmp_path: Path) -> None:
    (tmp_path / application_file.FILE).write_text(OPTION)
    own, fast = application_file.load(str(tmp_path)), application_file.load(f"{tmp_path}+fast")
    assert fast.name == f"{own.name}+fast"
    assert preparation.place_of(fast) == preparation.place_of(own)
    with hosts.loopback() as bed:
        words = [
            Folder(one, tmp_path, bed.server, {"web": 1}).command(one.programs[0].command)
            for one in (own, fast)
        ]
    assert [one[-2:] for one in words] == [["--speed", "1"], ["--speed", "2"]]


def test_an_unknown_option_lists_those_of_the_application(tmp_path: Path) -> None:
    (tmp_path / application_file.FILE).write_text(OPTION)
    with pytest.raises(ConfigurationError, match="there is no option slow") as caught:
        application_file.load(f"{tmp_path}+slow")
    assert "fast" in caught.value.hint
    (tmp_path / application_file.FILE).write_text(
        OPTION.replace('{ speed = "2" }', '{ colour = "2" }')
    )
    with pytest.raises(ConfigurationError, match=r"fast\.settings: there is no setting colour"):
        application_file.load(str(tmp_path))


OPTIONS = [
    f"{name}+{option}"
    for name in application_file.names()
    for option in application_file.load(name).application.option
]


@pytest.mark.live
@pytest.mark.applications
@pytest.mark.parametrize("name", OPTIONS)
def test_an_application_answers_right_with_each_option(name: str) -> None:
    assert perpacket("application", "prepare", name, "--yes").returncode == 0
    checked = perpacket("application", "check", name, "--each", "1")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_an_unknown_placeholder_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / application_file.FILE).write_text(SMALL.replace("@web_port@", "@port@"))
    definition = application_file.load(str(tmp_path))
    with (
        hosts.loopback() as bed,
        pytest.raises(ConfigurationError, match="no @port@, expected one of @folder@"),
    ):
        Folder(definition, tmp_path, bed.server, {"web": 1}).command(definition.programs[0].command)


def test_an_unknown_name_lists_the_applications() -> None:
    with pytest.raises(ConfigurationError, match="nosuch: there is no application") as caught:
        application_file.load("nosuch")
    assert NAME in caught.value.hint


@pytest.mark.parametrize("name", application_file.names())
def test_the_agent_accepts_the_sessions_of_every_application(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        definition = application_file.load(name)
        scheme = "https" if definition.application.tls else "http"
        url = f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
        checked, status = sessions.check(definition, url, seed=1, each=1, most=1, limit="1s")
    assert status != 0
    (first,) = [page for page in checked["pages"] if page["requests"]]
    start = tomllib.loads(definition.sessions.read_text(encoding="utf-8"))["session"]["start"]
    assert first["page"] == start
    assert first["wrong"] == 1


def test_an_error_in_the_sessions_names_the_page(tmp_path: Path) -> None:
    (tmp_path / application_file.FILE).write_text(SMALL.replace("front = 0.5", "back = 0.5"))
    with pytest.raises(RunFailed, match="there is no page back"):
        sessions.check(
            application_file.load(str(tmp_path)), "http://127.0.0.1:1", seed=1, each=1, most=1
        )


def test_the_key_of_the_cache_is_of_what_the_preparation_depends_on(tmp_path: Path) -> None:
    def key(old: str = "", new: str = "", versions: str = "apache2 2.4") -> str:
        (tmp_path / application_file.FILE).write_text(SMALL.replace(old, new))
        return application_file.load(str(tmp_path)).fingerprint(versions)

    (tmp_path / "page").write_text("hello")
    with_file = ("title", 'files = ["page"]\ntitle')
    first, other = key(), key(*with_file)
    assert key("hello", "welcome") == key("small", "large") == first
    assert len({first, other, key("--port", "--listen"), key(versions="apache2 2.5")}) == 4
    (tmp_path / "page").write_text("welcome")
    assert key(*with_file) != other


def perpacket(*words: str) -> subprocess.CompletedProcess[str]:
    """`perpacket` with arguments."""
    return subprocess.run(
        [sys.executable, "-m", "perpacket.cli", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(
    scope="module",
    params=[
        name if name == NAME else pytest.param(name, marks=pytest.mark.applications)
        for name in application_file.names()
    ],
)
def prepared(request: pytest.FixtureRequest) -> Definition:
    """A prepared application: the smallest one, or each with `make test-applications`."""
    definition = application_file.load(request.param)
    missing = packages.missing(definition.debian)
    if missing and definition.name == NAME:
        skip("peers", f"these packages are missing: {' '.join(missing)}")
    done = perpacket("application", "prepare", definition.name, "--yes")
    assert done.returncode == 0, done.stderr
    return definition


@pytest.mark.live
def test_an_application_starts_answers_right_and_leaves_nothing(prepared: Definition) -> None:
    name = prepared.name
    started = perpacket("application", "start", name, "--format", "json")
    assert started.returncode == 0, started.stderr
    try:
        content = json.loads(started.stdout)
        pids = [program["pid"] for program in content["programs"]]
        owners = {Path(f"/proc/{pid}").stat().st_uid for pid in pids}
        assert 0 not in owners or os.geteuid() != 0
        again = perpacket("application", "start", name)
        assert again.returncode == 4
        assert f"runs already, at {content['url']}" in again.stderr
        checked = perpacket("application", "check", name, "--each", "2", "--format", "json")
        assert checked.returncode == 0, checked.stdout
        assert all(page["requests"] >= 2 for page in json.loads(checked.stdout)["pages"])
        loaded = perpacket(
            *("load", "http", "--application", name, "--clients", "3", "--requests", "60"),
            *("--format", "json", "--quiet"),
        )
        assert loaded.returncode == 0, loaded.stderr
        report = json.loads(loaded.stdout)
        assert report["url"] == content["url"]
        assert sum(page["requests"] for page in report["pages"]) == 60
    finally:
        stopped = perpacket("application", "stop", name)
    assert stopped.returncode == 0, stopped.stderr
    assert {start_ticks(pid) for pid in pids} == {None}
    assert running.find(name) is None


@pytest.mark.live
def test_a_profile_divides_the_user_code_of_an_application(prepared: Definition) -> None:
    need("perf")
    name = prepared.name
    assert perpacket("application", "start", name).returncode == 0
    words = ("load", "http", "--application", name, "--clients", "2", "--duration", "30", "--quiet")
    load = subprocess.Popen([sys.executable, "-m", "perpacket.cli", *words])
    try:
        options = ("--duration", "4", "--format", "json", "--quiet")
        profiled = perpacket("profile", "--application", name, *options)
    finally:
        load.terminate()
        load.wait()
        perpacket("application", "stop", name)
    assert profiled.returncode == 0, profiled.stderr
    parts = json.loads(profiled.stdout)["parts"]
    assert parts["unclaimed_share"] < 0.02, parts["unclaimed_files"]
    shares = {part: cost["share"] for part, cost in parts["costs"].items()}
    assert shares[PART[name]] > 0.02, shares


@pytest.mark.live
def test_after_a_kill_the_next_start_removes_what_was_left(prepared: Definition) -> None:
    name = prepared.name
    assert perpacket("application", "start", name).returncode == 0
    description = running.find(name)
    assert description is not None
    os.kill(description.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while description.is_running and time.monotonic() < deadline:
        time.sleep(0.05)
    assert perpacket("application", "check", name, "--each", "1").returncode == 0
    assert not Path(description.folder).exists()
    for program in description.programs:
        assert start_ticks(int(program["pid"])) is None, program  # ended, reaped or not
    outer = Path(description.folder).parent
    left = [pid for pid in pids_of_all() if record.works_in(pid, outer)]
    assert left == []
    assert preparation.place_of(prepared).is_dir()


def pids_of_all() -> list[int]:
    """The processes of this machine."""
    return [int(process.name) for process in Path("/proc").glob("[0-9]*")]


STUDY = """
name = "applied"
kind = "measured"
replications = 1
scenario.load.kind = "application"
scenario.server.application = "NAME"
scenario.run.duration_s = 4
scenario.run.warmup_s = 0.2
factors.load.connections = [1, 4]
"""


@pytest.mark.live
def test_a_study_measures_an_application_by_part(tmp_path: Path, prepared: Definition) -> None:
    need("perf")
    (tmp_path / "applied.toml").write_text(STUDY.replace("NAME", prepared.name))
    study, output = str(tmp_path / "applied.toml"), tmp_path / "run"
    done = perpacket("study", "run", study, "--output", str(output), "--quiet")
    assert done.returncode == 0, done.stderr
    observations = list((output / "observations").glob("*.json"))
    assert len(observations) == 2
    for observation in observations:
        result = json.loads(observation.read_text())["result"]
        assert result["requests_per_s"] > 0
        assert result["error_share"] <= 0.001
        shares = [part["share"] for part in result["parts"].values()]
        assert sum(shares) == pytest.approx(1, abs=0.02)


KILLED = """
name = "killed"
kind = "measured"
replications = 50
scenario.load.kind = "application"
scenario.server.application = "NAME"
scenario.run.duration_s = 0.3
scenario.run.warmup_s = 0.1
factors.load.connections = [1, 4]
"""


@pytest.mark.live
@pytest.mark.parametrize("latest_s", [1, 4, 15])
def test_a_study_killed_at_a_random_moment_leaves_nothing_after_the_next_start(
    latest_s: float, tmp_path: Path, prepared: Definition
) -> None:
    """Kill a study while it starts the application, warms it up, or measures."""
    need("perf")
    (tmp_path / "killed.toml").write_text(KILLED.replace("NAME", prepared.name))
    cache = preparation.place_of(prepared)
    content = sizes_of(cache)
    moment_s = random.uniform(0, latest_s)
    words = ("study", "run", str(tmp_path / "killed.toml"), "--output", str(tmp_path / "run"))
    with tempfile.TemporaryDirectory(prefix="killed-") as temporary:
        Path(temporary).chmod(0o755)  # for the application's user
        environment = {**os.environ, "TMPDIR": temporary}
        study = subprocess.Popen(
            [sys.executable, "-m", "perpacket.cli", *words, "--quiet"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + moment_s
        began: dict[int, int] = {}
        while time.monotonic() < deadline and study.poll() is None:
            began |= descendants(study.pid)
            time.sleep(0.02)
        assert study.returncode in (None, 0)
        began |= descendants(study.pid)
        study.kill()
        study.wait()
        runs = [one for one in records() if one["owner"]["pid"] in began]
        next_one = subprocess.run(
            [*(sys.executable, "-m", "perpacket.cli"), "application", "check", prepared.name],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert next_one.returncode == 0, (moment_s, next_one.stdout, next_one.stderr)
        assert list(Path(temporary).iterdir()) == [], moment_s
    alive = {pid: start for pid, start in began.items() if start_ticks(pid) == start}
    assert alive == {}, moment_s
    for one in runs:
        assert not (record.folder_path() / f"{one['run']}.json").exists(), moment_s
        assert not (record.folder_path() / str(one["run"])).exists(), moment_s
        assert not any((record.NAMESPACES / name).exists() for name in one["namespaces"]), moment_s
        assert [pid for pid in pids_of_all() if record.is_marked(pid, one["run"])] == [], moment_s
    assert sizes_of(cache) == content, moment_s


def descendants(pid: int) -> dict[int, int]:
    """A process and those that descend from it, with their start times."""
    found = {pid}
    parents = {}
    for one in pids_of_all():
        with suppress(OSError):
            stat = Path(f"/proc/{one}/stat").read_text(errors="replace")
            parents[one] = int(stat.rpartition(")")[2].split()[1])
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    starts = {one: start_ticks(one) for one in found}
    return {one: start for one, start in starts.items() if start is not None}


def records() -> list[dict[str, Any]]:
    """The records of testbeds on this machine."""
    found = []
    for one in record.folder_path().glob("*.json"):
        with suppress(OSError, ValueError):
            found.append(json.loads(one.read_text()))
    return found


def sizes_of(folder: Path) -> dict[str, tuple[int, float]]:
    """The size and the time of the last change of every file of a folder."""
    return {
        str(one): (one.lstat().st_size, one.lstat().st_mtime)
        for one in folder.rglob("*")
        if not one.is_dir()
    }


def test_a_study_leaves_out_an_application_that_is_not_prepared(tmp_path: Path) -> None:
    (tmp_path / application_file.FILE).write_text(SMALL)
    parameters = {"load.kind": "application", "server.application": str(tmp_path)}
    plan = WebPlan.model_validate(parameters)
    elsewhere = plan.model_copy(update={"testbed": "ssh"})
    with hosts.loopback() as bed:
        known = ProbeResult({})
        reasons = impossible({"here": plan, "there": elsewhere}, Lacks(), bed.server, known)
    assert "perpacket application prepare" in reasons["here"]
    assert "on this machine alone" in reasons["there"]


@pytest.mark.parametrize(("errors", "is_result"), [(1, True), (2, False)])
def test_over_one_wrong_answer_in_a_thousand_is_no_result(errors: int, is_result: bool) -> None:
    plan = WebPlan.model_validate({"load.kind": "application", "server.application": NAME})
    load = {"requests_per_s": 9.0, "requests": 1000 - errors, "errors": {"wrong_content": errors}}
    profile = {"window_s": 1, "layers": {}, "packets": {"sent": 1, "received": 1}}
    reports = RunReports(profile, [load], None, None, server_idle=0, client_idle=1)
    with nullcontext() if is_result else pytest.raises(RunFailed, match=r"0\.2 % of the answers"):
        summarize(plan, reports)


@pytest.mark.live
@pytest.mark.applications
def test_two_applications_run_at_once(prepared: Definition) -> None:
    names = {NAME, prepared.name}
    try:
        for name in names:
            started = perpacket("application", "start", name)
            assert started.returncode == 0, started.stderr
        for name in names:
            checked = perpacket("application", "check", name, "--each", "1")
            assert checked.returncode == 0, checked.stdout
    finally:
        for name in names:
            perpacket("application", "stop", name)
