"""Requests per second of client CPU: `load http` over wrk, same server, same file.

Both run in turn against one nginx, each for a few seconds. Their CPU time is the kernel's count for
the process. The bar is a ratio of at least 1.0 for files of 612 B and 10 KB on 64 kept connections.
This benchmark needs nginx and wrk.

    .venv/bin/python benches/load_against_wrk.py
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from perpacket.analysis.statistics import paired_ratio
from perpacket.measure.agent import find as installed_agent

CONNECTIONS = 64
FILES = {"612 B": 612, "10 KB": 10_240}

CONFIGURATION = """
worker_processes 1; daemon off; pid {root}/nginx.pid; error_log {root}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; sendfile off; open_file_cache max=100; keepalive_requests 1000000000;
  client_body_temp_path {root}/body; proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fcgi;
  uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


def free_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(command: list[str]) -> tuple[str, float]:
    """Run a command; return its output and its CPU time in seconds."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit {process.returncode}\n{output}")
    return output, usage.ru_utime + usage.ru_stime


def load(agent: str, url: str, seconds: int) -> float:
    """Return the requests per CPU second of `load http`."""
    command = [agent, "load", "http", url, "--connections", str(CONNECTIONS), "--threads", "1"]
    output, cpu_s = run([*command, "--duration", str(seconds), "--format", "json"])
    return float(json.loads(output)["requests"]) / cpu_s


def wrk(url: str, seconds: int) -> float:
    """Return the requests per CPU second of wrk."""
    output, cpu_s = run(["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}", url])
    found = re.search(r"(\d+) requests in", output)
    if found is None:
        sys.exit(f"wrk printed no count:\n{output}")
    return int(found[1]) / cpu_s


def main() -> None:
    """Measure each file and print its line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", help="default: the installed agent")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=2)
    arguments = parser.parse_args()
    arguments.agent = arguments.agent or str(installed_agent())
    for tool in ("nginx", "wrk"):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed")
            return
    with tempfile.TemporaryDirectory() as directory:
        root, port = Path(directory), free_port()
        root.chmod(0o755)
        for name, size in FILES.items():
            (root / name.replace(" ", "")).write_bytes(os.urandom(size))
        (root / "nginx.conf").write_text(CONFIGURATION.format(root=root, port=port))
        server = subprocess.Popen(["nginx", "-c", str(root / "nginx.conf")])
        try:
            time.sleep(1)
            print(f"machine: {platform.machine()}, {os.cpu_count()} cores, {platform.release()}")
            for name in FILES:
                url = f"http://127.0.0.1:{port}/{name.replace(' ', '')}"
                ours, theirs = [], []
                for _ in range(arguments.rounds):
                    ours.append(load(arguments.agent, url, arguments.seconds))
                    theirs.append(wrk(url, arguments.seconds))
                ratio = paired_ratio(ours, theirs)
                us = [1e6 / (sum(each) / len(each)) for each in (ours, theirs)]
                print(
                    f"{name}: {us[0]:.2f} us of client CPU a request, wrk {us[1]:.2f}; "
                    f"requests per CPU second, ours over wrk's: {ratio}"
                )
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
