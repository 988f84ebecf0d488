"""Commands that must succeed on a host, text files of the host's kernel, and temporary folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host
from perpacket_lab.measure import programs
from perpacket_lab.measure.processor_counts import Ticks, read_frames, read_ticks

PREFIX = "perpacket-study-"
"""Prefix of a temporary folder's name. The owner's `own_name` follows it. The next study on the
machine removes the folders of killed studies."""

QUICK_S = 30.0
SLOW_S = 600.0
"""Time limits of commands: of small ones, and of those that write whole file sets."""


def output_of(host: Host, command: Sequence[str], timeout_s: float) -> str:
    """Standard output of a command; raises `RunFailed` when it fails."""
    ended = host.run(command, timeout_s=timeout_s)
    if ended.returncode:
        raise RunFailed(
            f"{' '.join(command[:3])} on {host.name} ended with status {ended.returncode}: "
            f"{programs.last_error(ended)}"
        )
    return ended.stdout


@contextmanager
def made_folder(host: Host) -> Iterator[str]:
    """A temporary folder that every user may read, removed at the end of the context.

    Servers read it after they have dropped their rights.
    """
    folder = host.make_folder(PREFIX)
    try:
        yield folder
    finally:
        # Report the error that ended the run, not the error of this removal. The next run removes
        # the folder.
        with suppress(RunFailed):
            host.run(["rm", "-rf", folder], timeout_s=SLOW_S)


def text_of(host: Host, path: str) -> str:
    """The content of a text file of the host's kernel; raises `RunFailed` naming the file."""
    return output_of(host, ["cat", path], QUICK_S)


def frames_of(host: Host) -> int:
    """Frames at all interfaces of a host."""
    return read_frames(text_of(host, "/proc/net/dev"))


def accepted_of(host: Host) -> int:
    """TCP connections that a host has accepted: `PassiveOpens` of RFC 4022."""
    rows = [line.split() for line in text_of(host, "/proc/net/snmp").splitlines()]
    names, values = (row for row in rows if row[:1] == ["Tcp:"])
    return int(values[names.index("PassiveOpens")])


def ticks_of(host: Host) -> dict[int, Ticks]:
    """Ticks of the processors of a host."""
    return read_ticks(text_of(host, "/proc/stat"))


def field_of(host: Host, path: str, name: str) -> int:
    """A number in a text file of lines `name: number`; raises `RunFailed` naming file or line."""
    for line in text_of(host, path).splitlines():
        key, _, rest = line.partition(":")
        if key == name:
            return int(rest.split()[0])
    raise RunFailed(f"{path} on {host.name} has no line `{name}`")


def memory_bytes(host: Host, name: str) -> int:
    """One value of proc_meminfo(5) in bytes, such as `MemAvailable`."""
    return 1024 * field_of(host, "/proc/meminfo", name)
