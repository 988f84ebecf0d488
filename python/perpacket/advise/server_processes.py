"""The options of servers that perpacket starts no twins of, from their processes.

HAProxy and Envoy have a configuration file, Java has options on its command line, Go reads its
environment, and Node starts a process for each worker.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from perpacket.advise import config_texts, servers
from perpacket.advise.servers import Server

JAVA, GO, NODE = "java", "Go program", "node"

THREADS = re.compile(r"-Dio\.netty\.eventLoopThreads=(\d+)")

PROCESSORS = re.compile(r"(?:^|\0)GOMAXPROCS=(\d+)")

FILES = {
    config_texts.HAPROXY: ("-f", "--file"),
    config_texts.ENVOY: ("-c", "--config-path"),
}
"""The options of a server that name its configuration."""


def find(pid: int, proc: Path = Path("/proc")) -> Server:
    """The server behind a process, with the options that can be read."""
    found = servers.find(pid, proc)
    if not found.unread or found.kind == servers.NGINX:
        return found
    cpus = os.cpu_count() or 1
    if found.kind in FILES:
        return _of_file(found, proc, cpus)
    if found.kind == JAVA:
        threads = THREADS.search(" ".join(found.command))
        # netty's default is two threads a processor; NettyRuntime and MultithreadEventLoopGroup.
        options = {"workers": threads[1] if threads else str(2 * cpus)}
        return replace(found, options=options, unread="")
    if _is_node(found.command):
        options = {"workers": _node_workers(found.pid, proc)}
        return replace(found, kind=NODE, options=options, unread="")
    processors = PROCESSORS.search(_environment(found.pid, proc))
    if processors:
        return replace(found, kind=GO, options={"workers": processors[1]}, unread="")
    return found


def _of_file(found: Server, proc: Path, cpus: int) -> Server:
    """HAProxy or Envoy, with the options of its configuration and command line."""
    path = _argument(found.command, FILES[found.kind])
    text = ""
    if path:
        try:
            root = proc / str(found.pid) / "root"
            folder = os.readlink(proc / str(found.pid) / "cwd")
            text = (root / os.path.join(folder, path).lstrip("/")).read_text(errors="replace")
        except OSError as error:
            return replace(found, unread=f"{path}: {(error.strerror or str(error)).lower()}")
    server = config_texts.server(path, text, cpus)
    if server is None:
        return found
    options = dict(server.options)
    if count := _argument(found.command, ("--concurrency",)):
        options["workers"] = count
    return replace(server, pid=found.pid, command=found.command, options=options)


def _is_node(command: Sequence[str]) -> bool:
    """Whether a command runs Node. Its process is called MainThread since version 22."""
    return bool(command) and Path(command[0]).name == NODE


def _node_workers(pid: int, proc: Path) -> str:
    """The processes that the module `cluster` started, or the one process; each runs one thread."""
    try:
        children = (proc / str(pid) / "task" / str(pid) / "children").read_text().split()
        workers = sum(_is_node(servers.words(proc, int(child))) for child in children)
    except OSError:
        workers = 0
    return str(max(1, workers))


def _argument(command: Sequence[str], names: Sequence[str]) -> str:
    """The value of an option on a command line; empty without it."""
    for place, word in enumerate(command):
        for name in names:
            if word == name and place + 1 < len(command):
                return command[place + 1]
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
    return ""


def _environment(pid: int, proc: Path) -> str:
    try:
        return (proc / str(pid) / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""
