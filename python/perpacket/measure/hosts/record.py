"""Records of testbeds, written before their setup, so that a later run can remove the leftovers.

A record names its owner, by process id and start time, and the namespaces of the run. A run that
finds the record of a dead owner ends the processes with that run's mark, removes the namespaces in
the record and the sockets beside it, and changes nothing else. Devices are in the namespaces and
disappear with them. Folders for temporary files have their owner in their names.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from perpacket import private
from perpacket.measure.hosts.process import MARK

PREFIX = "perpacket-"
"""Prefix of the names of all namespaces and temporary folders of perpacket."""

OWNER = re.compile("(?:[a-z]+-)*([0-9]+-[0-9]+)-")
"""Finds the owner in a folder's name after the prefix. Other words may precede the owner."""

NAMESPACES = Path("/run/netns")
"""The folder with the names of network namespaces."""

SCHEMA = 1
"""Version of a record's layout."""


def folder_path() -> Path:
    """The folder of records. The next boot empties it and ends the namespaces in the records.

    Raises `MachineLacks` if somebody else can write there.
    """
    return private.runtime_folder()


def folder() -> Path:
    """The folder of records, made if it is missing."""
    return private.made(folder_path())


def start_ticks(pid: int) -> int | None:
    """The start time of a process in clock ticks since boot; `None` if there is no process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    start = start_of(text)
    return int(start) if start else None


def start_of(stat: str) -> str:
    """The start time in a process's stat, field 22 of proc_pid_stat(5); empty if it has ended."""
    # The name in parentheses may contain any character. The state is the first field after the
    # name, the start time the 20th.
    fields = stat.rpartition(")")[2].split()
    return "" if not fields or fields[0] in "ZX" else fields[19]


def own_name() -> str:
    """The name of this process: process id and start time, which are unique together."""
    pid = os.getpid()
    return f"{pid}-{start_ticks(pid)}"


def is_alive(name: str) -> bool:
    """Whether the process with that `own_name` still runs."""
    pid, _, start = name.partition("-")
    return str(start_ticks(int(pid))) == start


@dataclass
class Record:
    """A testbed's run and its namespaces."""

    run: str = field(default_factory=lambda: secrets.token_hex(4))
    """Eight hexadecimal digits, which are part of all names of the run."""
    namespaces: list[str] = field(default_factory=list)
    """Names of the network namespaces of the run."""

    @property
    def file(self) -> Path:
        """The file of the record."""
        return folder() / f"{self.run}.json"

    @property
    def sockets(self) -> Path:
        """The folder of the run's sockets, whose paths must be short: unix(7)."""
        return folder() / self.run

    def name(self, host: str) -> str:
        """The name of a host's namespace."""
        return f"{PREFIX}{self.run}-{host}"

    def write(self) -> None:
        """Write the record in one step, so that no reader sees a part of it."""
        owner = {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}
        content = {"schema": SCHEMA, "owner": owner, "run": self.run, "namespaces": self.namespaces}
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.rename(self.file)

    def take_down(self) -> None:
        """End the run's processes, remove its namespaces and sockets, and the record last."""
        end_marked(self.run)
        for name in self.namespaces:
            remove_namespace(name)
        shutil.rmtree(self.sockets, ignore_errors=True)
        self.file.unlink(missing_ok=True)


def leftovers() -> Iterator[Record]:
    """The records of runs whose owner has ended, with only the namespaces of the run itself."""
    for file in folder_path().glob("*.json"):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            run, owner = str(content["run"]), content["owner"]
            alive = start_ticks(int(owner["pid"])) == owner["start_ticks"]
            names = [str(name) for name in content["namespaces"]]
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            # The file is no record, or another run has just removed it.
            continue
        if alive or file.stem != run:
            continue
        yield Record(run, [name for name in names if name.startswith(f"{PREFIX}{run}-")])


def remove_leftovers() -> list[str]:
    """Remove the leftovers of dead owners, with their folders; returns their runs."""
    removed = list(leftovers())
    for record in removed:
        record.take_down()
    remove_folders(PREFIX)
    return [record.run for record in removed]


def remove_folders(prefix: str, parent: Path | None = None) -> None:
    """Remove the folders of dead owners with that prefix, in `parent` or among temporary files.

    First kills the processes whose working folder is in one: a server's workers may outlive its
    killed master.
    """
    for place in (parent or Path(tempfile.gettempdir())).glob(f"{prefix}*"):
        owner = OWNER.match(place.name.removeprefix(prefix))
        if owner is None or is_alive(owner[1]):
            continue
        # Another process may remove it first, or another user owns it.
        with suppress(OSError):
            if place.lstat().st_uid == os.getuid():
                end_all(partial(works_in, place=place))
                shutil.rmtree(place, ignore_errors=True)


@contextmanager
def temporary_folder(kind: str) -> Iterator[Path]:
    """Make a folder for temporary files for the context; first removes those of dead owners."""
    prefix = f"{PREFIX}{kind}-"
    remove_folders(prefix)
    with tempfile.TemporaryDirectory(prefix=f"{prefix}{own_name()}-") as place:
        yield Path(place)


def is_marked(pid: int, run: str) -> bool:
    """Whether a process has the run's mark in its environment."""
    wanted = f"{MARK}={run}".encode()
    try:
        return wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def end_marked(run: str) -> None:
    """Kill all processes with the mark."""
    end_all(lambda pid: is_marked(pid, run))


def works_in(pid: int, place: Path) -> bool:
    """Whether a process's working folder is `place` or below it, even if it was removed."""
    try:
        folder = Path(os.readlink(f"/proc/{pid}/cwd").removesuffix(" (deleted)"))
    except OSError:
        return False
    return folder.is_relative_to(place)


def end_all(is_chosen: Callable[[int], bool]) -> None:
    """Kill all other processes that `is_chosen` accepts.

    With an open descriptor of the process, the second check and the signal concern the same
    process, even if another one has got its id.
    """
    for process in Path("/proc").glob("[0-9]*"):
        pid = int(process.name)
        if pid == os.getpid() or not is_chosen(pid):
            continue
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                if is_chosen(pid):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def remove_namespace(name: str) -> None:
    """Remove a namespace's name. The kernel removes the namespace after its last process."""
    if not (NAMESPACES / name).exists():
        return
    from pyroute2 import netns

    with suppress(FileNotFoundError):
        netns.remove(name)
