"""A running application: a copy of the prepared folder, and its programs on a host.

`started` is a context for studies. `perpacket application start` keeps one open in a process of
its own, and describes it in a file that `perpacket application stop` reads.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host
from perpacket.measure.hosts.record import folder as records
from perpacket.measure.hosts.record import folder_path, own_name, start_ticks
from perpacket.whole_file import write_whole
from perpacket_lab.measure import hosts
from perpacket_lab.measure.applications import preparation
from perpacket_lab.measure.applications.application_file import Definition
from perpacket_lab.measure.applications.folder import Folder, own

PREFIX = "perpacket-application-"
"""Prefix of the name of a running application's folder. The owner's `own_name` follows it."""

SUFFIX = ".application"
"""Suffix of the name of a file that describes a running application."""

STOP_S = 60.0
"""Time limit for the end of an application's process."""


@contextmanager
def started(definition: Definition, host: Host, web_port: int | None = None) -> Iterator[Folder]:
    """Start a prepared application on a host of this machine; leaving the context stops it.

    Raises `MachineLacks` if it is not prepared and `RunFailed` if a program does not start.
    """
    prepared = preparation.require(definition)
    outer = Path(host.make_folder(PREFIX))
    path = outer / definition.name  # the programs' user owns it; this process owns `outer`
    ports = preparation.ports_of(definition)
    if web_port is not None:
        ports["web"] = web_port
    folder = Folder(definition, path, host, ports)
    try:
        shutil.copytree(prepared, path, symlinks=True)
        own(path)
        folder.write_files()
        for program in definition.programs:
            folder.start(program)
        yield folder
    finally:
        folder.stop()
        shutil.rmtree(outer, ignore_errors=True)


def wait_for_end(folder: Folder) -> NoReturn:
    """Raise `RunFailed` when a program ends by itself."""
    while True:
        for name, process in folder.running.items():
            status = process.poll()
            if status is not None:
                raise RunFailed(
                    f"{folder.definition.name}: {name} ended with {status}", process.stderr[-300:]
                )
        time.sleep(0.5)


@contextmanager
def present_or_started(definition: Definition) -> Iterator[str]:
    """The URL of the running application, or of one that runs until the context ends."""
    if present := find(definition.name):
        yield present.url
        return
    with hosts.loopback() as bed, started(definition, bed.server) as folder:
        yield folder.url


@dataclass(frozen=True, slots=True)
class Description:
    """The description of a running application for other processes."""

    name: str
    url: str
    folder: str
    owner: str
    """The `own_name` of the process that runs the application. When the process ends, it stops the
    application."""
    programs: list[dict[str, str | int]]
    """Each program's name, part and process id."""

    @property
    def pid(self) -> int:
        """The process id of the owner."""
        return int(self.owner.partition("-")[0])

    @property
    def is_running(self) -> bool:
        """Whether the owner runs."""
        return f"{self.pid}-{start_ticks(self.pid)}" == self.owner


def describe(folder: Folder) -> Description:
    """The description of an application whose owner is this process."""
    parts = {program.name: program.part for program in folder.definition.programs}
    programs: list[dict[str, str | int]] = [
        {"name": name, "part": parts[name], "pid": process.pid}
        for name, process in folder.running.items()
    ]
    return Description(folder.definition.name, folder.url, str(folder.path), own_name(), programs)


@contextmanager
def published(description: Description) -> Iterator[None]:
    """Inside the context, other processes can find the running application."""
    file = file_of(description.name)
    records()
    write_whole(file, json.dumps(asdict(description)))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def file_of(name: str) -> Path:
    """The file that describes the running application of that name."""
    return folder_path() / f"{name}{SUFFIX}"


def find(name: str) -> Description | None:
    """The running application of that name, if any; removes the file of an ended owner."""
    file = file_of(name)
    try:
        description = Description(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError, TypeError):
        return None
    if description.is_running:
        return description
    file.unlink(missing_ok=True)
    return None


def require(name: str) -> Description:
    """The running application of that name; raises `RunFailed` if there is none."""
    description = find(name)
    if description is None:
        raise RunFailed(f"{name} is not running", f"start it: perpacket application start {name}")
    return description


def stop(name: str) -> Description:
    """Stop a running application; raises `RunFailed` if none runs or it does not end."""
    description = require(name)
    with suppress(ProcessLookupError):
        os.kill(description.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while description.is_running:
        if time.monotonic() > deadline:
            raise RunFailed(f"{name}: process {description.pid} still runs after {STOP_S:g} s")
        time.sleep(0.05)
    return description
