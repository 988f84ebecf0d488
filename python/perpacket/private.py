"""Folders of files that perpacket reads back and acts on: only this user and root may write there.

Such files are the journal of a trial, whose commands `trial --undo` runs, the records of testbeds,
whose processes the next run ends, and kernels, guests and applications, which run. Whoever can
write such a file, or rename a folder above it, can act as this user.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from perpacket.errors import MachineLacks

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

JOURNAL_VARIABLE = "PERPACKET_JOURNAL"
"""Environment variable with the folder of journals, for services with a folder of their own."""

ALL_USERS = ["0", "0", "4294967295"]
"""/proc/self/uid_map outside of user namespaces; user_namespaces(7)."""


def runtime_folder() -> Path:
    """The folder of journals and records, which may not exist yet; the next boot empties it.

    It is in /run as root, else in the user's runtime folder, else in /tmp. Raises `MachineLacks` if
    somebody else can write there.
    """
    if os.geteuid() == 0:
        return checked(Path("/run/perpacket"))
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    user = os.geteuid()
    return checked(Path(runtime, "perpacket") if runtime else Path(f"/tmp/perpacket-{user}"))


def journal_folder() -> Path:
    """The folder of a trial's journal, checked like `runtime_folder`."""
    named = os.environ.get(JOURNAL_VARIABLE)
    return checked(Path(named)) if named else runtime_folder()


def made(folder: Path, mode: int = 0o700) -> Path:
    """The folder, made if it is missing; raises `MachineLacks` if somebody else can write there."""
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    return checked(folder)


def checked(folder: Path) -> Path:
    """The folder, which may be missing.

    Raises `MachineLacks` if it is a symbolic link, or if a user other than this one and root owns
    or can write it. The same holds for each folder above it, but these may be symbolic links. In a
    folder with the sticky bit, such as /tmp, other users cannot rename this user's folder.
    """
    above = Path(os.path.abspath(folder))
    owners = _trusted()
    for place in dict.fromkeys((above, *above.parents, *above.parent.resolve().parents)):
        try:
            status = place.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _refused(folder, place, (error.strerror or str(error)).lower()) from None
        if status.st_uid not in owners:
            raise _refused(folder, place, f"it belongs to another user ({status.st_uid})")
        if stat.S_ISLNK(status.st_mode):
            if place == above:
                raise _refused(folder, place, "it is a symbolic link")
        elif not stat.S_ISDIR(status.st_mode):
            raise _refused(folder, place, "it is no folder")
        elif _others_write(status) and (place == above or not status.st_mode & stat.S_ISVTX):
            raise _refused(folder, place, "other users can write there")
    return folder


def _others_write(status: os.stat_result) -> bool:
    """Whether users other than the owner and root's group can write there."""
    writable = status.st_mode & OTHERS_WRITE
    return bool(writable & stat.S_IWOTH or (writable and status.st_gid != 0))


def _trusted() -> set[int]:
    """Root and this user; in a user namespace also the number of all users outside of it."""
    owners = {0, os.geteuid()}
    if Path("/proc/self/uid_map").read_text().split() != ALL_USERS:
        owners.add(int(Path("/proc/sys/kernel/overflowuid").read_text()))
    return owners


def _refused(folder: Path, place: Path, reason: str) -> MachineLacks:
    within = "" if place == folder else f" ({place})"
    return MachineLacks(
        f"{folder}{within}: {reason}; expected a folder that only you can write, because "
        "perpacket acts on the files in it",
        "look at who made it and remove it, or name another place: XDG_RUNTIME_DIR for journals "
        "and records, XDG_CACHE_HOME for caches",
    )
