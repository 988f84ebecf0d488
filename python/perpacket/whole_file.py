"""Writes files that are complete or absent, even after a crash."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY = ".part"
"""Suffix of a temporary file. A killed process does not remove it."""


def write_whole(file: Path, content: str | bytes) -> None:
    """Write `file` so that it is complete or absent, even after a crash.

    Text is written as UTF-8. Raises `OSError` naming `file`.
    """
    temporary = file.with_name(file.name + TEMPORARY)
    with settle(temporary, file):
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def settle(temporary: Path, file: Path) -> Iterator[None]:
    """After the context has written `temporary`, flush it and rename it to `file`.

    Raises `OSError` naming `file`.
    """
    try:
        yield
        written = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(written)
        finally:
            os.close(written)
        temporary.replace(file)
    except OSError as error:
        # On a full disk, an incomplete file uses space that the next file needs.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(file)) from error
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
