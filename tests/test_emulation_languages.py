"""`perpacket emulate --server` with servers of several languages, each really run."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
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

JAVA = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

class Served {
    public static void main(String[] words) throws Exception {
        var address = new InetSocketAddress(words[0], Integer.parseInt(words[1]));
        var server = HttpServer.create(address, 0);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 2);
            exchange.getResponseBody().write("ok".getBytes());
            exchange.close();
        });
        server.start();
    }
}
"""

UVICORN = """
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})
"""

NGINX = """
user nobody nogroup;
pid /tmp/nginx.pid;
error_log stderr crit;
daemon off;
events { worker_connections 64; }
http {
    access_log off;
    keepalive_requests 1000000;
    client_body_temp_path /tmp/body;
    proxy_temp_path /tmp/proxy;
    fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi;
    scgi_temp_path /tmp/scgi;
    server {
        listen 10.0.0.1:80;
        location / {
            fastcgi_pass unix:/tmp/fpm.sock;
            fastcgi_param SCRIPT_FILENAME FOLDER/index.php;
            fastcgi_param REQUEST_METHOD $request_method;
        }
    }
}
"""

FPM = """
[global]
error_log = /dev/stderr
daemonize = yes
[www]
user = nobody
group = nogroup
listen = /tmp/fpm.sock
listen.mode = 0666
pm = static
pm.max_children = 1
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


def test_java(session: Session, tmp_path: Path) -> None:
    (tmp_path / "Served.java").write_text(JAVA)
    runtime, classes = tmp_path / "runtime", tmp_path / "classes"
    linked = [program("jlink"), "--add-modules", "jdk.httpserver", "--output", str(runtime)]
    subprocess.run(linked, check=True, capture_output=True)
    compiled = [program("javac"), "-d", str(classes), str(tmp_path / "Served.java")]
    subprocess.run(compiled, check=True, capture_output=True)
    options = "-XX:+UseSerialGC -Xmx128m -Xshare:off"
    command = f"{runtime}/bin/java {options} -cp {classes} Served {{address}} {{port}}"
    document = emulated(session, command, [runtime])
    assert "libjvm.so" in document["files"]


def test_uvicorn(session: Session, tmp_path: Path) -> None:
    (tmp_path / "application").mkdir()
    (tmp_path / "application" / "served.py").write_text(UVICORN)
    own = tmp_path / "venv"
    venv.create(own, with_pip=True)
    subprocess.run([own / "bin" / "pip", "install", "-q", "uvicorn"], check=True)
    library = Path(sys.base_prefix) / "lib"
    modules = next(library.glob("python3.*"))
    command = (
        f"{own}/bin/python -m uvicorn --app-dir {tmp_path}/application --host {{address}} "
        "--port {port} --log-level warning served:app"
    )
    document = emulated(session, command, [own, modules])
    assert "_PyEval_EvalFrameDefault" in functions(document)


def test_nginx_with_php_fpm(session: Session, tmp_path: Path) -> None:
    (tmp_path / "index.php").write_text('<?php header("Content-Length: 2"); echo "ok";')
    (tmp_path / "nginx.conf").write_text(NGINX.replace("FOLDER", str(tmp_path)))
    (tmp_path / "fpm.conf").write_text(FPM)
    php, nginx = next(Path("/usr/sbin").glob("php-fpm*"), None), program("nginx")
    php_path = str(php) if php else program("php-fpm")
    start = tmp_path / "start"
    start.write_text(
        f"#!/bin/sh\n{php_path} -n -y {tmp_path}/fpm.conf\n"
        f"exec {nginx} -e stderr -c {tmp_path}/nginx.conf\n"
    )
    start.chmod(0o755)
    tmp_path.chmod(0o755)
    document = emulated(session, str(start), [Path(php_path), Path(nginx), tmp_path])
    assert {"nginx", Path(php_path).name} <= document["files"].keys()


def test_a_server_in_an_unpacked_root(session: Session, tmp_path: Path) -> None:
    """Go's server without libraries is the whole root."""
    (tmp_path / "main.go").write_text(GO)
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(
        [program("go"), "build", "-o", str(root / "served"), "main.go"],
        cwd=tmp_path,
        check=True,
        env={**os.environ, "CGO_ENABLED": "0"},
    )
    own = files.server_archive(["/served"], (), root)
    scenario = replace(SMALL.scenario, server="/served {address}:{port}")
    document: Any = replace(session, files=own).emulate(replace(SMALL, scenario=scenario))
    assert document["responses"]["statuses"].keys() == {"200"}
    assert "main.answer" in functions(document)
