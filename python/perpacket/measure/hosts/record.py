"""What a testbed sets up is written down first, so that a later run can take down what was left.

A record names its owner, by process number and start time, and the namespaces it makes. A run that
finds a record whose owner is dead ends the processes that carry that run's mark, removes the
namespaces the record names and the sockets beside it, and touches nothing else. Devices stand in
the namespaces and vanish with them. Folders for temporary files say who holds them in their names.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from perpacket.errors import MachineLacks
from perpacket.measure.hosts.process import MARK

PREFIX = "perpacket-"
"""How the name of everything we make begins."""

NAMESPACES = Path("/run/netns")
"""Where network namespaces have their names."""

SCHEMA = 1
"""Version of a record's layout."""


def folder_path() -> Path:
    """Where records are: gone at the next boot, like the namespaces they name."""
    if os.geteuid() == 0:
        return Path("/run/perpacket")
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "perpacket"
    return Path(tempfile.gettempdir()) / f"perpacket-{os.geteuid()}"


def folder() -> Path:
    """The folder of records, made if it is not there."""
    place = folder_path()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.stat().st_uid != os.geteuid():
        raise MachineLacks(f"{place}: belongs to another user", "remove it, or set XDG_RUNTIME_DIR")
    return place


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is none of that number."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    start = start_of(text)
    return int(start) if start else None


def start_of(stat: str) -> str:
    """The start of a process in its stat, field 22 of proc_pid_stat(5); empty where it ended."""
    # The name in parentheses may hold anything; state is the first field after it, start the 20th.
    fields = stat.rpartition(")")[2].split()
    return "" if not fields or fields[0] in "ZX" else fields[19]


def own_name() -> str:
    """Who we are, as part of a name: process number and start, which no later process has both."""
    pid = os.getpid()
    return f"{pid}-{start_ticks(pid)}"


def is_alive(name: str) -> bool:
    """Whether the process of that `own_name` still runs."""
    pid, _, start = name.partition("-")
    return str(start_ticks(int(pid))) == start


@dataclass
class Record:
    """A testbed's run and what it makes."""

    run: str = field(default_factory=lambda: secrets.token_hex(4))
    """Part of every name we make: eight hexadecimal digits."""
    namespaces: list[str] = field(default_factory=list)
    """Names of the network namespaces of the run."""

    @property
    def file(self) -> Path:
        """Where it is kept."""
        return folder() / f"{self.run}.json"

    @property
    def sockets(self) -> Path:
        """The folder of the run's sockets: their paths must be short, and no other place is."""
        return folder() / self.run

    def name(self, host: str) -> str:
        """The name of a host's namespace."""
        return f"{PREFIX}{self.run}-{host}"

    def write(self) -> None:
        """Keep it, whole or not at all."""
        owner = {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}
        content = {"schema": SCHEMA, "owner": owner, "run": self.run, "namespaces": self.namespaces}
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.rename(self.file)

    def take_down(self) -> None:
        """End what the run started, remove what it made, and the record last."""
        end_marked(self.run)
        for name in self.namespaces:
            remove_namespace(name)
        shutil.rmtree(self.sockets, ignore_errors=True)
        self.file.unlink(missing_ok=True)


def leftovers() -> Iterator[Record]:
    """The records of runs whose owner is dead, with the namespaces that are theirs."""
    for file in folder_path().glob("*.json"):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            run, owner = str(content["run"]), content["owner"]
            alive = start_ticks(int(owner["pid"])) == owner["start_ticks"]
            names = [str(name) for name in content["namespaces"]]
        except (OSError, ValueError, KeyError, TypeError):
            # Not a record of ours, or one that another run removes at this moment.
            continue
        if alive or file.stem != run:
            continue
        yield Record(run, [name for name in names if name.startswith(f"{PREFIX}{run}-")])


def remove_leftovers() -> list[str]:
    """Take down what dead owners left; returns their runs."""
    folder()  # refuses a folder of another user
    removed = list(leftovers())
    for record in removed:
        record.take_down()
    return [record.run for record in removed]


def remove_folders(prefix: str) -> None:
    """Remove folders for temporary files of this machine whose holder is no longer alive."""
    for place in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        holder = re.match("([0-9]+-[0-9]+)-", place.name.removeprefix(prefix))
        if holder is None or is_alive(holder[1]):
            continue
        # Somebody else may remove it meanwhile, or it is not ours to remove.
        with suppress(OSError):
            if place.lstat().st_uid == os.getuid():
                shutil.rmtree(place, ignore_errors=True)


def marked(run: str) -> Iterator[int]:
    """The processes that a run started, and those that these started."""
    for process in Path("/proc").glob("[0-9]*"):
        if is_marked(int(process.name), run):
            yield int(process.name)


def is_marked(pid: int, run: str) -> bool:
    """Whether a process carries the run's mark in its environment."""
    wanted = f"{MARK}={run}".encode()
    try:
        return wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def end_marked(run: str) -> None:
    """Kill what carries the mark.

    A number is held by a descriptor before it is looked at again, so that no other process can have
    taken it.
    """
    for pid in list(marked(run)):
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                if pid != os.getpid() and is_marked(pid, run):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def remove_namespace(name: str) -> None:
    """Remove a namespace's name; the namespace goes with the last process in it."""
    if not (NAMESPACES / name).exists():
        return
    from pyroute2 import netns

    with suppress(FileNotFoundError):
        netns.remove(name)
