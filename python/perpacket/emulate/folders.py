"""The cache folder: kernels and prepared machines, each a folder that is whole or not there."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PART = ".part-"
"""Within the name of a folder that is being made. Its maker has it locked until it is complete."""


def cache() -> Path:
    """The cache folder, made if missing: `perpacket/emulate` in the user's."""
    user = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(user) / "perpacket" / "emulate"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def made(folder: Path) -> Iterator[Path]:
    """A new folder to fill; afterwards it has the name `folder`, unless another made it meanwhile.

    After an error it is removed. What a killed process left is removed by the next call.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_left(folder.parent)
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}{PART}", dir=folder.parent))
    lock = os.open(temporary, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield temporary
        for file in temporary.rglob("*"):
            flush(file)
        with suppress(OSError):  # another process was faster: its folder is the same
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def remove_left(parent: Path) -> None:
    """Remove the folders whose makers are dead."""
    for left in parent.glob(f"*{PART}*"):
        with suppress(OSError):
            lock = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)


def flush(path: Path) -> None:
    """Write a file's content to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
