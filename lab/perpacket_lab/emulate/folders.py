"""The cache folder of kernels and prepared machines; the folder of each is complete or absent."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perpacket import private

PART = ".part-"
"""A part of the name of an incomplete folder. The process that fills the folder holds a lock on
it."""


def cache() -> Path:
    """The cache folder, made if missing: `perpacket/emulate` in the user's cache folder.

    Raises `MachineLacks` if somebody else can write there: kernels and guests from it run.
    """
    user = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return private.made(Path(user) / "perpacket" / "emulate", 0o755)


@contextmanager
def made(folder: Path) -> Iterator[Path]:
    """A new folder to fill, which the end of the context renames to `folder`.

    If another process has made `folder` meanwhile, that one stays. After an error the new folder is
    removed. The next call removes the folder of a killed process.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_left(folder.parent)
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}{PART}", dir=folder.parent))
    lock = os.open(temporary, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield temporary
        os.sync()
        with suppress(OSError):  # another process was faster: its folder is the same
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def remove_left(parent: Path) -> None:
    """Remove the incomplete folders of processes that have ended."""
    for left in parent.glob(f"*{PART}*"):
        with suppress(OSError):
            lock = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)


def remove(folder: Path) -> None:
    """Remove a folder. Under its own name it is complete until it is gone, also after a kill."""
    left = folder.with_name(f"{folder.name}{PART}removed")
    with suppress(OSError):  # another process removes it
        folder.rename(left)
        shutil.rmtree(left, ignore_errors=True)


def remove_stored() -> int:
    """Remove everything from the cache folder that no process is making; returns its bytes."""
    removed = 0
    for parent in cache().iterdir():
        remove_left(parent)
        for stored in [one for one in parent.iterdir() if PART not in one.name]:
            files = [stored, *stored.rglob("*")]
            removed += sum(file.stat().st_size for file in files if file.is_file())
            if stored.is_dir():
                remove(stored)
            else:
                stored.unlink()
    return removed
