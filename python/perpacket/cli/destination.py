"""Checks that output files can be written before the work begins."""

from __future__ import annotations

import os
from pathlib import Path

from perpacket.errors import ConfigurationError


def check_destination(option: str, file: Path) -> None:
    """Raise `ConfigurationError` naming `option` and `file` when the file cannot be written."""
    folder = file.absolute().parent
    if file.is_dir():
        problem, hint = "is a directory", "name a file in it"
    elif file.exists() and not file.is_file():
        problem, hint = "is not a regular file", "name another file"
    elif not folder.exists():
        problem, hint = f"there is no folder {file.parent}", "make the folder first"
    elif not folder.is_dir():
        problem, hint = f"{file.parent} is not a folder", "name a file in a folder"
    elif not os.access(folder, os.W_OK | os.X_OK):
        problem, hint = f"{file.parent} cannot be written to", "name a writable folder"
    elif file.exists() and not os.access(file, os.W_OK):
        problem, hint = "the file cannot be overwritten", "name another file"
    else:
        return
    raise ConfigurationError(
        f"{option} {file}: {problem}", parameter=option, value=str(file), hint=hint
    )


def check_folder(option: str, folder: Path) -> None:
    """Raise `ConfigurationError` naming `option` and `folder` when no file can be made in it.

    A folder that is not there will be made, with those above it.
    """
    nearest = folder.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        problem, hint = f"{nearest} is not a folder", "name a folder"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        problem, hint = f"{nearest} cannot be written to", "name a writable folder"
    else:
        return
    raise ConfigurationError(
        f"{option} {folder}: {problem}", parameter=option, value=str(folder), hint=hint
    )
