"""Files that are on disk whole, under their name, or not there at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY = ".part"
"""Suffix of a file that is being written; a killed process leaves it behind."""


def write_whole(file: Path, content: str | bytes) -> None:
    """Write `file` so that it is on disk whole, under its name, or not there at all.

    Text is written as UTF-8. Raises `OSError` naming `file`, whichever step failed.
    """
    temporary = file.with_name(file.name + TEMPORARY)
    with settle(temporary, file):
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def settle(temporary: Path, file: Path) -> Iterator[None]:
    """What was written to `temporary` within is on disk under the name `file` afterwards.

    Raises `OSError` naming `file`, whichever step failed.
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
        # On a full disk, half a file is what the next one lacks.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(file)) from error
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
