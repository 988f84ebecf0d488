"""`perpacket emulate --server` with servers of several languages, each really run."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perpacket_lab.emulate import files
from perpacket_lab.emulate.session import Session
from perpacket_lab.emulate.settings import Scenario, Settings
from probes import program

pytestmark = pytest.mark.applications

SMALL = Settings(Scenario("server", 1), requests=50, warmup_requests=200, variants=2, by="function")

GO = """
package main

import (
    "net/http"
    "os"
)

//go:noinline
func answer(to http.ResponseWriter, request *http.Request) { to.Write([]byte("ok")) }

func main() {
    http.HandleFunc("/", answer)
    panic(http.ListenAndServe(os.Args[1], nil))
}
"""

NODE = """
const [address, port] = process.argv.slice(2);
function answer(request, response) { response.end("ok"); }
require("http").createServer(answer).listen(Number(port), address);
"""


def emulated(
    session: Session,
    command: str,
    extra: list[Path],
    environment: tuple[str, ...] = (),
    settings: Settings = SMALL,
) -> Any:
    """The emulation of a server, whose responses are all sound."""
    scenario = replace(settings.scenario, server=command)
    own = files.server_archive(scenario.command, extra, None, environment)
    document: Any = replace(session, files=own).emulate(replace(settings, scenario=scenario))
    assert document["responses"]["statuses"].keys() == {"200"}
    assert document["requests"] == settings.requests * settings.variants
    return document


ASGI = """
async def app(scope, receive, send):
    length = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": b"ok"})
"""

UNUSED = shutil.ignore_patterns("__pycache__", "config-*", "idlelib", "site-packages", "test")
"""Parts of Python's library that do not fit into the memory of the guest."""


def functions(document: Any) -> dict[str, float]:
    """The instructions of the functions of the server."""
    (variant, *_) = document["by_variant"]
    return {
        name.removeprefix("user "): own
        for name, own in variant["instructions"]["functions"].items()
        if name.startswith("user ")
    }


def test_go(session: Session, tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text(GO)
    command = [program("go"), "build", "-o", "served", "main.go"]
    subprocess.run(command, cwd=tmp_path, check=True)
    document = emulated(session, f"{tmp_path}/served {{address}}:{{port}}", [])
    assert {"main.answer", "net/http.(*conn).serve"} <= functions(document).keys()


def test_node(session: Session, tmp_path: Path) -> None:
    (tmp_path / "app.js").write_text(NODE)
    node = program("node")
    command = f"{node} --perf-basic-prof {tmp_path}/app.js {{address}} {{port}}"
    document = emulated(session, command, [])
    assert any("answer" in name and "app.js" in name for name in functions(document))


def test_uvicorn(session: Session, tmp_path: Path) -> None:
    home, modules = tmp_path / "home", tmp_path / "modules"
    library = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}")
    shutil.copytree(sys.base_prefix / library, home / library, ignore=UNUSED)
    for name in ("uvicorn", "click", "h11"):
        found = importlib.util.find_spec(name)
        assert found is not None, f"this test needs {name}"
        assert found.origin is not None
        shutil.copytree(Path(found.origin).parent, modules / name, ignore=UNUSED)
    (modules / "app.py").write_text(ASGI)
    python = sys._base_executable  # type: ignore[attr-defined]  # its type lacks it
    command = f"{python} -m uvicorn app:app --host {{address}} --port {{port}} --lifespan off"
    variables = (f"PYTHONHOME={home}", f"PYTHONPATH={modules}", "PYTHONDONTWRITEBYTECODE=1")
    document = emulated(session, command, [home, modules], variables)
    assert document["layers"]["user"]["share"] > 0.8
