"""`perpacket emulate --server` with servers of several languages, each really run."""

from __future__ import annotations

import importlib.util
import os
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
    root: Path | None = None,
) -> Any:
    """The emulation of a server, whose responses are all sound."""
    scenario = replace(SMALL.scenario, server=command)
    own = files.server_archive(scenario.command, extra, root, environment)
    document: Any = replace(session, files=own).emulate(replace(SMALL, scenario=scenario))
    assert document["responses"]["statuses"].keys() == {"200"}
    assert document["requests"] == SMALL.requests * SMALL.variants
    return document


JAVA = """
import com.sun.net.httpserver.*;
import java.net.InetSocketAddress;

public class Served {
    static void answer(HttpExchange exchange) throws java.io.IOException {
        exchange.sendResponseHeaders(200, 2);
        try (var body = exchange.getResponseBody()) { body.write(new byte[] {'o', 'k'}); }
    }

    public static void main(String[] args) throws Exception {
        var address = new InetSocketAddress(args[0], Integer.parseInt(args[1]));
        var server = HttpServer.create(address, 0);
        server.createContext("/", Served::answer);
        server.start();
    }
}
"""

ASGI = """
async def app(scope, receive, send):
    length = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": b"ok"})
"""

UNUSED = shutil.ignore_patterns("__pycache__", "config-*", "idlelib", "site-packages", "test")
"""Parts of Python's library that do not fit into the memory of the guest."""


FPM = """
[global]
error_log = /proc/self/fd/2
[www]
user = nobody
group = nogroup
listen = /run/fpm.sock
listen.mode = 0666
pm = static
pm.max_children = 1
"""

NGINX = """
user nobody nogroup;
daemon off;
pid /run/nginx.pid;
events { worker_connections 256; }
http {
    access_log off;
    server {
        listen 10.0.0.1:80;
        location / {
            fastcgi_pass unix:/run/fpm.sock;
            fastcgi_param SCRIPT_FILENAME /index.php;
            fastcgi_param REQUEST_METHOD $request_method;
        }
    }
}
"""

START = """#!/bin/sh
/bin/php-fpm8.2 -n -R -F --fpm-config /fpm.conf &
while [ ! -S /run/fpm.sock ]; do /bin/busybox sleep 0.1; done
exec /bin/nginx -c /nginx.conf -e stderr
"""


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


def test_java_which_listens_at_both_versions_of_ip(session: Session, tmp_path: Path) -> None:
    (tmp_path / "Served.java").write_text(JAVA)
    runtime, classes = tmp_path / "runtime", tmp_path / "classes"
    command = [program("javac"), "-d", str(classes), "Served.java"]
    subprocess.run(command, cwd=tmp_path, check=True)
    # The whole runtime does not fit into the memory of the guest.
    command = ["--add-modules", "java.base,jdk.httpserver", "--strip-debug", "--no-man-pages"]
    home = Path(program("javac")).resolve().parent
    subprocess.run([home / "jlink", *command, "--output", str(runtime)], check=True)
    java = f"{runtime}/bin/java -Xmx32m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp {classes}"
    document = emulated(session, f"{java} Served {{address}} {{port}}", [runtime, classes])
    assert document["layers"]["user"]["share"] > 0.5


def test_nginx_with_php(session: Session, tmp_path: Path) -> None:
    for folder in ("bin", "run", "etc", "var/log/nginx", "var/lib/nginx"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("php-fpm8.2", "nginx", "busybox"):
        file = Path(program(name))
        shutil.copy(file, tmp_path / "bin" / name)
        listed = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
        for library in filter(os.path.isabs, listed.split()):
            place = tmp_path / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)
    (tmp_path / "bin/sh").symlink_to("busybox")
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:\nnobody:x:65534:65534::/:\n")
    (tmp_path / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    texts = {"fpm.conf": FPM, "nginx.conf": NGINX, "start": START, "index.php": "ok"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "start").chmod(0o755)
    document = emulated(session, "/start", [], root=tmp_path)
    by_file = document["by_variant"][0]["instructions"]["functions"]
    assert any(name.startswith("user ") and "php-fpm8.2" in name for name in by_file)
    assert any(name.startswith("user ") and "nginx" in name for name in by_file)
